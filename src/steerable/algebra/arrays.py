"""The arrays of this package: float64 numbers and indices, both read-only once they belong to a value."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steerable.errors import shown

__all__ = ["FloatArray", "IntArray", "read_only", "real_numbers"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

A = TypeVar("A", FloatArray, IntArray)


def real_numbers(given: ArrayLike, what: str) -> FloatArray:
    """A new array of the numbers that a user gave; TypeError where ``what`` they should be, they are not.

    >>> real_numbers([[1, 2], [3]], "a change of basis is a matrix of numbers")
    Traceback (most recent call last):
    TypeError: a change of basis is a matrix of numbers; got [[1, 2], [3]].
    """
    try:
        if not np.iscomplexobj(given):
            return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{what}; got {shown(given)}.")


def read_only(array: A) -> A:
    """The same array, which can no longer be written to."""
    array.setflags(write=False)
    return array
