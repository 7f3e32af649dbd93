"""The feature maps of a network, level by level and with their types, for heads of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from steerable import nn as snn
from steerable.models.checks import check_size
from steerable.types.field_types import FieldType

__all__ = ["FeatureMaps", "down_and_up", "residual_features", "unet_features"]


class FeatureMaps(nn.Module):
    """A network without its head: an image → a list of fields, from the finest level to the coarsest.

    Level k maps (batch, in_type.channels, h, w) to (batch, feature_types[k].channels, h / reductions[k], w /
    reductions[k]), and turns with the image: f_k(π_in(g) x) = π_k(g) f_k(x). The levels are layers of the network that
    they were taken from, and share its parameters.

    Args:
        down: layers from each level to the next one.
        reductions: the factor by which each axis of the image is reduced at each level.
        up: the layers of the way back, upsampling, joining and decoding, from the coarsest level on; empty for
            networks that have none.
        divides: how often height and width must be divisible by 2, if other sizes are refused.

    Attributes:
        in_type: the type of the image.
        feature_types: the type of each level.
        reductions: the factor by which each axis of the image is reduced at each level.
    """

    def __init__(
        self,
        down: Iterable[snn.EquivariantModule],
        reductions: Sequence[int],
        up: Sequence[Iterable[nn.Module]] = ((), (), ()),
        divides: int | None = None,
    ) -> None:
        super().__init__()
        levels = list(down)
        self.down = nn.ModuleList(levels)
        self.up, self.joins, self.decoders = (nn.ModuleList(part) for part in up)
        self.reductions, self.divides = tuple(reductions), divides
        self.in_type: FieldType = levels[0].in_type
        back = typed_layers(self.decoders)[::-1]
        self.feature_types = tuple(level.out_type for level in (*back, *levels[len(back) :]))

    def forward(self, x: Tensor) -> list[Tensor]:
        if self.divides is not None:
            check_size("FeatureMaps", x, self.divides, self.in_type.channels, self.in_type.group.axes or 2)
        return down_and_up(x, self.down, self.up, self.joins, self.decoders)

    def extra_repr(self) -> str:
        levels = (f"{kind} /{factor}" for kind, factor in zip(self.feature_types, self.reductions, strict=True))
        return f"{self.in_type} → {', '.join(levels)}"


def down_and_up(
    x: Tensor,
    encoders: Iterable[nn.Module],
    upsamplers: Iterable[nn.Module],
    joins: Iterable[Callable[[Tensor, Tensor], Tensor]],
    decoders: Iterable[nn.Module],
) -> list[Tensor]:
    """The maps of a U-Net from the finest to the coarsest, where each has seen the coarser ones.

    Args:
        x: the image.
        encoders: the way down, from the finest level to the coarsest.
        upsamplers: from each level to the next finer one, as the other two from the coarsest on.
        joins: put the upsampled map and that of the way down together.
        decoders: make one map of both.
    """
    maps: list[Tensor] = []
    for encoder in encoders:
        x = encoder(x)
        maps.append(x)
    for k, (upsample, join, decode) in enumerate(zip(upsamplers, joins, decoders, strict=True), start=2):
        maps[-k] = decode(join(upsample(maps[1 - k]), maps[-k]))
    return maps


def residual_features(parts: Mapping[str, Sequence[nn.Module]]) -> FeatureMaps:
    """The maps after each stage of a residual network; that of the last one after norm and nonlinearity.

    Args:
        parts: the layers of the network by part, as :func:`~steerable.models.parts.parts_of` gives them.
    """
    stem, first, *others, _ = parts.values()
    convolution: Any = stem[0]
    levels = [
        snn.Sequential(*(layer for layer in typed_layers(stage) if not isinstance(layer, snn.GlobalAvgPool)))
        for stage in ([*stem, *first], *others)
    ]
    return FeatureMaps(levels, [convolution.stride[0] * 2**k for k in range(len(levels))])


def unet_features(
    encoders: nn.ModuleList, upsamplers: nn.ModuleList, joins: nn.ModuleList, decoders: nn.ModuleList
) -> FeatureMaps:
    """The maps of a U-Net at every size: those of the way up, and below them that of the lowest level."""
    levels = typed_layers(encoders)
    reductions = [2**k for k in range(len(levels))]
    return FeatureMaps(levels, reductions, (upsamplers, joins, decoders), divides=len(decoders))


def typed_layers(layers: Iterable[nn.Module]) -> list[snn.EquivariantModule]:
    """The layers that have types, in their order."""
    return [layer for layer in layers if isinstance(layer, snn.EquivariantModule)]
