"""The conditions of a space of harmonics: its group moves the grid, with equal extents along axes that it exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.lines_in_space import Line, line_along
from steerable.algebra.metrics import TOLERANCE
from steerable.algebra.planar_groups import PlanarGroup
from steerable.filters.pixel_grids import Spacing, grid_size, grid_spacing, is_even, movers, size_text, tap_images

__all__ = ["harmonic_grid", "kept_line"]

_AXES = {2: ("height", "width"), 3: ("depth", "height", "width")}


def harmonic_grid(
    group: Group, size: int | Sequence[int], spacing: float | Sequence[float] | None
) -> tuple[tuple[int, ...], Spacing]:
    """(shape, spacing), after a check that the grid carries the part of the group that pixels can carry.

    Where neighbours are not equally far from each other along all axes, extents are free, and the grid carries less.
    """
    shape = grid_size(group, size)
    if not shape:
        raise ValueError(
            f"filters with angular frequencies, or degrees, have extents along the axes that {group.name} moves; got "
            "none. Use a kernel size such as 3."
        )
    apart = grid_spacing(shape, spacing)
    if not is_even(apart):
        return shape, apart
    image = dict(zip(movers(group), tap_images(group, shape), strict=True))
    lost = [g for g in group.grid_elements if image[g][0] < 0]
    if lost:
        motion = np.abs(np.asarray(group.motion(lost[0])))[::-1, ::-1]
        names = _AXES[len(shape)]
        a, b = next((a, b) for a, b in np.argwhere(np.round(motion)) if shape[a] != shape[b])
        remedy = "a square kernel" if len(shape) == 2 else "a cubic kernel, or say how far voxels are apart: `spacing`"
        raise ValueError(
            f"`{lost[0]}` of {group.name} exchanges {names[min(a, b)]} and {names[max(a, b)]}, so filters have "
            f"one extent for both; got {size_text(shape)}. Use {remedy}."
        )
    return shape, apart


def kept_line(group: Group) -> Line | None:
    """The first of the lines z, y and x that every element of a group of space keeps; None if there is none.

    >>> from steerable import about_axis, cyclic, so3
    >>> str(kept_line(about_axis(cyclic(8), "x"))), kept_line(so3())
    ('about x', None)
    """
    if group.axes != 3:
        return None
    for line in map(line_along, ("z", "y", "x")):
        if isinstance(group, PlanarGroup) and group.line is not None:
            if abs(np.dot(group.line.direction, line.direction)) > 1 - TOLERANCE:
                return line
        elif isinstance(group, FiniteGroup) and group.action is not None and line.across(group.action) is not None:
            return line
    return None
