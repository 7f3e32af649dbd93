"""The same field, as a subgroup sees it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor, nn

from steerable.algebra.group_interface import Group
from steerable.nn.channels import take_channels
from steerable.nn.module import EquivariantModule
from steerable.nn.seen_by_subgroup import both_ends, retyped
from steerable.types.field_types import FieldType
from steerable.types.restriction import restriction

__all__ = ["Restrict"]


class Restrict(EquivariantModule):
    """From here on, only a subgroup counts: the same values, in the capsules that the subgroup sees.

    Shapes: (batch, channels, …) → the same; channels are reordered if a capsule splits into several.

    Args:
        field_type: a type of the group.
        subgroup: its elements, or the subgroup itself (``cyclic(4)`` in ``dihedral(4)``) or its name, ``"C4"``.
    """

    computes = False

    order: Tensor

    def __init__(self, field_type: FieldType, subgroup: Iterable[str] | Group) -> None:
        out_type, order = restriction(field_type, subgroup)
        super().__init__(field_type, out_type)
        self.reorder = not np.array_equal(order, np.arange(len(order)))
        self.register_index("order", order)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return take_channels(x, self.order) if self.reorder else x

    def restricted_to(self, subgroup: Group) -> Restrict:
        """The same reordering, seen by a subgroup; the output belongs to the part of it in the smaller group."""
        seen_in, seen_out = both_ends(self, subgroup)
        order = seen_in.back[self._constants["order"][seen_out.order]]
        new = retyped(self, seen_in.field_type, seen_out.field_type, order=order)
        new.reorder = not np.array_equal(order, np.arange(len(order)))
        return new

    def plain(self) -> nn.Module:
        return super().plain() if self.reorder else nn.Identity()

    def extra_repr(self) -> str:
        return f"{self.in_type.group.name}: {self.in_type} → {self.out_type.group.name}: {self.out_type}"
