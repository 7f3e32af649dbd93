"""The middle cube of a volume, brought to one size; voxels that are longer than wide become cubes, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["middle_cube"]


def middle_cube(values: npt.NDArray[np.float32], size: int, spacing: Sequence[float] = ()) -> npt.NDArray[np.float32]:
    """(channels, size, size, size): the largest cube in the middle of (channels, depth, height, width).

    It is shrunk by averaging or enlarged by linear interpolation, each axis for itself.

    Args:
        values: the numbers.
        size: the side of the result in voxels.
        spacing: how far apart the voxels of each axis are; by default equally far.
    """
    sides = values.shape[1:]
    steps = np.array(spacing or (1.0,) * len(sides))
    length = float((np.array(sides) * steps).min())
    for axis, (voxels, step) in enumerate(zip(sides, steps, strict=True), start=1):
        inside = length / float(step)
        if abs(inside - size) > 1e-6 or voxels != size:
            weights = _weights(voxels, inside, size)
            values = np.moveaxis(np.moveaxis(values, axis, -1) @ weights.T, -1, axis)
    return np.ascontiguousarray(values, np.float32)


def _weights(voxels: int, inside: float, size: int) -> npt.NDArray[Any]:
    """(size, voxels): the share of each voxel in each one of the result; ``inside`` of them are in the cube."""
    start, step = (voxels - inside) / 2, inside / size
    if step >= 1:
        edges = start + step * np.arange(size + 1)
        first, last = edges[:-1, None], edges[1:, None]
        places = np.arange(voxels)
        overlap = np.minimum(last, places + 1) - np.maximum(first, places)
        weights = overlap.clip(0)
    else:
        centres = (start + step * (np.arange(size) + 0.5) - 0.5).clip(0, voxels - 1)
        weights = (1 - np.abs(centres[:, None] - np.arange(voxels))).clip(0)
    normed: npt.NDArray[Any] = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return normed
