"""Filter spaces: how H moves the taps of a filter, and the equivariant kernels on them.

A filter bank Ψ: patch ⊗ ρ_in → ρ_out is an array κ(x) of matrices, one per tap x, with κ(hx) = ρ_out(h) κ(x) ρ_in(h)⁻¹.
So it is fixed by its values on one tap of each orbit, and there it is any intertwiner of that tap's stabiliser
(Frobenius reciprocity). The basis is built this way: patch ⊗ ρ_in itself is never formed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.arrays import IntArray
from steerable.algebra.characters import inner_product, whole_number
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.intertwiners import SparseBasis, entry_scales, orthonormalised, solve_dense, solve_monomial
from steerable.algebra.metrics import is_orthogonal
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation
from steerable.errors import expect

__all__ = ["kernel_basis", "patch_size", "pixel_patch", "sparse_kernel_basis", "tap_coordinates"]

FloatArray = NDArray[np.float64]


def pixel_patch(group: FiniteGroup, size: int | Sequence[int]) -> Representation:
    """How the group moves the taps of an s×s patch (s×s×s for groups that act on space): [π(g)f](x) = f(g⁻¹x).

    Args:
        group: a group that maps the grid onto itself; C1 C2 C4 D1 D2 D4 and the octahedral groups do.
        size: odd or even, one number or one per axis (height, width) or (depth, height, width).

    Returns:
        A permutation representation; taps are counted row by row from the top left, as ``array.ravel()`` does.

    >>> from steerable import dihedral
    >>> pixel_patch(dihedral(4), 3).type
    (3, 0, 1, 1, 2)
    """
    shape = patch_size(group, size)
    image = _tap_images(group, shape)
    name = "×".join(str(s) for s in shape) + " patch"
    return Representation._of(group, monomial=Monomial(image, np.ones(image.shape)), name=name)


def kernel_basis(rho_in: Representation, rho_out: Representation, size: int | Sequence[int]) -> FloatArray:
    """An orthonormal basis of Hom_H(patch ⊗ ρ_in, ρ_out), of shape (dim Hom, dim out, dim in, *patch).

    Each element has the layout of a convolution's weight.

    >>> from steerable import dihedral
    >>> G = dihedral(4)
    >>> kernel_basis(G.regular, G.irrep("E"), 3).shape
    (18, 2, 8, 3, 3)
    """
    return sparse_kernel_basis(rho_in, rho_out, size).dense()


def sparse_kernel_basis(rho_in: Representation, rho_out: Representation, size: int | Sequence[int]) -> SparseBasis:
    """The same basis in sparse form, remembered by the content of its arguments."""
    if rho_in.group != rho_out.group:
        raise TypeError(
            f"a filter bank maps between fields of one group; got {rho_in.group.name} and {rho_out.group.name}. "
            "Restrict one of them first."
        )
    return _kernel_basis(rho_in, rho_out, patch_size(rho_in.group, size))


def patch_size(group: FiniteGroup, size: int | Sequence[int]) -> tuple[int, ...]:
    """The patch's extent along each axis of the space that the group acts on, checked."""
    expect(group, FiniteGroup, "a group that moves pixels, such as dihedral(4)")
    if group.action is None:
        raise ValueError(
            f"{group.name} is abstract: nothing says how it moves pixels. Use cyclic(n), dihedral(n), octahedral(), "
            "or group_from_matrices(...) with 2×2 or 3×3 orthogonal matrices. A product moves them as one of its "
            'factors does with direct_product(..., acting="second"), any group as its image does with '
            "acting_through(...)."
        )
    axes = group.action.shape[1]
    extents = tuple(size) if isinstance(size, Sequence) else (size,) * axes
    if any(isinstance(s, bool) or not isinstance(s, int | np.integer) for s in extents):
        raise TypeError(f"a patch's extents are whole numbers, one or one per axis; got {size!r}.")
    shape = tuple(int(s) for s in extents)
    if len(shape) != axes:
        remedy = " Layers for images take groups of the plane: C1, C2, C4, D1, D2, D4." if len(shape) == 2 else ""
        raise ValueError(f"{group.name} acts on {axes} dimensions; a patch has {axes} extents, got {shape}.{remedy}")
    if min(shape) < 1:
        raise ValueError(f"a patch has at least one tap along each axis, got {shape}.")
    return shape


def tap_coordinates(shape: Sequence[int]) -> IntArray:
    """(taps, axes): twice the position of each tap relative to the centre, x to the right, y up, z to the viewer.

    Twice, so that even patches, whose centre lies between taps, have whole coordinates as well.
    """
    grids = np.meshgrid(*[2 * np.arange(s) - (s - 1) for s in shape], indexing="ij")
    from_array = np.stack([grid.ravel() for grid in grids], axis=1)  # (row down, column right) or (depth, row, column)
    coordinates = from_array[:, ::-1].copy()
    coordinates[:, 1:] *= -1
    return coordinates


@lru_cache(maxsize=256)
def _tap_images(group: FiniteGroup, shape: tuple[int, ...]) -> IntArray:
    """(order, taps): the index of the tap to which each element moves each tap."""
    if group.action is None:
        raise RuntimeError("patch_size has checked that the group acts")
    taps = tap_coordinates(shape)
    moved = np.einsum("gij,tj->gti", group.action, taps)
    index = {tuple(int(c) for c in tap): t for t, tap in enumerate(taps)}
    image = np.empty(moved.shape[:2], dtype=np.intp)
    for g, element in enumerate(group.elements):
        nearest = np.round(moved[g]).astype(int)
        found = [index.get(tuple(int(c) for c in tap), -1) for tap in nearest]
        if -1 in found or np.abs(moved[g] - nearest).max() > 1e-6:
            raise ValueError(
                f"`{element}` of {group.name} does not map the {'×'.join(map(str, shape))} pixel grid onto itself. "
                "Pixel filters are exact for C1, C2, C4, D1, D2, D4 (square patches for C4 and D4) and for the "
                "octahedral groups (cubes); restrict to such a subgroup."
            )
        image[g] = found
    image.setflags(write=False)
    return image


@dataclass(frozen=True)
class _Orbit:
    """Taps that the group moves into each other: the first of them, its stabiliser, who carries it to the others."""

    stabiliser: IntArray
    taps: IntArray
    carriers: IntArray  # carriers[k] moves the first tap to taps[k]


@lru_cache(maxsize=256)
def _orbits(group: FiniteGroup, shape: tuple[int, ...]) -> tuple[_Orbit, ...]:
    image = _tap_images(group, shape)
    orbits = []
    for first in np.flatnonzero(image.min(axis=0) == np.arange(image.shape[1])):
        taps, carriers = np.unique(image[:, first], return_index=True)
        orbits.append(_Orbit(np.flatnonzero(image[:, first] == first), taps, carriers))
    return tuple(orbits)


@lru_cache(maxsize=4096)
def _kernel_basis(rho_in: Representation, rho_out: Representation, shape: tuple[int, ...]) -> SparseBasis:
    taps = math.prod(shape)
    full_shape = (rho_out.dim, rho_in.dim, *shape)
    orbits = _orbits(rho_in.group, shape)
    if rho_in.monomial is not None and rho_out.monomial is not None:
        basis = _concatenated([_monomial_orbit(rho_in.monomial, rho_out.monomial, o, taps) for o in orbits], full_shape)
    else:
        dense = np.concatenate([_dense_orbit(rho_in.matrices, rho_out.matrices, o, taps) for o in orbits])
        scales = entry_scales(rho_in.matrices, rho_out.matrices).reshape(rho_out.dim, rho_in.dim, *(1,) * len(shape))
        basis = SparseBasis.of(dense.reshape(len(dense), *full_shape), scales)
    patch_character = (_tap_images(rho_in.group, shape) == np.arange(taps)).sum(axis=1)
    expected = whole_number(inner_product(patch_character * rho_in.character, rho_out.character))
    if basis.count != expected:
        raise ArithmeticError(
            f"found {basis.count} kernels from {rho_in} to {rho_out}, but ⟨χ_patch χ_in, χ_out⟩ = {expected}. This is "
            "a bug, or the matrices are too inexact."
        )
    return basis


def _monomial_orbit(rho_in: Monomial, rho_out: Monomial, orbit: _Orbit, taps: int) -> SparseBasis:
    s = orbit.stabiliser
    first = solve_monomial(Monomial(rho_in.image[s], rho_in.scale[s]), Monomial(rho_out.image[s], rho_out.scale[s]))
    columns = rho_in.image.shape[1]
    row, column = np.divmod(first.position, columns)
    h = orbit.carriers[:, None]
    moved_row, moved_column = rho_out.image[h, row], rho_in.image[h, column]
    value = (first.value * rho_out.scale[h, row] / rho_in.scale[h, column]).ravel()
    position = (moved_row * columns + moved_column) * taps + orbit.taps[:, None]
    number = np.broadcast_to(first.number, position.shape).ravel()
    # Kernels have no entry in common; only their lengths have to be made 1.
    length = np.sqrt(np.bincount(number, weights=value**2, minlength=first.count))
    return SparseBasis(first.count, (), number, position.ravel(), value / length[number])


def _dense_orbit(rho_in: FloatArray, rho_out: FloatArray, orbit: _Orbit, taps: int) -> FloatArray:
    s = orbit.stabiliser
    first = solve_dense(rho_in[s], rho_out[s])
    kernels = np.zeros((*first.shape, taps))
    for tap, h in zip(orbit.taps, orbit.carriers, strict=True):
        kernels[..., tap] = rho_out[h] @ first @ np.linalg.inv(rho_in[h])
    if is_orthogonal(rho_in) and is_orthogonal(rho_out):
        return kernels / math.sqrt(len(orbit.taps))
    return orthonormalised(kernels)  # carrying a value along its orbit changed its length


def _concatenated(parts: Sequence[SparseBasis], shape: tuple[int, ...]) -> SparseBasis:
    offsets = np.cumsum([0, *(part.count for part in parts)])
    number = np.concatenate([part.number + offset for part, offset in zip(parts, offsets, strict=False)])
    position = np.concatenate([part.position for part in parts])
    order = np.lexsort((position, number))
    value = np.concatenate([part.value for part in parts])
    return SparseBasis(int(offsets[-1]), shape, number[order], position[order], value[order])
