"""Orthonormal bases of Hom_G(π, ρ) = {Ψ | ρ(g)Ψ = Ψπ(g)}.

Monomial representations are solved exactly: G permutes the matrix entries up to factors, and each orbit of entries
carries at most one intertwiner. Otherwise the projector Ψ ↦ (1/|G|) Σ ρ(g) Ψ π(g)⁻¹ is factored by pivoted
Gram–Schmidt, column by column, so that it is never written out. For SO(2) and O(2), where representations are known as
sums of irreps, Schur's lemma says what the intertwiners are. The number of solutions must be ⟨χ_π, χ_ρ⟩.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray
from steerable.algebra.characters import inner_product, intertwining_number, whole_number
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.metrics import InvariantMetric, basis_scales, invariant_metric, is_orthogonal
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation

__all__ = ["SparseBasis", "hom_basis", "intertwiner_basis"]

# Arrays with a larger condition number keep fewer than six digits when they are made orthonormal.
_NEARLY_PARALLEL = 1e9


@dataclass(frozen=True)
class SparseBasis:
    """``count`` orthonormal arrays of one shape, kept as their non-zero entries.

    Entry k belongs to array ``number[k]`` at flat position ``position[k]`` and has the value ``value[k]``; entries are
    sorted by number, then position.
    """

    count: int
    shape: tuple[int, ...]
    number: IntArray
    position: IntArray
    value: FloatArray

    def __post_init__(self) -> None:
        for array in (self.number, self.position, self.value):
            array.setflags(write=False)  # one basis serves every layer

    @staticmethod
    def of(arrays: FloatArray, scales: FloatArray | None = None) -> SparseBasis:
        """The basis of a dense (count, *shape) array; entries at rounding level are dropped.

        ``scales``, of a shape that broadcasts to ``shape``, says how large an entry at each place naturally is; by
        default all are equally large.
        """
        size = math.prod(arrays.shape[1:])
        flat = arrays.reshape(len(arrays), size)
        own = flat if scales is None else flat / np.broadcast_to(scales, arrays.shape[1:]).ravel()
        number, position = np.nonzero(np.abs(own) > 1e-14 * np.linalg.norm(own, axis=1, keepdims=True))
        return SparseBasis(len(arrays), arrays.shape[1:], number, position, flat[number, position])

    def dense(self) -> FloatArray:
        """(count, *shape), a new array at each call."""
        dense = np.zeros((self.count, math.prod(self.shape)))
        dense[self.number, self.position] = self.value
        return dense.reshape(self.count, *self.shape)


def intertwiner_basis(pi: Representation, rho: Representation) -> FloatArray:
    """An orthonormal basis of Hom(π, ρ), of shape (dim Hom, dim ρ, dim π): Σ_ij ψ_a[i, j] ψ_b[i, j] = δ_ab.

    >>> from steerable import dihedral, pixel_patch
    >>> G = dihedral(4)
    >>> intertwiner_basis(pixel_patch(G, 3), G.irrep("E")).shape
    (2, 2, 9)
    """
    intertwining_number(pi, rho)  # refuses whatever is not two representations of one group
    return hom_basis(pi, rho).dense()


@lru_cache(maxsize=4096)
def hom_basis(pi: Representation, rho: Representation) -> SparseBasis:
    """The basis of :func:`intertwiner_basis` in sparse form, remembered by the content of π and ρ."""
    expected = intertwining_number(pi, rho)
    source, target = over_a_group(pi), over_a_group(rho)
    if source is not None and target is not None:
        basis = solve_monomial(source, target)
    else:
        if isinstance(pi, CompactRepresentation) and isinstance(rho, CompactRepresentation):
            dense = _by_irreps(pi, rho)
        else:
            dense = solve_dense(pi.matrices, rho.matrices)
        basis = SparseBasis.of(dense, entry_scales(pi.known_matrices, rho.known_matrices))
    if basis.count != expected:
        raise ArithmeticError(
            f"found {basis.count} intertwiners from {pi} to {rho}, but ⟨χ_π, χ_ρ⟩ = {expected}. This is a bug, or the "
            "matrices are too inexact."
        )
    return basis


def over_a_group(rho: Representation) -> Monomial | None:
    """A representation's monomial matrices over a whole group, as averages need them; None if it has none.

    Those of a compact group are known at its generators. Rotations are 1 there and reflections an involution, so that
    the first and the last generator make a group of two.
    """
    if rho.monomial is None or not isinstance(rho, CompactRepresentation):
        return rho.monomial
    return rho.monomial.at(np.array([0, -1]))


def _by_irreps(pi: CompactRepresentation, rho: CompactRepresentation) -> FloatArray:
    """(n, dim ρ, dim π): the maps from each irrep in π to each equal one in ρ that commute with the irrep."""
    blocks = [np.zeros((0, rho.dim, pi.dim))]
    for source, columns in zip(pi.waves, pi.slices, strict=True):
        for target, rows in zip(rho.waves, rho.slices, strict=True):
            if source == target:
                blocks.append(rho.basis[:, rows] @ source.commutant(pi.group) @ pi.inverse_basis[columns])
    basis = np.concatenate(blocks)
    if not (pi.is_orthogonal and rho.is_orthogonal):
        basis = orthonormalised(basis)
    # A random combination commutes only if all of them do, and is checked much faster.
    mixed = np.tensordot(np.random.default_rng(0).uniform(1, 2, size=len(basis)), basis, axes=1)
    for at_source, at_target in zip(pi.known_matrices, rho.known_matrices, strict=True):
        error = np.abs(at_target @ mixed - mixed @ at_source).max(initial=0)
        if error > 1e-6 * max(1.0, np.abs(at_source).max(initial=0), np.abs(at_target).max(initial=0)):
            raise ArithmeticError(
                f"the intertwiners from {pi} to {rho} do not commute with {pi.group.name}, by {error:.2g}. The vectors "
                "of a basis differ too much in length or too little in direction."
            )
    return basis


def solve_monomial(pi: Monomial, rho: Monomial) -> SparseBasis:
    """Orbits of matrix entries (i, j) ↦ (ρ's image of i, π's image of j) with their factors, over a whole group.

    An orbit whose stabiliser acts by -1 on it carries no intertwiner: its average is zero.
    """
    order, columns = pi.image.shape
    rows = rho.image.shape[1]
    size = rows * columns
    leader = np.arange(size)
    for g in range(order):
        leader = np.minimum(leader, _entry_images(pi, rho, g))
    leaders = np.flatnonzero(leader == np.arange(size))
    average = np.zeros(size)
    for g in range(order):
        factor = (rho.scale[g][:, None] / pi.scale[g][None, :]).ravel()
        average[_entry_images(pi, rho, g)[leaders]] += factor[leaders]
    norm = np.sqrt(np.bincount(leader, weights=average**2, minlength=size))
    alive = np.abs(average[leaders]) > 0.5  # a sum of signs over the leader's stabiliser: 0, or at least 1
    numbering = np.full(size, -1, dtype=np.intp)
    numbering[leaders[alive]] = np.arange(int(alive.sum()))
    number = numbering[leader]
    position = np.flatnonzero((number >= 0) & (average != 0))
    by_number = position[np.argsort(number[position], kind="stable")]
    value = average[by_number] / norm[leader[by_number]]
    return SparseBasis(int(alive.sum()), (rows, columns), number[by_number], by_number, value)


def _entry_images(pi: Monomial, rho: Monomial, g: int) -> IntArray:
    return np.asarray((rho.image[g][:, None] * pi.image.shape[1] + pi.image[g][None, :]).ravel())


def solve_dense(pi: FloatArray, rho: FloatArray) -> FloatArray:
    """(n, dim ρ, dim π): the range of the averaging projector, for matrices (order, d, d) of any representation."""
    if is_orthogonal(pi) and is_orthogonal(rho):
        return _solve_orthogonal(pi, rho)
    # Solve where both are orthogonal, come back, and make the result orthonormal again.
    source, target = metric_of(pi), metric_of(rho)
    return orthonormalised(target.inverse @ _solve_orthogonal(source.orthogonal, target.orthogonal) @ source.factor)


def entry_scales(pi: FloatArray, rho: FloatArray) -> FloatArray:
    """(dim ρ, dim π): the natural size of each entry of an intertwiner, up to one common factor."""
    return np.asarray(basis_scales(pi)[None, :] / basis_scales(rho)[:, None])


def orthonormalised(arrays: FloatArray) -> FloatArray:
    """The same span, orthonormal.

    An entry of the result is a combination of entries at the same place, so that small ones beside large ones keep
    their relative precision; the columns of Q would not.
    """
    flat = arrays.reshape(len(arrays), math.prod(arrays.shape[1:]))
    flat = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    for _ in range(2):  # twice is enough for orthogonality to rounding error
        r = np.asarray(np.linalg.qr(flat.T, mode="r"), dtype=np.float64)
        if r.size and np.linalg.cond(r) > _NEARLY_PARALLEL:
            raise ArithmeticError(
                "the intertwiners of these representations are parallel up to rounding errors. The vectors of a basis "
                "differ too much in length or too little in direction: choose a better basis with `change_basis`."
            )
        flat = np.linalg.solve(r.T * np.sign(np.diag(r)), flat)
    return np.asarray(flat.reshape(arrays.shape), dtype=np.float64)


def metric_of(matrices: FloatArray) -> InvariantMetric:
    """The invariant metric of a representation's matrices; an error if rounding has destroyed it."""
    metric = invariant_metric(matrices)
    if metric is None:
        raise ArithmeticError("no invariant metric was found for these matrices; their entries are too inexact.")
    return metric


def _solve_orthogonal(pi: FloatArray, rho: FloatArray) -> FloatArray:
    order, rows, columns = len(pi), rho.shape[1], pi.shape[1]
    trace = np.trace(pi, axis1=1, axis2=2), np.trace(rho, axis1=1, axis2=2)
    rank = whole_number(inner_product(*trace))
    basis = np.zeros((rank, rows * columns))
    diagonal = np.diagonal(rho, axis1=1, axis2=2).T @ np.diagonal(pi, axis1=1, axis2=2) / order
    residual = diagonal.ravel().copy()
    for k in range(rank):
        # Rounded, so that equal pivots are told apart by position and not by rounding error.
        pivot = int(np.argmax(np.round(residual, 9)))
        i, j = divmod(pivot, columns)
        column = (rho[:, :, i].T @ pi[:, :, j] / order).ravel()
        for _ in range(2):  # twice is enough for orthogonality to rounding error
            column -= basis[:k].T @ (basis[:k] @ column)
        norm = np.linalg.norm(column)
        if norm < 1e-7:
            raise ArithmeticError(f"the space of intertwiners has dimension {rank}, but only {k} were found.")
        basis[k] = column / norm
        residual -= basis[k] ** 2
    if rank < rows * columns and residual.sum() > 1e-6 * max(1, rank):
        raise ArithmeticError(f"the space of intertwiners is larger than ⟨χ_π, χ_ρ⟩ = {rank}.")
    return basis.reshape(rank, rows, columns)
