"""Pooling whose windows fit every size: they grow by the pixels that the stride would leave over.

A window of extent k that moves in steps of s over n + 2p pixels leaves r = (n + 2p - k) mod s pixels over on one side,
and is then off centre. A window of k + r pixels gives as many outputs and leaves none. For k = 1 that turns the usual
stride into something exact: after a convolution of stride 1, the mean over 1 + r pixels is a mean over 2×2 on even
sizes, and takes every second pixel on odd ones.

With ``ceil_mode`` there is one output more where pixels are left over: the last window hangs over the border by
h = -(n + 2p - k) mod s pixels. Here it hangs over both sides by ⌈h/2⌉, and all windows grow by h mod 2: again as many
outputs as torch's, and symmetric. Pixels beyond the border do not count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from steerable import nn as snn
from steerable.nn.pooling import WindowPool
from steerable.nn.sampling import axes_reversed
from steerable.types.field_types import FieldType

__all__ = ["FittedAvgPool2d", "FittedAvgPool3d", "FittedMaxPool2d", "FittedMaxPool3d", "FittedPool"]

_Sizes = int | Sequence[int]


class FittedPool(WindowPool):
    """Windows that fit; they grow only along the axes that the group reverses."""

    axes: ClassVar[int]

    def __init__(
        self,
        field_type: FieldType,
        kernel_size: _Sizes,
        stride: _Sizes,
        padding: _Sizes = 0,
        *,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(field_type, kernel_size, stride, padding)
        self.grows, self.ceil_mode = axes_reversed(field_type.group, self.axes), ceil_mode
        self.guard.reversed = (False,) * self.axes  # nothing to warn of

    def plain(self) -> nn.Module:
        return snn.EquivariantModule.plain(self)  # traced, with the arithmetic

    def pool(self, x: Tensor) -> Tensor:
        return self.rounded_up(x) if self.ceil_mode else self.over(x, self.window(x), self.padding)

    def rounded_up(self, x: Tensor) -> Tensor:
        """The field pooled with ``ceil_mode``."""
        raise NotImplementedError

    # Arithmetic only, without decisions about sizes, so that it can be traced.

    def window(self, x: Tensor) -> tuple[int, ...]:
        """One extent per axis: k + (n + 2p - k) mod s, or k + h mod 2 with ``ceil_mode``."""
        extra = [h % 2 if self.ceil_mode else -h % s for h, s in zip(self._hanging(x), self.stride, strict=True)]
        return tuple(k + e if grows else k for k, e, grows in zip(self.kernel_size, extra, self.grows, strict=True))

    def border(self, x: Tensor) -> list[int]:
        """(left, right, top, bottom, …): how far windows extend beyond the padded field with ``ceil_mode``."""
        sides = [
            [(h + 1) // 2, (h + 1) // 2] if grows else [0, h]
            for h, grows in zip(self._hanging(x), self.grows, strict=True)
        ]
        return [width for side in reversed(sides) for width in side]

    @property
    def around(self) -> list[int]:
        """The padding as ``F.pad`` takes it, the last axis first."""
        return [p for p in reversed(self.padding) for _ in range(2)]

    def _hanging(self, x: Tensor) -> list[int]:
        sizes = [x.shape[axis] for axis in self.map_axes]
        return [
            (k - n - 2 * p) % s for n, k, s, p in zip(sizes, self.kernel_size, self.stride, self.padding, strict=True)
        ]


class _FittedAvgPool(FittedPool):
    def rounded_up(self, x: Tensor) -> Tensor:
        padded = F.pad(x, self.around)
        window, border = self.window(x), self.border(x)
        ones = padded.new_ones(1, 1, *[padded.shape[axis] for axis in self.map_axes])
        return self.over(F.pad(padded, border), window, 0) / self.over(F.pad(ones, border), window, 0)


class _FittedMaxPool(FittedPool):
    def rounded_up(self, x: Tensor) -> Tensor:
        border = [a + b for a, b in zip(self.border(x), self.around, strict=True)]
        return self.over(F.pad(x, border, value=-math.inf), self.window(x), 0)


class FittedAvgPool2d(_FittedAvgPool, snn.AvgPool2d):
    """The mean over windows that are symmetric on every size: exactly equivariant, for any capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …), rounded up with ``ceil_mode``.
    """


class FittedAvgPool3d(_FittedAvgPool, snn.AvgPool3d):
    """The mean over windows of voxels that are symmetric on every size: exactly equivariant, for any capsules.

    Shapes: (batch, channels, n, n', n") → (batch, channels, (n + 2p - k)//s + 1, …), rounded up with ``ceil_mode``.
    """


class FittedMaxPool2d(_FittedMaxPool, snn.MaxPool2d):
    """The greatest value of windows that are symmetric on every size: exactly equivariant, for permutations.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …), rounded up with ``ceil_mode``.
    """


class FittedMaxPool3d(_FittedMaxPool, snn.MaxPool3d):
    """The greatest value of windows of voxels that are symmetric on every size: exact, for permutations.

    Shapes: (batch, channels, n, n', n") → (batch, channels, (n + 2p - k)//s + 1, …), rounded up with ``ceil_mode``.
    """
