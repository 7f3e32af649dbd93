"""Tensors as the compiled kernels see them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Floats", "Indices", "Size", "flat", "indices"]

Floats = NDArray[np.floating]
Indices = NDArray[np.uint64]
Size = tuple[int, ...]


def indices(values: object) -> Indices:
    """Whole numbers as the kernels take them."""
    return np.ascontiguousarray(np.asarray(values, dtype=np.int64)).astype(np.uint64)


def flat(x: Tensor) -> Floats:
    """The memory that a tensor's strides walk over, as a flat array."""
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    found: Floats = x.detach().as_strided((span,), (1,)).numpy()
    return found
