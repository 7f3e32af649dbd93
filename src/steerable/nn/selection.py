"""Some of a field's capsules, by number or by name."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from steerable.algebra.group_interface import Group
from steerable.nn.channels import merge_order, take_channels
from steerable.nn.module import EquivariantModule
from steerable.nn.seen_by_subgroup import both_ends, retyped
from steerable.types.field_types import FieldType

__all__ = ["Select", "Selection"]

Selection = slice | int | str | Sequence[int | str] | NDArray[np.intp] | Tensor


class Select(EquivariantModule):
    """Some of a field's capsules, in the given order; a capsule may be taken more than once.

    A field type keeps equal capsules adjacent, so that kinds come in the order in which each is first named, and the
    copies of a kind in the order in which they are named: of ``2*E + A1`` the numbers ``[1, 2, 0]`` give ``2*E + A1``
    again, with the two capsules ``E`` exchanged.

    Shapes: (batch, in_type.channels, …) → (batch, out_type.channels, …).

    Args:
        field_type: what goes in.
        which: capsules by number, counted from the end where it is negative; all capsules of a kind by its name, such
            as ``"E"``; a sequence of these, or a slice of the numbers.

    >>> from steerable import FieldType, dihedral
    >>> swap = Select(FieldType(dihedral(4), "2*E + A1"), [1, 2, 0])
    >>> str(swap.out_type), swap.channels.tolist()
    ('2*E + A1', [2, 3, 0, 1, 4])
    """

    computes = False

    channels: Tensor

    def __init__(self, field_type: FieldType, which: Selection) -> None:
        chosen = _chosen(field_type, which)
        stack = [field_type[i] for i in chosen]
        out_type = FieldType(field_type.group, stack)
        super().__init__(field_type, out_type)
        slices = field_type.slices
        channels = np.concatenate([np.arange(slices[i].start, slices[i].stop) for i in chosen])
        self.register_index("channels", channels[merge_order(stack, out_type)])

    @property
    def order(self) -> NDArray[np.intp]:
        """The numbers of the channels that are taken, also where the layer has no storage."""
        return self._constants["channels"]

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return take_channels(x, self.channels)

    def restricted_to(self, subgroup: Group) -> EquivariantModule:
        seen_in, seen_out = both_ends(self, subgroup)
        channels = seen_in.back[self.order[seen_out.order]]
        return retyped(self, seen_in.field_type, seen_out.field_type, channels=channels)


def _chosen(field_type: FieldType, which: Selection) -> list[int]:
    """The numbers of the capsules that are selected, in the given order."""
    if isinstance(which, slice):
        chosen = list(range(len(field_type)))[which]
    else:
        values = which.tolist() if isinstance(which, Tensor | np.ndarray) else which
        items = [values] if isinstance(values, str) or not isinstance(values, Iterable) else values
        chosen = [number for item in items for number in _numbers(field_type, item)]
    if not chosen:
        raise ValueError(f"Select: nothing of `{field_type}` is selected by {which!r}.")
    return chosen


def _numbers(field_type: FieldType, item: int | str) -> list[int]:
    """The number of one capsule, or those of all capsules of a name."""
    count = len(field_type)
    if isinstance(item, str):
        found = [i for i, capsule in enumerate(field_type.capsules) if str(capsule) == item]
        if not found:
            present = ", ".join(str(capsule) for capsule, _ in field_type.terms)
            raise ValueError(f"Select: `{field_type}` has no capsule `{item}`; it has {present}.")
        return found
    if isinstance(item, bool) or not isinstance(item, SupportsIndex):
        raise TypeError(f"Select takes capsules by number or by name, such as [0, 2] or 'E'; got {item!r}.")
    number = operator.index(item)
    if not -count <= number < count:
        raise ValueError(f"Select: `{field_type}` has capsules 0 … {count - 1}, got number {number}.")
    return [number % count]
