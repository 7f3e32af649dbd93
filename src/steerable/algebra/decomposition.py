"""The decomposition of a representation into real irreps: a change of basis that makes it block-diagonal."""

from __future__ import annotations

import math

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.intertwiners import hom_basis, metric_of
from steerable.algebra.representations import Representation
from steerable.errors import expect

__all__ = ["decompose"]


def decompose(rho: Representation) -> tuple[tuple[int, ...], FloatArray]:
    """(type, A) with A⁻¹ρ(g)A block-diagonal for all g: the irreps in order, copies in the same matrices.

    A is orthogonal whenever ρ is.

    >>> from steerable import dihedral, pixel_patch
    >>> kind, basis = decompose(pixel_patch(dihedral(4), 3))
    >>> kind, basis.shape
    ((3, 0, 1, 1, 2), (9, 9))
    """
    expect(rho, Representation, "a Representation to decompose, such as G.regular")
    kind, basis = rho.type, np.eye(rho.dim)
    if isinstance(rho, CompactRepresentation):
        return kind, _in_order(rho)
    if not rho.is_orthogonal:
        basis = metric_of(rho.matrices).inverse  # C ρ C⁻¹ is orthogonal, and is change_basis(C⁻¹) of ρ
        rho = rho.change_basis(basis)
    columns = [np.zeros((rho.dim, 0))]
    for irrep, copies in zip(rho.group.irreps_of(kind), kind, strict=True):
        if copies:
            columns.extend(_copies(hom_basis(irrep, rho).dense(), copies))
    return kind, basis @ np.concatenate(columns, axis=1)


def _in_order(rho: CompactRepresentation) -> FloatArray:
    """The basis in which the representation is known as a sum of irreps, sorted by irrep."""
    pairs = sorted(zip(rho.waves, rho.slices, strict=True), key=lambda pair: pair[0].number(rho.group))
    return np.concatenate([np.zeros((rho.dim, 0)), *(rho.basis[:, place] for _, place in pairs)], axis=1)


def _copies(maps: FloatArray, copies: int) -> list[FloatArray]:
    """``copies`` isometric intertwiners φ → ρ with orthogonal images, from a basis of Hom(φ, ρ).

    Tᵀ T is symmetric and commutes with φ, hence a multiple of 1 (also for complex and quaternionic φ), so that each T
    is an isometry up to scale, and T - C Cᵀ T is again an intertwiner, orthogonal to the copy C.
    """
    dim = maps.shape[2]
    chosen: list[FloatArray] = []
    while len(chosen) < copies:
        norms = np.linalg.norm(maps, axis=(1, 2))
        best = int(np.argmax(np.round(norms, 9)))
        copy = maps[best] * (math.sqrt(dim) / norms[best])
        chosen.append(copy)
        for _ in range(2):
            maps = maps - copy @ (copy.T @ maps)
    return chosen
