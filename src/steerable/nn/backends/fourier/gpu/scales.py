"""Half precision inside the Fourier convolution, and its scales.

Rows and blocks are float16 there, which has three bits more than bfloat16, as many as TF32, but a short range. So each
tensor is divided by a power of two that brings its largest number just below where sums of it could overflow. A number
that is less than about 2^-24 of the largest one loses precision. A tensor whose largest number is below 1e-30 or above
1e30 is not divided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.backends.precision import tf32_allowed

__all__ = ["Scale", "room_for", "spectrum_dtype"]

_LARGEST_EXPONENT = 15  # of float16


class Scale(NamedTuple):
    """The number that a tensor is divided by: 2^⌈log2 max|x|⌉ / room.

    Attributes:
        largest: max |x|, (1,) in float32, on the device: nothing waits for it.
        room: how large the largest number may become, a power of two.
    """

    largest: Tensor
    room: float


def spectrum_dtype(x: Tensor) -> torch.dtype:
    """The dtype in which the spectrum of x and the blocks are kept and multiplied; products are float32 at least."""
    half = x.dtype in (torch.float16, torch.bfloat16) or (x.dtype == torch.float32 and tf32_allowed(x.device))
    return torch.float16 if half else x.dtype


def room_for(matrices: Iterable[NDArray[np.float64]]) -> float:
    """The largest power of two r such that no row of a matrix times numbers of at most r overflows."""
    growth = max((float(np.abs(matrix).sum(1).max()) for matrix in matrices if matrix.size), default=1.0)
    return float(2.0 ** (_LARGEST_EXPONENT - math.ceil(math.log2(max(growth, 1.0)))))
