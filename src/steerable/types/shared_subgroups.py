"""Subgroups by name or by elements, and the intersection of two subgroups of one group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.families import group_named, trivial
from steerable.algebra.generation import group_from_matrices
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.homomorphisms import inclusion
from steerable.algebra.lines_in_space import axis_in
from steerable.algebra.metrics import TOLERANCE
from steerable.algebra.motions_in_space import axis_and_angle
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.space_families import about_axis

__all__ = ["shared_subgroup", "subgroup_of"]


def subgroup_of(group: Group, subgroup: Iterable[str] | Group) -> Group:
    """A subgroup that is given as a group, by its name such as ``"C4"``, or by its elements.

    >>> from steerable import dihedral
    >>> subgroup_of(dihedral(8), "C4").name, subgroup_of(dihedral(8), ["e", "m"]).order
    ('C4', 2)

    A group of the plane is a subgroup of a group of space as it moves space about the axis that the larger group has,
    otherwise about z, or, if that is not a subgroup, about another axis of the larger group:

    >>> from steerable import about_axis, octahedral, so2, so3
    >>> subgroup_of(octahedral(), "C4").name, subgroup_of(octahedral(), "D4").name, subgroup_of(so3(), "SO2").name
    ('C4 about z', 'D4 about z with flips', 'SO2 about z')
    >>> subgroup_of(about_axis(so2(), "x"), "C4").name, subgroup_of(octahedral(), "C3").name
    ('C4 about x', 'C3 about (1, 1, 1)')
    """
    if isinstance(subgroup, str):
        subgroup = group_named(subgroup)
    if not isinstance(subgroup, Group):
        return group.subgroup(subgroup)
    if isinstance(subgroup, FiniteGroup | PlanarGroup) and (group.axes, subgroup.axes) == (3, 2):
        moved = [about_axis(subgroup, axis, flips=flips) for axis in _axes(group) for flips in (False, True)]
        subgroup = next((h for h in moved if _has_subgroup(group, h)), moved[0])
    group.trivial.restrict(subgroup)  # raises ValueError with the reason where it is not a subgroup
    return subgroup


def _axes(group: Group) -> list[ArrayLike]:
    """The axes about which a group of space turns: its own one, or z and then others, those of small turns first."""
    if isinstance(group, PlanarGroup) and group.line is not None:
        return [axis_in(group.line.label)]
    if not isinstance(group, FiniteGroup) or group.action is None:
        return ["z"]
    turns = [g for g in np.argsort(-group.element_orders, kind="stable") if np.linalg.det(group.action[g]) > 0]
    found = [axis_and_angle(group.action[g])[0] for g in turns]
    return ["z", *dict.fromkeys(tuple((np.round(axis / np.abs(axis).max(), 12) + 0.0).tolist()) for axis in found)]


def _has_subgroup(group: Group, subgroup: Group) -> bool:
    try:
        group.trivial.restrict(subgroup)
    except ValueError:
        return False
    return True


def shared_subgroup(subgroup: Group, other: Group, group: Group) -> Group:
    """H ∩ K for two subgroups H and K of one group; it is H or K itself if one lies in the other.

    >>> from steerable import cyclic, dihedral, o2, so2
    >>> shared_subgroup(cyclic(4), dihedral(2), dihedral(8)).elements
    ('e', 'r')
    >>> shared_subgroup(so2(), dihedral(8), o2()).order
    8

    Two infinite groups about different axes share a few elements at most:

    >>> from steerable import about_axis, so3
    >>> shared_subgroup(about_axis(so2()), about_axis(o2(), "x", flips=True), so3()).order
    2
    """
    if group in (subgroup, other):
        return other if group == subgroup else subgroup
    if not isinstance(other, FiniteGroup):
        finite = isinstance(subgroup, FiniteGroup)
        return shared_subgroup(other, subgroup, group) if finite else _shared_by_infinite(subgroup, other, group)
    if isinstance(group, FiniteGroup):
        inside = set(inclusion(subgroup, group).images)
        shared = [g for g, image in zip(other.elements, inclusion(other, group).images, strict=True) if image in inside]
    else:
        moves = () if other.action is None else other.action
        shared = [g for g, move in zip(other.elements, moves, strict=True) if _moves_by(subgroup, move)]
    if isinstance(subgroup, FiniteGroup) and len(shared) == subgroup.order:
        return subgroup
    if len(shared) == 1 and other.axes == 2:
        return trivial()
    return other if len(shared) == other.order else other.subgroup(shared)


def _shared_by_infinite(subgroup: Group, other: Group, group: Group) -> Group:
    """The same if H and K have infinitely many elements: each turns about one axis, or is SO(3) inside O(3)."""
    subgroup, other = subgroup_of(group, subgroup), subgroup_of(group, other)
    if subgroup == other:
        return subgroup
    about = [k for k in (subgroup, other) if isinstance(k, PlanarGroup)]
    mirrors = [k.reflections and not (k.line and k.line.flips) for k in about]
    if len(about) == 1:  # the other one is SO(3), which has everything but mirrors
        return _rotations(about[0]) if mirrors[0] else about[0]
    a, b = (np.array((0.0, 0.0, 1.0) if k.line is None else k.line.direction) for k in about)
    across = np.cross(a, b)
    if np.linalg.norm(across) <= TOLERANCE:
        turning = [k for k in about if not k.reflections]
        return turning[0] if turning else about[0] if mirrors[0] == mirrors[1] else _rotations(about[0])
    # Half turns about either axis, and what keeps both axes: a half turn or a mirror across the two.
    across /= np.linalg.norm(across)
    half_turns = {name: 2 * np.outer(v, v) - np.eye(3) for name, v in (("h", a), ("k", b), ("l", across))}
    moves = {**half_turns, "m": np.eye(3) - 2 * np.outer(across, across)}
    shared = {name: move for name, move in moves.items() if _moves_by(subgroup, move) and _moves_by(other, move)}
    return group_from_matrices(shared) if shared else about_axis(trivial(), "z")


def _rotations(group: PlanarGroup) -> PlanarGroup:
    return PlanarGroup(reflections=False, line=None if group.line is None else replace(group.line, flips=False))


def _moves_by(group: Group, move: FloatArray) -> bool:
    """Whether some element of a group moves the plane, or space, by this matrix."""
    if isinstance(group, CompactGroup):
        try:
            group.element(move)
        except ValueError:
            return False
        return True
    return group.action is not None and bool((np.abs(group.action - move).max(axis=(1, 2)) <= TOLERANCE).any())
