"""Arrays of this package: float64 numbers and indices, both read-only once they belong to a value."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steerable.errors import shown

__all__ = ["FloatArray", "IntArray", "is_real", "is_whole", "read_only", "real_numbers", "whole_number_up_to"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

A = TypeVar("A", FloatArray, IntArray)


def real_numbers(given: ArrayLike, what: str) -> FloatArray:
    """A new array of the numbers that a user gave; otherwise a TypeError that says ``what`` they should be.

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


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, of Python or numpy; True and False are not numbers here."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """Whether a value is a real number, of Python or numpy, finite or not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole_number_up_to(highest: int, value: object, what: str) -> int:
    """A number that a user gave for ``what``; an error unless it is a whole number from 0 to the highest."""
    if not is_whole(value):
        raise TypeError(f"{what} must be a whole number ≥ 0; got {type(value).__name__} {value!r}.")
    if not 0 <= value <= highest:
        raise ValueError(f"{what} must be a whole number from 0 to {highest}; got {value}.")
    return int(value)


def read_only(array: A) -> A:
    """The same array, made read-only."""
    array.setflags(write=False)
    return array
