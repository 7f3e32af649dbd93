"""Mean average precision over overlaps from 0.5 to 0.95: how well numbered objects are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["OVERLAPS", "average_precisions"]

OVERLAPS = tuple(round(0.5 + 0.05 * k, 2) for k in range(10))
"""The overlaps from which on an object counts as found: 0.5, 0.55, …, 0.95."""


def average_precisions(predicted: npt.NDArray[Any], true: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """TP / (TP + FP + FN) of an image for each of ``OVERLAPS``, float64 (10,).

    A predicted object is right (TP) where its IoU with a true one is larger than the overlap, which can hold for one
    pair only; FP are the other predicted objects, FN the true ones that were not found. Where there is neither a
    predicted nor a true object, everything is right.

    Args:
        predicted: the number of the object of each pixel, (height, width), 0 for the background.
        true: the same for the truth.

    >>> average_precisions(np.array([[1, 1, 1, 0], [0, 0, 2, 2]]), np.array([[4, 4, 4, 4], [0, 0, 0, 0]]))[[0, 4, 5]]
    array([0.5, 0.5, 0. ])
    """
    (guesses, guess), (truths, truth) = (_compact(labels) for labels in (predicted, true))
    shared = np.bincount(truth * (guesses + 1) + guess, minlength=(guesses + 1) * (truths + 1))
    table = shared.reshape(truths + 1, guesses + 1)
    areas = table.sum(1)[1:, None] + table.sum(0)[None, 1:]
    overlap = table[1:, 1:] / np.maximum(areas - table[1:, 1:], 1)
    right = (overlap.ravel()[:, None] > np.array(OVERLAPS)).sum(0)
    total = guesses + truths - right
    return np.where(total == 0, 1.0, right / np.maximum(total, 1))


def _compact(labels: npt.NDArray[Any]) -> tuple[int, npt.NDArray[np.int64]]:
    """(the number of objects, their numbers from 1 on for all pixels in one row)."""
    known = np.unique(np.append(labels, 0))
    return len(known) - 1, np.searchsorted(known, labels.ravel())
