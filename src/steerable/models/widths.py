"""How wide a network must be to have a number of parameters; networks are built without storage to be counted."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

__all__ = ["count_parameters", "nearest_width"]


def count_parameters(build: Callable[[], nn.Module]) -> int:
    """The number of parameters of the network that ``build`` makes."""
    with torch.device("meta"):
        network = build()
    return sum(p.numel() for p in network.parameters())


def nearest_width(build: Callable[[int], nn.Module], parameters: int) -> int:
    """The width at which ``build(width)`` comes nearest to a number of parameters.

    >>> nearest_width(lambda width: nn.Linear(width, 10), 217)
    21
    """

    def count(width: int) -> int:
        return count_parameters(lambda: build(width))

    low, high = 1, 2
    while count(high) < parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) <= parameters else (low, middle)
    return min(low, high, key=lambda width: abs(count(width) - parameters))
