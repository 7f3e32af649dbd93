"""The arrays of this package: float64 numbers and indices, both read-only once they belong to a value."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["FloatArray", "IntArray", "read_only"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

A = TypeVar("A", FloatArray, IntArray)


def read_only(array: A) -> A:
    """The same array, which can no longer be written to."""
    array.setflags(write=False)
    return array
