"""Subsampling without aliasing: a fixed low-pass filter, then every s-th pixel."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.geometry import pair
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import SamplingGuard
from steerable.types.field_types import FieldType

__all__ = ["BlurPool2d"]


class BlurPool2d(EquivariantModule):
    """Subsampling by ``stride`` after a binomial low-pass filter: antialiased, for any capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …), p = (filter_size - 1)//2, reflected.

    Args:
        field_type: the type, which stays the same.
        filter_size: 4 (weights 1 3 3 1) for even sizes, 3 (1 2 1) or 5 for odd ones: then the grid is symmetric.
        stride: by how much to subsample.
        strict: make an input size on which this is not exactly equivariant an error instead of a warning.
    """

    channelwise = True

    weights: Tensor

    def __init__(self, field_type: FieldType, filter_size: int = 4, stride: int = 2, *, strict: bool = False) -> None:
        super().__init__(field_type, field_type)
        size, strides = pair(filter_size, "filter_size", minimum=1), pair(stride, "stride", minimum=1)
        if size[0] != size[1] or strides[0] != strides[1]:
            raise ValueError(
                f"BlurPool2d has one filter_size and one stride for both axes, got {filter_size!r} and {stride!r}."
            )
        self.filter_size, self.stride = size[0], strides[0]
        self.padding = (self.filter_size - 1) // 2
        row = np.array([math.comb(self.filter_size - 1, k) for k in range(self.filter_size)], dtype=np.float64)
        self.register_constant("weights", np.outer(row, row) / row.sum() ** 2)
        self.guard = SamplingGuard(
            self,
            size,
            (self.stride, self.stride),
            (self.padding, self.padding),
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
        kernel = self.weights.to(x.dtype).expand(channels, 1, self.filter_size, self.filter_size)
        padded = F.pad(x, (self.padding,) * 4, mode="reflect") if self.padding else x
        return F.conv2d(padded, kernel, stride=self.stride, groups=channels)

    @torch.no_grad()
    def plain(self) -> nn.Module:
        channels = self.in_type.channels
        conv = nn.Conv2d(
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
