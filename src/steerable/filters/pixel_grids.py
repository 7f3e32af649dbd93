"""The grid of pixels that a filter's taps fill, and where each element of a group moves them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.arrays import FloatArray, IntArray
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.planar_groups import PlanarGroup
from steerable.errors import expect

__all__ = ["grid_size", "on_grid", "size_text", "tap_coordinates", "tap_images"]


def grid_size(group: Group, size: int | Sequence[int]) -> tuple[int, ...]:
    """The grid's extent along each axis of the space that the group acts on, checked.

    No extents at all, ``()``, are a single tap that stays where it is, whatever the group is.
    """
    if isinstance(group, PlanarGroup):
        finite = "dihedral" if group.reflections else "cyclic"
        raise TypeError(
            f"convolutions, linear layers and filters over {group.name} are not available yet: filters are made for "
            f"finite groups. Restrict the fields first, as with snn.Restrict(field_type, {finite}(16)), or use "
            f"{finite}(n) throughout."
        )
    expect(group, FiniteGroup, "a group that moves pixels, such as dihedral(4)")
    if size == ():
        return ()
    if group.action is None:
        raise ValueError(
            f"{group.name} is abstract: nothing says how it moves pixels. Use cyclic(n), dihedral(n), octahedral(), "
            "or group_from_matrices(...) with 2×2 or 3×3 orthogonal matrices. A product moves them as one of its "
            'factors does with direct_product(..., acting="second"), any group as its image does with '
            "acting_through(...)."
        )
    axes = group.action.shape[1]
    extents = tuple(size) if isinstance(size, Sequence) else (size,) * axes
    if any(isinstance(s, bool) or not isinstance(s, int | np.integer) for s in extents):
        raise TypeError(f"a patch's extents are whole numbers, one or one per axis; got {size!r}.")
    shape = tuple(int(s) for s in extents)
    if len(shape) != axes:
        remedy = " Layers for images take groups of the plane: cyclic(n), dihedral(n)." if len(shape) == 2 else ""
        raise ValueError(f"{group.name} acts on {axes} dimensions; a patch has {axes} extents, got {shape}.{remedy}")
    if min(shape) < 1:
        raise ValueError(f"a patch has at least one tap along each axis, got {shape}.")
    return shape


def on_grid(action: FloatArray) -> NDArray[np.bool_]:
    """(order,): whether each matrix permutes the axes up to signs, so that it maps pixels onto pixels."""
    return np.asarray(np.isin(np.abs(action), (0.0, 1.0)).all(axis=(1, 2)))


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


@lru_cache(maxsize=256)
def tap_images(group: Group, shape: tuple[int, ...]) -> IntArray:
    """(order, taps): the index of the tap to which each element moves each tap.

    The row of an element that does not map the grid onto itself is -1.
    """
    if group.action is None or not shape:
        return np.zeros((group.order, math.prod(shape)), dtype=np.intp)
    taps = tap_coordinates(shape)
    moved = np.einsum("gij,tj->gti", group.action, taps)
    nearest = np.round(moved).astype(int)
    index = {tuple(tap): t for t, tap in enumerate(taps.tolist())}
    image = np.array([[index.get(tuple(tap), -1) for tap in element] for element in nearest.tolist()], dtype=np.intp)
    off_grid = (image < 0).any(axis=1) | (np.abs(moved - nearest).max(axis=(1, 2)) > 1e-6)
    image[off_grid] = -1
    image.setflags(write=False)
    return image
