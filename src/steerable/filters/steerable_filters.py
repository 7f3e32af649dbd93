"""The most steerable pixel filters: all filters of a kernel size whose leak lies below a tolerance.

For each angular frequency m the eigenvectors of P_m relative to T (see :mod:`steerable.filters.spectra`) are the
filters whose energy is most purely of that frequency, and their leaks are 1 - λ. A few filters are almost perfect and
the others are useless, so that one tolerance is all there is to choose. Both forms commute with the symmetries of the
grid, so that every such filter turns exactly with the elements that the grid carries. No filter of a frequency above 0
responds to constant images, so that networks of these filters are exactly equivariant on them, for every angle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.families import dihedral
from steerable.algebra.group_interface import Group
from steerable.algebra.intertwiners import intertwiner_basis
from steerable.errors import shown
from steerable.filters.harmonics import HarmonicFilter, harmonic, harmonics_at
from steerable.filters.independence import independent
from steerable.filters.pixel_grids import size_text, tap_coordinates
from steerable.filters.pixel_patches import pixel_patch
from steerable.filters.planar_sizes import planar_size
from steerable.filters.spaces import FilterSpace
from steerable.filters.spectra import tap_spectra

__all__ = ["DEFAULT_LEAK", "filter_space"]

DEFAULT_LEAK = 0.03
"""The tolerance where none is given; with it 3×3, 5×5 and 7×7 filters have frequencies up to 2, 4 and 6."""

_NATURAL = 2.0  # the falloff of natural images
_FAVOUR = 0.25  # the exponent of a response in the length of a filter; experiments/equivariance_error compares others
_TOLD_APART = 1e-6  # a difference of leaks from which on rounding cannot mix two eigenvectors


def filter_space(
    group: Group,
    size: int | Sequence[int],
    leak: float = DEFAULT_LEAK,
    *,
    highest: int | None = None,
    band: float = 1.0,
    falloff: float = 0.0,
) -> FilterSpace:
    """The space of the most steerable pixel filters, for groups that turn images by any angle.

    Its filters turn exactly with the elements that the pixel grid carries, such as C4 inside C8, and with all others
    up to their leaks. ``leaks`` and ``frequencies`` of the space say how each filter turns.

    Args:
        group: a group that acts on the plane.
        size: the kernel size, odd or even; one number where the group exchanges height and width.
        leak: in (0, 1], the tolerance: the largest share of what a filter does to band-limited images that need not
            turn as it should. Larger tolerances give more filters, of higher frequencies.
        highest: the largest angular frequency; by default every frequency that the kernel carries.
        band: in (0, 1], the frequencies of which images consist, as a share of the highest one that pixels carry.
        falloff: how the power of images falls with their frequency, like |ω|^-falloff; 0 gives all frequencies the
            same weight, natural images have about 2.

    >>> from steerable import cyclic
    >>> space = filter_space(cyclic(8), 5, leak=0.02)
    >>> space
    <FilterSpace most steerable filters (leak 0.02) of C8: 11 coefficients, 5×5 taps>
    >>> sorted(set(space.frequencies.tolist())), bool(space.leaks.max() < 0.02)
    ([0, 1, 2, 3], True)
    """
    shape = planar_size(group, size)
    _check_share("leak", leak, "the share of a filter that need not turn as it should")
    _check_share("band", band, "the radius of the disc of the images' frequencies, as a share of the pixels' own")
    if (
        isinstance(falloff, bool)
        or not isinstance(falloff, int | float | np.integer | np.floating)
        or not 0 <= falloff <= 8
    ):
        raise ValueError(f"`falloff` is an exponent from 0 to 8; got {shown(falloff)}. Natural images have about 2.")
    found = _most_steerable(shape, float(leak), float(band), float(falloff))
    if not found:
        least = _least_leak(shape, float(band), float(falloff))
        raise ValueError(
            f"no {size_text(shape)} filter has a leak of at most {leak:g}: the filter space would be empty. The best "
            f"one has a leak of {least:.2g}; allow at least that, or use another kernel size."
        )
    carried = max(f.frequency for f in found)
    if highest is not None:
        _check_highest(highest, carried, f"{size_text(shape)} filters with a leak of at most {leak:g}")
        found = tuple(f for f in found if f.frequency <= highest)
    limits = f"leak {leak:g}" + ("" if highest is None else f", frequencies up to {highest}")
    return FilterSpace.of_harmonics(group, shape, found, name=f"most steerable filters ({limits})")


def _check_share(name: str, value: object, meaning: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not 0 < value <= 1:
        raise ValueError(f"`{name}` is a number above 0 and at most 1, {meaning}; got {shown(value)}.")


def _check_highest(highest: object, carried: int, what: str) -> None:
    if isinstance(highest, bool) or not isinstance(highest, int | np.integer) or highest < 0:
        raise ValueError(f"`highest` is an angular frequency, a whole number ≥ 0; got {shown(highest)}.")
    if highest > carried:
        raise ValueError(
            f"{what} cannot carry the angular frequency {highest}; the largest that they can carry is {carried}. Use a "
            "larger kernel, a larger leak, or a lower frequency."
        )


@lru_cache(maxsize=256)
def _most_steerable(shape: tuple[int, int], leak: float, band: float, falloff: float) -> tuple[HarmonicFilter, ...]:
    """A basis of the span of all filters below the tolerance that the grid can tell apart, frequency by frequency.

    Within a frequency the basis is orthogonal, smoothest filters first, and filters that respond more to natural images
    are longer. Random coefficients then give smooth filters, which turn better than rough ones.
    """
    candidates = [f for f in _eigenfilters(shape, band, falloff) if f.leak <= leak]
    kept, _ = independent(sorted(candidates, key=lambda f: f.leak))
    spectra, found = tap_spectra(shape, band, falloff), []
    for m in sorted({f.frequency for f in kept}):
        span = np.stack([f.taps for f in kept if f.frequency == m])
        filters, responses = _smoothest_first(span, shape, m)
        leaks = spectra.leaks(m, filters)  # each is a mean of those of the span's eigenvectors
        found += [(m, f * r**_FAVOUR, share) for f, r, share in zip(filters, responses, leaks.tolist(), strict=True)]
    columns = sum(f.shape[1] for _, f, _ in found)
    length = math.sqrt(sum(float((f**2).sum()) for _, f, _ in found) / max(columns, 1))
    return tuple(HarmonicFilter(m, read_only(f / length), share) for m, f, share in found)


@lru_cache(maxsize=64)
def _eigenfilters(shape: tuple[int, int], band: float, falloff: float) -> tuple[HarmonicFilter, ...]:
    """The eigenvectors of P_m relative to T for all frequencies m, those with the smallest leaks first."""
    spectra, found = tap_spectra(shape, band, falloff), []
    for m in range(spectra.highest + 1):
        filters = _filters_of_the_grid(shape, m)
        if not len(filters):
            continue
        part, total = spectra.forms(m, filters)
        lengths, axes = np.linalg.eigh(total)
        alive = lengths > 1e-12 * lengths[-1]  # the others do nothing to such images
        root = axes[:, alive] / np.sqrt(lengths[alive])
        shares, vectors = np.linalg.eigh(root.T @ part @ root)
        ordered = np.tensordot((root @ vectors).T, filters, axes=1)[::-1]
        gaps = np.flatnonzero(-np.diff(shares[::-1]) > _TOLD_APART)
        for alike in np.split(ordered, gaps + 1):
            taps, _ = _smoothest_first(alike, shape, m)
            leaks = spectra.leaks(m, taps).tolist()
            found += [HarmonicFilter(m, read_only(f), leak) for f, leak in zip(taps, leaks, strict=True)]
    return tuple(found)


def _least_leak(shape: tuple[int, int], band: float, falloff: float) -> float:
    return min(f.leak for f in _eigenfilters(shape, band, falloff))


def _filters_of_the_grid(shape: tuple[int, int], frequency: int) -> FloatArray:
    """(n, taps, 1 or 2): all filters that the symmetries of the grid turn with the frequency, orthonormal.

    The symmetries are D4 for a square grid and D2 for an oblong one. They let filters of the frequencies 4, 8, …
    respond to images that are constant, as no filter of a frequency above 0 should. The leak does not see it, since a
    single frequency ω = 0 has no area, so such filters are left out: for m > 0 taps sum to 0.
    """
    grid = dihedral(4 if shape[0] == shape[1] else 2)
    filters = intertwiner_basis(harmonic(grid, frequency), pixel_patch(grid, shape))
    if frequency == 0 or not len(filters):
        return filters
    _, sizes, combinations = np.linalg.svd(filters.sum(axis=1).T)
    return np.tensordot(combinations[np.count_nonzero(sizes > 1e-9) :], filters, axes=1)


def _smoothest_first(filters: FloatArray, shape: tuple[int, int], frequency: int) -> tuple[FloatArray, FloatArray]:
    """The same span: orthogonal filters with taps of length 1, and their responses to natural images, largest first.

    Where leaks are equal up to rounding, rounding would decide which combinations of filters an eigenproblem returns.
    The responses are far apart, so that weights that were learned on one machine mean the same on every other.
    """
    flat = filters.reshape(len(filters), -1)
    orthonormal = np.linalg.qr(flat.T)[0].T.reshape(filters.shape)
    _, response = tap_spectra(shape, 1.0, _NATURAL).forms(frequency, orthonormal)
    responses, axes = np.linalg.eigh(response)
    ordered = np.tensordot(axes.T[::-1], orthonormal, axes=1)
    profiles = np.einsum("atd,td->at", ordered, harmonics_at(tap_coordinates(shape) / 2, frequency))
    peak = np.argmax(np.round(np.abs(profiles), 6), axis=1)
    signs = np.sign(profiles[np.arange(len(profiles)), peak])
    return np.asarray(math.sqrt(filters.shape[2]) * signs[:, None, None] * ordered), responses[::-1]
