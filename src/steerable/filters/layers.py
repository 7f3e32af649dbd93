"""Filters of volumes about an axis: filters of the plane across it, each in every layer along it.

Two layers on both sides of the centre give two filters, one even and one odd along the axis, so that motions that turn
the axis over act by signs. A volume that is turned about the axis is turned layer by layer, so leaks are those of
the plane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from steerable.algebra.arrays import IntArray, read_only
from steerable.algebra.lines_in_space import Line
from steerable.filters.harmonics import AxialHarmonic, HarmonicFilter
from steerable.filters.pixel_grids import Spacing, tap_coordinates

__all__ = ["across", "in_layers"]


def across(shape: tuple[int, ...], spacing: Spacing, line: Line) -> tuple[tuple[int, int], Spacing]:
    """The extents and spacing of the plane across a line, which is an axis of the grid: (height, width)."""
    width, height = (2 - int(np.argmax(np.abs(line.frame[:, k]))) for k in (0, 1))
    return (shape[height], shape[width]), (spacing[height], spacing[width])


def in_layers(filters: Sequence[HarmonicFilter], shape: tuple[int, ...], line: Line) -> list[HarmonicFilter]:
    """Each filter of the plane in all layers, from the centre outwards, even before odd."""
    plane, height = _places(shape, line)
    found = []
    for f in filters:
        for distance in np.unique(np.abs(height)):
            for odd in (False, True) if distance else (False,):
                taps = f.taps[plane] * (np.abs(height) == distance)[:, None] * (np.sign(height)[:, None] if odd else 1)
                taps = taps / (math.sqrt(2) if distance else 1)
                found.append(HarmonicFilter(AxialHarmonic(f.frequency, line, odd), read_only(taps), f.leak))
    return found


def _places(shape: tuple[int, ...], line: Line) -> tuple[IntArray, IntArray]:
    """(taps,) and (taps,): the tap of the plane below each tap, and twice its height along the line."""
    seen = np.round(tap_coordinates(shape) @ line.frame).astype(int)
    flat, _ = across(shape, (1.0,) * 3, line)
    index = {tuple(tap): t for t, tap in enumerate(tap_coordinates(flat).tolist())}
    return np.array([index[tuple(tap)] for tap in seen[:, :2].tolist()], dtype=np.intp), seen[:, 2]
