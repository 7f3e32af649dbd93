"""A field type as a subgroup sees it: the same channels, in smaller capsules if the subgroup splits them.

D4's ``regular`` is ``2*regular`` for C4 and ``4*regular`` for {e, m}: the subgroup moves the eight channels in two or
four separate orbits, and an orbit is a capsule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.capsules import Capsule
from steerable.algebra.group_interface import Group
from steerable.errors import expect
from steerable.types.capsule_parts import parts_seen
from steerable.types.field_types import FieldType
from steerable.types.shared_subgroups import subgroup_of

__all__ = ["Seen", "restriction", "seen_by"]


@dataclass(frozen=True)
class Seen:
    """A field type as a subgroup sees it.

    Attributes:
        field_type: the restricted type.
        order: ``x[:, order]`` is a field of the restricted type when x is one of the type that was restricted.
    """

    field_type: FieldType
    order: NDArray[np.intp]

    @property
    def back(self) -> NDArray[np.intp]:
        """The inverse of ``order``: the place of each channel in the restricted type."""
        return np.argsort(self.order)

    @property
    def keeps_order(self) -> bool:
        """Whether every channel stays where it is."""
        return bool(np.array_equal(self.order, np.arange(len(self.order))))


def seen_by(field_type: FieldType, subgroup: Iterable[str] | Group) -> Seen:
    """The restricted type and the order of its channels, as one value."""
    return Seen(*restriction(field_type, subgroup))


def restriction(field_type: FieldType, subgroup: Iterable[str] | Group) -> tuple[FieldType, NDArray[np.intp]]:
    """(restricted type, order): ``x[:, order]`` is a field of the restricted type if x is one of ``field_type``.

    The subgroup is a group, its name such as ``"C4"``, or a list of elements.

    >>> from steerable import FieldType, cyclic, dihedral, so2
    >>> kind, order = restriction(FieldType(dihedral(4), "regular + E"), ["e", "r2"])
    >>> str(kind), order.tolist()
    ('4*regular + 2*B', [0, 2, 1, 3, 4, 6, 5, 7, 8, 9])
    >>> str(restriction(FieldType(so2(), "2*regular(2) + E7"), cyclic(8))[0])
    '2*A + 3*E1 + 2*E2'
    """
    expect(field_type, FieldType, "the field type to restrict, such as FieldType(dihedral(4), '2*regular')")
    smaller = subgroup_of(field_type.group, subgroup)
    stack: list[tuple[Capsule, NDArray[np.intp]]] = []
    for (capsule, copies), channels in zip(field_type.terms, field_type.term_slices, strict=True):
        parts = list(parts_seen(capsule, smaller))
        for copy in range(copies):
            start = channels.start + copy * capsule.dim
            stack.extend((part, start + members) for part, members in parts)
    restricted = FieldType(smaller, [part for part, _ in stack])
    ordered = [members for kind, _ in restricted.terms for part, members in stack if part == kind]
    return restricted, np.concatenate(ordered) if ordered else np.zeros(0, dtype=np.intp)
