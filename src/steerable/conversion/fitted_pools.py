"""Pooling whose windows fit every size: they grow by the pixels that the stride would leave over.

A window of extent k that moves in steps of s over n + 2p pixels leaves r = (n + 2p - k) mod s pixels over on one side,
and is then off centre. A window of k + r pixels gives as many outputs and leaves none. For k = 1 that turns the usual
stride into something exact: after a convolution of stride 1, the mean over 1 + r pixels is a mean over 2×2 on even
sizes, and takes every second pixel on odd ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from steerable import nn as snn
from steerable.fields import FieldType
from steerable.nn.sampling import axes_reversed

__all__ = ["FittedAvgPool2d", "FittedMaxPool2d"]


class _Fitted:
    """The window that fits, for a pooling layer of steerable.nn."""

    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    grows: tuple[bool, bool]

    def window(self, x: Tensor) -> tuple[int, int]:
        """(height, width), k + (n + 2p - k) mod s along the axes that the group reverses."""
        # Arithmetic only, without decisions, so that it can be traced.
        sizes = (x.shape[-2], x.shape[-1])
        rows, columns = (
            k + (n + 2 * p - k) % s if grows else k
            for n, k, s, p, grows in zip(sizes, self.kernel_size, self.stride, self.padding, self.grows, strict=True)
        )
        return rows, columns


class FittedAvgPool2d(_Fitted, snn.AvgPool2d):
    """The mean over windows of k + (n + 2p - k) mod s pixels: exactly equivariant on every size, for any capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    def __init__(
        self,
        field_type: FieldType,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int] = 0,
    ) -> None:
        super().__init__(field_type, kernel_size, stride, padding)
        self.grows = axes_reversed(field_type.group)
        self.guard.reversed = (False, False)  # nothing to warn of

    def pool(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, self.window(x), self.stride, self.padding)

    def plain(self) -> nn.Module:
        return snn.EquivariantModule.plain(self)  # traced, with the arithmetic


class FittedMaxPool2d(_Fitted, snn.MaxPool2d):
    """The greatest of windows of k + (n + 2p - k) mod s pixels: exactly equivariant on every size, for permutations.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    def __init__(
        self,
        field_type: FieldType,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | Sequence[int] = 0,
    ) -> None:
        super().__init__(field_type, kernel_size, stride, padding)
        self.grows = axes_reversed(field_type.group)
        self.guard.reversed = (False, False)  # nothing to warn of

    def pool(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, self.window(x), self.stride, self.padding)

    def plain(self) -> nn.Module:
        return snn.EquivariantModule.plain(self)  # traced, with the arithmetic
