"""The grid of pixels or voxels that a filter's taps fill, and the action of a group on it.

Pixels are squares and voxels are cubes unless their *spacing* says otherwise: the distance from one to the next along
each axis, in the order of the array's axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray, is_real, is_whole
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.errors import expect, shown

__all__ = [
    "Spacing",
    "grid_size",
    "grid_spacing",
    "is_carried",
    "is_even",
    "movers",
    "size_text",
    "spacing_text",
    "tap_coordinates",
    "tap_images",
    "tap_positions",
]

Spacing = tuple[float, ...]
"""The distance between neighbours along each axis; the smallest one is 1."""


def grid_size(group: Group, size: int | Sequence[int]) -> tuple[int, ...]:
    """The grid's extent along each axis of the space that the group acts on, checked.

    No extents at all, ``()``, are a single tap that stays where it is, whatever the group is.
    """
    expect(group, Group, "a group that moves pixels, such as dihedral(4)")
    if size == ():
        return ()
    axes = group.axes
    if axes is None:
        raise ValueError(
            f"{group.name} is abstract: nothing says how it moves pixels. Use cyclic(n), dihedral(n), octahedral(), "
            "or group_from_matrices(...) with 2×2 or 3×3 orthogonal matrices. A product moves them as one of its "
            'factors does with direct_product(..., acting="second"), any group as its image does with '
            "acting_through(...)."
        )
    extents = tuple(size) if isinstance(size, Sequence) else (size,) * axes
    if not all(map(is_whole, extents)):
        raise TypeError(f"a patch's extents are whole numbers, one or one per axis; got {size!r}.")
    shape = tuple(int(s) for s in extents)
    if len(shape) != axes:
        remedy = " Layers for images take groups of the plane: cyclic(n), dihedral(n)." if len(shape) == 2 else ""
        raise ValueError(f"{group.name} acts on {axes} dimensions; a patch has {axes} extents, got {shape}.{remedy}")
    if min(shape) < 1:
        raise ValueError(f"a patch has at least one tap along each axis, got {shape}.")
    return shape


def grid_spacing(shape: tuple[int, ...], spacing: float | Sequence[float] | None) -> Spacing:
    """The distance between neighbours along each axis of the grid, checked; by default 1 along all.

    Only their ratios matter, so that the smallest becomes 1: ``(2, 1, 1)`` and ``(5, 2.5, 2.5)`` are the same.

    >>> grid_spacing((3, 3, 3), (5, 2.5, 2.5))
    (2.0, 1.0, 1.0)
    """
    axes = len(shape)
    given: Any = 1.0 if spacing is None else spacing
    values = list(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else [given] * axes
    if not all(map(is_real, values)) or len(values) != axes or not all(0 < v < math.inf for v in values):
        order = {2: " (height, width)", 3: " (depth, height, width)"}.get(axes, "")
        raise ValueError(
            "`spacing` is the distance between neighbouring taps, a finite number above 0 for all axes or one for each "
            f"of the {axes}{order}; got {shown(spacing)}."
        )
    least = min(values, default=1.0)
    return tuple(round(float(v) / float(least), 9) for v in values)


def is_even(spacing: Spacing) -> bool:
    """Whether neighbours are equally far from each other along all axes."""
    return len(set(spacing)) < 2


def spacing_text(spacing: Spacing) -> str:
    """The spacing as text such as ``, 2:1:1 apart``; empty if it is the same along all axes."""
    return "" if is_even(spacing) else f", {':'.join(f'{v:g}' for v in spacing)} apart"


def size_text(size: Sequence[int]) -> str:
    """Extents as text, such as ``3×3``."""
    return "×".join(str(s) for s in size)


def tap_coordinates(shape: Sequence[int]) -> IntArray:
    """(taps, axes): twice the position of each tap relative to the centre, x to the right, y up, z to the viewer.

    Twice, so that even patches, whose centre lies between taps, have whole coordinates as well.
    """
    grids = np.meshgrid(*[2 * np.arange(s) - (s - 1) for s in shape], indexing="ij")
    from_array = np.stack([grid.ravel() for grid in grids], axis=1)  # (row down, column right) or (depth, row, column)
    coordinates = from_array[:, ::-1].copy()
    coordinates[:, 1:] *= -1
    return coordinates


def tap_positions(shape: Sequence[int], spacing: Spacing) -> FloatArray:
    """(taps, axes): the position of each tap relative to the centre, x to the right, y up, z to the viewer."""
    return np.asarray(tap_coordinates(shape) / 2 * np.array(spacing[::-1]))


def movers(group: Group) -> tuple[Element, ...]:
    """The elements whose action on taps is used: all of a finite group, those on the grid of an infinite one."""
    return group.elements if isinstance(group, FiniteGroup) else group.grid_elements


def is_carried(group: Group, shape: tuple[int, ...], spacing: Spacing = ()) -> bool:
    """Whether every element maps the grid onto itself; a single tap stays where it is under all of SO(2)."""
    if not isinstance(group, FiniteGroup) and math.prod(shape) > 1:
        return False
    return bool((tap_images(group, shape, spacing) >= 0).all())


@lru_cache(maxsize=256)
def tap_images(group: Group, shape: tuple[int, ...], spacing: Spacing = ()) -> IntArray:
    """(number of elements, taps): the index of the tap to which each of :func:`movers` moves each tap.

    The row of an element that does not map the grid onto itself is -1.
    """
    elements = movers(group)
    if group.axes is None or not shape:
        return np.zeros((len(elements), math.prod(shape)), dtype=np.intp)
    taps, apart = tap_coordinates(shape), np.array(spacing[::-1] or (1.0,) * len(shape))
    action = np.stack([group.motion(g) for g in elements]) * apart / apart[:, None]  # type: ignore[misc]
    moved = np.einsum("gij,tj->gti", action, taps)
    nearest = np.round(moved).astype(int)
    index = {tuple(tap): t for t, tap in enumerate(taps.tolist())}
    image = np.array([[index.get(tuple(tap), -1) for tap in element] for element in nearest.tolist()], dtype=np.intp)
    off_grid = (image < 0).any(axis=1) | (np.abs(moved - nearest).max(axis=(1, 2)) > 1e-6)
    image[off_grid] = -1
    image.setflags(write=False)
    return image
