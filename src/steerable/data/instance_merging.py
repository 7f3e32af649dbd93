"""Parts of objects that belong together, because vectors do not point away from the border between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steerable.data.regions import Regions, united

__all__ = ["merged_parts"]

Integers = npt.NDArray[np.int64]

STEPS = ((0, 1, 7), (1, 0, 7), (1, 1, 5), (1, -1, 5))
"""Down and right to half of the neighbours, and the weight that makes a diagonal step, √2 long, count as one pixel."""
STRAIGHT = 7


def merged_parts(parts: Regions, vectors: npt.NDArray[np.int8], jump: int, smallest: int) -> Regions:
    """The same parts, with one number for those that belong to one object; numbers are not in order.

    Two objects that touch have centres on both sides of their border, so that vectors on the two sides of it point away
    from each other. Inside of an object they point towards each other, or both the same way. Of the parts that touch,
    those are united whose vectors on average diverge less than ``jump``: two that are each the other's nearest, and
    then again, until none are left. Nothing depends on the order of pixels, so that turned parts are united alike.

    Args:
        parts: int32 (height, width), 0 for the background.
        vectors: int8 (2, height, width), to the right and down.
        jump: by how much vectors differ along the line that crosses a border between objects, at least.
        smallest: parts of fewer pixels are united with the nearest one, whatever that is.
    """
    count = int(parts.max(initial=0)) + 1
    sizes = np.bincount(parts.ravel(), minlength=count)
    ends, sums, lengths = _borders(parts, vectors, count)
    number = np.arange(count)
    while len(ends):
        mean = sums / lengths
        nearest = np.full(count, np.inf)
        for end in ends.T:
            np.minimum.at(nearest, end, mean)
        is_nearest = mean[:, None] <= nearest[ends]
        is_small = is_nearest & (sizes[ends] < smallest)
        # A small part in the middle between two others would unite them, and belongs to neither.
        is_small &= np.bincount(ends[is_nearest], minlength=count)[ends] == 1
        joins = is_nearest.all(1) & (mean < STRAIGHT * jump) | is_small.any(1)
        if not joins.any():
            break
        root = united(count, *ends[joins].T)
        number = root[number]
        sizes = np.bincount(root, sizes, minlength=count)
        ends, sums, lengths = _together(root[ends], sums, lengths, count)
    return number[parts].astype(np.int32)


def _borders(
    parts: Regions, vectors: npt.NDArray[np.int8], count: int
) -> tuple[Integers, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Pairs of parts that touch, (n, 2); for each the sum of what vectors diverge by, and of how many pixels that is.

    The vectors are those one pixel away from the border, where there is one of the same part: a network's vectors do
    not jump from one pixel to the next. Sums are of whole numbers, and exact.
    """
    height, width = parts.shape
    rim = np.pad(parts, 2)
    right, down = (np.pad(each, 2).astype(np.int64) for each in vectors)
    ends, values = [np.empty((0, 2), np.int64)], [np.empty(0)]
    for rows, columns, weight in STEPS:
        first = rim[2 : height + 2, 2 : width + 2]
        second = rim[2 + rows : height + 2 + rows, 2 + columns : width + 2 + columns]
        y, x = np.nonzero((first != second) & (first > 0) & (second > 0))
        y, x = y + 2, x + 2
        both = np.stack([rim[y, x], rim[y + rows, x + columns]], 1)
        back = (rim[y - rows, x - columns] == both[:, 0]).astype(np.int64)
        ahead = 1 + (rim[y + 2 * rows, x + 2 * columns] == both[:, 1])
        before, behind = (y - back * rows, x - back * columns), (y + ahead * rows, x + ahead * columns)
        apart = columns * (right[behind] - right[before]) + rows * (down[behind] - down[before])
        ends.append(both.astype(np.int64))
        values.append(weight * apart)
    return _together(np.concatenate(ends), np.concatenate(values), np.ones(sum(map(len, values))), count)


def _together(
    ends: Integers, sums: npt.NDArray[Any], lengths: npt.NDArray[Any], count: int
) -> tuple[Integers, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Each pair of different parts once, with the sums of its borders."""
    apart = ends[:, 0] != ends[:, 1]
    key = np.sort(ends[apart], axis=1) @ np.array([count, 1])
    pairs, place = np.unique(key, return_inverse=True)
    found = np.stack([pairs // count, pairs % count], 1)
    totals = (np.bincount(place, values[apart], len(pairs)).astype(np.float64) for values in (sums, lengths))
    return found, next(totals), next(totals)
