"""Recorded passes as an ordinary differentiable call: what it returns is the caller's own, and nothing is mixed up.

A recording computes in fixed memory. Its output and gradients are copied, so that they may be kept and added up. The
values between a forward pass and its backward pass cannot be copied; ``Turns`` says whether they are still needed.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["Recording", "Replay", "Turns"]


class Recording(Protocol):
    """What is recorded; :class:`~steerable.nn.cuda_recording.CudaRecording` is one."""

    differentiates: bool

    def forward(self, x: Tensor) -> Tensor:
        """The output, in memory that the next pass overwrites."""

    def backward(self, upstream: Tensor) -> list[Tensor | None]:
        """The gradients of the input and the parameters of the last forward pass, likewise."""


class _Turn:
    """One forward pass. It lives as long as the graph of its output."""

    def __init__(self) -> None:
        self.waits = True  # for its backward pass


class Turns:
    """Who uses the memory that recordings share."""

    def __init__(self) -> None:
        self._latest: weakref.ref[_Turn] | None = None

    @property
    def taken(self) -> bool:
        """Whether a forward pass still waits for its backward pass; another pass would overwrite its values."""
        latest = None if self._latest is None else self._latest()
        return latest is not None and latest.waits

    def begin(self) -> _Turn:
        turn = _Turn()
        self._latest = weakref.ref(turn)
        return turn

    def end(self, turn: _Turn) -> None:
        """The backward pass of a turn begins; RuntimeError where its values have been overwritten."""
        if self._latest is None or self._latest() is not turn:
            raise RuntimeError(
                "the accelerated network was called again between two backward passes of one output, which overwrote "
                "the values that the second one needs. Call both backward passes before the next forward pass, or run "
                "the network as it is."
            )
        turn.waits = False


class Replay:
    """Repeats recorded passes on other inputs of the same shape, differentiably once.

    Args:
        recording: the passes.
        parameters: those that it differentiates, in its order.
        turns: of all recordings that share memory with this one. Do not call while it is taken.
    """

    def __init__(self, recording: Recording, parameters: Sequence[Tensor], turns: Turns) -> None:
        self.recording, self.turns = recording, turns
        self._parameters = tuple(parameters)

    def __call__(self, x: Tensor) -> Tensor:
        if not self.recording.differentiates:
            self.turns.begin()
            return self.recording.forward(x).clone()
        y: Tensor = _Replayed.apply(self, x, *self._parameters)
        return y


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, replay: Replay, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.replay, ctx.turn = replay, replay.turns.begin()
        return replay.recording.forward(x).clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        replay: Replay = ctx.replay
        replay.turns.end(ctx.turn)
        gradients = replay.recording.backward(upstream)
        # All at once: they are many and small.
        copies = iter(torch._foreach_mul([g for g in gradients if g is not None], 1.0))
        return None, *(None if g is None else next(copies) for g in gradients)
