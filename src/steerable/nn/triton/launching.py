"""Starting a Triton kernel from eager code, again and again, without looking it up each time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

__all__ = ["Launcher"]


class Launcher:
    """A kernel with the grid and the arguments that stay the same, and what Triton has compiled it to.

    Triton compiles a kernel for the dtypes and the alignment of its tensors and for some values of its numbers. It
    finds that out at every start, which takes longer than to start the kernel.

    Args:
        kernel: its arguments are tensors that change, numbers that change and must not be specialised, and the rest.
        grid: the number of programs along each axis.
        fixed: the rest, constants too, in the kernel's order.
    """

    def __init__(self, kernel: Any, grid: tuple[int, int, int], *fixed: Any) -> None:
        self._kernel, self._grid, self._fixed = kernel, grid, fixed
        self._addresses = tuple([a.data_ptr() if isinstance(a, Tensor) else a for a in fixed])
        self._compiled: dict[tuple[torch.dtype, ...], Any] = {}

    def __call__(self, tensors: Sequence[Tensor], *numbers: int) -> None:
        """Start it with these first arguments, on the device of the first tensor."""
        device = tensors[0].get_device()
        if device != torch.cuda.current_device():  # kernels run on the current one, and a change takes its time
            with torch.cuda.device(device):
                return self(tensors, *numbers)
        addresses = [t.data_ptr() for t in tensors]
        key = tuple([t.dtype for t in tensors])
        compiled = self._compiled.get(key)
        aligned = reduce(or_, addresses) % 16 == 0
        if compiled is None or not aligned:
            found = self._kernel[self._grid](*tensors, *numbers, *self._fixed)
            if aligned and found is not None:  # Triton's interpreter returns None
                self._compiled[key] = found
            return None
        # Like Triton's own runner, but with addresses, since it would ask the driver about each tensor, and without the
        # hooks of profilers.
        stream = torch._C._cuda_getCurrentRawStream(device)
        about = (compiled.function, compiled.packed_metadata, None, None, None)
        compiled.run(*self._grid, stream, *about, *addresses, *numbers, *self._addresses)
        return None
