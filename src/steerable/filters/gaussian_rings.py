"""Circular harmonics on Gaussian rings: filters R(r) e^{imφ}, where R is a Gaussian around a radius, on pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steerable.algebra.arrays import read_only
from steerable.algebra.group_interface import Group
from steerable.errors import shown
from steerable.filters.harmonics import HarmonicFilter, harmonics_at
from steerable.filters.independence import independent
from steerable.filters.pixel_grids import size_text, tap_coordinates
from steerable.filters.planar_sizes import planar_size
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
) -> FilterSpace:
    """The space of circular harmonics on Gaussian rings, as steerable networks often have it.

    At the same frequency these filters leak more than those of :func:`~steerable.filter_space`. They serve comparison,
    and networks that come from elsewhere.

    Args:
        group: a group that acts on the plane.
        size: the kernel size, odd or even.
        radii: the radius of each ring in pixels; by default one ring per pixel from the centre to the border.
        widths: the standard deviation of each Gaussian in pixels; by default 0.6, and 0.4 for the outermost ring.
        highest: the largest angular frequency of each ring, or of all; by default twice the radius, as far as the
            grid can tell the filters apart.

    >>> from steerable import cyclic
    >>> ring_space(cyclic(8), 5)
    <FilterSpace Gaussian rings of C8: 15 coefficients, 5×5 taps>
    """
    shape = planar_size(group, size)
    radii = _radii(shape) if radii is None else _numbers("radii", radii, None, "radius", least=0)
    default_widths = [_WIDTH] * (len(radii) - 1) + [_OUTERMOST_WIDTH]
    widths = default_widths if widths is None else _numbers("widths", widths, len(radii), "width", least=1e-3)
    limits = [int(2 * r) for r in radii] if highest is None else _frequencies(highest, len(radii))
    rings = zip(radii, widths, limits, strict=True)
    candidates = [(r, _ring(shape, r, width, m)) for r, width, limit in rings for m in range(limit + 1)]
    # Low frequencies first: where two filters have the same taps, it is the lower frequency that they have.
    candidates.sort(key=lambda candidate: candidate[1].frequency)
    kept, dropped = independent(f for _, f in candidates)
    if not kept:
        reach = np.hypot(*shape) / 2
        raise ValueError(
            f"no ring touches the {size_text(shape)} kernel, whose corners are {reach:.2g} pixels from its centre; the "
            f"smallest radius is {min(radii):g}. Use smaller radii, larger widths or a larger kernel."
        )
    if dropped and highest is not None:
        _refuse(next(r for r, f in candidates if f is dropped[0]), dropped[0].frequency, shape)
    return FilterSpace.of_harmonics(group, shape, kept, name="Gaussian rings")


def _ring(shape: tuple[int, int], radius: float, width: float, frequency: int) -> HarmonicFilter:
    """One filter, with taps of length 1; one that vanishes on all taps, or nearly so, stays zero."""
    points = tap_coordinates(shape) / 2
    profile = np.exp(-((np.hypot(points[:, 0], points[:, 1]) - radius) ** 2) / (2 * width**2))
    taps = profile[:, None] * harmonics_at(points, frequency)
    length = float(np.sqrt((taps**2).sum() / taps.shape[1]))
    spectra = tap_spectra(shape, 1.0, 0.0)
    if length < 1e-9 or frequency > spectra.highest:
        return HarmonicFilter(frequency, np.zeros_like(taps), 1.0)
    taps = read_only(taps / length)
    return HarmonicFilter(frequency, taps, float(spectra.leaks(frequency, taps[None])[0]))


def _refuse(radius: float, frequency: int, shape: tuple[int, int]) -> None:
    most = f"The largest that it can carry is {frequency - 1}" if frequency else "It carries none"
    raise ValueError(
        f"the ring of radius {radius:g} cannot carry the angular frequency {frequency} on {size_text(shape)} pixels: "
        "sampled there, its filters depend linearly on those of lower frequencies and of other rings. "
        f"{most}; lower `highest`, or use a larger kernel."
    )


def _radii(shape: tuple[int, int]) -> list[float]:
    """One ring per pixel, from the centre, or from the first taps where the centre lies between them, outwards."""
    last = (min(shape) - 1) / 2
    return [last % 1 + k for k in range(int(last) + 1)]


def _numbers(name: str, given: float | Sequence[float], count: int | None, what: str, least: float) -> list[float]:
    values = _listed(given, count)
    wrong = any(
        isinstance(v, bool) or not isinstance(v, int | float | np.integer | np.floating) or not least <= v < 1e3
        for v in values
    )
    if wrong or not values or len(values) != (count or len(values)):
        rings = "ring" if count is None else f"of the {count} rings"
        raise ValueError(
            f"`{name}` are numbers of pixels, at least {least:g}: one {what} for each {rings}; got {shown(given)}."
        )
    return [float(v) for v in values]


def _frequencies(given: int | Sequence[int], count: int) -> list[int]:
    values = _listed(given, count)
    if any(isinstance(v, bool) or not isinstance(v, int | np.integer) or v < 0 for v in values) or len(values) != count:
        raise ValueError(
            f"`highest` is an angular frequency, a whole number ≥ 0, for all rings or one for each of the {count}; got "
            f"{shown(given)}."
        )
    return [int(v) for v in values]


def _listed(given: Any, count: int | None) -> list[Any]:
    given = given.tolist() if isinstance(given, np.ndarray) else given
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given] * (count or 1)
