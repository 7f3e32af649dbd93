"""Filter spaces as arguments: users give a space, or a size, which stands for the pixel patch of that size."""

from __future__ import annotations

from collections.abc import Sequence

from steerable.algebra.group_interface import Group
from steerable.errors import shown
from steerable.filters.pixel_grids import grid_size, size_text
from steerable.filters.pixel_patches import pixel_space
from steerable.filters.spaces import FilterSpace

__all__ = ["Filters", "as_filter_space", "chosen_space"]

Filters = int | Sequence[int] | FilterSpace
"""The size of a pixel patch, or a filter space."""


def as_filter_space(group: Group, filters: Filters) -> FilterSpace:
    """A filter space of this group as it is; a size becomes the pixel patch of that size."""
    if not isinstance(filters, FilterSpace):
        return pixel_space(group, filters)
    if filters.group != group:
        raise TypeError(
            f"the filter space `{filters}` belongs to {filters.group.name}, but the fields to {group.name}: nothing "
            f"says how {group.name} turns these filters. Make a filter space of {group.name}."
        )
    return filters


def chosen_space(group: Group, size: int | Sequence[int], filters: FilterSpace | None) -> FilterSpace:
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
            f"the filter space `{space}` has {size_text(space.size)} taps, but kernel_size={size!r} asks for "
            f"{size_text(grid_size(group, size))}. Use kernel_size={space.size}, or filters of the other size."
        )
    return space
