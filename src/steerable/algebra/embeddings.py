"""Which element of a group an element of a subgroup is, for finite groups and for those that turn by any angle."""

from __future__ import annotations

from collections.abc import Callable

from steerable.algebra.group_interface import Element, Group
from steerable.algebra.homomorphisms import inclusion
from steerable.algebra.planar_groups import PlanarGroup

__all__ = ["embedding"]


def embedding(subgroup: Group, group: Group) -> Callable[[Element], Element]:
    """The map that says which element of a group each element of a subgroup is; the group may be SO(2) or O(2).

    >>> from steerable import cyclic, so2
    >>> embedding(cyclic(2), cyclic(4))("r"), embedding(cyclic(8), so2())("r")
    ('r2', rotation(45))
    """
    if subgroup == group:
        return lambda element: element
    if not isinstance(group, PlanarGroup):
        return inclusion(subgroup, group)
    if subgroup.axes != 2:
        raise ValueError(
            f"{subgroup.name} is not recognised as a subgroup of {group.name}: it does not move the plane. Use "
            "cyclic(n), dihedral(n) or another group of the plane."
        )
    return lambda element: group.moving_by(subgroup.motion(element))  # type: ignore[arg-type]
