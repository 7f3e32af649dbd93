"""A network run through ``torch.compile`` for batches of one size: all batches of an epoch except the last."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["CompiledNetwork"]


class CompiledNetwork:
    """A network that is compiled for the shape of the first batch and runs as ordinary code for other shapes.

    A second shape would be compiled as well: a minute of waiting, for one batch of an epoch.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._compiled: Callable[[Tensor], Tensor] = torch.compile(network)
        self._shape: torch.Size | None = None

    def __call__(self, x: Tensor) -> Tensor:
        self._shape = self._shape or x.shape
        run = self._compiled if x.shape == self._shape else self._network
        return run(x)
