"""A network's forward and backward pass recorded as CUDA graphs, and replayed for every batch.

A small network on a GPU waits for Python, which starts its kernels one by one. A recorded pass is started as one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["RecordedNetwork", "record"]

Network = Callable[[Tensor], Tensor]


class RecordedNetwork:
    """Runs a network in training like the network itself; each shape of a batch is recorded when it first appears.

    What it returns, and the gradients that follow from it, lie in memory that the next call overwrites.

    Args:
        network: on a GPU, in training mode, without hooks; its parameters and buffers must stay where they are.
        run: how it is run, for instance compiled; None as it is.
    """

    def __init__(self, network: nn.Module, run: Network | None = None) -> None:
        self._network, self._run = network, network if run is None else run
        self._recorded: dict[torch.Size, Network] = {}

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape not in self._recorded:
            self._recorded[x.shape] = record(self._network, self._run, x)
        return self._recorded[x.shape](x)


def record(network: nn.Module, run: Network, x: Tensor) -> Network:
    """Record the passes of a network for inputs like x, on a GPU and in the current modes, gradients and autocast.

    Passes that only warm up move running statistics and random numbers; these are put back.
    """
    buffers = list(network.buffers())
    before = [buffer.clone() for buffer in buffers]
    random_state = torch.cuda.get_rng_state(x.device)
    enabled, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    example = x.detach().clone().requires_grad_(x.requires_grad)
    # Weights that autocast has cast and kept would be those of the moment of recording.
    with (
        warnings.catch_warnings(),
        torch.autocast("cuda", dtype, enabled=enabled, cache_enabled=False),
    ):
        # Warming up happens on a stream of its own, and that is meant.
        warnings.filterwarnings("ignore", ".*AccumulateGrad node's stream does not match")
        warnings.filterwarnings("ignore", "Attempting to run cuBLAS")  # where a backward pass is the first to need it
        recorded = torch.cuda.make_graphed_callables(_Whole(network, run), (example,))
    with torch.no_grad():
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)
    torch.cuda.set_rng_state(random_state, x.device)
    return cast(Network, recorded)


class _Whole(nn.Module):
    """Replaces a network whose own ``forward`` is to stay as it is."""

    def __init__(self, network: nn.Module, run: Network) -> None:
        super().__init__()
        self.network = network
        self.runs = (run,)  # in a tuple, for a compiled network is a module too, with the same parameters

    def forward(self, x: Tensor) -> Tensor:
        return self.runs[0](x)
