"""What a space of harmonics asks of its group and its size: a group of the plane, and square filters where it turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steerable.algebra.group_interface import Group
from steerable.filters.pixel_grids import grid_size, on_grid, size_text, tap_images

__all__ = ["planar_size"]


def planar_size(group: Group, size: int | Sequence[int]) -> tuple[int, int]:
    """(height, width), after a check that the grid carries whatever part of the group pixels can carry."""
    shape = grid_size(group, size)
    if group.action is None or group.action.shape[1] != 2 or len(shape) != 2:
        axes = "no dimensions" if group.action is None else f"{group.action.shape[1]} dimensions"
        raise ValueError(
            f"{group.name} acts on {axes}, but filters with angular frequencies need a group that acts on the plane. "
            "Use cyclic(n) or dihedral(n)."
        )
    lost = np.flatnonzero(on_grid(group.action) & (tap_images(group, shape)[:, 0] < 0))
    if len(lost):
        raise ValueError(
            f"`{group.elements[lost[0]]}` of {group.name} exchanges height and width, so that filters have one extent "
            f"for both; got {size_text(shape)}. Use a square kernel."
        )
    return shape[0], shape[1]
