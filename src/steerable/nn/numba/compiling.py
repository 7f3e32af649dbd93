"""How kernels are compiled, and how many threads share one; imported only where numba is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import torch

from steerable.nn.threads import on_all_threads

__all__ = ["compiled", "in_shares"]

_SHARED_FROM = 2**17
"""The number of values from which a pass over them is shared by threads; fewer are done before a thread has begun."""


def compiled(function: Callable[..., Any], *fastmath: str) -> Any:
    """The function compiled when it is first called, and kept on disk where that can be written.

    It runs without the GIL, since several threads run kernels side by side. Fused multiply-adds are always allowed;
    ``fastmath`` names what else is, such as ``"reassoc"``: to add up in another order.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", *fastmath}}
    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError:  # neither this folder nor the user's can be written
        return numba.njit(function, **options)


def in_shares(run: Callable[[int, int], None], parts: int, values: int) -> None:
    """``run(first, last)`` for all parts at once, or for a share of them on each thread where there are many values."""
    if values < _SHARED_FROM or torch.get_num_threads() == 1:
        run(0, parts)
    else:
        on_all_threads(lambda k, n: run(parts * k // n, parts * (k + 1) // n))
