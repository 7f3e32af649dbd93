"""The isotypic basis of patch ⊗ fibre, in which an equivariant convolution is one small matrix per irrep.

For one capsule ρ the basis is put together from three small ones, each a ``decompose``:

- the fibre: A⁻¹ takes the capsule to its irreps (i, j, c), copy j of irrep i, component c;
- the patch: Pᵀ takes the taps to symmetric stencils (s, u, c), copy u of irrep s;
- their product: Clebsch–Gordan coefficients of s ⊗ i take both to irreps k.

All copies of a capsule kind are treated alike, so that everything here is of the size of one capsule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.decomposition import decompose
from steerable.algebra.intertwiners import hom_basis
from steerable.algebra.irreps import Irrep
from steerable.algebra.representations import Representation
from steerable.filters.spaces import FilterSpace

__all__ = ["IsotypicBasis", "commutant", "isotypic_basis"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class IsotypicBasis:
    """patch ⊗ ρ → irreps, for one capsule of dimension D.

    Attributes:
        multiplicity: (irreps,), how often each irrep occurs in patch ⊗ ρ.
        fibre: (D, D), A⁻¹: a capsule's channels → its irreps' components.
        fibre_back: (D, D), A.
        coupling: (taps · D, taps, D), from fibre components at each tap to the rows (k, μ, c): irrep k, occurrence μ,
            component c, in this order.
    """

    multiplicity: tuple[int, ...]
    dims: tuple[int, ...]
    fibre: FloatArray
    fibre_back: FloatArray
    coupling: FloatArray

    @cached_property
    def transform(self) -> FloatArray:
        """(taps · D, D, taps): from a patch of the field itself, in the order of a convolution's weight."""
        return np.asarray(np.einsum("rti,id->rdt", self.coupling, self.fibre))

    @cached_property
    def back(self) -> FloatArray:
        """(D · taps, taps · D): the inverse of ``transform``. Stencils and coefficients are orthogonal matrices."""
        back = np.einsum("di,rti->dtr", self.fibre_back, self.coupling)
        return np.asarray(back.reshape(-1, len(self.coupling)))

    def first_row(self, irrep: int) -> int:
        """The first of the rows (μ, c) of an irrep."""
        return sum(m * d for m, d in zip(self.multiplicity[:irrep], self.dims[:irrep], strict=True))


@lru_cache(maxsize=1024)
def isotypic_basis(rho: Representation, space: FilterSpace) -> IsotypicBasis:
    """The basis for one capsule and one filter space, whose taps are its coefficients; remembered by content."""
    irreps = rho.group.irreps
    fibre_type, back = decompose(rho)
    fibre = np.asarray(back.T if rho.is_orthogonal else np.linalg.inv(back), dtype=np.float64)
    patch_type, stencils = decompose(space.representation)
    taps = len(stencils)
    rows: list[list[FloatArray]] = [[] for _ in irreps]
    for s, i in np.ndindex(len(irreps), len(irreps)):
        if patch_type[s] and fibre_type[i]:
            for k, product in _coupled(irreps[s], irreps[i]):
                for u, j in np.ndindex(patch_type[s], fibre_type[i]):
                    stencil = _copy(stencils, patch_type, irreps, s, u)  # (taps, dim s)
                    place = _copy(np.eye(rho.dim), fibre_type, irreps, i, j)  # (D, dim i)
                    rows[k].append(np.einsum("cab,ta,db->ctd", product, stencil, place))
    dims = tuple(irrep.dim for irrep in irreps)
    coupling = np.concatenate([np.zeros((0, taps, rho.dim)), *(part for parts in rows for part in parts)])
    coupling[np.abs(coupling) < 1e-14] = 0
    return IsotypicBasis(tuple(len(parts) for parts in rows), dims, fibre, back, coupling)


def _copy(columns: FloatArray, kind: tuple[int, ...], irreps: tuple[Irrep, ...], irrep: int, copy: int) -> FloatArray:
    """The columns of one copy of an irrep in a basis that ``decompose`` has ordered."""
    dims = [i.dim for i in irreps]
    start = sum(m * d for m, d in zip(kind[:irrep], dims[:irrep], strict=True)) + copy * dims[irrep]
    return columns[:, start : start + dims[irrep]]


@lru_cache(maxsize=4096)
def _coupled(s: Irrep, i: Irrep) -> tuple[tuple[int, FloatArray], ...]:
    """Clebsch–Gordan coefficients: each irrep k in s ⊗ i as (its number, (dim k, dim s, dim i))."""
    kind, basis = decompose(s @ i)
    found, start = [], 0
    for k, (irrep, copies) in enumerate(zip(s.group.irreps, kind, strict=True)):
        for _ in range(copies):
            found.append((k, basis[:, start : start + irrep.dim].T.reshape(irrep.dim, s.dim, i.dim)))
            start += irrep.dim
    return tuple(found)


@lru_cache(maxsize=1024)
def commutant(irrep: Irrep) -> FloatArray:
    """(s, d, d): a basis of Hom(φ, φ) with tr(BᵀB') = d·δ; for real irreps the identity alone."""
    if irrep.commutant_dim == 1:
        return np.eye(irrep.dim)[None]
    return hom_basis(irrep, irrep).dense() * math.sqrt(irrep.dim)
