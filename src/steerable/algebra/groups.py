"""Finite groups: a multiplication table, and the action of the elements on the plane or space.

Irreps, representations and capsules are computed in modules that come after this one; a group offers its own
(``G.irreps``, ``G.regular``, ``G.capsules``) through accessors that import those modules on first use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.actions import checked_action, is_faithful, moved_like, on_grid, turn
from steerable.algebra.arrays import FloatArray, IntArray
from steerable.algebra.group_interface import Group
from steerable.algebra.subgroups import SubgroupLattice
from steerable.errors import expect

if TYPE_CHECKING:
    from steerable.algebra.homomorphisms import Homomorphism
    from steerable.algebra.irreps import Irrep
    from steerable.algebra.representations import Representation

__all__ = ["FiniteGroup", "finite_group"]


@final
class FiniteGroup(SubgroupLattice, Group):
    """A finite group given by its elements' names and its multiplication table.

    Args:
        elements: distinct names, one for each element.
        table: (order, order) integers; ``table[a, b]`` is the index of the product ab (a after b).
        action: (order, k, k) orthogonal matrices that say how each element moves the plane (k = 2; x to the right,
            y up) or space (k = 3), or None for an abstract group. It obeys ``action[ab] = action[a] @ action[b]``.
            Several elements may move it alike.
        name: the group's name in messages.

    >>> from steerable import dihedral
    >>> dihedral(4).multiply("r", "m")
    'mr3'
    """

    def __init__(
        self,
        elements: Sequence[str],
        table: ArrayLike,
        *,
        action: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(elements, table, name=name)
        self.action: FloatArray | None = None if action is None else checked_action(self, action)

    @cached_property
    def acts_faithfully(self) -> bool:
        """Whether every element but the identity moves some point of the plane or space."""
        return self.action is not None and is_faithful(self.action)

    @property
    def axes(self) -> int | None:
        return None if self.action is None else int(self.action.shape[1])

    def motion(self, element: str) -> FloatArray | None:
        g = self.index(element)
        return None if self.action is None else self.action[g]

    @cached_property
    def grid_elements(self) -> tuple[str, ...]:
        return () if self.action is None else self.names(np.flatnonzero(on_grid(self.action)))

    @property
    def keeps_grid(self) -> bool:
        return len(self.grid_elements) == self.order

    @property
    def is_trivial(self) -> bool:
        return self.order == 1

    def _turning_by(self, degrees: float, *, mirrored: bool = False) -> str:
        return moved_like(self, self.action, turn(degrees, mirrored=mirrored))

    def _moving_by(self, matrix: FloatArray) -> str:
        return moved_like(self, self.action, matrix)

    def _drawn(self, count: int, generator: np.random.Generator) -> tuple[str, ...]:
        return self.names(generator.integers(self.order, size=count))

    # ---------------------------------------------------------------- groups made from this one

    def subgroup(self, elements: Iterable[str]) -> FiniteGroup:
        """The subgroup with exactly these elements, as a group that moves the plane as this one does.

        Raises ValueError, naming the missing product, when the elements are not closed.
        """
        members = self.subgroup_indices(elements)
        position = np.full(self.order, -1, dtype=np.intp)
        position[members] = np.arange(len(members))
        names = self.names(members)
        return FiniteGroup(
            names,
            position[self.table[np.ix_(members, members)]],
            action=None if self.action is None else self.action[members],
            name=self.name if len(names) == self.order else f"{{{', '.join(names)}}} < {self.name}",
        )

    def direct_product(
        self, other: FiniteGroup, *, acting: Literal["first", "second"] | None = None, name: str | None = None
    ) -> FiniteGroup:
        """Pairs (a, b) with (a, b)(c, d) = (ac, bd).

        Args:
            other: the group of the second elements.
            acting: the factor that moves the plane or space; the other one leaves every pixel where it is and acts
                on channels alone. By default the product is abstract, since there is no single way for a
                product to act.
            name: what the product is called; by default after its factors.

        Contrast inversion in addition to rotations and reflections; an image of type ``sign`` changes its sign:

        >>> from steerable import Representation, cyclic, dihedral
        >>> G = cyclic(2).direct_product(dihedral(4), acting="second")
        >>> sign = Representation(G, {"(r,e)": [[-1]], "(e,r)": [[1]], "(e,m)": [[1]]}, name="sign")
        """
        expect(other, FiniteGroup, "the second factor, a finite group such as dihedral(4)")
        if acting not in (None, "first", "second"):
            raise ValueError(
                f"acting must be 'first', 'second' or None, the factor that moves the plane; got {acting!r}."
            )
        pairs = [(a, b) for a in self.elements for b in other.elements]
        names = ["e" if (a, b) == (self.identity, other.identity) else f"({a},{b})" for a, b in pairs]
        table = self.table[:, None, :, None] * other.order + other.table[None, :, None, :]
        size = self.order * other.order
        action = None
        if acting is not None:
            factor = self if acting == "first" else other
            if factor.action is None:
                raise ValueError(
                    f"acting={acting!r} names a factor that moves the plane or space, but {factor.name} is abstract."
                )
            first, second = np.divmod(np.arange(size), other.order)
            action = factor.action[first if acting == "first" else second]
        return FiniteGroup(names, table.reshape(size, size), action=action, name=name or f"{self.name} x {other.name}")

    def acting_through(self, homomorphism: Homomorphism, *, name: str | None = None) -> FiniteGroup:
        """This group, where g moves the plane or space as φ(g) does; elements with the same image move it alike.

        >>> from steerable import Homomorphism, cyclic
        >>> C4, C2 = cyclic(4), cyclic(2)
        >>> halved = C4.acting_through(Homomorphism(C4, C2, ("e", "r", "e", "r")))
        >>> halved.action[C4.index("r")].astype(int).tolist()
        [[-1, 0], [0, -1]]
        """
        if homomorphism.source != self:
            raise TypeError(
                f"{self.name} acts through a homomorphism that starts from it; this one starts from "
                f"{homomorphism.source.name}."
            )
        target = homomorphism.target
        if target.action is None:
            raise ValueError(f"{self.name} cannot act through {target.name}, which is abstract and moves nothing.")
        return FiniteGroup(
            self.elements,
            self.table,
            action=target.action[homomorphism.indices],
            name=name or f"{self.name} through {target.name}",
        )

    # ---------------------------------------------------------------- what later modules compute for this group

    @property
    def irreps(self) -> tuple[Irrep, ...]:
        """The real irreducible representations, the trivial one first."""
        from steerable.algebra.irreps import real_irreps

        return real_irreps(self)

    def irrep(self, name: str) -> Irrep:
        """The real irrep of that name, for instance ``G.irrep("E")``."""
        from steerable.algebra.irreps import irrep_by_name

        return irrep_by_name(self, name)

    def irreps_of(self, kind: tuple[int, ...]) -> tuple[Irrep, ...]:
        return self.irreps

    @cached_property
    def regular(self) -> Representation:
        """The action on functions on the group: one channel per element."""
        from steerable.algebra.induction import quotient

        return quotient(self, [self.identity], name="regular")

    def quotient(self, subgroup: Iterable[str]) -> Representation:
        """The action on functions on the left cosets of a subgroup (appendix C): one channel per coset."""
        from steerable.algebra.capsules import quotient_name
        from steerable.algebra.induction import quotient

        members = self.names(self.subgroup_indices(subgroup))
        return quotient(self, members, name=quotient_name(self, members))

    # ---------------------------------------------------------------- value semantics

    @cached_property
    def digest(self) -> bytes:
        """A fingerprint of elements, table and action; equal groups have equal fingerprints."""
        content = hashlib.blake2b(digest_size=16)
        content.update("\0".join(self.elements).encode())
        content.update(np.ascontiguousarray(self.table, dtype=np.int64).tobytes())
        if self.action is not None:
            content.update((np.round(self.action, 9) + 0.0).tobytes())
        return content.digest()

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.elements, np.array(self.table), self.action, self.name)

    def __repr__(self) -> str:
        return f"<{self.name}, order {self.order}>"


def finite_group(group: Group) -> FiniteGroup:
    """The group itself if it is finite; otherwise an error with an explanation."""
    expect(group, Group, "a finite group, such as cyclic(8)")
    if isinstance(group, FiniteGroup):
        return group
    raise TypeError(
        f"expected a finite group such as cyclic(8), got {group.name}, which has infinitely many elements. Restrict to "
        "a finite subgroup first."
    )


def _rebuild(elements: tuple[str, ...], table: IntArray, action: FloatArray | None, name: str) -> FiniteGroup:
    return FiniteGroup(elements, table, action=action, name=name)
