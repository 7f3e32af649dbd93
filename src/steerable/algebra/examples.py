"""The parts of a group to show: all of a finite one, the first capsules and some elements of SO(2) or SO(3)."""

from __future__ import annotations

from collections.abc import Mapping

from steerable.algebra.capsules import Capsule, capsule_by_name
from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.planar_groups import PlanarGroup

__all__ = ["capsules_to_show", "elements_to_show"]

_ANGLES = (0, 30, 45, 60, 90, 135, 180, 270)
_MIRRORS = (0, 30, 45, 90)


def capsules_to_show(group: Group) -> Mapping[str, Capsule]:
    """The capsules of a finite group by their names, and the first ones of an infinite group.

    >>> from steerable import so2
    >>> list(capsules_to_show(so2()))
    ['A', 'E1', 'E2', 'E3', 'regular(1)', 'regular(2)']
    """
    if not isinstance(group, CompactGroup):
        return group.capsules
    irreps = [group.wave_numbered(number).name(group) for number in range(4)]
    functions = ["regular(1)", "regular(2)"]
    if not isinstance(group, PlanarGroup):
        functions += ["sphere(1)", "sphere(2)"]
    elif group.reflections:
        functions += ["qm(1)", "qm(2)"]
    return {name: capsule_by_name(group, name) for name in [*irreps, *functions]}


def elements_to_show(group: Group) -> Mapping[str, Element]:
    """The elements of a finite group by their names; for SO(2) and O(2), some rotations and reflections.

    >>> from steerable import so2
    >>> list(elements_to_show(so2()))[:3]
    ['rotation(0)', 'rotation(30)', 'rotation(45)']
    """
    if isinstance(group, FiniteGroup):
        return {name: name for name in group.elements}
    if not isinstance(group, PlanarGroup):
        return {str(element): element for element in group.grid_elements}
    elements = [group.rotation(angle) for angle in _ANGLES]
    elements += [group.reflection(angle) for angle in _MIRRORS] if group.reflections else []
    return {str(element): element for element in elements}
