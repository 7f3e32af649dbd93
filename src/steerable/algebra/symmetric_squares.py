"""Quadratic maps that commute with a group: the intertwiners from the symmetric square of a representation.

A vector x that transforms by ρ has products x_a x_b, which transform by the symmetric square of ρ. It is the part of
ρ ⊗ ρ that does not change when the factors are exchanged, since x ⊗ x does not.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.intertwiners import SparseBasis, hom_basis, over_a_group, solve_monomial
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation

__all__ = ["square_basis"]


@lru_cache(maxsize=1024)
def square_basis(rho: Representation, target: Representation) -> SparseBasis:
    """An orthonormal basis of Hom(Sym²ρ, target), each element of shape (dim target, d(d + 1)/2) for d = dim ρ.

    Coordinates of Sym²ρ are x_a² and √2 x_a x_b for a < b, in the order of ``np.triu_indices(d)``, so that the length
    of x ⊗ x is that of its coordinates.

    >>> from steerable import dihedral
    >>> E, A2 = dihedral(4).irrep("E"), dihedral(4).irrep("A2")
    >>> square_basis(E, dihedral(4).irrep("A1")).dense().round(3).tolist()
    [[[0.707, 0.0, 0.707]]]
    >>> square_basis(E, A2).count  # x ↦ x₁y₂ - x₂y₁ needs two vectors
    0
    """
    factor, image = over_a_group(rho), over_a_group(target)
    if factor is not None and image is not None:
        return solve_monomial(_symmetric_square(factor), image)
    products = hom_basis(rho @ rho, target).dense().reshape(-1, target.dim, rho.dim, rho.dim)
    a, b = np.triu_indices(rho.dim)
    weight = np.where(a == b, 0.5, math.sqrt(0.5))
    return SparseBasis.of(_independent((products[..., a, b] + products[..., b, a]) * weight))


def _symmetric_square(monomial: Monomial) -> Monomial:
    """The action on the coordinates x_a² and √2 x_a x_b: products are exchanged as their factors are."""
    dim = monomial.image.shape[1]
    a, b = np.triu_indices(dim)
    number = np.zeros((dim, dim), dtype=np.intp)
    number[a, b] = number[b, a] = np.arange(len(a))
    return Monomial(number[monomial.image[:, a], monomial.image[:, b]], monomial.scale[:, a] * monomial.scale[:, b])


def _independent(arrays: FloatArray) -> FloatArray:
    """An orthonormal basis of the span, by Gram–Schmidt, longest remainder first; sparse where the arrays are."""
    rest = arrays.reshape(len(arrays), math.prod(arrays.shape[1:])).copy()
    found = [np.zeros((0, rest.shape[1]))]
    while len(rest):
        # Rounded, so that equal lengths are told apart by position and not by rounding error.
        lengths = np.round(np.linalg.norm(rest, axis=1), 9)
        longest = int(np.argmax(lengths))
        if lengths[longest] < 1e-6:
            break
        unit = rest[longest] / np.linalg.norm(rest[longest])
        found.append(unit[None])
        for _ in range(2):  # twice is enough for orthogonality to rounding error
            rest -= np.outer(rest @ unit, unit)
    return np.concatenate(found).reshape(-1, *arrays.shape[1:])
