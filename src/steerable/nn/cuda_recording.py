"""A network's passes recorded as CUDA graphs: the GPU repeats them without Python, which starts kernels one by one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from steerable.nn.network_places import NetworkPlaces

__all__ = ["CudaRecording", "Pool"]

Pool = Any
"""Torch's handle of the memory that graphs compute in; it has no public type."""

WARM_UP = 3  # passes; in the first ones libraries choose their kernels, which cannot be recorded


class CudaRecording:
    """A forward pass, and where gradients are recorded the backward pass that belongs to it, for inputs of one shape.

    What both return lies in memory that the next pass overwrites, and so do the values that the backward pass needs.
    All recordings of one pool share that memory: between a forward pass and its backward pass none of them may run.

    Args:
        run: the network, or the network compiled.
        x: an input like those to come, on a GPU.
        places: those of the network. The recording reads and differentiates its parameters where they lie now.
        pool: the memory to share, or None for new memory.
    """

    def __init__(self, run: Callable[[Tensor], Tensor], x: Tensor, places: NetworkPlaces, pool: Pool | None) -> None:
        self.pool = torch.cuda.graph_pool_handle() if pool is None else pool
        self._x = x.detach().clone().requires_grad_(x.requires_grad)
        self._forward, self._backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        # A parameter that is part of a graph from another stream would draw that stream into the recording. A loss of
        # an earlier step is such a graph, and so is what autocast keeps.
        with torch.cuda.device(x.device), places.stand_ins() as parameters:
            leaves = (self._x, *parameters)
            inputs = [t for t in leaves if t.requires_grad] if torch.is_grad_enabled() else []
            _warm_up(run, self._x, inputs)
            with _left_in_order(x.device, self.pool):
                with self._recording(self._forward), _autocast_without_cache():
                    y = run(self._x)
                self._upstream = torch.empty_like(y)
                found: list[Tensor | None] = []
                if inputs:
                    with self._recording(self._backward), _without_autocast():
                        found += torch.autograd.grad(y, inputs, self._upstream, allow_unused=True)
        self._y = y.detach()
        places_of_gradients = iter(found)
        self._gradients = [next(places_of_gradients, None) if t.requires_grad else None for t in leaves]
        self.differentiates = bool(inputs)

    def _recording(self, graph: torch.cuda.CUDAGraph) -> torch.cuda.graph:
        # Other threads, such as one that pins the memory of the next batch, may go on meanwhile.
        return torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local")

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """The network's output."""
        self._x.copy_(x)
        self._forward.replay()
        return self._y

    @torch.no_grad()
    def backward(self, upstream: Tensor) -> list[Tensor | None]:
        """The gradients of the last input and of the parameters, from that of the output."""
        self._upstream.copy_(upstream)
        self._backward.replay()
        return self._gradients


def _warm_up(run: Callable[[Tensor], Tensor], x: Tensor, inputs: Sequence[Tensor]) -> None:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            with _autocast_without_cache():
                y = run(x)
            if inputs:
                with _without_autocast():
                    torch.autograd.grad(y, inputs, torch.zeros_like(y), allow_unused=True)
    torch.cuda.current_stream().wait_stream(stream)


@contextmanager
def _left_in_order(device: torch.device, pool: Pool) -> Iterator[None]:
    """What torch leaves behind where a recording fails is put right: the stream, the memory and the random numbers."""
    stream, collects = torch.cuda.current_stream(), gc.isenabled()
    gc.collect()
    gc.disable()  # a graph that is thrown away while another one is recorded spoils that one
    try:
        yield
    except BaseException:
        torch.cuda.set_stream(stream)
        generator = torch.cuda.default_generators[device.index]
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(device.index, pool)
        with suppress(RuntimeError):  # the state of now believes that it is being recorded
            generator.graphsafe_set_state(generator.clone_state())
        raise
    finally:
        if collects:
            gc.enable()


def _autocast_without_cache() -> torch.autocast:
    """The autocast of now; weights that it has cast and kept would be those of the moment of recording."""
    dtype, enabled = torch.get_autocast_dtype("cuda"), torch.is_autocast_enabled("cuda")
    return torch.autocast("cuda", dtype, enabled=enabled, cache_enabled=False)


def _without_autocast() -> torch.autocast:
    """Backward passes follow the dtypes of the forward pass."""
    return torch.autocast("cuda", enabled=False)
