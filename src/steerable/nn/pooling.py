"""Pooling over windows that slide over pixels or voxels: the type stays, the field shrinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from steerable.filters.pixel_grids import grid_spacing
from steerable.nn.admissibility import require, require_permutations
from steerable.nn.channels import is_traced, widened
from steerable.nn.geometry import numbers_per_axis
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import SamplingGuard, one_extent_missing
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType

__all__ = ["AvgPool2d", "AvgPool3d", "MaxPool2d", "MaxPool3d", "NormMaxPool2d", "NormMaxPool3d", "WindowPool"]

_REMEDY = "Or use adaptive pooling, whose windows are symmetric for any size."

_MAXIMUM: dict[int, Callable[..., Tensor]] = {2: F.max_pool2d, 3: F.max_pool3d}
_PLAIN_AVERAGE: dict[int, Callable[..., nn.Module]] = {2: nn.AvgPool2d, 3: nn.AvgPool3d}
_PLAIN_MAXIMUM: dict[int, Callable[..., nn.Module]] = {2: nn.MaxPool2d, 3: nn.MaxPool3d}


class WindowPool(EquivariantModule):
    """The base of layers with a window that slides over the field; a subclass sets the number of ``axes``.

    Args:
        field_type: the type, which stays the same.
        kernel_size, stride, padding: as for torch's pooling layers.
        strict: make an input size on which this is not exactly equivariant an error instead of a warning.
        spacing: how far apart pixels or voxels are along each axis, if not equally far. Windows may differ along axes
            of other spacings: ``(1, 2, 2)`` where slices are twice as thick.
    """

    axes: ClassVar[int]

    def __init__(
        self,
        field_type: FieldType,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        *,
        strict: bool = False,
        spacing: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(field_type, field_type)
        self.prepare()
        self.kernel_size = numbers_per_axis(kernel_size, "kernel_size", self.axes, minimum=1)
        strides = self.kernel_size if stride is None else stride
        self.stride = numbers_per_axis(strides, "stride", self.axes, minimum=1)
        self.padding = numbers_per_axis(padding, "padding", self.axes, minimum=0)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(f"padding must be at most half the kernel {self.kernel_size}, got {self.padding}.")
        apart = grid_spacing(self.kernel_size, spacing)
        if reason := one_extent_missing(field_type.group, "kernel", self.kernel_size, apart):
            raise ValueError(f"{type(self).__name__}: {reason}")
        window = self.kernel_size, self.stride, self.padding
        self.guard = SamplingGuard(self, *window, strict=strict, remedy=_REMEDY, spacing=apart)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.guard.check(x)
        return self.pool(x)

    def prepare(self) -> None:
        """Check the capsules, and set up what the pooling needs."""

    def pool(self, x: Tensor) -> Tensor:
        return self.over(x, self.kernel_size, self.padding)

    def over(self, x: Tensor, window: tuple[int, ...], padding: int | tuple[int, ...]) -> Tensor:
        """The field pooled over windows of this size, which move by the layer's own stride."""
        raise TypeError(f"{type(self).__name__} is a base class; use AvgPool2d, MaxPool2d or NormMaxPool2d.")

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool(WindowPool):
    """The base of average pooling."""

    channelwise = True

    def over(self, x: Tensor, window: tuple[int, ...], padding: int | tuple[int, ...]) -> Tensor:
        if self.axes == 2:
            return F.avg_pool2d(x, window, self.stride, padding)
        # On a CPU torch has no averages of volumes in half precision.
        wide = widened(x) if is_traced(x) or x.is_cpu else x
        return F.avg_pool3d(wide, window, self.stride, padding).to(x.dtype)

    def plain(self) -> nn.Module:
        return _PLAIN_AVERAGE[self.axes](self.kernel_size, self.stride, self.padding)


class MaxPool(WindowPool):
    """The base of maximum pooling, channel by channel."""

    channelwise = True

    def prepare(self) -> None:
        require_permutations(f"MaxPool{self.axes}d", self.in_type, f"NormMaxPool{self.axes}d")

    def over(self, x: Tensor, window: tuple[int, ...], padding: int | tuple[int, ...]) -> Tensor:
        y = _MAXIMUM[self.axes](x, window, self.stride, padding)
        return y if self.axes == 2 else y.to(x.dtype)  # autocast makes float32 of volumes on a CPU

    def plain(self) -> nn.Module:
        return _PLAIN_MAXIMUM[self.axes](self.kernel_size, self.stride, self.padding)


class NormMaxPool(WindowPool):
    """The base of maximum pooling by the length of capsules."""

    def prepare(self) -> None:
        require(f"NormMaxPool{self.axes}d", self.in_type, "norm")
        self.segments = Segments(self.in_type)

    def over(self, x: Tensor, window: tuple[int, ...], padding: int | tuple[int, ...]) -> Tensor:
        wide = widened(x)  # rounded squares would tie, and the first of them win
        square = self.segments.sum(wide * wide)
        _, where = _MAXIMUM[self.axes](square, window, self.stride, padding, return_indices=True)
        chosen = x.flatten(2).gather(2, self.segments.spread(where).flatten(2))
        pooled: Tensor = chosen.unflatten(2, [where.shape[axis] for axis in self.map_axes])
        return pooled


class AvgPool2d(AvgPool):
    """y(x) = mean of f over a window at s·x, for any capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    axes = 2


class AvgPool3d(AvgPool):
    """y(x) = mean of f over a window of voxels at s·x, for any capsules.

    Shapes: (batch, channels, n, n', n") → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    axes = 3


class MaxPool2d(MaxPool):
    """y_c(x) = max of f_c over a window at s·x; every capsule must be a permutation (else see ``NormMaxPool2d``).

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    axes = 2


class MaxPool3d(MaxPool):
    """y_c(x) = max of f_c over a window of voxels; every capsule must be a permutation (else see ``NormMaxPool3d``).

    Shapes: (batch, channels, n, n', n") → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    axes = 3


class NormMaxPool2d(NormMaxPool):
    """The capsule of the greatest length in a window at s·x; capsules must be orthogonal.

    Of capsules of exactly the same length the first one counts, so that ties, rare in real data, are not equivariant.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    axes = 2


class NormMaxPool3d(NormMaxPool):
    """The capsule of the greatest length in a window of voxels at s·x; capsules must be orthogonal.

    Of capsules of exactly the same length the first one counts, so that ties, rare in real data, are not equivariant.

    Shapes: (batch, channels, n, n', n") → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    axes = 3
