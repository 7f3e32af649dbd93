"""The leak of a filter: the share of what it does to band-limited images that does not turn as it should.

A filter acts on an image through its spectrum ψ̂(ω). A pair of taps (u, v), read as ψ = u + iv, turns with the frequency
m on images whose spectrum lies in the disc |ω| < band if ψ̂(r, φ) = R(r) e^{imφ} there. With the weight w of the images'
power,

    T(ψ)   = ∫ w(r) |ψ̂|² dω                                   is all that the filter does to such images,
    P_m(ψ) = ∫ w(r) |(2π)⁻¹ ∫ ψ̂(r, φ) e^{-imφ} dφ|² 2πr dr    is the part that turns with the frequency m,

and the leak is 1 - P_m / T: the mean squared error, over all angles, of turning the filter's answer instead of the
image, divided by twice the answer's own mean square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.arrays import FloatArray
from steerable.filters.pixel_grids import tap_coordinates

__all__ = ["TapSpectra", "tap_spectra"]


@dataclass(frozen=True)
class TapSpectra:
    """The spectra of single taps on circles of the disc, in units of the root of the images' power there.

    Attributes:
        parts: (frequencies, radii, taps), complex: the part of each angular frequency from 0 to the highest.
        total: (taps, taps): T for all pairs of taps.
    """

    parts: NDArray[np.complex128]
    total: FloatArray

    @property
    def highest(self) -> int:
        """The largest angular frequency of which the taps have a noticeable part."""
        return len(self.parts) - 1

    def forms(self, frequency: int, filters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(P, T), each (n, n): the two forms on the span of filters (n, taps, 1 or 2) of one frequency."""
        pairs = filters[:, :, 0] + (1j * filters[:, :, 1] if filters.shape[2] == 2 else 0)
        wanted = self.parts[frequency] @ pairs.T
        columns = filters.transpose(2, 0, 1)
        return (wanted.conj().T @ wanted).real, (columns @ self.total @ columns.transpose(0, 2, 1)).sum(axis=0)

    def leaks(self, frequency: int, filters: FloatArray) -> FloatArray:
        """(n,): the leak of each of the filters (n, taps, 1 or 2)."""
        part, total = (form.diagonal() for form in self.forms(frequency, filters))
        return np.clip(1 - part / total, 0, 1)


@lru_cache(maxsize=64)
def tap_spectra(shape: tuple[int, ...], band: float, falloff: float) -> TapSpectra:
    """The spectra of a grid's taps.

    Args:
        shape: the grid's extents.
        band: the radius of the disc, as a share of the highest frequency that pixels carry along an axis.
        falloff: the power of the images falls like |ω|^-falloff beyond an eighth of that frequency.
    """
    points, limit = tap_coordinates(shape) / 2, band * math.pi
    reach = limit * float(np.hypot(points[:, 0], points[:, 1]).max())  # a tap's parts vanish quickly from there on
    angles = 4 * math.ceil(reach + 8)
    nodes, weights = np.polynomial.legendre.leggauss(angles // 2)
    r = (nodes + 1) / 2 * limit
    phi = 2 * math.pi * np.arange(angles) / angles
    omega = r[:, None, None] * np.stack([np.cos(phi), np.sin(phi)], axis=-1)
    power = weights * r * (1 + (8 * r / math.pi) ** 2) ** (-falloff / 2)
    parts = np.sqrt(power)[:, None, None] * np.fft.fft(np.exp(-1j * (omega @ points.T)), axis=1) / angles
    every = parts.reshape(-1, len(points))
    highest = math.ceil(reach)
    return TapSpectra(parts[:, : highest + 1].transpose(1, 0, 2).copy(), (every.conj().T @ every).real)
