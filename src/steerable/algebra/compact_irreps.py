"""The irreps of SO(2), O(2), SO(3) and O(3), by name and in order."""

from __future__ import annotations

from functools import lru_cache
from typing import final

from steerable.algebra.compact_groups import AnyWave, CompactGroup
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.irreps import Irrep
from steerable.algebra.planar_groups import PlanarGroup
from steerable.errors import expect

__all__ = ["CompactIrrep", "compact_irrep", "first_irreps"]


@final
class CompactIrrep(CompactRepresentation, Irrep):
    """A real irrep of a compact group."""

    def __init__(self, group: CompactGroup, wave: AnyWave) -> None:
        CompactRepresentation.__init__(self, group, [wave], name=wave.name(group))
        self.commutant_dim = len(wave.commutant(group))


@lru_cache(maxsize=4096)
def _irrep(group: CompactGroup, wave: AnyWave) -> CompactIrrep:
    return CompactIrrep(group, wave)


def compact_irrep(group: CompactGroup, name: str) -> CompactIrrep:
    """The irrep of that name: A, E1, E2 … of SO(2), A1, A2, E1, E2 … of O(2), L0, L1 … of SO(3), L0e, L0o … of O(3)."""
    expect(name, str, "the name of an irrep, such as 'E2'")
    wave = group.wave_named(name)
    if wave is None:
        known = ", ".join(f"`{irrep}`" for irrep in first_irreps(group, 4))
        planar = isinstance(group, PlanarGroup)
        per = "frequency" if planar else "degree"
        count = "two per degree, even and odd" if group.reflections and not planar else f"one per {per}"
        raise ValueError(f"{group.name} has no irrep `{name}`. Its irreps are {known} and so on, {count}.")
    return _irrep(group, wave)


def first_irreps(group: CompactGroup, count: int) -> tuple[CompactIrrep, ...]:
    """The irreps of the lowest frequencies or degrees, the trivial one first."""
    return tuple(_irrep(group, group.wave_numbered(number)) for number in range(count))
