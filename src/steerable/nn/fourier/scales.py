"""Scales of half precision inside the Fourier convolution.

Rows and blocks are float16 there, which has three bits more than bfloat16 but a short range. So each tensor is divided
by a power of two that brings its largest number just below where sums of it could overflow. A number that is less than
about 2^-24 of the largest one loses precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Scale", "room_for"]

_LARGEST_EXPONENT = 15  # of float16


class Scale(NamedTuple):
    """By what a tensor is divided: 2^⌈log2 max|x|⌉ / room.

    Attributes:
        largest: max |x|, (1,) in float32, on the device: nothing waits for it.
        room: how large the largest number may become, a power of two.
    """

    largest: Tensor
    room: float


def room_for(matrices: Iterable[NDArray[np.float64]]) -> float:
    """The largest power of two r such that no row of a matrix times numbers of at most r overflows."""
    growth = max((float(np.abs(matrix).sum(1).max()) for matrix in matrices if matrix.size), default=1.0)
    return float(2.0 ** (_LARGEST_EXPONENT - math.ceil(math.log2(max(growth, 1.0)))))
