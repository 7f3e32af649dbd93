"""Tensors as the compiled kernels see them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.backends.fourier.irrep_blocks import Direction
from steerable.nn.channels import memory_format

__all__ = ["Floats", "Indices", "Size", "flat", "indices", "room_for_output"]

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


def room_for_output(x: Tensor, size: Size, blocks: Tensor | None, direction: Direction) -> Tensor | None:
    """An output of this size in the memory format of x, without values; None where there are no blocks to make it."""
    if blocks is None:
        return None
    return torch.empty((len(x), direction.out_channels, *size), dtype=x.dtype, memory_format=memory_format(x))
