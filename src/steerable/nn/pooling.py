"""Pooling over windows that slide over the pixels: the type stays, the field shrinks."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.admissibility import require, require_permutations
from steerable.nn.channels import widened
from steerable.nn.geometry import pair
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import SamplingGuard
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType

__all__ = ["AvgPool2d", "MaxPool2d", "NormMaxPool2d", "WindowPool"]

_REMEDY = "Or use adaptive pooling, whose windows are symmetric for any size."


class WindowPool(EquivariantModule):
    """The base of layers with a window that slides over the field."""

    def __init__(
        self,
        field_type: FieldType,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        *,
        strict: bool = False,
    ) -> None:
        super().__init__(field_type, field_type)
        self.prepare()
        self.kernel_size = pair(kernel_size, "kernel_size", minimum=1)
        self.stride = self.kernel_size if stride is None else pair(stride, "stride", minimum=1)
        self.padding = pair(padding, "padding", minimum=0)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(f"padding is at most half the kernel {self.kernel_size}, got {self.padding}.")
        self.guard = SamplingGuard(self, self.kernel_size, self.stride, self.padding, strict=strict, remedy=_REMEDY)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.guard.check(x)
        return self.pool(x)

    def prepare(self) -> None:
        """Check the capsules, and set up what the pooling needs."""

    def pool(self, x: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} is a base class; use AvgPool2d, MaxPool2d or NormMaxPool2d.")

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(WindowPool):
    """y(x) = mean of f over a window at s·x, for any capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    channelwise = True

    def pool(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, self.kernel_size, self.stride, self.padding)

    def plain(self) -> nn.Module:
        return nn.AvgPool2d(self.kernel_size, self.stride, self.padding)


class MaxPool2d(WindowPool):
    """y_c(x) = max of f_c over a window at s·x; every capsule must be a permutation (else see ``NormMaxPool2d``).

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    channelwise = True

    def prepare(self) -> None:
        require_permutations("MaxPool2d", self.in_type, "NormMaxPool2d")

    def pool(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, self.kernel_size, self.stride, self.padding)

    def plain(self) -> nn.Module:
        return nn.MaxPool2d(self.kernel_size, self.stride, self.padding)


class NormMaxPool2d(WindowPool):
    """The capsule of the greatest length in a window at s·x; capsules must be orthogonal.

    Of capsules of exactly the same length the first one counts, so that ties, rare in real data, are not equivariant.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    def prepare(self) -> None:
        require("NormMaxPool2d", self.in_type, "norm")
        self.segments = Segments(self.in_type)

    def pool(self, x: Tensor) -> Tensor:
        wide = widened(x)  # rounded squares would tie, and the first of them win
        square = self.segments.sum(wide * wide)
        _, where = F.max_pool2d(square, self.kernel_size, self.stride, self.padding, return_indices=True)
        chosen = x.flatten(2).gather(2, self.segments.spread(where).flatten(2))
        pooled: Tensor = chosen.unflatten(2, (where.shape[2], where.shape[3]))
        return pooled
