"""Connected regions of equal values in a label image, found by runs of pixels and one union of the runs that touch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Regions", "connected_regions", "united"]

Regions = npt.NDArray[np.int32]


def connected_regions(labels: npt.NDArray[Any], *, diagonal: bool = False) -> tuple[Regions, int]:
    """Number the regions of a label image (height, width), and count them.

    Two pixels belong to one region if they have the same value and a path of neighbours to the left, right, top and
    bottom with that value connects them; with ``diagonal``, of neighbours in all eight directions. Pixels of value 0
    keep the number 0; the regions are 1, 2, …, n in the order of their first pixels, row by row.

    >>> connected_regions(np.array([[5, 5, 0], [0, 0, 5], [7, 5, 5]]))
    (array([[1, 1, 0],
           [0, 0, 2],
           [3, 2, 2]], dtype=int32), 3)
    """
    height, width = labels.shape
    if not labels.size:
        return np.zeros(labels.shape, np.int32), 0
    begins = np.ones(labels.shape, bool)
    begins[:, 1:] = labels[:, 1:] != labels[:, :-1]
    run = np.cumsum(begins.ravel(), dtype=np.int32).reshape(height, width)  # the number of each pixel's run
    run -= 1
    values = labels[begins]
    pairs = []
    for right in (-1, 0, 1) if diagonal else (0,):
        upper = slice(max(0, -right), width - max(0, right))
        lower = slice(max(0, right), width - max(0, -right))
        touching = (labels[:-1, upper] == labels[1:, lower]) & (labels[1:, lower] != 0)
        pairs.append(_once(run[:-1, upper][touching], run[1:, lower][touching]))
    above, below = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    root = united(len(values), above, below)
    # The root of a region is its first run, so that roots are in the order of first pixels.
    is_region = (root == np.arange(len(values))) & (values != 0)
    number = np.cumsum(is_region).astype(np.int32)
    per_run = np.where(values != 0, number[root], 0).astype(np.int32)
    return per_run[run], int(is_region.sum())


def _once(above: Regions, below: Regions) -> tuple[Regions, Regions]:
    """The pairs without those that are equal to the one before: two runs touch along many pixels."""
    new = np.ones(len(above), bool)
    new[1:] = (above[1:] != above[:-1]) | (below[1:] != below[:-1])
    return above[new], below[new]


def united(count: int, above: Regions, below: Regions) -> npt.NDArray[np.int64]:
    """For each of the runs the smallest run that a chain of touching pairs connects it with."""
    root = np.arange(count)
    while True:
        least = np.minimum(root[above], root[below])
        before = root.copy()
        for ends in (above, below):
            np.minimum.at(root, before[ends], least)  # the root of an end, not only the end itself
            np.minimum.at(root, ends, least)
        while (further := root[root] != root).any():
            root = np.where(further, root[root], root)
        if np.array_equal(root, before):
            return root
