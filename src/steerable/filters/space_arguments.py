"""Filter spaces as arguments: users give a space, or a size, which means the default space of that size."""

from __future__ import annotations

from collections.abc import Sequence

from steerable.algebra.group_interface import Group
from steerable.errors import shown
from steerable.filters.pixel_grids import grid_size, grid_spacing, is_carried, is_even, size_text
from steerable.filters.pixel_patches import pixel_space
from steerable.filters.spaces import FilterSpace
from steerable.filters.steerable_filters import filter_space

__all__ = ["Filters", "as_filter_space", "chosen_space", "default_space"]

Filters = int | Sequence[int] | FilterSpace
"""The size of the filters, or a filter space."""


def default_space(
    group: Group, size: int | Sequence[int], spacing: float | Sequence[float] | None = None
) -> FilterSpace:
    """All filters on a patch of pixels or voxels if the grid carries the group, otherwise the most steerable ones.

    :func:`~steerable.filter_space` says how the latter are chosen, and what the spacing is.
    """
    shape = grid_size(group, size)
    apart = grid_spacing(shape, spacing)
    if not shape or (group.keeps_grid and is_even(apart)) or is_carried(group, shape, apart):
        return pixel_space(group, shape, spacing=apart)
    return filter_space(group, shape, spacing=apart)


def as_filter_space(group: Group, filters: Filters) -> FilterSpace:
    """A filter space of this group as it is; a size becomes the default space of that size."""
    if not isinstance(filters, FilterSpace):
        return default_space(group, filters)
    if filters.group != group:
        raise TypeError(
            f"the filter space `{filters}` belongs to {filters.group.name}, but the fields to {group.name}: nothing "
            f"says how {group.name} turns these filters. Make a filter space of {group.name}."
        )
    return filters


def chosen_space(
    group: Group,
    size: int | Sequence[int],
    filters: FilterSpace | None,
    spacing: float | Sequence[float] | None = None,
) -> FilterSpace:
    """``filters``, checked to be a space of this group, size and spacing; the default space if it is None."""
    if filters is None:
        return default_space(group, size, spacing)
    if not isinstance(filters, FilterSpace):
        raise TypeError(
            "filters=... takes a FilterSpace, such as pixel_space(dihedral(4), 3); got "
            f"{type(filters).__name__} {shown(filters)}."
        )
    space = as_filter_space(group, filters)
    if grid_size(group, size) != space.size:
        raise ValueError(
            f"the filter space `{space}` has {size_text(space.size)} taps, but kernel_size={size!r} asks for "
            f"{size_text(grid_size(group, size))}. Use kernel_size={space.size}, or filters of the other size."
        )
    if spacing is not None and grid_spacing(space.size, spacing) != space.spacing:
        raise ValueError(
            f"the filter space `{space}` has taps {space.spacing} apart, but spacing={spacing!r} was given. Leave "
            "`spacing` out, or make the filters with it."
        )
    return space
