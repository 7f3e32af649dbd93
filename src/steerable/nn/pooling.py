"""Pooling over pixels: the type stays, the field shrinks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.activations import require
from steerable.nn.channels import widened
from steerable.nn.geometry import pair
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import SamplingGuard, axes_swapped
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType

__all__ = [
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "AvgPool2d",
    "BlurPool2d",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "MaxPool2d",
    "NormMaxPool2d",
]

_REMEDY = "Or use adaptive pooling, whose windows are symmetric for any size."


class _WindowPool(EquivariantModule):
    """A window that slides over the field."""

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


class AvgPool2d(_WindowPool):
    """y(x) = mean of f over a window at s·x, for any capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    def pool(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, self.kernel_size, self.stride, self.padding)

    def plain(self) -> nn.Module:
        return nn.AvgPool2d(self.kernel_size, self.stride, self.padding)


class MaxPool2d(_WindowPool):
    """y_c(x) = max of f_c over a window at s·x; every capsule must be a permutation (else see ``NormMaxPool2d``).

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …).
    """

    def prepare(self) -> None:
        _require_permutations("MaxPool2d", self.in_type, "NormMaxPool2d")

    def pool(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, self.kernel_size, self.stride, self.padding)

    def plain(self) -> nn.Module:
        return nn.MaxPool2d(self.kernel_size, self.stride, self.padding)


class NormMaxPool2d(_WindowPool):
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


class BlurPool2d(EquivariantModule):
    """Subsampling by ``stride`` after a binomial low-pass filter: antialiased, for any capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, (n + 2p - k)//s + 1, …), p = (filter_size - 1)//2, reflected.

    Args:
        field_type: the type, which stays the same.
        filter_size: 4 (weights 1 3 3 1) for even sizes, 3 (1 2 1) or 5 for odd ones: then the grid is symmetric.
        stride: by how much to subsample.
        strict: make an input size on which this is not exactly equivariant an error instead of a warning.
    """

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


class AdaptiveAvgPool2d(EquivariantModule):
    """The mean over windows that divide the field into ``output_size`` parts; symmetric for any size, any capsules.

    Shapes: (batch, channels, height, width) → (batch, channels, *output_size).
    """

    def __init__(self, field_type: FieldType, output_size: int | Sequence[int]) -> None:
        super().__init__(field_type, field_type)
        self.output_size = _adaptive_size(field_type, output_size)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return F.adaptive_avg_pool2d(x, self.output_size)

    def plain(self) -> nn.Module:
        return nn.AdaptiveAvgPool2d(self.output_size)


class AdaptiveMaxPool2d(EquivariantModule):
    """The maximum over windows that divide the field into ``output_size`` parts; capsules must be permutations.

    Shapes: (batch, channels, height, width) → (batch, channels, *output_size).
    """

    def __init__(self, field_type: FieldType, output_size: int | Sequence[int]) -> None:
        _require_permutations("AdaptiveMaxPool2d", field_type, "NormMaxPool2d")
        super().__init__(field_type, field_type)
        self.output_size = _adaptive_size(field_type, output_size)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return F.adaptive_max_pool2d(x, self.output_size)

    def plain(self) -> nn.Module:
        return nn.AdaptiveMaxPool2d(self.output_size)


class GlobalAvgPool(EquivariantModule):
    """The mean over all pixels: a single fibre, which the group moves by ρ alone.

    Shapes: (batch, channels, height, width) → (batch, channels).
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return x.mean((2, 3))

    def plain(self) -> nn.Module:
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


class GlobalMaxPool(EquivariantModule):
    """The maximum over all pixels, channel by channel; every capsule must be a permutation.

    Shapes: (batch, channels, height, width) → (batch, channels).
    """

    def __init__(self, field_type: FieldType) -> None:
        _require_permutations("GlobalMaxPool", field_type, "GlobalAvgPool")
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return x.amax((2, 3))


def _require_permutations(layer: str, field_type: FieldType, instead: str) -> None:
    for capsule, _ in field_type.blocks:
        if not capsule.admits("pointwise"):
            ready = capsule.admits("norm") or instead != "NormMaxPool2d"
            first = "" if ready else "Change to an orthogonal basis first, for instance with `ToIrreps`. "
            raise TypeError(
                f"{layer} is not admissible for capsule `{capsule}`: the maximum of each channel commutes with "
                f"permutations only, and its matrices are not. {first}Use `{instead}`."
            )


def _adaptive_size(field_type: FieldType, output_size: int | Sequence[int]) -> tuple[int, int]:
    size = pair(output_size, "output_size", minimum=1)
    if axes_swapped(field_type.group) and size[0] != size[1]:
        raise ValueError(
            f"{field_type.group.name} exchanges height and width, so that the output is square; got {size}."
        )
    return size
