"""The irreps of SO(2) and O(2), by name and in order, and sums of them by frequency for every group of the plane."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import final

from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.irreps import Irrep
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.planar_representations import PlanarRepresentation
from steerable.algebra.representations import Representation
from steerable.algebra.waves import Wave, checked_frequency, wave_named, wave_numbered
from steerable.errors import expect

__all__ = ["PlanarIrrep", "circular_harmonics", "first_irreps", "planar_irrep"]


@final
class PlanarIrrep(PlanarRepresentation, Irrep):
    """A real irrep of SO(2) or O(2)."""

    def __init__(self, group: PlanarGroup, wave: Wave) -> None:
        PlanarRepresentation.__init__(self, group, [wave], name=wave.name(group))
        self.commutant_dim = len(wave.commutant(group))


@lru_cache(maxsize=4096)
def _irrep(group: PlanarGroup, wave: Wave) -> PlanarIrrep:
    return PlanarIrrep(group, wave)


def planar_irrep(group: PlanarGroup, name: str) -> PlanarIrrep:
    """The irrep of that name: A, E1, E2 … of SO(2), and A1, A2, E1, E2 … of O(2)."""
    expect(name, str, "the name of an irrep, such as 'E2'")
    wave = wave_named(group, name)
    if wave is None:
        known = ", ".join(f"`{irrep}`" for irrep in first_irreps(group, 4))
        raise ValueError(f"{group.name} has no irrep `{name}`. Its irreps are {known} and so on, one per frequency.")
    return _irrep(group, wave)


def first_irreps(group: PlanarGroup, count: int) -> tuple[PlanarIrrep, ...]:
    """The irreps of the lowest frequencies, the trivial one first."""
    return tuple(_irrep(group, wave_numbered(group, number)) for number in range(count))


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
    whole = PlanarRepresentation(PlanarGroup(reflections=True), [Wave(checked_frequency(k)) for k in frequencies])
    return whole.along(group) if isinstance(group, FiniteGroup) else whole.restrict(group)
