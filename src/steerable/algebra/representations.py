"""Representations ρ: G → GL(d): their algebra, and what their matrices are (permutations, signed, monomial …).

A monomial representation (one non-zero entry per row and column) is kept as two small arrays; its matrices are written
out only when somebody asks for them. A patch of 27 taps times a capsule of 48 channels would otherwise take 0.6 GB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steerable.algebra.groups import FiniteGroup, IntArray
from steerable.algebra.homomorphisms import Homomorphism, inclusion
from steerable.algebra.metrics import TOLERANCE, basis_scales, in_own_units, invariant_metric, is_orthogonal
from steerable.errors import expect

__all__ = ["Monomial", "Representation", "direct_sum", "induce", "quotient"]

FloatArray = NDArray[np.float64]

# Larger errors in the metric in which a representation is orthogonal are not excused by rounding.
_LARGEST_ERROR = 1e-3


@dataclass(frozen=True)
class Monomial:
    """ρ(g) e_j = scale[g, j] · e_{image[g, j]}, for all g at once; both arrays are (order, dim)."""

    image: IntArray
    scale: FloatArray

    def __post_init__(self) -> None:
        self.image.setflags(write=False)
        self.scale.setflags(write=False)

    def dense(self) -> FloatArray:
        order, dim = self.image.shape
        matrices = np.zeros((order, dim, dim))
        matrices[np.arange(order)[:, None], self.image, np.arange(dim)] = self.scale
        return matrices

    @staticmethod
    def of(matrices: FloatArray) -> Monomial | None:
        """The compact form of monomial matrices, or None; entries within rounding error of 0 or ±1 are made exact."""
        nonzero = np.abs(in_own_units(matrices)) > TOLERANCE
        if not ((nonzero.sum(axis=1) == 1).all() and (nonzero.sum(axis=2) == 1).all()):
            return None
        image = nonzero.argmax(axis=1) if nonzero.size else np.zeros(nonzero.shape[:2], dtype=np.intp)
        scale = np.take_along_axis(matrices, image[:, None, :], axis=1)[:, 0, :]
        signs = np.sign(scale)
        return Monomial(image, np.where(np.abs(scale - signs) < TOLERANCE, signs, scale))


class Representation:
    """A homomorphism ρ from a finite group to invertible real d×d matrices.

    Args:
        group: the group that is represented.
        matrices: (order, d, d), in the order of ``group.elements``, or a dictionary from element to matrix. A
            dictionary may name a generating set only; the rest is multiplied out.
        name: what it is called in text, for instance in a field type.

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
        dense = _as_matrices(group, matrices)
        _check_homomorphism(group, dense)
        self._set(group, dense, Monomial.of(dense), name)

    def _set(self, group: FiniteGroup, dense: FloatArray | None, monomial: Monomial | None, name: str | None) -> None:
        self.group = group
        self.name = name
        self.monomial = monomial
        self._dense = None if monomial is not None else dense  # monomial matrices are rebuilt exactly

    @classmethod
    def _of(
        cls,
        group: FiniteGroup,
        *,
        dense: FloatArray | None = None,
        monomial: Monomial | None = None,
        name: str | None = None,
    ) -> Representation:
        """A representation whose matrices are known to be a homomorphism (built by the algebra below)."""
        representation = Representation.__new__(Representation)
        if monomial is None and dense is not None:
            monomial = Monomial.of(dense)
        representation._set(group, dense, monomial, name)
        return representation

    @classmethod
    def from_permutations(
        cls, group: FiniteGroup, images: ArrayLike | Mapping[str, Sequence[int]], *, name: str | None = None
    ) -> Representation:
        """From a permutation action: ``images[g][j]`` is where g sends point j. ρ(g) e_j = e_{g·j}."""
        if isinstance(images, Mapping):
            missing = [g for g in group.elements if g not in images]
            if missing:
                raise ValueError(f"no permutation was given for `{missing[0]}` of {group.name}; give one per element.")
            images = [images[g] for g in group.elements]
        image = np.array(images, dtype=np.intp)
        if image.ndim != 2 or image.shape[0] != group.order:
            raise ValueError(
                f"a permutation action of {group.name} is an array of shape ({group.order}, points); got {image.shape}."
            )
        for g, row in zip(group.elements, image, strict=True):
            if not np.array_equal(np.sort(row), np.arange(image.shape[1])):
                raise ValueError(f"the images of `{g}` are no permutation of 0 … {image.shape[1] - 1}: {row.tolist()}.")
        monomial = Monomial(image, np.ones(image.shape))
        _check_monomial_homomorphism(group, monomial)
        return cls._of(group, monomial=monomial, name=name)

    # ---------------------------------------------------------------- matrices

    def __call__(self, element: str) -> FloatArray:
        """ρ(element), a (dim, dim) array."""
        g = self.group.index(element)
        if self.monomial is not None:
            return np.asarray(Monomial(self.monomial.image[g : g + 1], self.monomial.scale[g : g + 1]).dense()[0])
        return np.array(self.matrices[g])

    @property
    def matrices(self) -> FloatArray:
        """(order, dim, dim), read-only, in the order of ``group.elements``."""
        if self._dense is not None:
            return self._dense
        if self.monomial is None:
            raise RuntimeError("a representation has matrices or a monomial form")
        matrices = self.monomial.dense()
        matrices.setflags(write=False)
        if matrices.nbytes <= 1 << 24:
            self._dense = matrices
        return matrices

    @property
    def dim(self) -> int:
        if self.monomial is not None:
            return int(self.monomial.image.shape[1])
        return int(self.matrices.shape[1])

    @cached_property
    def character(self) -> FloatArray:
        """(order,): χ(g) = Tr ρ(g)."""
        if self.monomial is not None:
            fixed = self.monomial.image == np.arange(self.dim)
            character = np.asarray((self.monomial.scale * fixed).sum(axis=1))
        else:
            character = np.trace(self.matrices, axis1=1, axis2=2)
        character.setflags(write=False)
        return character

    @cached_property
    def type(self) -> tuple[int, ...]:
        """How often each of ``group.irreps`` occurs, from the character alone."""
        from steerable.algebra.characters import multiplicities

        return multiplicities(self.group, self.character)

    # ---------------------------------------------------------------- what the matrices are

    @property
    def is_monomial(self) -> bool:
        """One non-zero entry in each row and column."""
        return self.monomial is not None

    @property
    def is_signed_permutation(self) -> bool:
        """Monomial with entries ±1."""
        return self.monomial is not None and bool((np.abs(self.monomial.scale) == 1).all())

    @property
    def is_permutation(self) -> bool:
        """Monomial with entries 1."""
        return self.monomial is not None and bool((self.monomial.scale == 1).all())

    @cached_property
    def is_orthogonal(self) -> bool:
        """ρ(g)ᵀρ(g) = 1 for all g."""
        if self.monomial is not None:
            return self.is_signed_permutation
        return is_orthogonal(self.matrices)

    @property
    def is_trivial(self) -> bool:
        """ρ(g) = 1 for all g."""
        return self.is_permutation and bool((self.character == self.dim).all())

    @property
    def kind(self) -> str:
        """The narrowest of permutation, signed permutation, monomial, orthogonal, general."""
        if self.is_permutation:
            return "permutation"
        if self.is_signed_permutation:
            return "signed permutation"
        if self.is_monomial:
            return "monomial"
        return "orthogonal" if self.is_orthogonal else "general"

    # ---------------------------------------------------------------- algebra

    def __add__(self, other: Representation) -> Representation:
        """The direct sum: block-diagonal matrices."""
        if not isinstance(other, Representation):
            return NotImplemented
        return direct_sum([self, other])

    def __mul__(self, copies: int) -> Representation:
        """The direct sum of that many copies."""
        if isinstance(copies, bool) or not isinstance(copies, int | np.integer):
            return NotImplemented
        if copies < 0:
            raise ValueError(f"a representation is repeated 0 or more times; got {copies} copies of {self}.")
        return direct_sum([self] * int(copies), group=self.group)

    __rmul__ = __mul__

    def __matmul__(self, other: Representation) -> Representation:
        """The tensor product: Kronecker products of the matrices, this factor's index running slower."""
        if not isinstance(other, Representation):
            return NotImplemented
        _check_same_group(self, other, "multiply")
        order, dim = self.group.order, self.dim * other.dim
        if self.monomial is not None and other.monomial is not None:
            image = self.monomial.image[:, :, None] * other.dim + other.monomial.image[:, None, :]
            scale = self.monomial.scale[:, :, None] * other.monomial.scale[:, None, :]
            return self._of(self.group, monomial=Monomial(image.reshape(order, dim), scale.reshape(order, dim)))
        product = np.einsum("gij,gkl->gikjl", self.matrices, other.matrices)
        return self._of(self.group, dense=product.reshape(order, dim, dim))

    def pullback(self, homomorphism: Homomorphism, *, name: str | None = None) -> Representation:
        """ρ∘φ, a representation of the group that φ starts from."""
        if homomorphism.target != self.group:
            raise TypeError(
                f"the homomorphism ends in {homomorphism.target.name}, but the representation is of {self.group.name}."
            )
        rows = homomorphism.indices
        if self.monomial is not None:
            monomial = Monomial(self.monomial.image[rows], self.monomial.scale[rows])
            return self._of(homomorphism.source, monomial=monomial, name=name)
        return self._of(homomorphism.source, dense=self.matrices[rows], name=name)

    def restrict(self, subgroup: Iterable[str] | FiniteGroup) -> Representation:
        """The same matrices, for the elements of a subgroup only."""
        smaller = subgroup if isinstance(subgroup, FiniteGroup) else self.group.subgroup(subgroup)
        return self.pullback(inclusion(smaller, self.group))

    def change_basis(self, basis: ArrayLike) -> Representation:
        """A⁻¹ ρ(g) A: the same representation in the basis of A's columns."""
        a = np.array(basis, dtype=np.float64)
        if a.shape != (self.dim, self.dim):
            raise ValueError(f"a basis of this representation is a {(self.dim, self.dim)} matrix, got shape {a.shape}.")
        if not np.isfinite(a).all() or _condition(a) > 1e12:
            raise ValueError("a change of basis is an invertible matrix; the one given is singular.")
        return self._of(self.group, dense=np.asarray(np.linalg.solve(a, self.matrices @ a), dtype=np.float64))

    def dual(self) -> Representation:
        """ρ(g⁻¹)ᵀ: how linear functions on the capsule transform; equal to ρ when ρ is orthogonal."""
        if self.monomial is not None:
            return self._of(self.group, monomial=Monomial(self.monomial.image, 1 / self.monomial.scale))
        return self._of(self.group, dense=self.matrices[self.group.inverses].transpose(0, 2, 1))

    def renamed(self, name: str | None) -> Representation:
        """The same representation under another name."""
        return self._of(self.group, dense=self._dense, monomial=self.monomial, name=name)

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
            content.update(basis_scales(self.matrices).tobytes())
            content.update((np.round(in_own_units(self.matrices), 9) + 0.0).tobytes())
        return content.digest()

    def __eq__(self, other: object) -> bool:
        """Equal group and equal matrices; names do not count."""
        return isinstance(other, Representation) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        return self.name or f"a {self.kind} representation of dimension {self.dim}"

    def __repr__(self) -> str:
        return f"<{self} of {self.group.name}: dim {self.dim}, {self.kind}>"


def direct_sum(parts: Sequence[Representation], *, group: FiniteGroup | None = None) -> Representation:
    """The block-diagonal sum of any number of representations; an empty sum needs ``group``."""
    if not parts:
        if group is None:
            raise ValueError("an empty direct sum needs group=..., since no part names it.")
        empty = Monomial(np.empty((group.order, 0), dtype=np.intp), np.empty((group.order, 0)))
        return Representation._of(group, monomial=empty)
    first = parts[0]
    for part in parts[1:]:
        _check_same_group(first, part, "add")
    offsets = np.cumsum([0, *(part.dim for part in parts)])
    monomials = [part.monomial for part in parts if part.monomial is not None]
    if len(monomials) == len(parts):
        image = np.concatenate([m.image + o for m, o in zip(monomials, offsets, strict=False)], axis=1)
        scale = np.concatenate([m.scale for m in monomials], axis=1)
        return Representation._of(first.group, monomial=Monomial(image, scale))
    dense = np.zeros((first.group.order, offsets[-1], offsets[-1]))
    for part, low, high in zip(parts, offsets, offsets[1:], strict=False):
        dense[:, low:high, low:high] = part.matrices
    return Representation._of(first.group, dense=dense)


def induce(
    representation: Representation,
    group: FiniteGroup,
    *,
    embedding: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Representation:
    """Ind_K^G ρ: one copy of ρ per left coset t_i K, with g t_i = t_j k acting as ρ(k) from copy i to copy j.

    ``representation`` is of a subgroup K of ``group``; see :func:`inclusion` for how K's elements are found in G.
    Coset representatives t_i are the first elements of the cosets, in the order of ``group.elements``.
    """
    expect(representation, Representation, "a Representation of a subgroup to induce")
    expect(group, FiniteGroup, "the group to induce to, such as dihedral(4)")
    into = inclusion(representation.group, group, embedding)
    members = into.indices
    position = np.full(group.order, -1, dtype=np.intp)  # element of K in G -> its index in K
    position[members] = np.arange(len(members))
    cosets = group.coset_indices(into.images)
    transversal = cosets[:, 0]
    coset_of = np.empty(group.order, dtype=np.intp)
    coset_of[cosets] = np.arange(len(cosets))[:, None]
    products = group.table[:, transversal]  # (order, cosets): g t_i
    to = coset_of[products]
    within = position[group.table[group.inverses[transversal[to]], products]]  # index in K of t_j⁻¹ g t_i
    order, count, dim = group.order, len(cosets), representation.dim
    if representation.monomial is not None:
        image = to[:, :, None] * dim + representation.monomial.image[within]
        scale = representation.monomial.scale[within]
        monomial = Monomial(image.reshape(order, count * dim), scale.reshape(order, count * dim))
        return Representation._of(group, monomial=monomial, name=name)
    dense = np.zeros((order, count, dim, count, dim))
    g, i = np.arange(order)[:, None], np.arange(count)
    dense[g, to, :, i, :] = representation.matrices[within]
    return Representation._of(group, dense=dense.reshape(order, count * dim, count * dim), name=name)


def quotient(group: FiniteGroup, subgroup: Iterable[str], *, name: str | None = None) -> Representation:
    """Functions on the left cosets of a subgroup: ρ(a)f(bK) = f(a⁻¹bK), induced by the trivial representation."""
    smaller = group.subgroup(subgroup)
    shape = (smaller.order, 1)
    one = Representation._of(smaller, monomial=Monomial(np.zeros(shape, dtype=np.intp), np.ones(shape)))
    return induce(one, group, name=name)


def _check_same_group(a: Representation, b: Representation, verb: str) -> None:
    if a.group != b.group:
        raise TypeError(
            f"cannot {verb} a representation of {a.group.name} and one of {b.group.name}: they represent different "
            "groups. Restrict both to a common subgroup first."
        )


def _as_matrices(group: FiniteGroup, matrices: ArrayLike | Mapping[str, ArrayLike]) -> FloatArray:
    if isinstance(matrices, Mapping):
        return _complete(group, {g: np.array(m, dtype=np.float64) for g, m in matrices.items()})
    dense = np.array(matrices, dtype=np.float64)
    if dense.ndim != 3 or dense.shape[0] != group.order or dense.shape[1] != dense.shape[2]:
        raise ValueError(
            f"a representation of {group.name} is an array of shape ({group.order}, d, d), one square matrix per "
            f"element; got shape {dense.shape}."
        )
    return _finite(group, dense)


def _complete(group: FiniteGroup, given: dict[str, FloatArray]) -> FloatArray:
    shapes = {g: m.shape for g, m in given.items()}
    group.indices(given)  # unknown names are refused here
    if not given or len(set(shapes.values())) != 1 or len(next(iter(shapes.values()))) != 2:
        raise ValueError(f"expected square matrices of one size, at least one; got the shapes {shapes}.")
    dim = next(iter(shapes.values()))[0]
    dense = np.full((group.order, dim, dim), np.nan)
    for g, m in given.items():
        if m.shape != (dim, dim):
            raise ValueError(f"expected square matrices of one size; `{g}` has shape {m.shape}.")
        dense[group.index(g)] = m
    known = {*group.indices(given)}
    if group.identity_index not in known:
        dense[group.identity_index] = np.eye(dim)
        known.add(group.identity_index)
    queue = list(known)
    for g in queue:
        for s in group.indices(given):
            product = int(group.table[g, s])
            if product not in known:
                dense[product] = dense[g] @ dense[s]
                known.add(product)
                queue.append(product)
    if len(known) < group.order:
        missing = next(g for g in group.elements if group.index(g) not in known)
        raise ValueError(
            f"the matrices given for {', '.join(given)} do not determine `{missing}` of {group.name}: these elements "
            "generate a smaller group. Give a matrix for it too."
        )
    return _finite(group, dense)


def _finite(group: FiniteGroup, dense: FloatArray) -> FloatArray:
    bad = ~np.isfinite(dense).all(axis=(1, 2))
    if bad.any():
        raise ValueError(f"the matrix of `{group.elements[int(np.argmax(bad))]}` has entries that are not finite.")
    dense.setflags(write=False)
    return dense


def _condition(basis: FloatArray) -> float:
    """The condition number where the lengths of basis vectors and the units of coordinates are left out of account."""
    for axis in (0, 1):
        largest = np.abs(basis).max(axis=axis, keepdims=True, initial=0)
        basis = basis / np.where(largest > 0, largest, 1)
    return float(np.linalg.cond(basis)) if basis.size else 1.0


def _check_homomorphism(group: FiniteGroup, dense: FloatArray) -> None:
    """Errors are judged in the metric in which a representation is orthogonal, so that no block can hide another's."""
    identity = in_own_units(dense)[group.identity_index]
    if np.abs(identity - np.eye(len(identity))).max(initial=0) > TOLERANCE:
        raise ValueError(
            f"the matrix of the identity `{group.identity}` of {group.name} is not the identity matrix; a "
            "representation maps the one to the other."
        )
    metric = invariant_metric(dense)
    if metric is None:
        _raise_too_inexact(group)
    rho = metric.orthogonal
    for s in group.indices(group.generators):
        error = np.abs(rho @ rho[s] - rho[group.table[:, s]]).max(axis=(1, 2), initial=0)
        if error.max() > min(metric.tolerance, _LARGEST_ERROR):
            if error.max() <= metric.tolerance:
                _raise_too_inexact(group)
            g = int(np.argmax(error > metric.tolerance))
            difference = dense[g] @ dense[s] - dense[group.table[g, s]]
            _raise_no_homomorphism(group, g, int(s), float(np.abs(difference).max()))


def _check_monomial_homomorphism(group: FiniteGroup, monomial: Monomial) -> None:
    if not np.array_equal(monomial.image[group.identity_index], np.arange(monomial.image.shape[1])):
        raise ValueError(f"the identity `{group.identity}` of {group.name} moves points; it must leave all in place.")
    for s in group.indices(group.generators):
        composed = monomial.image[:, monomial.image[s]]
        wrong = (composed != monomial.image[group.table[:, s]]).any(axis=1)
        if wrong.any():
            _raise_no_homomorphism(group, int(np.argmax(wrong)), int(s), 1.0)


def _raise_too_inexact(group: FiniteGroup) -> NoReturn:
    raise ValueError(
        f"these matrices cannot be distinguished from ones that are not a representation of {group.name}: rounding "
        "errors are too large to tell. Give them in a basis whose vectors are further from parallel."
    )


def _raise_no_homomorphism(group: FiniteGroup, g: int, s: int, error: float) -> NoReturn:
    a, b, ab = group.elements[g], group.elements[s], group.elements[group.table[g, s]]
    raise ValueError(
        f"not a representation of {group.name}: ρ(`{a}`) ρ(`{b}`) differs from ρ(`{ab}`) by {error:.2g}, but "
        f"`{a}`·`{b}` = `{ab}` (the right factor acts first). Check these matrices, or give those of a generating set "
        "only."
    )
