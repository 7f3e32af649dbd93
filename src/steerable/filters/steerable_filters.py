"""The most steerable filters of a kernel size, of pixels and of voxels: all whose leak lies below a tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from steerable.algebra.arrays import is_real, is_whole
from steerable.algebra.group_interface import Group
from steerable.errors import shown
from steerable.filters.eigenfilters import least_leak, most_steerable
from steerable.filters.harmonic_sizes import harmonic_grid, kept_line
from steerable.filters.harmonics import HarmonicFilter
from steerable.filters.layers import across, in_layers
from steerable.filters.pixel_grids import size_text, spacing_text
from steerable.filters.spaces import FilterSpace

__all__ = ["DEFAULT_LEAK", "filter_space"]

DEFAULT_LEAK = 0.03
"""The tolerance where none is given; with it filters of sizes 3 and 5 have frequencies, or degrees, up to 2 and 4."""


def filter_space(
    group: Group,
    size: int | Sequence[int],
    leak: float = DEFAULT_LEAK,
    *,
    highest: int | None = None,
    band: float = 1.0,
    falloff: float = 0.0,
    spacing: float | Sequence[float] | None = None,
) -> FilterSpace:
    """The space of the most steerable filters, for groups that turn images or volumes by any angle.

    Its filters turn exactly with the elements that the grid carries, such as C4 inside C8 and the octahedral group
    inside SO(3), and with all others up to their leaks. ``leaks`` and ``frequencies`` of the space say how each filter
    turns. In space they have degrees: a filter of degree l is a tuple of 2l + 1, one radial profile times the
    spherical harmonics. For groups that keep one axis of the grid, such as ``about_axis(so2())``, they have angular
    frequencies about that axis and any profile along it.

    Args:
        group: a group that acts on the plane or on space.
        size: the kernel size, odd or even; one number if the group exchanges axes.
        leak: in (0, 1], the tolerance: the largest share of a filter's response to band-limited images that may fail to
            turn as it should. Larger tolerances give more filters, of higher frequencies.
        highest: the largest angular frequency, or degree; by default every one that the kernel carries.
        band: in (0, 1], the frequencies that images contain, as a share of the highest one that the grid carries
            along every axis.
        falloff: how the power of images falls with their frequency, like |ω|^-falloff; 0 gives all frequencies the
            same weight, natural images have about 2.
        spacing: how far apart pixels or voxels are along each axis, (depth, height, width), if not equally far. Filters
            are sampled at the real positions, and exact for the symmetries that the spacing leaves. Kernels that reach
            equally far along all axes leak least, such as ``(3, 5, 5)`` if slices are twice as far apart. Leaks then
            include a little white noise outside the band, which closer pixels carry.

    >>> from steerable import cyclic, so3
    >>> space = filter_space(cyclic(8), 5, leak=0.02)
    >>> space
    <FilterSpace most steerable filters (leak 0.02) of C8: 11 coefficients, 5×5 taps>
    >>> sorted(set(space.frequencies.tolist())), bool(space.leaks.max() < 0.02)
    ([0, 1, 2, 3], True)
    >>> filter_space(so3(), 3)
    <FilterSpace most steerable filters (leak 0.03) of SO3: 10 coefficients, 3×3×3 taps>
    """
    shape, apart = harmonic_grid(group, size, spacing)
    _check_tolerances(leak, band, falloff)
    line = kept_line(group)
    plane = (shape, apart) if line is None else across(shape, apart, line)
    found = most_steerable(*plane, float(leak), float(band), float(falloff))
    if not found:
        least = least_leak(*plane, float(band), float(falloff))
        what = f"no {size_text(shape)} filter has a leak of at most {leak:g}: the filter space would be empty"
        raise ValueError(
            f"{what}. The best one has a leak of {_rounded_up(least)}; allow at least that, or use another kernel size."
        )
    limits = f"leak {leak:g}"
    if highest is not None:
        found, limit = _limited(found, highest, f"{size_text(shape)} filters with a leak of at most {leak:g}")
        limits += limit
    name = f"most steerable filters ({limits}{spacing_text(apart)})"
    filters = found if line is None else in_layers(found, shape, line)
    return FilterSpace.of_harmonics(group, shape, filters, spacing=apart, name=name)


def _rounded_up(leak: float) -> str:
    """Two digits of the leak, rounded up so that they may be given as the tolerance."""
    unit = 10.0 ** (math.floor(math.log10(leak)) - 1)
    return f"{math.ceil(leak / unit) * unit:.2g}"


def _check_tolerances(leak: object, band: object, falloff: object) -> None:
    _check_share("leak", leak, "the share of a filter that need not turn as it should")
    _check_share("band", band, "the radius of the disc of the images' frequencies, as a share of the pixels' own")
    if not is_real(falloff) or not 0 <= falloff <= 8:
        raise ValueError(
            f"`falloff` must be an exponent from 0 to 8; got {shown(falloff)}. Natural images have about 2."
        )


def _check_share(name: str, value: object, meaning: str) -> None:
    if not is_real(value) or not 0 < value <= 1:
        raise ValueError(f"`{name}` must be a number above 0 and at most 1, {meaning}; got {shown(value)}.")


def _limited(found: tuple[HarmonicFilter, ...], highest: object, what: str) -> tuple[tuple[HarmonicFilter, ...], str]:
    """The filters up to a frequency or degree that they carry, and the limit in words."""
    carried = max((f.harmonic for f in found), key=lambda harmonic: harmonic.frequency)
    degrees = carried.quantity == "degree"
    if not is_whole(highest) or highest < 0:
        article = "a" if degrees else "an"
        raise ValueError(f"`highest` must be {article} {carried.quantity}, a whole number ≥ 0; got {shown(highest)}.")
    if highest > carried.frequency:
        raise ValueError(
            f"{what} cannot carry the {carried.quantity} {highest}; the largest that they can carry is "
            f"{carried.frequency}. Use a larger kernel, a larger leak, or a lower {carried.quantity.split()[-1]}."
        )
    limit = f", {'degrees' if degrees else 'frequencies'} up to {highest}"
    return tuple(f for f in found if f.frequency <= highest), limit
