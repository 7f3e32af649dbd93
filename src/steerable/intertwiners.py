"""Orthonormal bases of Hom_G(π, ρ) = {Ψ | ρ(g)Ψ = Ψπ(g)}.

Monomial representations are solved exactly: G permutes the matrix entries up to factors, and each orbit of entries
carries at most one intertwiner. Otherwise the projector Ψ ↦ (1/|G|) Σ ρ(g) Ψ π(g)⁻¹ is factored by pivoted
Gram–Schmidt, column by column, so that it is never written out. The number of solutions always has to be ⟨χ_π, χ_ρ⟩.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steerable.characters import inner_product, intertwining_number, whole_number
from steerable.groups import IntArray
from steerable.representations import Monomial, Representation

__all__ = ["SparseBasis", "hom_basis", "intertwiner_basis"]

FloatArray = NDArray[np.float64]


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
    def of(arrays: FloatArray) -> SparseBasis:
        """From a dense (count, *shape) array; entries at rounding level are dropped."""
        flat = arrays.reshape(len(arrays), math.prod(arrays.shape[1:]))
        number, position = np.nonzero(np.abs(flat) > 1e-14)
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
    return hom_basis(pi, rho).dense()


@lru_cache(maxsize=4096)
def hom_basis(pi: Representation, rho: Representation) -> SparseBasis:
    """The same basis in sparse form, remembered by the content of π and ρ."""
    expected = intertwining_number(pi, rho)
    if pi.monomial is not None and rho.monomial is not None:
        basis = solve_monomial(pi.monomial, rho.monomial)
    else:
        basis = SparseBasis.of(solve_dense(pi.matrices, rho.matrices))
    if basis.count != expected:
        raise ArithmeticError(
            f"found {basis.count} intertwiners from {pi} to {rho}, but ⟨χ_π, χ_ρ⟩ = {expected}. This is a bug, or the "
            "matrices are too inexact."
        )
    return basis


def solve_monomial(pi: Monomial, rho: Monomial) -> SparseBasis:
    """Orbits of matrix entries (i, j) ↦ (ρ's image of i, π's image of j) with their factors.

    An orbit whose stabiliser acts by -1 on it carries nothing: its average is zero.
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
    alive = norm[leaders] > 0.5  # an average is 0, or at least 1 at its leader
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
    pi_metric, rho_metric = _invariant_metric(pi), _invariant_metric(rho)
    if pi_metric is None and rho_metric is None:
        return _solve_orthogonal(pi, rho)
    # C ρ C⁻¹ is orthogonal for C = (mean of ρᵀρ)^½: solve there, come back, and make the result orthonormal again.
    to_pi = np.eye(pi.shape[1]) if pi_metric is None else pi_metric
    to_rho = np.eye(rho.shape[1]) if rho_metric is None else rho_metric
    solution = _solve_orthogonal(to_pi @ pi @ np.linalg.inv(to_pi), to_rho @ rho @ np.linalg.inv(to_rho))
    back = np.linalg.solve(to_rho, solution @ to_pi)
    return orthonormalised(np.asarray(back, dtype=np.float64))


def orthonormalised(arrays: FloatArray) -> FloatArray:
    """The same span, orthonormal."""
    flat = arrays.reshape(len(arrays), math.prod(arrays.shape[1:]))
    q, r = np.linalg.qr(flat.T)
    return np.asarray((q * np.sign(np.diag(r))).T.reshape(arrays.shape))


def invariant_root(matrices: FloatArray) -> FloatArray:
    """C = (mean_g ρ(g)ᵀρ(g))^½, symmetric; C ρ(g) C⁻¹ is orthogonal."""
    values, vectors = np.linalg.eigh(np.mean(matrices.transpose(0, 2, 1) @ matrices, axis=0))
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T)


def _invariant_metric(matrices: FloatArray) -> FloatArray | None:
    """None for orthogonal matrices."""
    gram = matrices.transpose(0, 2, 1) @ matrices
    if np.abs(gram - np.eye(matrices.shape[1])).max(initial=0) < 1e-9:
        return None
    return invariant_root(matrices)


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
