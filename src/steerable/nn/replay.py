"""Recorded passes as an ordinary differentiable call: its results belong to the caller, and passes are not mixed up.

A recording computes in fixed memory. Its output and gradients are copied, so that they may be kept and added up. The
values between a forward pass and its backward pass cannot be copied: ``Replay.taken`` says whether they are needed.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from steerable.nn.network_places import NetworkPlaces
from steerable.nn.recorded_network import record

__all__ = ["Replay"]


class _Turn:
    """One forward pass. It lives as long as the graph of its output."""

    def __init__(self) -> None:
        self.waits = True  # for its backward pass


class Replay:
    """Repeats the passes of a network on other inputs of the same shape, differentiably once.

    Args:
        network: on a GPU; it is recorded in the modes, gradients and autocast of now.
        run: how it is run, for instance compiled.
        x: an input like those to come.
        places: where the network lies; it must stay there.
    """

    def __init__(self, network: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor, places: NetworkPlaces) -> None:
        self._differentiates, self._for_input = torch.is_grad_enabled(), x.requires_grad
        self._parameters = tuple(places.parameters)
        # A parameter that is part of a graph from another stream would draw that stream into the recording. A loss of
        # an earlier step is such a graph, and so is what autocast keeps.
        with places.stand_ins() as stand_ins, _left_in_order(x.device):
            self._run = record(network, run, x)
        self._stand_ins = stand_ins
        self._leaf = self._y = x
        self._latest: weakref.ref[_Turn] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if not self._differentiates:
            return self.forward(x).clone()
        y: Tensor = _Replayed.apply(self, x, *self._parameters)
        return y

    @property
    def taken(self) -> bool:
        """Whether a forward pass still waits for its backward pass; another pass would overwrite its values."""
        latest = None if self._latest is None else self._latest()
        return latest is not None and latest.waits

    def begin(self) -> _Turn:
        """A turn for the forward pass that follows."""
        turn = _Turn()
        self._latest = weakref.ref(turn)
        return turn

    def end(self, turn: _Turn) -> None:
        """The backward pass of a turn begins; RuntimeError if there has been one, which overwrote the values."""
        if not turn.waits:
            raise RuntimeError(
                "an output of the accelerated network is differentiated a second time, but the first backward pass "
                "overwrote the values that it needs. Call `backward` once, on the sum of both losses, or compute the "
                "output by `network.forward.plain(x)`, which runs the network as it is."
            )
        turn.waits = False

    def forward(self, x: Tensor) -> Tensor:
        """The output, in memory that the next pass overwrites."""
        with torch.set_grad_enabled(self._differentiates):
            self._leaf = x.detach().requires_grad_(self._for_input)
            self._y = self._run(self._leaf)
        return self._y.detach()

    def backward(self, upstream: Tensor) -> list[Tensor | None]:
        """The gradients of the input and the parameters of the last forward pass, in the same kind of memory."""
        leaves = (self._leaf, *self._stand_ins)
        inputs = [leaf for leaf in leaves if leaf.requires_grad]
        found = iter(torch.autograd.grad(self._y, inputs, upstream, retain_graph=True))
        return [next(found) if leaf.requires_grad else None for leaf in leaves]


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, replay: Replay, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.replay, ctx.turn = replay, replay.begin()
        return replay.forward(x).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        replay: Replay = ctx.replay
        replay.end(ctx.turn)
        gradients = replay.backward(upstream)
        # All at once: they are many and small.
        copies = iter(torch._foreach_mul([g for g in gradients if g is not None], 1.0))
        return None, *(None if g is None else next(copies) for g in gradients)


@contextmanager
def _left_in_order(device: torch.device) -> Iterator[None]:
    """Restore the stream and the device's random numbers, which torch leaves changed if a recording fails."""
    on_gpu, collects = device.type == "cuda", gc.isenabled()
    stream = torch.cuda.current_stream(device) if on_gpu else None
    gc.collect()
    gc.disable()  # a graph that is thrown away while another one is recorded spoils that one
    try:
        yield
    except BaseException:
        if stream is not None:
            torch.cuda.set_stream(stream)
            generator = torch.cuda.default_generators[device.index]
            with suppress(RuntimeError):  # the state of now believes that it is being recorded
                generator.graphsafe_set_state(generator.clone_state())
        raise
    finally:
        if collects:
            gc.enable()
