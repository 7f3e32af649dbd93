"""Sums of circular harmonics by frequency, for every group of the plane."""

from __future__ import annotations

from collections.abc import Iterable

from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.representations import Representation
from steerable.algebra.waves import Wave, checked_frequency
from steerable.errors import expect

__all__ = ["circular_harmonics"]


def circular_harmonics(group: Group, frequencies: Iterable[int]) -> Representation:
    """How a group turns waves cos kψ and sin kψ on the circle: the sum of the irreps of these frequencies of O(2).

    Args:
        group: SO(2), O(2), or a finite group that acts on the plane; elements may move it alike.
        frequencies: k of each part, in order. The part of frequency 0 is trivial. Each other one has two channels, the
            coefficients of -sin kψ and cos kψ, where ψ is the angle from the upward direction, counter-clockwise.

    >>> from steerable import cyclic, so2
    >>> circular_harmonics(so2(), [0, 1, 3]).type, circular_harmonics(cyclic(4), [0, 1, 3]).type
    ((1, 1, 0, 1), (1, 0, 2))
    """
    expect(group, Group, "a group that acts on the plane, such as cyclic(8) or o2()")
    whole = CompactRepresentation(PlanarGroup(reflections=True), [Wave(checked_frequency(k)) for k in frequencies])
    return whole.along(group) if isinstance(group, FiniteGroup) else whole.restrict(group)
