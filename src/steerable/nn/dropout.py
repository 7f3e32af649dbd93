"""Dropout of whole capsules, at each pixel or on the whole image or volume."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.module import EquivariantModule
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType

__all__ = ["Dropout", "Dropout2d", "Dropout3d"]


class Dropout(EquivariantModule):
    """In training, sets each capsule of each fibre to zero with probability p, and scales the others by 1/(1-p).

    Shapes: (batch, channels, …) → the same. A mask of single channels would not commute with the group.
    """

    def __init__(self, field_type: FieldType, p: float = 0.5) -> None:
        super().__init__(field_type, field_type)
        if not 0 <= p < 1:
            raise ValueError(f"the probability p of a dropout must lie in [0, 1), got {p}.")
        self.p = p
        self.segments = Segments(field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        if not self.training or self.p == 0:
            return x
        ones = x.new_ones(self.mask_shape(x))
        return x * self.segments.spread(F.dropout(ones, self.p))

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[0], len(self.in_type), *x.shape[2:])

    def plain(self) -> nn.Module:
        return nn.Identity()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, p={self.p}"


class MapDropout(Dropout):
    """The base of dropouts of whole maps; a subclass sets the number of axes."""

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[0], len(self.in_type), *(1,) * (x.ndim - 2))


class Dropout2d(MapDropout):
    """In training, sets a capsule on the whole image to zero with probability p, and scales the others by 1/(1-p).

    Shapes: (batch, channels, height, width) or (batch, channels) → the same.
    """

    axes = 2


class Dropout3d(MapDropout):
    """In training, sets a capsule on the whole volume to zero with probability p, and scales the others by 1/(1-p).

    Shapes: (batch, channels, depth, height, width) or (batch, channels) → the same.
    """

    axes = 3
