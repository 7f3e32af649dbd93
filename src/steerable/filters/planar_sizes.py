"""What a space of harmonics asks of its group and its size: a group of the plane, and square filters where it turns."""

from __future__ import annotations

from collections.abc import Sequence

from steerable.algebra.group_interface import Group
from steerable.filters.pixel_grids import grid_size, movers, size_text, tap_images

__all__ = ["planar_size"]


def planar_size(group: Group, size: int | Sequence[int]) -> tuple[int, int]:
    """(height, width), after a check that the grid carries whatever part of the group pixels can carry."""
    shape = grid_size(group, size)
    if group.axes != 2 or len(shape) != 2:
        volumes = " Volumes have filters for octahedral() and its subgroups only: `pixel_patch`." if shape[2:] else ""
        raise ValueError(
            f"{group.name} acts on {group.axes or 'no'} dimensions, but filters with angular frequencies need a group "
            f"that acts on the plane. Use cyclic(n), dihedral(n), so2() or o2().{volumes}"
        )
    image = dict(zip(movers(group), tap_images(group, shape), strict=True))
    lost = [g for g in group.grid_elements if image[g][0] < 0]
    if lost:
        raise ValueError(
            f"`{lost[0]}` of {group.name} exchanges height and width, so that filters have one extent for both; got "
            f"{size_text(shape)}. Use a square kernel."
        )
    return shape[0], shape[1]
