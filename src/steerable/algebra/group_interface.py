"""The interface of all groups: finite ones, whose elements have names, and those that turn by any angle.

A finite group also has lists (``elements``, ``table``, ``irreps``). The others refuse to give these, with a message
that says what to do instead; code that works for every group uses only what this class declares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.actions import checked_degrees, checked_motion
from steerable.algebra.arrays import FloatArray, IntArray, is_whole
from steerable.algebra.motions_in_space import reflection_matrix, rotation_matrix
from steerable.errors import shown

if TYPE_CHECKING:
    from steerable.algebra.capsules import Capsule
    from steerable.algebra.groups import FiniteGroup
    from steerable.algebra.irreps import Irrep

__all__ = ["LISTS", "Element", "Group"]

Element = Any
"""An element of a group: a name such as ``"mr2"`` in a finite group, ``G.rotation(30)`` in SO(2) and O(2), and
``G.rotation((0, 0, 1), 30)`` in SO(3) and O(3)."""


LISTS = (
    *("elements", "order", "table", "action", "inverses", "identity_index", "index", "indices", "names"),
    *("subgroup", "subgroups", "coset_indices", "conjugacy_classes"),
)
"""What only finite groups have, because it lists elements."""


class Group(ABC):
    """A group with real irreps; the base of `FiniteGroup` and `CompactGroup`. Immutable; compared by content."""

    name: str

    if TYPE_CHECKING:  # what finite groups list, and what the others refuse to
        elements: tuple[str, ...]
        order: int
        table: IntArray
        action: FloatArray | None

        @property
        def inverses(self) -> IntArray: ...
        @property
        def identity_index(self) -> int: ...
        def index(self, element: str) -> int: ...
        def indices(self, elements: Iterable[str]) -> IntArray: ...
        def names(self, indices: Iterable[int]) -> tuple[str, ...]: ...
        def subgroup(self, elements: Iterable[str]) -> FiniteGroup: ...
        def subgroups(self, *, up_to_conjugacy: bool = False) -> tuple[tuple[str, ...], ...]: ...
        def coset_indices(self, subgroup: Iterable[str], *, side: str = "left") -> IntArray: ...
        def conjugacy_classes(self) -> tuple[tuple[str, ...], ...]: ...

    # ---------------------------------------------------------------- elements

    @property
    @abstractmethod
    def identity(self) -> Element:
        """The element that changes nothing."""

    @property
    @abstractmethod
    def generators(self) -> tuple[Element, ...]:
        """A small set of elements that generates the group, or comes arbitrarily close to each of its elements."""

    @abstractmethod
    def multiply(self, *factors: Element) -> Element:
        """The product of any number of elements; the rightmost acts first."""

    @abstractmethod
    def inverse(self, element: Element) -> Element:
        """The element that undoes this one."""

    def random(self, count: int, *, seed: int | None = None) -> tuple[Element, ...]:
        """Elements drawn independently and uniformly; a seed always gives the same ones.

        >>> from steerable import dihedral, so2
        >>> dihedral(4).random(3, seed=0)
        ('mr2', 'mr', 'm')
        >>> so2().random(2, seed=0)
        (rotation(229.306), rotation(97.1232))
        """
        if not is_whole(count) or count < 0:
            raise ValueError(f"the number of random elements must be a whole number ≥ 0; got {count!r}.")
        try:
            generator = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise ValueError(
                f"a seed must be a whole number ≥ 0, or None for other elements each time; got {shown(seed)}."
            ) from None
        return self._drawn(int(count), generator)

    @abstractmethod
    def _drawn(self, count: int, generator: np.random.Generator) -> tuple[Element, ...]: ...

    # ---------------------------------------------------------------- how the group moves the plane

    @property
    @abstractmethod
    def axes(self) -> int | None:
        """2 for a group that moves the plane, 3 for one that moves space, None for an abstract group."""

    @abstractmethod
    def motion(self, element: Element) -> FloatArray | None:
        """An element's motion of the plane or space, an orthogonal matrix, x to the right and y up; None if abstract.

        >>> from steerable import dihedral, so2
        >>> dihedral(4).motion("m").astype(int).tolist(), so2().motion(so2().rotation(90)).astype(int).tolist()
        ([[-1, 0], [0, 1]], [[0, -1], [1, 0]])
        """

    @property
    @abstractmethod
    def grid_elements(self) -> tuple[Element, ...]:
        """The elements that map pixels onto pixels, or voxels onto voxels: C4 of SO(2) and C8, D4 of O(2) and D8.

        >>> from steerable import cyclic, so2
        >>> cyclic(8).grid_elements
        ('e', 'r2', 'r4', 'r6')
        >>> so2().grid_elements
        (rotation(0), rotation(90), rotation(180), rotation(270))
        """

    @property
    def keeps_grid(self) -> bool:
        """Whether every element maps pixels onto pixels, or voxels onto voxels."""
        return False

    @property
    def is_trivial(self) -> bool:
        """Whether the identity is the only element."""
        return False

    @abstractmethod
    def _turning_by(self, degrees: float, *, mirrored: bool = False) -> Element:
        """The rotation by that angle, or m after it; a ValueError if there is none, or more than one."""

    @abstractmethod
    def _moving_by(self, matrix: FloatArray) -> Element:
        """The element that moves the plane or space by an orthogonal matrix; a ValueError if there is none."""

    def element(self, matrix: ArrayLike) -> Element:
        """The element that moves the plane or space by this orthogonal matrix (x to the right, y up, z to the viewer).

        >>> from steerable import octahedral
        >>> octahedral().element([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
        'r'
        """
        return self._moving_by(checked_motion(self.name, self.axes, matrix))

    def rotation(self, axis: ArrayLike | None = None, degrees: float | None = None) -> Element:
        """The element that turns the plane counter-clockwise by this angle, or space about this axis.

        In the plane it is given by the angle alone. An axis is a vector such as ``(0, 0, 1)``, of any length, or
        ``"x"``, ``"y"`` or ``"z"``; where it points at the viewer the rotation is counter-clockwise.

        >>> from steerable import dihedral, octahedral, so2
        >>> dihedral(4).rotation(270), so2().rotation(30), octahedral().rotation((0, 0, 1), 90)
        ('r3', rotation(30), 'r')
        """
        if axis is None or degrees is None:
            return self._turning_by(checked_degrees(degrees if axis is None else axis))
        return self._moving_by(rotation_matrix(axis, checked_degrees(degrees)))

    def reflection(self, degrees: ArrayLike) -> Element:
        """The element that mirrors the plane in a line: the vertical one, turned counter-clockwise by this angle.

        ``reflection(0)`` mirrors left and right, ``reflection(90)`` up and down. In space a reflection is given by
        the normal of its plane: ``reflection((1, 0, 0))`` mirrors left and right.

        >>> from steerable import dihedral, o2, octahedral
        >>> dihedral(4).reflection(90), o2().reflection(10), octahedral(reflections=True).reflection((1, 0, 0))
        ('mr2', reflection(10), 'is2')
        """
        if np.ndim(degrees) or degrees in ("x", "y", "z"):
            return self._moving_by(reflection_matrix(degrees))
        return self._turning_by(-2 * checked_degrees(degrees), mirrored=True)

    # ---------------------------------------------------------------- what later modules compute for this group

    @property
    @abstractmethod
    def irreps(self) -> tuple[Irrep, ...]:
        """The real irreducible representations, the trivial one first."""

    @abstractmethod
    def irrep(self, name: str) -> Irrep:
        """The real irrep of that name, for instance ``G.irrep("E")``."""

    @abstractmethod
    def irreps_of(self, kind: tuple[int, ...]) -> tuple[Irrep, ...]:
        """The irreps that the entries of a type refer to: those that the multiplicities in ``rho.type`` count."""

    @property
    def trivial(self) -> Irrep:
        """Every element as the 1×1 identity; it is the first irrep."""
        return self.irreps_of((1,))[0]

    @property
    def capsules(self) -> dict[str, Capsule]:
        """The catalogue by name: irreps first, then quotients, the regular capsule first among them."""
        from steerable.algebra.capsules import catalogue

        return dict(catalogue(self))

    def capsule(self, name: str) -> Capsule:
        """The capsule of that name in the catalogue."""
        from steerable.algebra.capsules import capsule_by_name

        return capsule_by_name(self, name)

    # ---------------------------------------------------------------- value semantics

    @property
    @abstractmethod
    def digest(self) -> bytes:
        """A fingerprint of the group's content; equal groups have equal fingerprints."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)
