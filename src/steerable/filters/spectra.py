"""The leak of a filter: the share of its response to band-limited images that does not turn as it should.

A filter acts on an image through its spectrum F̂(ω). A tuple of filters F_d turns as a harmonic h_d on images whose
spectrum lies in the disc, or the ball, |ω| < band if F̂_d(ω) = R(|ω|) h_d(ω̂) there, with one R for all d. With the
weight w of the images' power,

    T(F) = ∫ w Σ_d |F̂_d|² dω     is all that the filter does to such images,
    P(F)                          is the same of its part of that form, the projection at each |ω|,

and the leak is 1 - P / T: the mean squared error, over all rotations, of turning the filter's answer instead of the
image, divided by twice the answer's own mean square. A single tap at x has, of the wave of length ω, the part B(ω|x|)
h(x̂), where B is the Bessel function of the frequency or degree, so that

    P(F) = ∫ w (Σ_x B(ω|x|) Σ_d F_d(x) h_d(x̂))² dω,     T(F) = Σ_d F_dᵀ K F_d,     K(x, y) = ∫ w B_0(ω|x - y|) dω.

If neighbours are not equally far from each other along all axes, the grid carries far more than the ball: along the
axes with close neighbours there are frequencies which no filter can turn into the others. Images are then assumed to
have some of them too, as a little white noise, so that filters do not use frequencies that would not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.bessel_functions import bessel_functions
from steerable.filters.grid_symmetries import TapGrid, TurningTaps, tap_grid
from steerable.filters.harmonics import Harmonic
from steerable.filters.pixel_grids import Spacing, is_even

__all__ = ["NOISE", "TapSpectra", "tap_spectra"]

NOISE = 0.01
"""The power of the noise beside that of the images at each tap, where taps are not equally far apart."""


@dataclass(frozen=True, eq=False)
class TapSpectra:
    """The spectra of single taps on circles of the disc, or spheres of the ball.

    Attributes:
        grid: the taps.
        parts: (frequencies, radii, orbits): B(ω|x|) at each orbit of taps, times the root of the images' power at ω.
        total: (orbits, taps): K between the first tap of each orbit and every tap.
    """

    grid: TapGrid
    parts: FloatArray
    total: FloatArray

    @property
    def highest(self) -> int:
        """The largest angular frequency, or degree, that is noticeable in the taps."""
        return len(self.parts) - 1

    def forms(self, harmonic: Harmonic, functions: TurningTaps) -> tuple[FloatArray, FloatArray]:
        """(P, T), each (n, n): the two forms on the span of functions that the grid's symmetries turn alike."""
        lengths, orbit, values = self.grid.lengths[functions.orbit], functions.orbit, functions.values
        at_first = harmonic.at(self.grid.positions[self.grid.first])
        radial = lengths * (values * at_first[orbit]).sum(axis=1)  # F · h is the same at all taps of an orbit
        wanted = self.parts[harmonic.frequency][:, orbit] * radial
        total = np.zeros((len(values), len(values)))
        for k in range(len(self.grid.first)):
            own, taps = orbit == k, self.grid.orbit == k
            # F = ρ(g) F(first tap), so that K F at the first taps is Σ K ρ(g), (orbits, dim, dim), times F there.
            answers = np.tensordot(self.total[:, taps], functions.turns[taps], axes=1) @ values[own].T
            total[:, own] = np.einsum("id,idj->ij", values, answers[orbit])
        total *= lengths[:, None]
        return wanted.T @ wanted, (total + total.T) / 2

    def leaks(self, harmonic: Harmonic, filters: FloatArray) -> FloatArray:
        """(n,): the leak of each of the filters (n, taps, dim), which the grid's symmetries turn as the harmonic."""
        first, lengths = self.grid.first, self.grid.lengths
        at_first = filters[:, first]
        radial = lengths * np.einsum("nod,od->no", at_first, harmonic.at(self.grid.positions[first]))
        part = ((radial @ self.parts[harmonic.frequency].T) ** 2).sum(axis=1)
        return np.asarray(np.clip(1 - part / self.totals(filters).diagonal(), 0, 1))

    def totals(self, filters: FloatArray) -> FloatArray:
        """(n, n): T on the span of filters (n, taps, dim), which the grid's symmetries turn alike."""
        weighted = self.grid.lengths[:, None] * filters[:, self.grid.first]
        answers = np.tensordot(filters, self.total, (1, 1)).swapaxes(1, 2)
        total = np.tensordot(weighted, answers, ((1, 2), (1, 2)))
        return np.asarray((total + total.T) / 2)


@lru_cache(maxsize=64)
def tap_spectra(shape: tuple[int, ...], spacing: Spacing, band: float, falloff: float) -> TapSpectra:
    """The spectra of a grid's taps.

    Args:
        shape: the grid's extents.
        spacing: how far apart neighbours are along each axis.
        band: the radius of the disc or the ball, as a share of the highest frequency that the grid carries along
            every axis.
        falloff: the power of the images falls like |ω|^-falloff beyond an eighth of that frequency.
    """
    grid, highest_of_all = tap_grid(shape, spacing), math.pi / max(spacing)
    points, limit = grid.positions, band * highest_of_all
    distance = np.linalg.norm(points, axis=1)
    reach = limit * float(distance.max())  # a tap's parts vanish quickly from there on
    nodes, weights = np.polynomial.legendre.leggauss(2 * math.ceil(reach + 8))
    r = (nodes + 1) / 2 * limit
    power = weights * r ** (len(shape) - 1) * (1 + (8 * r / highest_of_all) ** 2) ** (-falloff / 2)
    parts = bessel_functions(len(shape), math.ceil(reach), np.outer(r, distance[grid.first]))
    apart = np.linalg.norm(points[grid.first][:, None] - points, axis=2)
    distinct, place = np.unique(np.round(apart, 9), return_inverse=True)
    kernel = power @ bessel_functions(len(shape), 0, np.outer(r, distinct))[0]
    kernel[0] *= 1 if is_even(spacing) else 1 + NOISE  # a tap and itself
    return TapSpectra(grid, np.sqrt(power)[:, None] * parts, kernel[place.reshape(apart.shape)])
