"""Kernels between permutation capsules of which no element but e keeps a pair of channels in place, in compact form.

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

    def dense(self) -> FloatArray:
        """(count, dim out · dim in, taps), written out."""
        dim, order, taps = self.table.shape
        every = np.zeros((self.orbits, dim, self.orbits, order, taps))
        for orbit in range(self.orbits):
            every[orbit, :, orbit] = self.table
        return every.reshape(self.count, self.orbits * order, taps)[:, self.order]


@lru_cache(maxsize=4096)
def free_kernels(rho_in: Representation, rho_out: Representation, space: FilterSpace) -> FreeKernels | None:
    """The compact basis; None where a capsule is not a permutation, or some element keeps a pair of channels.

    Spaces without angular frequencies have other orders of their kernels, and no compact form.
    """
    if not space.harmonics or space.is_pixel_patch or not isinstance(space.group, FiniteGroup):
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
