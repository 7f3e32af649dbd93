"""Equivariant kernels over any filter space: bases of Hom_H(V ⊗ ρ_in, ρ_out), solved in coefficients and sampled last.

A filter bank is an array κ of matrices, one per coefficient, with Σ_w ρ_V(h)[v, w] ρ_out(h) κ(w) ρ_in(h)⁻¹ = κ(v).
If H permutes the coefficients up to signs, as it does those of a pixel patch, the bank is fixed by its values at one
coefficient of each orbit, and there it is any intertwiner of that coefficient's stabiliser (Frobenius reciprocity):
V ⊗ ρ_in is never formed. If filters turn with angular frequencies or degrees, V splits into small parts, each of
which is solved once. All other spaces go through the intertwiners of V ⊗ ρ_in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray
from steerable.algebra.characters import inner_product, whole_number
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.intertwiners import (
    SparseBasis,
    entry_scales,
    hom_basis,
    orthonormalised,
    solve_dense,
    solve_monomial,
)
from steerable.algebra.metrics import is_orthogonal
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation
from steerable.errors import expect
from steerable.filters.free_kernels import free_kernels
from steerable.filters.space_arguments import Filters, as_filter_space
from steerable.filters.spaces import FilterSpace

__all__ = ["kernel_basis", "sparse_kernel_basis"]


def kernel_basis(rho_in: Representation, rho_out: Representation, size: Filters) -> FloatArray:
    """A basis of Hom_H(V ⊗ ρ_in, ρ_out), of shape (dim Hom, dim out, dim in, *patch), orthonormal in coefficients.

    Each element has the layout of a convolution's weight. ``size`` is that of a pixel patch, or a filter space.

    >>> from steerable import dihedral
    >>> G = dihedral(4)
    >>> kernel_basis(G.regular, G.irrep("E"), 3).shape
    (18, 2, 8, 3, 3)
    """
    return sparse_kernel_basis(rho_in, rho_out, size).dense()


def sparse_kernel_basis(rho_in: Representation, rho_out: Representation, size: Filters) -> SparseBasis:
    """The same basis in sparse form, remembered by the content of its arguments."""
    for given in (rho_in, rho_out):
        expect(given, Representation, "two Representations, such as G.regular and G.irrep('E')")
    if rho_in.group != rho_out.group:
        raise TypeError(
            f"a filter bank maps between fields of one group; got {rho_in.group.name} and {rho_out.group.name}. "
            "Restrict one of them first."
        )
    return _kernel_basis(rho_in, rho_out, as_filter_space(rho_in.group, size))


@lru_cache(maxsize=4096)
def _kernel_basis(rho_in: Representation, rho_out: Representation, space: FilterSpace) -> SparseBasis:
    shape = (rho_out.dim, rho_in.dim, *space.size)
    if (free := free_kernels(rho_in, rho_out, space)) is not None:
        return free.sparse(shape)
    if space.harmonics and not space.is_pixel_patch:
        basis = _by_harmonics(rho_in, rho_out, space)
    else:
        # A single coefficient times ρ_in is no larger than ρ_in; intertwiners of SO(2) and O(2) are in closed form.
        many = space.dim > 1 and isinstance(space.group, FiniteGroup)
        solve = _by_orbits if many and space.representation.is_signed_permutation else _by_intertwiners
        basis = solve(rho_in, rho_out, space.representation)
        if space.is_pixel_patch:
            return replace(basis, shape=shape)
    return _sampled(basis, space, entry_scales(rho_in.known_matrices, rho_out.known_matrices), shape)


def _sampled(basis: SparseBasis, space: FilterSpace, scales: FloatArray, shape: tuple[int, ...]) -> SparseBasis:
    """The kernels on pixels, from a basis (dim out, dim in, dim V) in coefficients; rounding errors are dropped.

    Most kernels are zero at most pairs of channels, and only the others are sampled.
    """
    if not basis.position.size:
        return replace(basis, shape=shape)
    pair, v = np.divmod(basis.position, space.dim)
    starts = np.flatnonzero(np.diff(basis.number, prepend=-1) | np.diff(pair, prepend=-1))
    number, pair = basis.number[starts], pair[starts]
    taps = np.add.reduceat(basis.value[:, None] * space.sampling.T[v], starts)
    own = taps / scales.ravel()[pair, None]
    lengths = np.sqrt(np.bincount(number, weights=(own**2).sum(axis=1), minlength=basis.count))
    where, tap = np.nonzero(np.abs(own) > 1e-14 * lengths[number, None])
    return SparseBasis(basis.count, shape, number[where], pair[where] * space.taps + tap, taps[where, tap])


# ---------------------------------------------------------------- in coefficients: (dim out, dim in, dim V)


def _by_intertwiners(rho_in: Representation, rho_out: Representation, rho_v: Representation) -> SparseBasis:
    """The basis for any ρ_V.

    A bank that ρ_V ⊗ ρ_out ⊗ ρ_in* keeps is a map from V* ⊗ ρ_in; V* is V where ρ_V is orthogonal.
    """
    maps = hom_basis(rho_v.dual() @ rho_in, rho_out)
    row, v, column = np.unravel_index(maps.position, (rho_out.dim, rho_v.dim, rho_in.dim))
    position = np.ravel_multi_index((row, column, v), shape := (rho_out.dim, rho_in.dim, rho_v.dim))
    order = np.lexsort((position, maps.number))
    return SparseBasis(maps.count, shape, maps.number[order], position[order], maps.value[order])


def _by_harmonics(rho_in: Representation, rho_out: Representation, space: FilterSpace) -> SparseBasis:
    """The basis for a V that is a sum of harmonics: the bases of the single harmonics, side by side."""
    parts, start = [], 0
    found: dict[Representation, SparseBasis] = {}
    for f in space.harmonics:
        rho_v = f.harmonic.turned_by(space.group)
        if rho_v not in found:
            found[rho_v] = _by_intertwiners(rho_in, rho_out, rho_v)
        part = found[rho_v]
        entry, component = np.divmod(part.position, rho_v.dim)
        parts.append(replace(part, position=entry * space.dim + start + component))
        start += rho_v.dim
    return _concatenated(parts, (rho_out.dim, rho_in.dim, space.dim))


def _by_orbits(rho_in: Representation, rho_out: Representation, rho_v: Representation) -> SparseBasis:
    """The basis for a ρ_V that permutes coefficients up to signs."""
    shape, orbits = (rho_out.dim, rho_in.dim, rho_v.dim), _orbits(rho_v)
    if rho_in.monomial is not None and rho_out.monomial is not None:
        basis = _concatenated([_monomial_orbit(rho_in.monomial, rho_out.monomial, o, rho_v.dim) for o in orbits], shape)
    else:
        dense = np.concatenate([_dense_orbit(rho_in.matrices, rho_out.matrices, o, rho_v.dim) for o in orbits])
        basis = SparseBasis.of(dense, entry_scales(rho_in.matrices, rho_out.matrices)[:, :, None])
    expected = whole_number(inner_product(rho_v.character * rho_in.character, rho_out.character))
    if basis.count != expected:
        raise ArithmeticError(
            f"found {basis.count} kernels from {rho_in} to {rho_out}, but ⟨χ_V χ_in, χ_out⟩ = {expected}. This is a "
            "bug, or the matrices are too inexact."
        )
    return basis


@dataclass(frozen=True)
class _Orbit:
    """Coefficients that the group moves into each other: the first one's stabiliser, and elements to reach others.

    ``sign[g]`` is the factor by which g multiplies the first one as it moves it.
    """

    stabiliser: IntArray
    members: IntArray
    carriers: IntArray  # carriers[k] moves the first coefficient to members[k]
    sign: FloatArray


@lru_cache(maxsize=256)
def _orbits(rho_v: Representation) -> tuple[_Orbit, ...]:
    if rho_v.monomial is None:
        raise RuntimeError("orbits are those of a monomial representation")
    image, orbits = rho_v.monomial.image, []
    for first in np.flatnonzero(image.min(axis=0) == np.arange(image.shape[1])):
        members, carriers = np.unique(image[:, first], return_index=True)
        stabiliser = np.flatnonzero(image[:, first] == first)
        orbits.append(_Orbit(stabiliser, members, carriers, rho_v.monomial.scale[:, first]))
    return tuple(orbits)


def _monomial_orbit(rho_in: Monomial, rho_out: Monomial, orbit: _Orbit, dim: int) -> SparseBasis:
    s = orbit.stabiliser
    turned = Monomial(rho_out.image[s], rho_out.scale[s] * orbit.sign[s, None])
    first = solve_monomial(Monomial(rho_in.image[s], rho_in.scale[s]), turned)
    columns = rho_in.image.shape[1]
    row, column = np.divmod(first.position, columns)
    h = orbit.carriers[:, None]
    moved_row, moved_column = rho_out.image[h, row], rho_in.image[h, column]
    value = (first.value * rho_out.scale[h, row] * orbit.sign[h] / rho_in.scale[h, column]).ravel()
    position = (moved_row * columns + moved_column) * dim + orbit.members[:, None]
    number = np.broadcast_to(first.number, position.shape).ravel()
    # Kernels have no entry in common; only their lengths have to be made 1.
    length = np.sqrt(np.bincount(number, weights=value**2, minlength=first.count))
    return SparseBasis(first.count, (), number, position.ravel(), value / length[number])


def _dense_orbit(rho_in: FloatArray, rho_out: FloatArray, orbit: _Orbit, dim: int) -> FloatArray:
    s, sign = orbit.stabiliser, orbit.sign
    first = solve_dense(rho_in[s], rho_out[s] * sign[s, None, None])
    kernels = np.zeros((*first.shape, dim))
    for member, h in zip(orbit.members, orbit.carriers, strict=True):
        kernels[..., member] = sign[h] * rho_out[h] @ first @ np.linalg.inv(rho_in[h])
    if is_orthogonal(rho_in) and is_orthogonal(rho_out):
        return kernels / math.sqrt(len(orbit.members))
    return orthonormalised(kernels)  # carrying a value along its orbit changed its length


def _concatenated(parts: Sequence[SparseBasis], shape: tuple[int, ...]) -> SparseBasis:
    offsets = np.cumsum([0, *(part.count for part in parts)])
    number = np.concatenate([part.number + offset for part, offset in zip(parts, offsets, strict=False)])
    position = np.concatenate([part.position for part in parts])
    order = np.lexsort((position, number))
    value = np.concatenate([part.value for part in parts])
    return SparseBasis(int(offsets[-1]), shape, number[order], position[order], value[order])
