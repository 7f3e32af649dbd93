"""An ordinary U-Net to compare with: the layout of the steerable one, no symmetry."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steerable.errors import check_choice
from steerable.models.checks import check_counts, check_depth, check_size
from steerable.models.first_weights import draw_weights, make_quiet
from steerable.models.layers_by_axes import PLAIN, LayerKinds
from steerable.models.levels import down_and_up
from steerable.models.saving import SavedModel
from steerable.models.tiling import TiledAsUNet
from steerable.models.widths import nearest_width

__all__ = ["PlainUNet", "plain_unet", "plain_unet_width"]


class PlainUNet(SavedModel, nn.Module, TiledAsUNet):
    """``width`` channels at full size and twice as many on each level below, otherwise laid out as ``UNet``.

    Shapes: (batch, in_channels, height, width) → (batch, out_channels, height, width), multiples of 2^depth.

    Args:
        depth: how often the image is halved.
        width: channels at full size.
        out_channels: numbers per pixel of the output.
        in_channels: channels of the image.
        axes: 2 for images, 3 for volumes.
    """

    def __init__(
        self, depth: int = 3, width: int = 16, out_channels: int = 2, *, in_channels: int = 3, axes: int = 2
    ) -> None:
        super().__init__()
        check_choice("axes", axes, tuple(PLAIN))
        check_depth("PlainUNet", depth)
        check_counts("PlainUNet", width=width, out_channels=out_channels, in_channels=in_channels)
        self.depth, self.in_channels, self.axes = depth, in_channels, axes
        kinds = PLAIN[axes]
        widths = [width * 2**k for k in range(depth + 1)]
        starts = [in_channels, *widths[:-1]]
        self.encoders = nn.ModuleList(
            _level(start, out, kinds, halves=k > 0) for k, (start, out) in enumerate(zip(starts, widths, strict=True))
        )
        upwards = list(reversed(range(depth)))
        self.upsamplers = nn.ModuleList(kinds.transposed(widths[k + 1], widths[k], 2, stride=2) for k in upwards)
        self.decoders = nn.ModuleList(_level(2 * widths[k], widths[k], kinds) for k in upwards)
        self.head = kinds.convolution(width, out_channels, 3, padding=1)
        draw_weights(self)
        make_quiet(self.head)

    def forward(self, x: Tensor) -> Tensor:
        check_size("PlainUNet", x, self.depth, self.in_channels, self.axes)
        joins = self.depth * [_side_by_side]
        y: Tensor = self.head(down_and_up(x, self.encoders, self.upsamplers, joins, self.decoders)[0])
        return y


def plain_unet(depth: int = 3, width: int = 16, out_channels: int = 2, **options: int) -> PlainUNet:
    """An ordinary U-Net; see :class:`PlainUNet`."""
    return PlainUNet(depth, width, out_channels, **options)


def plain_unet_width(depth: int, parameters: int, *, out_channels: int = 2, in_channels: int = 3) -> int:
    """The width that brings the plain U-Net of that depth closest to a number of parameters.

    >>> plain_unet_width(2, 100_000)
    15
    """
    return nearest_width(lambda width: PlainUNet(depth, width, out_channels, in_channels=in_channels), parameters)


def _side_by_side(up: Tensor, skip: Tensor) -> Tensor:
    return torch.cat([up, skip], dim=1)


def _level(start: int, out: int, kinds: LayerKinds, *, halves: bool = False) -> nn.Sequential:
    return nn.Sequential(
        *([kinds.mean(2)] if halves else []),
        kinds.convolution(start, out, 3, padding=1, bias=False),
        kinds.norm(out),
        nn.ReLU(),
        kinds.convolution(out, out, 3, padding=1, bias=False),
        kinds.norm(out),
        nn.ReLU(),
    )
