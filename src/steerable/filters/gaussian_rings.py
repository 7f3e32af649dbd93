"""Harmonics on Gaussian rings and shells: filters R(r) e^{imφ} of the plane, or R(r) Y_lm(x̂) of space, on a grid.

R is a Gaussian around a radius.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steerable.algebra.arrays import is_real, is_whole, read_only
from steerable.algebra.group_interface import Group
from steerable.errors import shown
from steerable.filters.grid_symmetries import TapGrid, tap_grid
from steerable.filters.harmonic_sizes import harmonic_grid, kept_line
from steerable.filters.harmonics import CircularHarmonic, Harmonic, HarmonicFilter, SphericalHarmonic
from steerable.filters.independence import independent
from steerable.filters.layers import across, in_layers
from steerable.filters.pixel_grids import Spacing, size_text
from steerable.filters.spaces import FilterSpace
from steerable.filters.spectra import tap_spectra

__all__ = ["ring_space"]

_WIDTH, _OUTERMOST_WIDTH = 0.6, 0.4


def ring_space(
    group: Group,
    size: int | Sequence[int],
    *,
    radii: Sequence[float] | None = None,
    widths: float | Sequence[float] | None = None,
    highest: int | Sequence[int] | None = None,
    spacing: float | Sequence[float] | None = None,
) -> FilterSpace:
    """The space of circular harmonics on Gaussian rings, or spherical ones on shells, which many networks use.

    At the same frequency these filters leak more than those of :func:`~steerable.filter_space`. Use them for
    comparison, and for networks from elsewhere. For groups that keep one axis of a volume they are rings in every
    layer.

    Args:
        group: a group that acts on the plane or on space.
        size: the kernel size, odd or even.
        radii: the radius of each ring or shell in pixels; by default one per pixel from the centre to the border.
        widths: the standard deviation of each Gaussian in pixels; by default 0.6, and 0.4 for the outermost ring.
        highest: the largest angular frequency, or degree, of each ring, or of all; by default twice the radius, as far
            as the grid can tell the filters apart.
        spacing: how far apart pixels or voxels are along each axis, if not equally far. Radii and widths are then
            counted in the smallest of these distances.

    >>> from steerable import cyclic, so3
    >>> ring_space(cyclic(8), 5)
    <FilterSpace Gaussian rings of C8: 15 coefficients, 5×5 taps>
    >>> ring_space(so3(), 3, highest=[0, 2])
    <FilterSpace Gaussian shells of SO3: 10 coefficients, 3×3×3 taps>
    """
    shape, apart = harmonic_grid(group, size, spacing)
    line = kept_line(group)
    grid = tap_grid(*((shape, apart) if line is None else across(shape, apart, line)))
    noun = "ring" if len(grid.shape) == 2 else "shell"
    radii = _radii(grid.shape, grid.spacing) if radii is None else _numbers("radii", radii, None, (noun, "radius"), 0)
    default_widths = [_WIDTH] * (len(radii) - 1) + [_OUTERMOST_WIDTH]
    widths = default_widths if widths is None else _numbers("widths", widths, len(radii), (noun, "width"), 1e-3)
    limits = [int(2 * r) for r in radii] if highest is None else _frequencies(highest, len(radii), noun)
    kind = CircularHarmonic if noun == "ring" else SphericalHarmonic
    rings = zip(radii, widths, limits, strict=True)
    candidates = [(r, _ring(grid, r, width, kind(m))) for r, width, limit in rings for m in range(limit + 1)]
    # Low frequencies first: where two filters have the same taps, it is the lower frequency that they have.
    candidates.sort(key=lambda candidate: candidate[1].frequency)
    kept, dropped = independent(f for _, f in candidates)
    if not kept:
        reach = np.linalg.norm(grid.positions, axis=1).max() + 0.5 * np.sqrt(len(grid.shape))
        raise ValueError(
            f"no {noun} touches the {size_text(shape)} kernel, whose corners are {reach:.2g} pixels from its centre; "
            f"the smallest radius is {min(radii):g}. Use smaller radii, larger widths or a larger kernel."
        )
    if dropped and highest is not None:
        _refuse(noun, next(r for r, f in candidates if f is dropped[0]), dropped[0].harmonic, shape)
    filters = kept if line is None else in_layers(kept, shape, line)
    return FilterSpace.of_harmonics(group, shape, filters, spacing=apart, name=f"Gaussian {noun}s")


def _ring(grid: TapGrid, radius: float, width: float, harmonic: Harmonic) -> HarmonicFilter:
    """One filter, with taps of length 1; one that vanishes on all taps, or nearly so, stays zero."""
    spectra = tap_spectra(grid.shape, grid.spacing, 1.0, 0.0)
    nothing = HarmonicFilter(harmonic, np.zeros((len(grid.positions), harmonic.dim)), 1.0)
    if harmonic.frequency > spectra.highest:
        return nothing
    profile = np.exp(-((np.linalg.norm(grid.positions, axis=1) - radius) ** 2) / (2 * width**2))
    taps = profile[:, None] * harmonic.at(grid.positions)
    length = float(np.sqrt((taps**2).sum() / taps.shape[1]))
    if length < 1e-9:
        return nothing
    taps = read_only(taps / length)
    return HarmonicFilter(harmonic, taps, float(spectra.leaks(harmonic, taps[None])[0]))


def _refuse(noun: str, radius: float, harmonic: Harmonic, shape: tuple[int, ...]) -> None:
    number = harmonic.frequency
    most = f"The largest that it can carry is {number - 1}" if number else "It carries none"
    numbers = "frequencies" if harmonic.quantity.endswith("frequency") else "degrees"
    raise ValueError(
        f"the {noun} of radius {radius:g} cannot carry the {harmonic.quantity} {number} on {size_text(shape)} pixels: "
        f"sampled there, its filters depend linearly on those of lower {numbers} and of other {noun}s. "
        f"{most}; lower `highest`, or use a larger kernel."
    )


def _radii(shape: tuple[int, ...], spacing: Spacing) -> list[float]:
    """One ring per pixel, outwards from the centre, or from the first taps if the centre lies between taps."""
    last = min((extent - 1) / 2 * apart for extent, apart in zip(shape, spacing, strict=True))
    return [last % 1 + k for k in range(int(last) + 1)]


def _per_ring(name: str, given: Any, count: int | None, fits: Callable[[object], bool], expected: str) -> list[Any]:
    """One value for each ring, from the values that the user gave; a single value is used for all rings."""
    given = given.tolist() if isinstance(given, np.ndarray) else given
    several = isinstance(given, Sequence) and not isinstance(given, str)
    values = list(given) if several else [given] * (count or 1)
    if not values or len(values) != (count or len(values)) or not all(map(fits, values)):
        raise ValueError(f"`{name}` {expected}; got {shown(given)}.")
    return values


def _numbers(
    name: str, given: float | Sequence[float], count: int | None, nouns: tuple[str, str], least: float
) -> list[float]:
    noun, what = nouns
    each = noun if count is None else f"of the {count} {noun}s"
    expected = f"are numbers of pixels, at least {least:g}: one {what} for each {each}"
    return [float(v) for v in _per_ring(name, given, count, lambda v: is_real(v) and least <= v < 1e3, expected)]


def _frequencies(given: int | Sequence[int], count: int, noun: str) -> list[int]:
    what = "an angular frequency" if noun == "ring" else "a degree"
    expected = f"is {what}, a whole number ≥ 0, for all {noun}s or one for each of the {count}"
    return [int(v) for v in _per_ring("highest", given, count, lambda v: is_whole(v) and v >= 0, expected)]
