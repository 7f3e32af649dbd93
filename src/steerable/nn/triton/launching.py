"""Starting a Triton kernel from eager code, again and again, without looking it up each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Launcher"]

Grid = tuple[int, int, int]


class Launcher:
    """A kernel, and what Triton compiled it to for each kind of arguments that it was started with.

    Triton compiles a kernel for the dtypes and the alignment of its tensors and for some values of its numbers. It
    finds that out at every start, which takes longer than to start the kernel.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._compiled: dict[tuple[object, ...], Callable[..., None]] = {}

    def __call__(self, grid: Grid, *arguments: Tensor | float) -> None:
        """Start it on the device of the first argument; numbers and constants follow in the kernel's order."""
        device = arguments[0].get_device()  # type: ignore[union-attr]
        if device != torch.cuda.current_device():  # kernels run on the current one, and a change takes its time
            with torch.cuda.device(device):
                return self(grid, *arguments)
        kinds = [(a.dtype, a.data_ptr() % 16) if isinstance(a, Tensor) else a for a in arguments]
        key = (device, grid, *kinds)
        compiled = self._compiled.get(key)
        if compiled is not None:
            return compiled(*arguments)
        found = self._kernel[grid](*arguments)
        if found is not None:  # as Triton's interpreter gives
            self._compiled[key] = found[grid]
        return None
