"""The width that gives a network a number of parameters; networks are built without storage to be counted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import torch
from torch import nn

__all__ = ["nearest_width"]


def nearest_width(build: Callable[[int], nn.Module], parameters: int) -> int:
    """The width that brings ``build(width)`` closest to a number of parameters.

    >>> nearest_width(lambda width: nn.Linear(width, 10), 217)
    21
    """

    def count(width: int) -> int:
        with torch.device("meta"):
            return sum(p.numel() for p in build(width).parameters())

    high = 2
    while count(high) < parameters:
        high *= 2
    below = max(1, bisect_right(range(1, high + 1), parameters, key=count))
    return min(below, below + 1, key=lambda width: abs(count(width) - parameters))
