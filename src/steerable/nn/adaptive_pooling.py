"""Pooling to a given size, or over all pixels or voxels: the windows are symmetric on every input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from steerable.filters.pixel_grids import grid_spacing
from steerable.nn.admissibility import require_permutations
from steerable.nn.geometry import numbers_per_axis
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import one_extent_missing
from steerable.types.field_types import FieldType

__all__ = [
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "GlobalAvgPool",
    "GlobalMaxPool",
]

_PLAIN_AVERAGE: dict[int, Callable[..., nn.Module]] = {2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}


class AdaptivePool(EquivariantModule):
    """The base of pooling to a given size; a subclass sets the number of ``axes``.

    Args:
        field_type: the type, which stays the same.
        output_size: the size of the result, one number or one per axis.
        spacing: how far apart pixels or voxels are along each axis, if not equally far. Results may differ in size
            along axes of other spacings: ``(2, 4, 4)`` where slices are twice as thick.
    """

    axes: ClassVar[int]
    channelwise = True

    functions: ClassVar[dict[int, Callable[..., Tensor]]]  # of torch, by the number of axes
    layers: ClassVar[dict[int, Callable[..., nn.Module]]]

    def __init__(
        self,
        field_type: FieldType,
        output_size: int | Sequence[int],
        *,
        spacing: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(field_type, field_type)
        self.prepare()
        self.output_size = numbers_per_axis(output_size, "output_size", self.axes, minimum=1)
        apart = grid_spacing(self.output_size, spacing)
        if reason := one_extent_missing(field_type.group, "output", self.output_size, apart):
            raise ValueError(reason)

    def prepare(self) -> None:
        """Check the capsules."""

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        y = self.functions[self.axes](x, self.output_size)
        return y if self.axes == 2 else y.to(x.dtype)  # autocast makes float32 of volumes on a CPU

    def plain(self) -> nn.Module:
        return self.layers[self.axes](self.output_size)


class AdaptiveAvgPool(AdaptivePool):
    """The base of adaptive average pooling."""

    functions: ClassVar = {2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
    layers: ClassVar = _PLAIN_AVERAGE


class AdaptiveMaxPool(AdaptivePool):
    """The base of adaptive maximum pooling."""

    functions: ClassVar = {2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
    layers: ClassVar = {2: nn.AdaptiveMaxPool2d, 3: nn.AdaptiveMaxPool3d}

    def prepare(self) -> None:
        require_permutations(f"AdaptiveMaxPool{self.axes}d", self.in_type, f"NormMaxPool{self.axes}d")


class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """The mean over windows that divide the field into ``output_size`` parts; symmetric for any size, any capsules.

    Shapes: (batch, channels, height, width) → (batch, channels, *output_size).
    """

    axes = 2


class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """The mean over windows that divide a volume into ``output_size`` parts; symmetric for any size, any capsules.

    Shapes: (batch, channels, depth, height, width) → (batch, channels, *output_size).
    """

    axes = 3


class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """The maximum over windows that divide the field into ``output_size`` parts; capsules must be permutations.

    Shapes: (batch, channels, height, width) → (batch, channels, *output_size).
    """

    axes = 2


class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """The maximum over windows that divide a volume into ``output_size`` parts; capsules must be permutations.

    Shapes: (batch, channels, depth, height, width) → (batch, channels, *output_size).
    """

    axes = 3


class GlobalAvgPool(EquivariantModule):
    """The mean over all pixels or voxels: a single fibre, which the group moves by ρ alone.

    Shapes: (batch, channels, …) → (batch, channels).
    """

    channelwise = True

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return x.mean(self.map_axes)

    def plain(self) -> nn.Module:
        return nn.Sequential(_PLAIN_AVERAGE[len(self.map_axes)](1), nn.Flatten())


class GlobalMaxPool(EquivariantModule):
    """The maximum over all pixels or voxels, channel by channel; every capsule must be a permutation.

    Shapes: (batch, channels, …) → (batch, channels).
    """

    channelwise = True

    def __init__(self, field_type: FieldType) -> None:
        require_permutations("GlobalMaxPool", field_type, "GlobalAvgPool")
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return x.amax(self.map_axes)
