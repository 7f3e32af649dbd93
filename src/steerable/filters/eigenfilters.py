"""The most steerable filters on a grid, by an eigenproblem for each angular frequency or degree.

The eigenvectors of P relative to T (see :mod:`steerable.filters.spectra`) are the filters whose energy is most purely
of that frequency, and their leaks are 1 - λ. A few filters are almost perfect and the others are useless, so that one
tolerance is all there is to choose. Both forms commute with the symmetries of the grid, so that every such filter turns
exactly with the elements that the grid carries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, read_only
from steerable.filters.grid_symmetries import TurningTaps, turning_taps
from steerable.filters.harmonics import CircularHarmonic, Harmonic, HarmonicFilter, SphericalHarmonic
from steerable.filters.independence import independent
from steerable.filters.pixel_grids import Spacing
from steerable.filters.spectra import TapSpectra, tap_spectra

__all__ = ["least_leak", "most_steerable"]

_TOLD_APART = 1e-6  # a difference of leaks from which on rounding cannot mix two eigenvectors
_HOPELESS = (
    3  # how many times the tolerance the least leak of two frequencies in turn is where higher ones are not tried
)


@lru_cache(maxsize=256)
def most_steerable(
    shape: tuple[int, ...], spacing: Spacing, leak: float, band: float, falloff: float
) -> tuple[HarmonicFilter, ...]:
    """All filters below the tolerance that the grid can tell apart, by frequency and then by leak."""
    spectra, hopeless = tap_spectra(shape, spacing, band, falloff), 0
    candidates: list[HarmonicFilter] = []
    for harmonic in _harmonics(spectra):
        functions = turning_taps(spectra.grid, harmonic)
        shares, vectors = _eigenvectors(spectra, harmonic, functions)
        candidates += _eigenfilters(spectra, harmonic, functions, (shares, vectors), leak)
        # The least leak grows with the frequency: what a kernel of that size cannot tell apart, it never will.
        hopeless = hopeless + 1 if 1 - shares.max(initial=0) > _HOPELESS * leak else 0
        if hopeless == 2:
            break
    kept, _ = independent(sorted(candidates, key=lambda f: f.leak))
    chosen = {id(f) for f in kept}
    return tuple(f for f in candidates if id(f) in chosen)


@lru_cache(maxsize=256)
def least_leak(shape: tuple[int, ...], spacing: Spacing, band: float, falloff: float) -> float:
    """The smallest leak of all filters."""
    spectra = tap_spectra(shape, spacing, band, falloff)
    found = (_eigenvectors(spectra, h, turning_taps(spectra.grid, h))[0] for h in _harmonics(spectra))
    return min(float(1 - shares.max(initial=0)) for shares in found)


def _harmonics(spectra: TapSpectra) -> Iterator[Harmonic]:
    kind = CircularHarmonic if len(spectra.grid.shape) == 2 else SphericalHarmonic
    return (kind(frequency) for frequency in range(spectra.highest + 1))


def _eigenvectors(spectra: TapSpectra, harmonic: Harmonic, functions: TurningTaps) -> tuple[FloatArray, FloatArray]:
    """(shares λ (k,), weights of the functions (k, n)), those with the largest leaks first."""
    if not len(functions.values):
        return np.zeros(0), np.zeros((0, 0))
    part, total = spectra.forms(harmonic, functions)
    lengths, axes = np.linalg.eigh(total)
    alive = lengths > 1e-12 * lengths[-1]  # the others do nothing to such images
    root = axes[:, alive] / np.sqrt(lengths[alive])
    shares, vectors = np.linalg.eigh(root.T @ part @ root)
    return shares, (root @ vectors).T


def _eigenfilters(
    spectra: TapSpectra,
    harmonic: Harmonic,
    functions: TurningTaps,
    solution: tuple[FloatArray, FloatArray],
    leak: float,
) -> Iterator[HarmonicFilter]:
    """The filters of one harmonic whose leak is at most this, smallest first."""
    shares, vectors = solution
    gaps = np.flatnonzero(-np.diff(shares[::-1]) > _TOLD_APART)
    for alike in np.split(np.arange(len(shares))[::-1], gaps + 1):
        if not len(alike) or 1 - shares[alike[0]] > leak + _TOLD_APART:
            continue
        taps = _from_centre_outwards(functions.combined(vectors[alike]), spectra.grid.positions, harmonic)
        for f, own in zip(taps, spectra.leaks(harmonic, taps).tolist(), strict=True):
            if own <= leak:
                yield HarmonicFilter(harmonic, read_only(f), own)


def _from_centre_outwards(filters: FloatArray, points: FloatArray, harmonic: Harmonic) -> FloatArray:
    """The same span: orthogonal filters, in the order of their mean square distance from the centre.

    Where leaks are equal up to rounding, rounding would decide which combinations of filters an eigenproblem returns.
    The distances are far apart, so that weights that were learned on one machine mean the same on every other.
    """
    flat = filters.reshape(len(filters), -1)
    orthonormal = np.linalg.qr(flat.T)[0].T.reshape(filters.shape)
    distance = np.einsum("atd,t,btd->ab", orthonormal, (points**2).sum(axis=1), orthonormal, optimize=True)
    ordered = np.tensordot(np.linalg.eigh(distance)[1].T, orthonormal, axes=1)
    profiles = np.einsum("atd,td->at", ordered, harmonic.at(points))
    peak = np.argmax(np.round(np.abs(profiles), 6), axis=1)
    signs = np.sign(profiles[np.arange(len(profiles)), peak])
    return np.asarray(math.sqrt(filters.shape[2]) * signs[:, None, None] * ordered)
