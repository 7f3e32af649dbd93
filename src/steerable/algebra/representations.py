"""Representations ρ: G → GL(d), and their algebra."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray, IntArray, is_whole, real_numbers
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.homomorphisms import Homomorphism, inclusion
from steerable.algebra.matrix_checks import check_homomorphism, matrices_of, permutations_of
from steerable.algebra.matrix_families import MatrixFamily
from steerable.algebra.metrics import TOLERANCE, basis_scales, in_own_units
from steerable.algebra.monomials import Monomial
from steerable.errors import expect

__all__ = ["Representation", "direct_sum"]


class Representation(MatrixFamily):
    """A homomorphism ρ from a group to invertible real d×d matrices.

    Args:
        group: the finite group that is represented; those of SO(2) and O(2) are made from irreps.
        matrices: (order, d, d), in the order of ``group.elements``, or a dictionary from element to matrix. A
            dictionary may name just a generating set; the rest is multiplied out.
        name: its name in text, for instance in a field type.

    >>> from steerable import dihedral
    >>> E = dihedral(4).irrep("E")
    >>> E("r").astype(int).tolist()
    [[0, -1], [1, 0]]
    >>> (E @ E).type
    (1, 1, 1, 1, 0)
    """

    def __init__(
        self, group: FiniteGroup, matrices: ArrayLike | Mapping[str, ArrayLike], *, name: str | None = None
    ) -> None:
        dense = matrices_of(group, matrices)
        check_homomorphism(group, dense)
        super().__init__(dense)
        self.group: Group = group
        self.name = name

    @classmethod
    def _of(
        cls,
        group: Group,
        *,
        dense: FloatArray | None = None,
        monomial: Monomial | None = None,
        name: str | None = None,
    ) -> Representation:
        """A representation whose matrices are known to be a homomorphism, because they come from others that are."""
        representation = Representation.__new__(Representation)
        MatrixFamily.__init__(representation, dense, monomial)
        representation.group, representation.name = group, name
        return representation

    @classmethod
    def from_permutations(
        cls, group: FiniteGroup, images: ArrayLike | Mapping[str, Sequence[int]], *, name: str | None = None
    ) -> Representation:
        """From a permutation action: g sends point j to ``images[g][j]``, so that ρ(g) e_j = e_{g·j}."""
        return cls._of(group, monomial=permutations_of(group, images), name=name)

    def __call__(self, element: Element) -> FloatArray:
        """ρ(element), a (dim, dim) array; ``element`` is a name, or ``G.rotation(30)`` of SO(2) and O(2)."""
        g = self.group.index(element)
        if self.monomial is not None:
            return np.asarray(self.monomial.at(np.array([g])).dense()[0])
        return np.array(self.matrices[g])

    def at(self, elements: Sequence[Element]) -> FloatArray:
        """(number of elements, dim, dim): the matrices of several elements."""
        return np.asarray(self.matrices[self.group.indices(elements)])

    @cached_property
    def type(self) -> tuple[int, ...]:
        """How often each of ``group.irreps`` occurs, from the character alone."""
        from steerable.algebra.characters import multiplicities

        return multiplicities(self.group, self.character)

    # ---------------------------------------------------------------- algebra

    def __add__(self, other: Representation) -> Representation:
        """The direct sum: block-diagonal matrices."""
        if not isinstance(other, Representation):
            return NotImplemented
        return direct_sum([self, other])

    def __mul__(self, copies: int) -> Representation:
        """The direct sum of that many copies."""
        if not is_whole(copies):
            return NotImplemented
        if copies < 0:
            raise ValueError(f"a representation is repeated 0 or more times; got {copies} copies of {self}.")
        return self._joined([self] * int(copies))

    __rmul__ = __mul__

    def __matmul__(self, other: Representation) -> Representation:
        """The tensor product: Kronecker products of the matrices, this factor's index running slower."""
        if not isinstance(other, Representation):
            return NotImplemented
        _check_same_group(self, other, "multiply")
        return self._tensor(other)

    def _joined(self, parts: Sequence[Representation]) -> Representation:
        """The direct sum of representations of this one's group."""
        monomials = [part.monomial for part in parts if part.monomial is not None]
        if len(monomials) == len(parts):
            empty = Monomial.trivial(self.group.order, 0)
            return self._of(self.group, monomial=Monomial.direct_sum([empty, *monomials]))
        offsets = np.cumsum([0, *(part.dim for part in parts)])
        dense = np.zeros((self.group.order, offsets[-1], offsets[-1]))
        for part, low, high in zip(parts, offsets, offsets[1:], strict=False):
            dense[:, low:high, low:high] = part.matrices
        return self._of(self.group, dense=dense)

    def _tensor(self, other: Representation) -> Representation:
        if self.monomial is not None and other.monomial is not None:
            return self._of(self.group, monomial=self.monomial @ other.monomial)
        order, dim = self.group.order, self.dim * other.dim
        product = np.einsum("gij,gkl->gikjl", self.matrices, other.matrices)
        return self._of(self.group, dense=product.reshape(order, dim, dim))

    def pullback(self, homomorphism: Homomorphism, *, name: str | None = None) -> Representation:
        """ρ∘φ, a representation of the group that φ starts from."""
        expect(homomorphism, Homomorphism, "a Homomorphism into the group, such as inclusion(cyclic(4), dihedral(4))")
        if homomorphism.target != self.group:
            raise TypeError(
                f"the homomorphism ends in {homomorphism.target.name}, but the representation is of {self.group.name}."
            )
        rows = homomorphism.indices
        if self.monomial is not None:
            return self._of(homomorphism.source, monomial=self.monomial.at(rows), name=name)
        return self._of(homomorphism.source, dense=self.matrices[rows], name=name)

    def restrict(self, subgroup: Iterable[str] | Group) -> Representation:
        """The same matrices, for the elements of a subgroup only: a group, its name such as ``"C4"``, or its elements.

        SO(2), O(2), SO(3) and O(3) have every finite group as a subgroup that moves the plane or space alike. The
        rotations are a subgroup of O(2) and O(3), too; SO(2) and O(2), C_n and D_n are subgroups of SO(3) and O(3)
        about z. In SO(3), which has no reflections, those of the plane turn z over.

        >>> from steerable import dihedral, o2
        >>> dihedral(4).irrep("E").restrict(["e", "r2"]).type, o2().irrep("E3").restrict("D4").type
        ((0, 2), (0, 0, 0, 0, 1))
        """
        if isinstance(subgroup, str):
            from steerable.algebra.families import group_named

            subgroup = group_named(subgroup)
        return self._restricted(subgroup)

    def _restricted(self, subgroup: Iterable[str] | Group) -> Representation:
        group = finite_group(self.group)
        if isinstance(subgroup, Group) and not isinstance(subgroup, FiniteGroup):
            raise ValueError(
                f"cannot restrict a representation of {group.name} to {subgroup.name}: {subgroup.name} is larger than "
                f"{group.name}. Use a subgroup of {group.name}."
            )
        smaller = subgroup if isinstance(subgroup, FiniteGroup) else group.subgroup(subgroup)
        return self.pullback(inclusion(smaller, group))

    def change_basis(self, basis: ArrayLike) -> Representation:
        """A⁻¹ ρ(g) A: the same representation in the basis of A's columns."""
        a = real_numbers(basis, "a change of basis is a matrix of real numbers, one column per vector")
        if a.shape != (self.dim, self.dim):
            raise ValueError(f"a basis of this representation is a {(self.dim, self.dim)} matrix, got shape {a.shape}.")
        if not np.isfinite(a).all() or _condition(a) > 1e12:
            raise ValueError("a change of basis is an invertible matrix; the one given is singular.")
        return self._in_basis(a)

    def _in_basis(self, basis: FloatArray) -> Representation:
        matrices = np.linalg.solve(basis, self.matrices @ basis)
        return self._of(self.group, dense=np.asarray(matrices, dtype=np.float64))

    def dual(self) -> Representation:
        """ρ(g⁻¹)ᵀ: the action on linear functions on the capsule; equal to ρ if ρ is orthogonal."""
        if self.monomial is not None:
            return self._of(self.group, monomial=self.monomial.dual())
        return self._of(self.group, dense=self.matrices[finite_group(self.group).inverses].transpose(0, 2, 1))

    def renamed(self, name: str | None) -> Representation:
        """The same representation under another name."""
        return self._of(self.group, dense=self._dense, monomial=self.monomial, name=name)

    # ---------------------------------------------------------------- channels

    def mixing(self) -> FloatArray:
        """(dim, dim): positive where some element maps a part of the second channel to the first one."""
        if self.monomial is None:
            own = np.abs(in_own_units(self.known_matrices)).max(axis=0)
            return np.asarray(np.where(own > TOLERANCE, own, 0.0))
        mixed = np.zeros((self.dim, self.dim))
        mixed[self.monomial.image, np.arange(self.dim)] = 1
        return mixed

    def on_channels(self, channels: IntArray) -> Representation:
        """The part on these channels, in this order; no element mixes them with others."""
        if self.monomial is None:
            return self._of(self.group, dense=self.matrices[:, channels[:, None], channels])
        place = np.argsort(channels)
        image = place[np.searchsorted(channels, self.monomial.image[:, channels], sorter=place)]
        return self._of(self.group, monomial=Monomial(image, self.monomial.scale[:, channels]))

    # ---------------------------------------------------------------- value semantics

    @cached_property
    def digest(self) -> bytes:
        """A fingerprint of group and matrices, without the name; it is the key of every cache."""
        content = hashlib.blake2b(self.group.digest, digest_size=16)
        if self.monomial is not None:
            content.update(b"monomial")
            content.update(np.ascontiguousarray(self.monomial.image, dtype=np.int64).tobytes())
            content.update(np.sign(self.monomial.scale).tobytes())
            content.update((np.round(np.log2(np.abs(self.monomial.scale)), 9) + 0.0).tobytes())
        else:
            content.update(basis_scales(self.known_matrices).tobytes())
            content.update((np.round(in_own_units(self.known_matrices), 9) + 0.0).tobytes())
        return content.digest()

    def __eq__(self, other: object) -> bool:
        """Whether groups and matrices are equal; names do not count."""
        return isinstance(other, Representation) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        article = "an" if self.kind == "orthogonal" else "a"
        return self.name or f"{article} {self.kind} representation of dimension {self.dim}"

    def __repr__(self) -> str:
        return f"<{self} of {self.group.name}: dim {self.dim}, {self.kind}>"


def direct_sum(parts: Sequence[Representation], *, group: Group | None = None) -> Representation:
    """The block-diagonal sum of any number of representations; an empty sum needs ``group``."""
    for part in parts:
        expect(part, Representation, "Representations to add, such as G.irrep('E')")
    if not parts and group is None:
        raise ValueError("an empty direct sum needs group=..., since no part names it.")
    first = parts[0] if parts or group is None else group.trivial
    for part in parts[1:]:
        _check_same_group(first, part, "add")
    return first._joined(parts)


def _check_same_group(a: Representation, b: Representation, verb: str) -> None:
    if a.group != b.group:
        raise TypeError(
            f"cannot {verb} a representation of {a.group.name} and one of {b.group.name}: they represent different "
            "groups. Restrict both to a common subgroup first."
        )


def _condition(basis: FloatArray) -> float:
    """The condition number apart from the lengths of basis vectors and the units of coordinates."""
    for axis in (0, 1):
        largest = np.abs(basis).max(axis=axis, keepdims=True, initial=0)
        basis = basis / np.where(largest > 0, largest, 1)
    return float(np.linalg.cond(basis)) if basis.size else 1.0
