"""A mask that keeps the disk inscribed in the image, or the ball inscribed in the volume."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from steerable.filters.pixel_grids import grid_spacing, size_text
from steerable.nn.channels import hides_shapes
from steerable.nn.geometry import numbers_per_axis
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import one_extent_missing
from steerable.types.field_types import FieldType

__all__ = ["DiskMask"]


class DiskMask(EquivariantModule):
    """Sets the field to zero outside the inscribed disk or ball, so that corners do not reveal the pose.

    y(x) = x inside, with an edge ``softness`` pixels wide.

    Shapes: (batch, channels, *size) → the same.

    Args:
        field_type: the type, which stays the same.
        size: height and width of the images, or all three extents of the volumes; one number where they are equal.
        margin: how many pixels the disk stays away from the border.
        softness: width of the edge; 0 for a hard one.
        spacing: how far apart pixels or voxels are along each axis, if not equally far; margin and softness are then
            in units of the smallest distance.
    """

    channelwise = True

    mask: Tensor

    def __init__(
        self,
        field_type: FieldType,
        size: int | Sequence[int],
        margin: float = 0.0,
        softness: float = 1.0,
        *,
        spacing: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(field_type, field_type)
        self.size = numbers_per_axis(size, "size", len(self.map_axes), minimum=1)
        apart = grid_spacing(self.size, spacing)
        if reason := one_extent_missing(field_type.group, "size", self.size, apart, mixed=False):
            raise ValueError(f"DiskMask: {reason}")
        if margin < 0 or softness < 0:
            raise ValueError(f"DiskMask takes margin ≥ 0 and softness ≥ 0; got {margin} and {softness}.")
        places = [(np.arange(n) - (n - 1) / 2) * step for n, step in zip(self.size, apart, strict=True)]
        radius = np.sqrt(sum(square for square in np.ix_(*[line**2 for line in places])))
        inside = min(n * step for n, step in zip(self.size, apart, strict=True)) / 2 - margin - radius
        self.register_constant(
            "mask", np.clip(inside / softness, 0, 1) if softness else (inside > 0).astype(np.float64)
        )

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if not hides_shapes(x) and tuple(x.shape[2:]) != self.size:
            made_for = f"{size_text(self.size)} {'images' if len(self.size) == 2 else 'volumes'}"
            raise ValueError(f"DiskMask was made for {made_for}, got {tuple(x.shape[2:])}.")
        return x * self.mask.to(x.dtype)
