"""Subsampling without aliasing: a fixed low-pass filter, then every s-th pixel or voxel."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.geometry import numbers_per_axis
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import SamplingGuard
from steerable.types.field_types import FieldType

__all__ = ["BlurPool2d", "BlurPool3d"]

_CONVOLVE: dict[int, Callable[..., Tensor]] = {2: F.conv2d, 3: F.conv3d}
_PLAIN: dict[int, type[nn.Conv2d] | type[nn.Conv3d]] = {2: nn.Conv2d, 3: nn.Conv3d}


class BlurPool(EquivariantModule):
    """The base of antialiased subsampling; a subclass says over how many ``axes``."""

    axes: ClassVar[int]
    channelwise = True

    weights: Tensor

    def __init__(self, field_type: FieldType, filter_size: int = 4, stride: int = 2, *, strict: bool = False) -> None:
        super().__init__(field_type, field_type)
        size = numbers_per_axis(filter_size, "filter_size", self.axes, minimum=1)
        strides = numbers_per_axis(stride, "stride", self.axes, minimum=1)
        if len({*size}) > 1 or len({*strides}) > 1:
            axes = "both axes" if self.axes == 2 else "all axes"
            raise ValueError(
                f"{type(self).__name__} has one filter_size and one stride for {axes}, got {filter_size!r} and "
                f"{stride!r}."
            )
        self.filter_size, self.stride = size[0], strides[0]
        self.padding = (self.filter_size - 1) // 2
        row = np.array([math.comb(self.filter_size - 1, k) for k in range(self.filter_size)], dtype=np.float64)
        self.register_constant("weights", reduce(np.multiply.outer, [row / row.sum()] * self.axes))
        self.guard = SamplingGuard(
            self,
            size,
            strides,
            (self.padding,) * self.axes,
            strict=strict,
            mirrored=True,
            remedy="Or use filter_size=4 for even sizes and filter_size=3 for odd ones.",
        )

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.guard.check(x)
        return self.pool(x)

    def pool(self, x: Tensor) -> Tensor:
        channels = self.in_type.channels
        kernel = self.weights.to(x.dtype).expand(channels, 1, *(self.filter_size,) * self.axes)
        padded = F.pad(x, (self.padding,) * 2 * self.axes, mode="reflect") if self.padding else x
        return _CONVOLVE[self.axes](padded, kernel, stride=self.stride, groups=channels)

    @torch.no_grad()
    def plain(self) -> nn.Module:
        channels = self.in_type.channels
        conv = _PLAIN[self.axes](
            channels,
            channels,
            self.filter_size,
            self.stride,
            self.padding,
            groups=channels,
            bias=False,
            padding_mode="reflect",
            device=self.weights.device,
            dtype=self.weights.dtype,
        )
        conv.weight.copy_(self.weights.expand_as(conv.weight))
        return conv

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, filter_size={self.filter_size}, stride={self.stride}"


class BlurPool2d(BlurPool):
    """Subsampling by ``stride`` after a binomial low-pass filter: antialiased, for any capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …), p = (filter_size - 1)//2, reflected.

    Args:
        field_type: the type, which stays the same.
        filter_size: 4 (weights 1 3 3 1) for even sizes, 3 (1 2 1) or 5 for odd ones: then the grid is symmetric.
        stride: by how much to subsample.
        strict: make an input size on which this is not exactly equivariant an error instead of a warning.
    """

    axes = 2


class BlurPool3d(BlurPool):
    """Subsampling of volumes by ``stride`` after a binomial low-pass filter: antialiased, for any capsules.

    Shapes: (batch, channels, n, n', n") → (batch, channels, (n + 2p - k)//s + 1, …), p = (filter_size - 1)//2,
    reflected. Arguments are those of :class:`BlurPool2d`.
    """

    axes = 3
