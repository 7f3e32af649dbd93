"""Constants of layers that somebody has written to, as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["restore_constants"]


def restore_constants(buffers: Mapping[str, Tensor | None], constants: Mapping[str, NDArray[Any]]) -> None:
    """Write whole numbers anew that are not what they were, in the memory that they have.

    ``torch.optim.swa_utils.AveragedModel(use_buffers=True)`` averages the buffers of equal networks too, and rounds
    down: a whole number k becomes k - 1. Other constants keep their values.
    """
    for name, values in constants.items():
        buffer = buffers.get(name)
        if buffer is None or buffer.is_floating_point() or not _was_written(buffer):
            continue
        own = torch.tensor(values, dtype=buffer.dtype)
        if not torch.equal(buffer.cpu(), own):  # a graph may hold what is as it was
            with torch.no_grad():
                buffer.copy_(own)


def _was_written(buffer: Tensor) -> bool:
    """Whether values were written into a tensor since it was made, as far as torch counts that."""
    return buffer.device.type != "meta" and not buffer.is_inference() and buffer._version > 0
