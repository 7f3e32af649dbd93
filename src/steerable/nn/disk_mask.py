"""A mask that leaves the disk inscribed in the image, or the ball inscribed in the volume."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from steerable.nn.channels import hides_shapes
from steerable.nn.module import EquivariantModule
from steerable.types.field_types import FieldType

__all__ = ["DiskMask"]


class DiskMask(EquivariantModule):
    """Sets the field to zero outside the disk or ball inscribed in it, so that corners do not tell the pose.

    y(x) = x inside, with an edge ``softness`` pixels wide.

    Shapes: (batch, channels, size, size), or (batch, channels, size, size, size) for groups of space → the same.

    Args:
        field_type: the type, which stays the same.
        size: height and width of the images, or all three extents of the volumes.
        margin: by how many pixels the disk stays clear of the border.
        softness: width of the edge; 0 for a hard one.
    """

    channelwise = True

    mask: Tensor

    def __init__(self, field_type: FieldType, size: int, margin: float = 0.0, softness: float = 1.0) -> None:
        super().__init__(field_type, field_type)
        if size < 1 or margin < 0 or softness < 0:
            raise ValueError(f"DiskMask takes size ≥ 1, margin ≥ 0, softness ≥ 0; got {size}, {margin}, {softness}.")
        self.size = size
        line = np.arange(size) - (size - 1) / 2
        radius = np.sqrt(sum(square for square in np.ix_(*[line**2] * len(self.map_axes))))
        inside = size / 2 - margin - radius
        self.register_constant(
            "mask", np.clip(inside / softness, 0, 1) if softness else (inside > 0).astype(np.float64)
        )

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        axes = len(self.map_axes)
        if not hides_shapes(x) and tuple(x.shape[2:]) != (self.size,) * axes:
            made_for = f"{'×'.join([str(self.size)] * axes)} {'images' if axes == 2 else 'volumes'}"
            raise ValueError(f"DiskMask was made for {made_for}, got {tuple(x.shape[2:])}.")
        return x * self.mask.to(x.dtype)
