"""Triton kernels, each an operator of torch's with a plain counterpart elsewhere; imported only where CUDA is used."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

import torch
from torch import Tensor

__all__ = ["HAS_TRITON", "on_device_of"]

HAS_TRITON = find_spec("triton") is not None
"""Whether Triton is installed, as it is with torch's CUDA builds for Linux."""


def on_device_of(x: Tensor) -> AbstractContextManager[object]:
    """A context in which kernels run on the device of x; they run on the current one, and a change takes its time."""
    return nullcontext() if x.get_device() == torch.cuda.current_device() else torch.cuda.device(x.device)
