"""The irreps of SO(2) and O(2) by frequency: their names, their matrices, and the irreps in their products.

The irrep of frequency k turns by kθ where the plane turns by θ, and m is diag(-1, 1), as in C_n and D_n. Its basis
vectors transform as -sin kψ and cos kψ do, where ψ is the angle from the upward direction, counter-clockwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from steerable.algebra.actions import turn
from steerable.algebra.arrays import FloatArray, whole_number_up_to
from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.group_interface import Element

__all__ = ["Wave", "checked_frequency", "clebsch_gordan"]

_HIGHEST = 1000  # at higher frequencies, angles in degrees no longer determine a matrix to rounding error


@final
@dataclass(frozen=True, order=True)
class Wave:
    """One irrep: its frequency, and whether it is the one of frequency 0 that reflections multiply by -1."""

    frequency: int
    odd: bool = False

    @property
    def dim(self) -> int:
        return 2 if self.frequency else 1

    def at(self, element: Element) -> FloatArray:
        """(dim, dim): the matrix of an element."""
        if self.frequency:
            return turn(self.frequency * element.angle, mirrored=element.mirrored)
        return np.array([[-1.0 if self.odd and element.mirrored else 1.0]])

    def character(self, element: Element) -> float:
        """The trace of that matrix: 2 cos kθ at a rotation by θ, and 0 at a reflection."""
        if not self.frequency:
            return -1.0 if self.odd and element.mirrored else 1.0
        return 0.0 if element.mirrored else 2 * math.cos(math.radians(self.frequency * element.angle))

    def number(self, group: CompactGroup) -> int:
        """Its place among the irreps of the group: A, E1, E2 … of SO(2), and A1, A2, E1, E2 … of O(2)."""
        return self.frequency + (1 if group.reflections and (self.odd or self.frequency) else 0)

    def name(self, group: CompactGroup) -> str:
        if self.frequency:
            return f"E{self.frequency}"
        return ("A2" if self.odd else "A1") if group.reflections else "A"

    def commutant(self, group: CompactGroup) -> FloatArray:
        """(s, dim, dim): an orthonormal basis of the matrices that commute with the irrep; s is 2 for E_k of SO(2)."""
        if not self.frequency:
            return np.ones((1, 1, 1))
        quarter = [] if group.reflections else [turn(90)]
        return np.stack([np.eye(2), *quarter]) / math.sqrt(2)


def checked_frequency(value: int) -> int:
    """A frequency; an error unless it is a whole number from 0 to 1000."""
    return whole_number_up_to(_HIGHEST, value, "a frequency")


def clebsch_gordan(group: CompactGroup, a: Wave, b: Wave) -> tuple[tuple[Wave, ...], FloatArray]:
    """(parts, C) with C orthogonal and C⁻¹ (a ⊗ b) C the direct sum of the parts.

    With c = cos and s = sin, cc ± ss and sc ∓ cs are the waves of the difference and the sum of two frequencies; c is
    the second basis vector of an irrep, and -s the first.

    >>> from steerable import o2
    >>> [wave.name(o2()) for wave in clebsch_gordan(o2(), Wave(3), Wave(2))[0]]
    ['E1', 'E5']
    """
    odd = group.reflections and a.odd != b.odd
    if not (a.frequency and b.frequency):
        total = Wave(a.frequency + b.frequency, odd=odd and not (a.frequency or b.frequency))
        # -1 times E_k(m) is E_k(m) in a basis that is turned by 90°.
        return (total,), turn(90) if odd and total.frequency else np.eye(total.dim)
    sign = 1.0 if a.frequency >= b.frequency else -1.0
    # Rows: s⊗s, -s⊗c, c⊗-s, c⊗c. Columns: -s and c of the difference, then of the sum.
    columns = np.array([[0, 1, 0, -1], [sign, 0, 1, 0], [-sign, 0, 1, 0], [0, 1, 0, 1]]) / math.sqrt(2)
    total = Wave(a.frequency + b.frequency)
    if a.frequency != b.frequency:
        return (Wave(abs(a.frequency - b.frequency)), total), columns
    # cc + ss is even and first; sc - cs is odd.
    return (Wave(0), Wave(0, odd=group.reflections), total), columns[:, [1, 0, 2, 3]]
