"""What functions on a compact group and on its cosets have in common: a representation, and their values.

By the theorem of Peter and Weyl, the entries √d φ(g)ᵢⱼ of the irreps are an orthonormal basis of the functions on a
group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_groups import AnyWave, CompactGroup
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.group_interface import Element
from steerable.algebra.monomials import Monomial

__all__ = ["GroupFunctions"]


class GroupFunctions(ABC):
    """Functions on the left cosets gK up to a frequency or degree; [ρ(a)f](gK) = f(a⁻¹gK), in an orthonormal basis."""

    group: CompactGroup

    @staticmethod
    @abstractmethod
    def named(group: Any, name: str) -> GroupFunctions | None:
        """The space that a capsule's name such as ``regular(3)`` stands for; None where it is not such a name."""

    @classmethod
    def representation_named(cls, group: CompactGroup, name: str) -> CompactRepresentation | None:
        """The representation by functions that a capsule's name stands for, or None where it is not such a name."""
        if name == "r" and group.reflections:
            return _functions_on_orientations(group)
        space = cls.named(group, name)
        return None if space is None else space.representation

    @property
    @abstractmethod
    def name(self) -> str:
        """How the capsule is written in a field type."""

    @property
    @abstractmethod
    def _parts(self) -> list[tuple[AnyWave, FloatArray]]:
        """Each irrep with the values of its basis functions at K."""

    @cached_property
    def representation(self) -> CompactRepresentation:
        """The irreps in order; each occurs as often as K leaves vectors of it unchanged."""
        return CompactRepresentation(self.group, [wave for wave, _ in self._parts], name=self.name)

    @cached_property
    def at_base_point(self) -> FloatArray:
        """(dim,): the linear map that takes the coefficients of a function f to its value f(K)."""
        return np.concatenate([values for _, values in self._parts])

    def values(self, elements: Iterable[Element]) -> FloatArray:
        """(number of elements, dim): the matrix that takes the coefficients of a function f to its values f(gK).

        >>> from steerable import so2
        >>> from steerable.algebra.function_spaces import FunctionSpace
        >>> G = so2()
        >>> FunctionSpace(G, 1).values([G.rotation(0), G.rotation(90)]).round(3).tolist()
        [[1.0, 0.0, 1.414], [1.0, -1.414, 0.0]]
        """
        rho = self.representation
        return np.array([self.at_base_point @ rho(self.group.inverse(g)) for g in elements]).reshape(-1, rho.dim)


def _functions_on_orientations(group: CompactGroup) -> CompactRepresentation:
    """The functions on the two cosets of the rotations, which reflections exchange: the capsule ``r``."""
    turns = len(group.generators) - 1
    swap = Monomial(np.array([*[[0, 1]] * turns, [1, 0]], dtype=np.intp), np.ones((turns + 1, 2)))
    return CompactRepresentation._of(group, monomial=swap, name="r")
