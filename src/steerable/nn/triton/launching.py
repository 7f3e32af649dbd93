"""Starting a Triton kernel from eager code, again and again, without looking it up each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Launcher"]


class Launcher:
    """A kernel with the grid and the arguments that stay the same, and what Triton has compiled it to.

    Triton compiles a kernel for the dtypes and the alignment of its tensors and for some values of its numbers. It
    finds that out at every start, which takes longer than to start the kernel.

    Args:
        kernel: the arguments that change are its first ones.
        grid: the number of programs along each axis.
        fixed: all other arguments, constants too, in the kernel's order.
    """

    def __init__(self, kernel: Any, grid: tuple[int, int, int], *fixed: Any) -> None:
        self._kernel, self._grid, self._fixed = kernel, grid, fixed
        self._compiled: dict[tuple[object, ...], Callable[..., None]] = {}

    def __call__(self, *given: Tensor | int) -> None:
        """Start it with these first arguments, on the device of the first one; the kernel must not specialise ints."""
        device = given[0].get_device()  # type: ignore[union-attr]
        if device != torch.cuda.current_device():  # kernels run on the current one, and a change takes its time
            with torch.cuda.device(device):
                return self(*given)
        key = tuple([None if type(a) is int else (a.dtype, a.data_ptr() % 16) for a in given])
        compiled = self._compiled.get(key)
        if compiled is not None:
            return compiled(*given, *self._fixed)
        found = self._kernel[self._grid](*given, *self._fixed)
        if found is not None:  # as Triton's interpreter gives
            self._compiled[key] = found[self._grid]
        return None
