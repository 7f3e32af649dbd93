"""Subsampling without aliasing: a fixed low-pass filter, then every s-th pixel or voxel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.filters.pixel_grids import grid_spacing
from steerable.nn.geometry import numbers_per_axis
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import SamplingGuard, one_extent_missing
from steerable.types.field_types import FieldType

__all__ = ["BlurPool2d", "BlurPool3d"]

_CONVOLVE: dict[int, Callable[..., Tensor]] = {2: F.conv2d, 3: F.conv3d}
_PLAIN: dict[int, Callable[..., nn.Conv2d | nn.Conv3d]] = {2: nn.Conv2d, 3: nn.Conv3d}


class BlurPool(EquivariantModule):
    """The base of antialiased subsampling; a subclass sets the number of ``axes``."""

    axes: ClassVar[int]
    channelwise = True

    weights: Tensor

    def __init__(
        self,
        field_type: FieldType,
        filter_size: int | Sequence[int] = 4,
        stride: int | Sequence[int] = 2,
        *,
        strict: bool = False,
        spacing: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(field_type, field_type)
        self.filter_size = numbers_per_axis(filter_size, "filter_size", self.axes, minimum=1)
        self.stride = numbers_per_axis(stride, "stride", self.axes, minimum=1)
        self.padding = tuple((size - 1) // 2 for size in self.filter_size)
        rows = [np.array([math.comb(size - 1, k) for k in range(size)], dtype=np.float64) for size in self.filter_size]
        self.register_constant("weights", reduce(np.multiply.outer, [row / row.sum() for row in rows]))
        apart = grid_spacing(self.filter_size, spacing)
        if reason := one_extent_missing(field_type.group, "filter", self.filter_size, apart):
            raise ValueError(f"{type(self).__name__}: {reason}")
        self.guard = SamplingGuard(
            self,
            self.filter_size,
            self.stride,
            self.padding,
            strict=strict,
            padding_mode="reflect",
            spacing=apart,
            remedy="Or use filter_size=4 for even sizes and filter_size=3 for odd ones.",
        )

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.guard.check(x)
        return self.pool(x)

    def pool(self, x: Tensor) -> Tensor:
        channels = self.in_type.channels
        kernel = self.weights.to(x.dtype).expand(channels, 1, *self.filter_size)
        sides = [p for p in reversed(self.padding) for _ in range(2)]
        padded = F.pad(x, sides, mode="reflect") if any(sides) else x
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
        stride: the factor by which to subsample.
        strict: raise an error instead of a warning for an input size on which this is not exactly equivariant.
        spacing: how far apart pixels or voxels are along each axis, if not equally far. Filters and strides may differ
            along axes of other spacings: ``filter_size=(1, 4, 4), stride=(1, 2, 2)`` if slices are twice as thick.
    """

    axes = 2


class BlurPool3d(BlurPool):
    """Subsampling of volumes by ``stride`` after a binomial low-pass filter: antialiased, for any capsules.

    Shapes: (batch, channels, n, n', n") → (batch, channels, (n + 2p - k)//s + 1, …), p = (filter_size - 1)//2,
    reflected. Arguments are those of :class:`BlurPool2d`.
    """

    axes = 3
