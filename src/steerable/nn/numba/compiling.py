"""The compilation of kernels, and the number of threads that share one; imported only if numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from numba.extending import intrinsic
from torch import Tensor

from steerable.nn.channels import in_channels_last
from steerable.nn.threads import on_all_threads

__all__ = ["KINDS", "compiled", "in_shares", "numbers_at", "shape_in_memory"]

KINDS = {torch.float32: np.float32(0), torch.float64: np.float64(0)}
"""What tells a kernel which numbers lie at the addresses that it is given."""

_SHARED_FROM = 2**17
"""The number of values from which a pass over them is shared by threads; fewer are done before a thread has begun."""


def compiled(function: Callable[..., Any], *fastmath: str) -> Any:
    """The function, compiled when it is first called, and kept on disk if possible.

    It runs without the GIL, since several threads run kernels side by side. Fused multiply-adds are always allowed;
    ``fastmath`` names what else is, such as ``"reassoc"``: to add up in another order.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", *fastmath}}
    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError:  # neither this folder nor the user's can be written
        return numba.njit(function, **options)


def in_shares(kernel: Callable[..., None], arguments: tuple[Any, ...], parts: int, values: int) -> None:
    """``kernel(*arguments, first, last)`` for all parts at once, or for a share of them on each thread if it is long.

    ``values`` is how many numbers it goes through.
    """
    if values < _SHARED_FROM or torch.get_num_threads() == 1:
        kernel(*arguments, 0, parts)
    else:
        on_all_threads(
            lambda k, n: kernel(*arguments, parts * k // n, parts * (k + 1) // n),
            uses_torch=False,
        )


# ---------------------------------------------------------------- addresses


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(context: Any, address: Any, kind: Any) -> Any:
    pointer = numba.types.CPointer(kind)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(address, kind), code


def _numbers_at(address: int, shape: Any, kind: Any) -> Any:
    """For kernels: the array at ``tensor.data_ptr()`` of a dense tensor with numbers of the same dtype as ``kind``.

    Five arrays as arguments take longer to take over than a small layer takes to compute, five numbers next to nothing.
    """
    return numba.carray(_pointer(address, kind), shape)


numbers_at = numba.njit(_numbers_at)


def shape_in_memory(x: Tensor) -> tuple[int, ...]:
    """(batch, channels, pixels), or (pixels, channels) if the channels of a pixel lie side by side."""
    batch, channels = x.shape[:2]
    if in_channels_last(x):
        return x.numel() // channels, channels
    return batch, channels, x.numel() // (batch * channels)
