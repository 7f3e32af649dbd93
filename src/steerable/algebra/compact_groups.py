"""The common base of groups with infinitely many elements: SO(2), O(2), SO(3) and O(3).

Each has countably many real irreps, which are numbered; a *wave* is the label of one of them. A group says what its
waves are called and how their products decompose. Everything else follows: representations, characters, intertwiners.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.group_interface import LISTS, Element, Group

if TYPE_CHECKING:
    from steerable.algebra.compact_representations import CompactRepresentation
    from steerable.algebra.irreps import Irrep
    from steerable.algebra.representations import Representation

__all__ = ["GOLDEN_ANGLE", "AnyWave", "CompactGroup"]

GOLDEN_ANGLE = 180 * (3 - math.sqrt(5))
"""In degrees. None of its multiples comes close to a whole turn, so that turns by it fill a group evenly."""


class AnyWave(Protocol):
    """The label of a real irrep: `Wave`, by frequency in the plane, or `SphericalWave`, by degree in space."""

    def __hash__(self) -> int: ...
    @property
    def dim(self) -> int: ...
    def at(self, element: Any) -> FloatArray:
        """(dim, dim): the matrix of an element."""

    def character(self, element: Any) -> float:
        """The trace of that matrix."""

    def number(self, group: Any) -> int:
        """Its place among the irreps of the group, the trivial one first."""

    def name(self, group: Any) -> str:
        """The name of the irrep."""

    def commutant(self, group: Any) -> FloatArray:
        """(s, dim, dim): an orthonormal basis of the matrices that commute with the irrep."""


class CompactGroup(Group):
    """A compact group with infinitely many elements, which move the plane or space; with or without reflections."""

    reflections: bool
    _element: type[Any]
    _coordinates: int
    """The class of its elements, and the size of their matrices: 2 too where the group turns space about a line."""
    _irrep_example: str
    _element_examples: tuple[str, str]
    subgroups_in_words: str
    finite_example: str
    """A finite subgroup, as one writes it."""

    # ---------------------------------------------------------------- elements

    @property
    def identity(self) -> Element:
        return self.multiply()

    def multiply(self, *factors: Element) -> Element:
        for factor in factors:
            self.check_element(factor)
        return self._moving_by(reduce(np.matmul, (factor.matrix for factor in factors), np.eye(self._coordinates)))

    def inverse(self, element: Element) -> Element:
        self.check_element(element)
        return self._moving_by(element.matrix.T)

    def __contains__(self, element: object) -> bool:
        return isinstance(element, self._element) and element.group == self

    def check_element(self, element: Element) -> None:
        """Raise TypeError unless this is an element of the group."""
        if element in self:
            return
        rotation, reflection = self._element_examples
        mirrors = f" or {self.name}.{reflection}" if self.reflections else ""
        of_another = f" of {element.group.name}" if isinstance(getattr(element, "group", None), Group) else ""
        how = "angle" if rotation == "rotation(30)" else "axis and angle"
        raise TypeError(
            f"`{element}`{of_another} is not an element of {self.name}, whose elements are given by {how}: write "
            f"{self.name}.{rotation}{mirrors}, or {self.name}.element(matrix) for an element of another group."
        )

    @abstractmethod
    def embedded(self, motions: FloatArray) -> FloatArray | None:
        """(…, axes, axes): motions of the plane or space as motions of this group's space; None if they are none."""

    # ---------------------------------------------------------------- irreps

    @abstractmethod
    def wave_named(self, name: str) -> AnyWave | None:
        """The irrep of that name, or None."""

    @abstractmethod
    def wave_numbered(self, number: int) -> AnyWave:
        """The irrep at that place; number 0 is the trivial one, and 1, with reflections, is -1 at each of them."""

    @abstractmethod
    def has_subgroup(self, other: CompactGroup) -> bool:
        """Whether the other group moves the plane or space as a part of this one does."""

    @abstractmethod
    def seen_by(self, subgroup: CompactGroup, wave: Any) -> tuple[tuple[AnyWave, ...], FloatArray | None]:
        """(parts, B) for a subgroup: B⁻¹φB is the direct sum of the parts there; None stands for the identity."""

    @abstractmethod
    def clebsch_gordan(self, a: Any, b: Any) -> tuple[tuple[AnyWave, ...], FloatArray]:
        """(parts, C) with C orthogonal and C⁻¹ (a ⊗ b) C the direct sum of the parts."""

    def product_parts(self, a: Any, b: Any) -> tuple[AnyWave, ...]:
        """The irreps whose sum is a ⊗ b, in the order of ``clebsch_gordan``."""
        return self.clebsch_gordan(a, b)[0]

    @property
    def irreps(self) -> tuple[Irrep, ...]:
        return self.__getattr__("irreps")

    def irrep(self, name: str) -> Irrep:
        from steerable.algebra.compact_irreps import compact_irrep

        return compact_irrep(self, name)

    def irreps_of(self, kind: tuple[int, ...]) -> tuple[Irrep, ...]:
        from steerable.algebra.compact_irreps import first_irreps

        return first_irreps(self, len(kind))

    # ---------------------------------------------------------------- functions on the group and on its cosets

    @abstractmethod
    def functions_named(self, name: str) -> CompactRepresentation | None:
        """The representation on functions for a capsule's name such as ``regular(3)``, or None."""

    @property
    @abstractmethod
    def capsules_in_words(self) -> str:
        """The group's capsules, as the end of a message."""

    @abstractmethod
    def regular(self, highest: int) -> Representation:
        """The action on functions on the group up to a frequency or degree; as a capsule it is ``regular(3)``."""

    # ---------------------------------------------------------------- value semantics

    @cached_property
    def digest(self) -> bytes:
        return self.name.encode()

    def __reduce__(self) -> tuple[object, ...]:
        kind: Callable[..., CompactGroup] = type(self)
        return partial(kind, reflections=self.reflections), ()

    def __repr__(self) -> str:
        space = "the plane" if self.axes == 2 else "space"
        return f"<{self.name}, all rotations{' and reflections' if self.reflections else ''} of {space}>"

    def __getattr__(self, name: str) -> NoReturn:
        if name == "irreps":
            what = "list of irreps"
            remedy = f"Name one, as in irrep('{self._irrep_example}'), or ask for the first few with irreps_of(kind)."
        elif name in LISTS:
            what = f"`{name}`"
            elements = f"elements such as {self._element_examples[0]} or random(5)"
            remedy = f"Work with {elements}, or restrict to {self.finite_example}."
        else:
            raise AttributeError(f"{self.name} has no attribute `{name}`.")
        raise _InfiniteGroupError(f"{self.name} has infinitely many elements and irreps, so it has no {what}. {remedy}")


class _InfiniteGroupError(TypeError, AttributeError):
    """Only finite groups have this: an infinite group is of the wrong type, and ``hasattr`` is False."""
