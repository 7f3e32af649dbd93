"""Pixel patches: the filter space whose coefficients are the taps themselves, exact for groups that keep the grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from steerable.algebra.groups import FiniteGroup
from steerable.algebra.representations import Monomial, Representation
from steerable.errors import shown
from steerable.filters.pixel_grids import by, grid_size, tap_images
from steerable.filters.spaces import FilterSpace

__all__ = ["Filters", "as_filter_space", "chosen_space", "pixel_patch", "pixel_space"]

Filters = int | Sequence[int] | FilterSpace
"""The size of a pixel patch, or a filter space."""


def pixel_patch(group: FiniteGroup, size: int | Sequence[int]) -> Representation:
    """How the group moves the taps of an s×s patch (s×s×s for groups that act on space): [π(g)f](x) = f(g⁻¹x).

    Args:
        group: a group that maps the grid onto itself; C1 C2 C4 D1 D2 D4 and the octahedral groups do.
        size: odd or even, one number or one per axis (height, width) or (depth, height, width).

    Returns:
        A permutation representation; taps are counted row by row from the top left, as ``array.ravel()`` does.

    >>> from steerable import dihedral
    >>> pixel_patch(dihedral(4), 3).type
    (3, 0, 1, 1, 2)
    """
    shape = grid_size(group, size)
    image = tap_images(group, shape)
    lost = np.flatnonzero(image[:, 0] < 0)
    if len(lost):
        raise ValueError(
            f"`{group.elements[lost[0]]}` of {group.name} does not map the {by(shape)} pixel grid onto itself. "
            "Pixel filters are exact for C1, C2, C4, D1, D2, D4 (square patches for C4 and D4) and for the "
            "octahedral groups (cubes); restrict to such a subgroup."
        )
    name = f"{by(shape)} patch" if shape else "single tap"
    return Representation._of(group, monomial=Monomial(image, np.ones(image.shape)), name=name)


def pixel_space(group: FiniteGroup, size: int | Sequence[int]) -> FilterSpace:
    """The filter space of all filters on a patch of pixels, which is the default of every convolution.

    >>> from steerable import dihedral
    >>> pixel_space(dihedral(4), 3)
    <FilterSpace 3×3 patch of D4: 9 coefficients, 3×3 taps>
    """
    return _pixel_space(group, grid_size(group, size))


@lru_cache(maxsize=256)
def _pixel_space(group: FiniteGroup, shape: tuple[int, ...]) -> FilterSpace:
    patch = pixel_patch(group, shape)
    return FilterSpace(patch, shape, name=patch.name)


def as_filter_space(group: FiniteGroup, filters: Filters) -> FilterSpace:
    """A filter space of this group as it is; a size becomes the pixel patch of that size."""
    if not isinstance(filters, FilterSpace):
        return pixel_space(group, filters)
    if filters.group != group:
        raise TypeError(
            f"the filter space `{filters}` belongs to {filters.group.name}, but the fields to {group.name}: nothing "
            f"says how {group.name} turns these filters. Make a filter space of {group.name}."
        )
    return filters


def chosen_space(group: FiniteGroup, size: int | Sequence[int], filters: FilterSpace | None) -> FilterSpace:
    """``filters``, checked to be a space of this group and size; the pixel patch of that size where it is None."""
    if filters is None:
        return pixel_space(group, size)
    if not isinstance(filters, FilterSpace):
        raise TypeError(
            "filters=... takes a FilterSpace, such as pixel_space(dihedral(4), 3); got "
            f"{type(filters).__name__} {shown(filters)}."
        )
    space = as_filter_space(group, filters)
    if grid_size(group, size) != space.size:
        raise ValueError(
            f"the filter space `{space}` has {by(space.size)} taps, but kernel_size={size!r} asks for "
            f"{by(grid_size(group, size))}. Use kernel_size={space.size}, or filters of the other size."
        )
    return space
