"""Ordinary residual networks to compare with: the same depth and layout, no symmetry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steerable.errors import check_choice
from steerable.models.checks import check_counts, check_extent, check_whole_numbers
from steerable.models.first_weights import draw_weights
from steerable.models.layers_by_axes import PLAIN
from steerable.models.saving import SavedModel
from steerable.models.widths import nearest_width
from steerable.types.network_plans import check_stem

__all__ = ["PlainResNet", "plain_resnet", "plain_width"]

WIDEST = 100_000


class PlainClassifier(nn.Module):
    """Features of an image, pooled, and a linear layer for the scores; its weights begin by He's rule."""

    def build(
        self, stem: nn.Conv2d | nn.Conv3d, stages: Sequence[tuple[int, int]], blocks: int, num_classes: int, **how: Any
    ) -> None:
        """Make the layers: a first convolution, this many blocks in each stage, and a layer for the scores.

        Args:
            stem: the first convolution.
            stages: the channels inside the blocks of each stage, and those between them.
            blocks: how many each stage has.
            num_classes: the number of scores.
            **how: the other arguments of :class:`PlainBlock`.
        """
        layers: list[nn.Module] = [stem]
        channels, axes = stem.out_channels, how.get("axes", 2)
        for stage, (inner, width) in enumerate(stages):
            for block in range(blocks):
                layers.append(PlainBlock(channels, inner, width, shrink=stage > 0 and block == 0, **how))
                channels = width
        pool = nn.AdaptiveAvgPool2d(1) if axes == 2 else nn.AdaptiveAvgPool3d(1)
        self.features = nn.Sequential(*layers, PLAIN[axes].norm(channels), nn.ReLU(), pool, nn.Flatten())
        self.head = nn.Linear(channels, num_classes)
        draw_weights(self)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(x))
        return scores


class PlainResNet(SavedModel, PlainClassifier):
    """A wide pre-activation residual network: three stages of ``width``, 2·``width`` and 4·``width`` channels.

    Shapes: (batch, in_channels, height, width), with a depth before them for volumes → (batch, num_classes).

    Args:
        depth: 6·blocks + 2.
        width: channels of the first stage.
        num_classes: the number of scores.
        inner: channels inside a block of the first stage, by default ``width``.
        crelu: a CReLU inside the block, which doubles the inner channels: with ``width=400, inner=160`` exactly
            the convolutions of the paper's (400, 160) network, without their symmetry.
        in_channels: channels of the image.
        stem: the factor by which the first convolution reduces each axis of an image, 1, 2, 4 or 8.
        axes: 2 for images, 3 for volumes.
    """

    def __init__(
        self,
        depth: int = 14,
        width: int = 64,
        num_classes: int = 10,
        *,
        inner: int | None = None,
        crelu: bool = False,
        in_channels: int = 3,
        stem: int = 1,
        axes: int = 2,
    ) -> None:
        super().__init__()
        inner = width if inner is None else inner
        check_whole_numbers("PlainResNet", depth=depth, stem=stem)
        check_counts("PlainResNet", width=width, inner=inner, num_classes=num_classes, in_channels=in_channels)
        check_stem(stem)
        check_choice("axes", axes, tuple(PLAIN))
        if not isinstance(crelu, bool):
            raise TypeError(f"PlainResNet: `crelu` must be true or false, got {crelu!r}.")
        blocks, rest = divmod(depth - 2, 6)
        if rest or blocks < 1:
            raise ValueError(f"`depth` must be 6·blocks + 2, that is 8, 14, 20, …; got {depth}.")
        check_extent("network", depth, max(width, inner), WIDEST)
        taps = 3 if stem == 1 else stem + 2
        first = PLAIN[axes].convolution(in_channels, width, taps, stem, padding=1, bias=False)
        stages = [(inner * factor, width * factor) for factor in (1, 2, 4)]
        self.build(first, stages, blocks, num_classes, crelu=crelu, axes=axes)


class PlainBlock(nn.Module):
    """a = relu(norm(x)), averaged over 2×2 pixels if it shrinks; y = shortcut + conv2(act(norm(conv1(a))))."""

    def __init__(
        self,
        in_channels: int,
        inner: int,
        out_channels: int,
        *,
        shrink: bool,
        crelu: bool = False,
        dropout: float = 0.0,
        axes: int = 2,
    ) -> None:
        super().__init__()
        kinds = PLAIN[axes]
        entry: list[nn.Module] = [kinds.norm(in_channels), nn.ReLU()]
        self.entry = nn.Sequential(*entry, *([kinds.mean(2)] if shrink else []))
        self.conv1 = kinds.convolution(in_channels, inner, 3, padding=1, bias=False)
        self.norm = kinds.norm(inner)
        self.crelu = crelu
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.conv2 = kinds.convolution(2 * inner if crelu else inner, out_channels, 3, padding=1, bias=False)
        changes = in_channels != out_channels
        self.shortcut = kinds.convolution(in_channels, out_channels, 1, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        a = self.entry(x)
        h = self.norm(self.conv1(a))
        h = nn.functional.relu(torch.cat([h, -h], dim=1) if self.crelu else h)
        y: Tensor = (x if self.shortcut is None else self.shortcut(a)) + self.conv2(self.dropout(h))
        return y


def plain_resnet(depth: int = 14, width: int = 64, num_classes: int = 10, **options: object) -> PlainResNet:
    """An ordinary wide residual network; see :class:`PlainResNet`."""
    return PlainResNet(depth, width, num_classes, **options)  # type: ignore[arg-type]


def plain_width(depth: int, parameters: int, *, num_classes: int = 10, in_channels: int = 3) -> int:
    """The width that brings the plain network of that depth closest to a number of parameters.

    >>> plain_width(14, 4_470_000)
    81
    """
    return nearest_width(lambda width: PlainResNet(depth, width, num_classes, in_channels=in_channels), parameters)
