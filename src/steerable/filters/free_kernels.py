"""Kernels between permutation capsules in which no element but e fixes a pair of channels, in compact form.

Such a bank is free at one entry (i, j) of each orbit of channel pairs, and H carries it to the others: at g(i, j) it is
ρ_V(g) times what it is at (i, j). All orbits share one table of turned and sampled filters, so that a bank is the
product of coefficients (orbits, dim V) and the table (dim V, |H| · taps), its entries brought into order. Written out,
the same basis has dim out · dim in times as many numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray, read_only
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.intertwiners import SparseBasis
from steerable.algebra.representations import Representation
from steerable.filters.spaces import FilterSpace

__all__ = ["FreeKernels", "free_kernels"]


@dataclass(frozen=True)
class FreeKernels:
    """A basis of kernels, orthonormal in coefficients: element (orbit, v) is coefficient v at the orbit's first entry.

    Attributes:
        orbits: their number.
        table: (dim V, |H|, taps): each coefficient turned by each element, and sampled.
        order: (dim out · dim in,): where each entry of the bank stands in the product, (orbits · |H|).
    """

    orbits: int
    table: FloatArray
    order: IntArray

    @property
    def count(self) -> int:
        """dim Hom."""
        return self.orbits * len(self.table)

    @property
    def energy(self) -> float:
        """Σ ‖ψ_k‖² of the sampled kernels."""
        return self.orbits * float((self.table**2).sum())

    def sparse(self, shape: tuple[int, ...]) -> SparseBasis:
        """The basis with the place of each entry, as arrays (dim out, dim in, *size); rounding errors are dropped."""
        dim, _, taps = self.table.shape
        lengths = np.linalg.norm(self.table.reshape(dim, -1), axis=1)
        v, g, tap = np.nonzero(np.abs(self.table) > 1e-14 * lengths[:, None, None])
        entry, orbit = np.argsort(self.order).reshape(self.orbits, -1), np.arange(self.orbits)[:, None]
        number, position = (orbit * dim + v).ravel(), (entry[:, g] * taps + tap).ravel()
        value = np.tile(self.table[v, g, tap], self.orbits)
        by_place = np.lexsort((position, number))
        return SparseBasis(self.count, shape, number[by_place], position[by_place], value[by_place])


@lru_cache(maxsize=4096)
def free_kernels(rho_in: Representation, rho_out: Representation, space: FilterSpace) -> FreeKernels | None:
    """The compact basis; None if a capsule is not a permutation, or some element fixes a pair of channels.

    Pixels of images have another order of their kernels, which weights that were learned before rely on, and so have
    spaces of one's own.
    """
    suited = len(space.size) == 3 if space.is_pixel_patch else bool(space.harmonics)
    if not suited or not isinstance(space.group, FiniteGroup):
        return None
    if not (rho_in.is_permutation and rho_out.is_permutation) or rho_in.monomial is None or rho_out.monomial is None:
        return None
    pairs = rho_out.monomial.image[:, :, None] * rho_in.dim + rho_in.monomial.image[:, None, :]
    moved = pairs.reshape(len(pairs), -1)  # (|H|, entries): where each element moves each entry of the bank
    fixed = (moved == np.arange(moved.shape[1])).any(axis=1)
    if fixed.sum() > 1:
        return None
    leaders = np.flatnonzero(moved.min(axis=0) == np.arange(moved.shape[1]))
    order = np.empty(moved.shape[1], dtype=np.intp)
    order[moved[:, leaders].T.ravel()] = np.arange(moved.shape[1])
    turned = space.sampling @ space.representation.matrices / math.sqrt(len(pairs))
    return FreeKernels(len(leaders), read_only(turned.transpose(2, 0, 1).copy()), read_only(order))
