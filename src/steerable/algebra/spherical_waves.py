"""The irreps of SO(3) and O(3) by degree: their names, their matrices, and the irreps in their products.

The irrep of degree ℓ has 2ℓ + 1 channels, the coefficients of the real spherical harmonics of that degree. ``L1`` is
the rotation matrix itself, in the coordinates x, y, z. In O(3) every degree occurs twice: the inversion x ↦ -x is 1 for
the even one (``L1e``) and -1 for the odd one (``L1o``). The harmonics of degree ℓ have the parity (-1)^ℓ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from steerable.algebra.actions import turn
from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.group_interface import Element
from steerable.algebra.spherical_harmonics import orders
from steerable.algebra.waves import Wave
from steerable.algebra.wigner_matrices import wigner_matrix

__all__ = ["SphericalWave", "parts_about_z", "product_parts"]


@final
@dataclass(frozen=True, order=True)
class SphericalWave:
    """One irrep: its degree, and in O(3) whether the inversion acts as -1."""

    degree: int
    odd: bool = False

    @property
    def dim(self) -> int:
        return 2 * self.degree + 1

    def at(self, element: Element) -> FloatArray:
        """(dim, dim): the matrix of an element."""
        return wigner_matrix(self.degree, element.rotation) * (-1.0 if self.odd and element.mirrored else 1.0)

    def character(self, element: Element) -> float:
        """sin((2ℓ+1)θ/2) / sin(θ/2) = 1 + 2 Σ cos kθ at a rotation by θ."""
        angle = math.radians(element.angle)
        trace = 1 + 2 * sum(math.cos(k * angle) for k in range(1, self.degree + 1))
        return -trace if self.odd and element.mirrored else trace

    def number(self, group: CompactGroup) -> int:
        """Its place among the irreps of the group: L0, L1 … of SO(3), and L0e, L0o, L1e, L1o … of O(3)."""
        return 2 * self.degree + self.odd if group.reflections else self.degree

    def name(self, group: CompactGroup) -> str:
        return f"L{self.degree}{('o' if self.odd else 'e') if group.reflections else ''}"

    def commutant(self, group: CompactGroup) -> FloatArray:
        """(1, dim, dim): only multiples of the identity commute with the irrep."""
        return np.eye(self.dim)[None] / math.sqrt(self.dim)


def product_parts(a: SphericalWave, b: SphericalWave) -> tuple[SphericalWave, ...]:
    """The irreps in a ⊗ b: each degree from |a - b| to a + b once, with the product of the parities.

    >>> [wave.degree for wave in product_parts(SphericalWave(1), SphericalWave(2))]
    [1, 2, 3]
    """
    degrees = range(abs(a.degree - b.degree), a.degree + b.degree + 1)
    return tuple(SphericalWave(degree, odd=a.odd != b.odd) for degree in degrees)


def parts_about_z(wave: SphericalWave, mirror: Element | None) -> tuple[tuple[Wave, ...], FloatArray]:
    """(parts, B): the irreps of SO(2), or with a mirror of O(2), in a spherical wave, and the basis that shows them.

    Under a rotation about z by θ the harmonics with cos mφ and sin mφ turn by mθ. The mirror, x ↦ -x, is ±1 on each of
    them, and E_m has it be -1 on the first basis vector.
    """
    place = {int(m): k for k, m in enumerate(orders(wave.degree))}
    signs = np.ones(wave.dim) if mirror is None else np.round(wave.at(mirror).diagonal())
    parts, basis = [Wave(0, odd=bool(signs[place[0]] < 0))], np.zeros((wave.dim, wave.dim))
    basis[place[0], 0] = 1
    for m in range(1, wave.degree + 1):
        parts.append(Wave(m))
        aligned = mirror is None or signs[place[m]] < 0
        basis[[place[m], place[-m]], 2 * m - 1 : 2 * m + 1] = np.eye(2) if aligned else turn(90)
    return tuple(parts), basis
