"""Functions on SO(2) and O(2), and on their cosets, up to a frequency: the band-limited regular and quotient capsules.

``regular(3)`` holds the functions on the group up to frequency 3. ``qC4(8)`` and ``qD4(8)`` hold those on the left
cosets of C_4 and D_4, and ``qm(3)`` those on the cosets of {e, m}, which are the points of the circle. In O(2), ``r``
holds all functions on the two cosets of SO(2).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import final

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_groups import AnyWave, CompactGroup
from steerable.algebra.group_functions import GroupFunctions
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.recognition import rotation_structure
from steerable.algebra.waves import Wave, checked_frequency

__all__ = ["FunctionSpace"]


@final
@dataclass(frozen=True)
class FunctionSpace(GroupFunctions):
    """Functions on the left cosets gK up to a frequency; [ρ(a)f](gK) = f(a⁻¹gK). An orthonormal basis gives ρ.

    K is C_n, or with ``mirrors`` D_n, which contains m. Only multiples of n occur as frequencies, since functions on
    cosets do not change under K. With K = C_1 these are the functions on the group itself.

    >>> from steerable import o2
    >>> circle = FunctionSpace(o2(), 3, mirrors=True)
    >>> circle.name, circle.representation.type, circle.representation.dim
    ('qm(3)', (1, 0, 1, 1, 1), 7)
    """

    group: CompactGroup
    frequency: int
    n: int = 1
    mirrors: bool = False

    def __post_init__(self) -> None:
        checked_frequency(self.frequency)
        if self.mirrors and not self.group.reflections:
            raise ValueError(
                f"D{self.n} is not a subgroup of {self.group.name}, which has no reflections, so that it has no "
                f"capsule `{self.name}`. Use the cosets of C_n, as in `qC4(8)`, or o2()."
            )

    @staticmethod
    def on_cosets(group: CompactGroup, subgroup: Group, frequency: int) -> FunctionSpace:
        """The functions on the cosets of a finite subgroup that is C_n, or D_n with m in it."""
        structure = rotation_structure(subgroup) if isinstance(subgroup, FiniteGroup) and subgroup.axes == 2 else None
        if structure is None or not isinstance(subgroup, FiniteGroup) or not subgroup.acts_faithfully:
            raise ValueError(
                f"functions on cosets of {group.name} are those of cyclic(n), or of dihedral(n) in o2(); got "
                f"{subgroup.name if isinstance(subgroup, Group) else repr(subgroup)}."
            )
        if structure.has_mirrors:
            subgroup.reflection(0)  # refused where m is not among its reflections
        return FunctionSpace(group, frequency, structure.n, structure.has_mirrors)

    @staticmethod
    def named(group: CompactGroup, name: str) -> FunctionSpace | None:
        match = re.fullmatch(r"(regular|qm|q([CD])([1-9]\d*))\((\d+)\)", name)
        if match is None:
            return None
        return FunctionSpace(group, int(match[4]), int(match[3] or 1), match[1] == "qm" or match[2] == "D")

    @property
    def name(self) -> str:
        """How the capsule is written in a field type."""
        if self.n == 1:
            return f"qm({self.frequency})" if self.mirrors else f"regular({self.frequency})"
        return f"q{'D' if self.mirrors else 'C'}{self.n}({self.frequency})"

    @property
    def _parts(self) -> list[tuple[AnyWave, FloatArray]]:
        """Each irrep with the values of its basis functions √d φ(g)ᵢⱼ at e, where K leaves vector j unchanged."""
        both = self.group.reflections and not self.mirrors
        parts: list[tuple[AnyWave, FloatArray]] = [(Wave(0), np.ones(1))]
        parts += [(Wave(0, odd=True), np.ones(1))] if both else []
        for k in range(self.n, self.frequency + 1, self.n):
            parts += [(Wave(k), math.sqrt(2) * np.eye(2)[j]) for j in ((0, 1) if both else (1,))]
        return parts
