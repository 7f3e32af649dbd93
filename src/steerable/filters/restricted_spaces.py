"""A filter space seen by a subgroup: the same taps, turned by fewer elements."""

from __future__ import annotations

from steerable.algebra.group_interface import Group
from steerable.filters.pixel_patches import pixel_space
from steerable.filters.spaces import FilterSpace

__all__ = ["restricted_space"]


def restricted_space(space: FilterSpace, subgroup: Group) -> FilterSpace:
    """The same filters, turned by a subgroup only.

    >>> from steerable import cyclic, dihedral, filter_space
    >>> restricted_space(filter_space(dihedral(8), 5), cyclic(4)).dim == filter_space(dihedral(8), 5).dim
    True
    """
    if space.is_pixel_patch:
        return pixel_space(subgroup, space.size, spacing=space.spacing)
    if space.harmonics:
        return FilterSpace.of_harmonics(subgroup, space.size, space.harmonics, spacing=space.spacing, name=space.name)
    rho = space.representation.restrict(subgroup)
    return FilterSpace(rho, space.size, space.sampling, spacing=space.spacing, name=space.name)
