"""Stands in for CUDA graphs where there is no GPU: it computes in fixed memory, and fails where a graph would be wrong.

A graph reads parameters where they were, and knows nothing of modes, gradients or autocast. Where those have changed
since, a replay of the real thing would silently give wrong numbers; this one raises an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class FakeGraphs:
    """What ``record`` returns: output, gradients and the values between them are those of the last pass."""

    def __init__(self, network: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor) -> None:
        self.network, self.run, self.autocast = network, run, torch.is_autocast_enabled("cpu")
        self.parameters = list(network.parameters())  # these are what is differentiated later
        self.x = x.detach().clone().requires_grad_(x.requires_grad)
        self.differentiates, self.conditions = torch.is_grad_enabled(), self.look()
        buffers = [buffer.clone() for buffer in network.buffers()]
        self.values = run(self.x)
        with torch.no_grad():
            for buffer, value in zip(network.buffers(), buffers, strict=True):
                buffer.copy_(value)
        self.y = self.values.detach().clone()
        self.gradients = [torch.empty_like(t) if t.requires_grad else None for t in (self.x, *self.parameters)]

    def look(self) -> list[object]:
        modes = [m.training for m in self.network.modules()]
        return [*modes, *((p.data_ptr(), p.requires_grad) for p in self.network.parameters())]

    def __call__(self, x: Tensor) -> Tensor:
        if self.look() != self.conditions or torch.is_autocast_enabled("cpu") != self.autocast:
            raise AssertionError("a recording is replayed under other conditions")
        if torch.is_grad_enabled() != self.differentiates:
            raise AssertionError("a recording is replayed with or without gradients, as it was not recorded")
        y: Tensor = _Graphed.apply(self, x, *self.parameters)
        return y

    def forward(self, x: Tensor) -> Tensor:
        self.x.detach().copy_(x)
        with torch.set_grad_enabled(self.differentiates):
            self.values = self.run(self.x)
        return self.y.copy_(self.values.detach())

    def backward(self, upstream: Tensor) -> list[Tensor | None]:
        inputs = [t for t in (self.x, *self.network.parameters()) if t.requires_grad]
        found = torch.autograd.grad(self.values, inputs, upstream, retain_graph=True, allow_unused=True)
        kept = [g for g in self.gradients if g is not None]
        for place, gradient in zip(kept, found, strict=True):
            place.copy_(torch.zeros_like(place) if gradient is None else gradient)
        return self.gradients


class _Graphed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graphs: FakeGraphs, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.graphs = graphs
        return graphs.forward(x).detach()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return None, *(None if g is None else g.detach() for g in ctx.graphs.backward(upstream))
