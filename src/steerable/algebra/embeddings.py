"""Embeddings of subgroups, for finite groups and for groups that turn by any angle."""

from __future__ import annotations

from collections.abc import Callable

from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.homomorphisms import inclusion

__all__ = ["embedding"]


def embedding(subgroup: Group, group: Group) -> Callable[[Element], Element]:
    """The map from each element of a subgroup to an element of a group; the group may be SO(2) or O(3).

    Groups of the plane are subgroups of SO(3) and O(3) about z.

    >>> from steerable import cyclic, so2, so3
    >>> embedding(cyclic(2), cyclic(4))("r"), embedding(cyclic(8), so2())("r"), embedding(cyclic(8), so3())("r")
    ('r2', rotation(45), rotation((0, 0, 1), 45))
    """
    if subgroup == group:
        return lambda element: element
    if not isinstance(group, CompactGroup):
        return inclusion(subgroup, group)
    group.trivial.restrict(subgroup)  # refuses what is not a subgroup
    return lambda element: group.element(group.embedded(subgroup.motion(element)))  # type: ignore[arg-type]
