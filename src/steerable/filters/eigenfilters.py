"""The most steerable filters on a grid, by an eigenproblem for each angular frequency or degree.

The eigenvectors of P relative to T (see :mod:`steerable.filters.spectra`) are the filters whose energy is most purely
of that frequency, and their leaks are 1 - λ. A few filters are almost perfect and the others are useless, so one
tolerance is all there is to choose. Both forms commute with the symmetries of the grid, so every such filter turns
exactly with the elements that the grid carries. No filter of a frequency above 0 responds to constant images, so
networks of these filters are exactly equivariant on them, for every angle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, read_only
from steerable.filters.grid_symmetries import TapGrid, TurningTaps, turning_taps
from steerable.filters.harmonics import CircularHarmonic, Harmonic, HarmonicFilter, SphericalHarmonic
from steerable.filters.independence import independent
from steerable.filters.pixel_grids import Spacing
from steerable.filters.spectra import TapSpectra, tap_spectra

__all__ = ["least_leak", "most_steerable"]

_NATURAL = 2.0  # the falloff of natural images
_FAVOUR = 0.25  # the exponent of a response in the length of a filter; experiments/equivariance_error compares others
_TOLD_APART = 1e-6  # a difference of leaks from which on rounding cannot mix two eigenvectors
_HOPELESS = (
    3  # how many times the tolerance the least leak of two frequencies in turn is where higher ones are not tried
)


@lru_cache(maxsize=256)
def most_steerable(
    shape: tuple[int, ...], spacing: Spacing, leak: float, band: float, falloff: float
) -> tuple[HarmonicFilter, ...]:
    """A basis of the span of all filters below the tolerance that the grid can tell apart, frequency by frequency.

    Within a frequency the basis is orthogonal, smoothest filters first, and filters that respond more to natural images
    are longer. Random coefficients then give smooth filters, which turn better than rough ones.
    """
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
    return tuple(_smooth_basis(spectra, kept))


def _smooth_basis(spectra: TapSpectra, kept: list[HarmonicFilter]) -> Iterator[HarmonicFilter]:
    found = []
    for harmonic in sorted({f.harmonic for f in kept}, key=lambda h: h.frequency):
        span = np.stack([f.taps for f in kept if f.harmonic == harmonic])
        filters, responses = _smoothest_first(span, spectra.grid, harmonic)
        leaks = spectra.leaks(harmonic, filters)  # each is a mean of those of the span's eigenvectors
        longer = filters * (responses**_FAVOUR)[:, None, None]
        found += list(zip([harmonic] * len(longer), longer, leaks.tolist(), strict=True))
    columns = sum(f.shape[1] for _, f, _ in found)
    length = math.sqrt(sum(float((f**2).sum()) for _, f, _ in found) / max(columns, 1))
    return (HarmonicFilter(harmonic, read_only(f / length), leak) for harmonic, f, leak in found)


@lru_cache(maxsize=256)
def least_leak(shape: tuple[int, ...], spacing: Spacing, band: float, falloff: float) -> float:
    """The smallest tolerance at which there is a filter."""
    spectra = tap_spectra(shape, spacing, band, falloff)
    found = ((h, turning_taps(spectra.grid, h)) for h in _harmonics(spectra))
    candidates = (_eigenfilters(spectra, h, taps, _eigenvectors(spectra, h, taps), 1.0) for h, taps in found)
    return min(f.leak for filters in candidates for f in filters)


def _harmonics(spectra: TapSpectra) -> Iterator[Harmonic]:
    kind = CircularHarmonic if len(spectra.grid.shape) == 2 else SphericalHarmonic
    return (kind(frequency) for frequency in range(spectra.highest + 1))


def _eigenvectors(spectra: TapSpectra, harmonic: Harmonic, functions: TurningTaps) -> tuple[FloatArray, FloatArray]:
    """(shares λ (k,), weights of the functions (k, n)), those with the largest leaks first."""
    if not len(functions.values):
        return np.zeros(0), np.zeros((0, 0))
    part, total = spectra.forms(harmonic, functions)
    free = _free_of_constants(harmonic, functions)
    part, total = free @ part @ free.T, free @ total @ free.T
    if not len(free):
        return np.zeros(0), np.zeros((0, 0))
    lengths, axes = np.linalg.eigh(total)
    alive = lengths > 1e-12 * lengths[-1]  # the others do nothing to such images
    root = axes[:, alive] / np.sqrt(lengths[alive])
    shares, vectors = np.linalg.eigh(root.T @ part @ root)
    return shares, (root @ vectors).T @ free


def _free_of_constants(harmonic: Harmonic, functions: TurningTaps) -> FloatArray:
    """(k, n), orthonormal: the combinations of the functions whose taps sum to 0; all of them for the frequency 0.

    The symmetries of the grid let filters of the frequencies 4, 8, … respond to images that are constant, as no filter
    of a frequency above 0 should. The leak does not see it, since a single frequency ω = 0 has no area.
    """
    count = len(functions.values)
    if harmonic.frequency == 0:
        return np.eye(count)
    sums = functions.combined(np.eye(count)).sum(axis=1)
    _, sizes, combinations = np.linalg.svd(sums.T)
    return np.asarray(combinations[np.count_nonzero(sizes > 1e-9) :])


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
        taps, _ = _smoothest_first(functions.combined(vectors[alike]), spectra.grid, harmonic)
        for f, own in zip(taps, spectra.leaks(harmonic, taps).tolist(), strict=True):
            if own <= leak:
                yield HarmonicFilter(harmonic, read_only(f), own)


def _smoothest_first(filters: FloatArray, grid: TapGrid, harmonic: Harmonic) -> tuple[FloatArray, FloatArray]:
    """The same span: orthogonal filters with taps of length 1, and their responses to natural images, largest first.

    Where leaks are equal up to rounding, rounding would decide which combinations of filters an eigenproblem returns.
    The responses are far apart, so that weights that were learned on one machine mean the same on every other.
    """
    flat = filters.reshape(len(filters), -1)
    orthonormal = np.linalg.qr(flat.T)[0].T.reshape(filters.shape)
    responses, axes = np.linalg.eigh(tap_spectra(grid.shape, grid.spacing, 1.0, _NATURAL).totals(orthonormal))
    ordered = np.tensordot(axes.T[::-1], orthonormal, axes=1)
    profiles = np.einsum("atd,td->at", ordered, harmonic.at(grid.positions))
    peak = np.argmax(np.round(np.abs(profiles), 6), axis=1)
    signs = np.where(profiles[np.arange(len(profiles)), peak] < 0, -1, 1)  # a useless filter may have no profile
    return np.asarray(math.sqrt(filters.shape[2]) * signs[:, None, None] * ordered), responses[::-1]
