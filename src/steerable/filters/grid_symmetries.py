"""The symmetries of a grid of taps, and functions on the grid that turn with them as harmonics do.

Such functions F: taps → V with F(gx) = ρ(g) F(x) are fixed by their values at one tap of each orbit, where they are any
vectors that the tap's stabiliser leaves unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray
from steerable.algebra.families import dihedral
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.space_families import octahedral
from steerable.filters.harmonics import Harmonic
from steerable.filters.pixel_grids import Spacing, tap_images, tap_positions

__all__ = ["TapGrid", "TurningTaps", "tap_grid", "turning_taps"]


@dataclass(frozen=True, eq=False)
class TapGrid:
    """A grid of taps with its symmetries.

    Attributes:
        shape, spacing: its extents, and how far apart neighbours are.
        symmetries: all rotations and reflections that map the grid onto itself.
        first: (orbits,): the first tap of each orbit.
        orbit: (taps,): which orbit each tap belongs to.
        carrier: (taps,): the number of a symmetry that moves the first tap of the orbit there.
        stabilisers: for each orbit the numbers of the symmetries that leave its first tap in place.
    """

    shape: tuple[int, ...]
    spacing: Spacing
    symmetries: FiniteGroup
    first: IntArray
    orbit: IntArray
    carrier: IntArray
    stabilisers: tuple[IntArray, ...]

    @property
    def positions(self) -> FloatArray:
        """(taps, axes): where the taps are, relative to the centre."""
        return tap_positions(self.shape, self.spacing)

    @property
    def lengths(self) -> IntArray:
        """(orbits,): the number of taps of each orbit."""
        return np.bincount(self.orbit)


@lru_cache(maxsize=128)
def tap_grid(shape: tuple[int, ...], spacing: Spacing) -> TapGrid:
    """A grid of pixels or voxels: a square has the symmetries of D4, a cube of O_h, others some of them."""
    every = dihedral(4) if len(shape) == 2 else octahedral(reflections=True)
    kept = np.flatnonzero(tap_images(every, shape, spacing)[:, 0] >= 0)
    symmetries = every if len(kept) == every.order else every.subgroup(every.names(kept))
    images = tap_images(symmetries, shape, spacing)
    leader = images.min(axis=0)
    first, orbit = np.unique(leader, return_inverse=True)
    carrier = np.argmax(images[:, leader] == np.arange(len(leader)), axis=0)
    stabilisers = tuple(np.flatnonzero(images[:, tap] == tap) for tap in first)
    return TapGrid(shape, spacing, symmetries, first, orbit, carrier, stabilisers)


@dataclass(frozen=True, eq=False)
class TurningTaps:
    """A basis of the functions on a grid that its symmetries turn as a harmonic, by their values at first taps.

    Attributes:
        grid: the grid.
        turns: (taps, dim, dim): ρ of the symmetry that carries the first tap of an orbit to each tap.
        orbit: (n,): the orbit on which each function lives.
        values: (n, dim): what it is at the orbit's first tap. Over all taps its squares add up to 1.
    """

    grid: TapGrid
    turns: FloatArray
    orbit: IntArray
    values: FloatArray

    def combined(self, weights: FloatArray) -> FloatArray:
        """(k, taps, dim): the functions with these weights (k, n), written out."""
        at_first = np.zeros((len(weights), len(self.grid.first), self.values.shape[1]))
        for k, (orbit, value) in enumerate(zip(self.orbit, self.values, strict=True)):
            at_first[:, orbit] += weights[:, k, None] * value
        return np.asarray(np.einsum("tde,kte->ktd", self.turns, at_first[:, self.grid.orbit]))


def turning_taps(grid: TapGrid, harmonic: Harmonic) -> TurningTaps:
    """All functions on the grid that its symmetries turn as they turn the harmonic."""
    matrices = harmonic.turned_by(grid.symmetries).matrices
    orbits, values = [], []
    for k, (stabiliser, length) in enumerate(zip(grid.stabilisers, grid.lengths, strict=True)):
        projector = matrices[stabiliser].mean(axis=0)
        shares, vectors = np.linalg.eigh((projector + projector.T) / 2)
        kept = vectors[:, shares > 0.5].T / np.sqrt(length)
        orbits += [k] * len(kept)
        values.append(kept)
    return TurningTaps(grid, matrices[grid.carrier], np.array(orbits, dtype=np.intp), np.concatenate(values))
