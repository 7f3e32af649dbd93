"""Stands in for CUDA graphs where there is no GPU: it computes in fixed memory, and fails where a graph would be wrong.

A graph reads parameters where they were, and knows nothing of modes, gradients or autocast. Where those have changed
since, a replay of the real thing would silently give wrong numbers; this one raises an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from steerable.nn.network_places import NetworkPlaces


class FakeRecording:
    """As ``CudaRecording``; the pool is a dictionary that holds the values of the last forward pass."""

    def __init__(
        self, run: Callable[[Tensor], Tensor], x: Tensor, places: NetworkPlaces, pool: dict[str, Any] | None
    ) -> None:
        self.run, self.places, self.parameters = run, places, places.parameters
        self.pool = {} if pool is None else pool
        self.x = x.detach().clone().requires_grad_(x.requires_grad)
        self.inputs = [t for t in (self.x, *self.parameters) if t.requires_grad] if torch.is_grad_enabled() else []
        self.differentiates = bool(self.inputs)
        self.conditions, self.autocast = self.look(), torch.is_autocast_enabled("cpu")
        for _ in range(3):  # these move running statistics, as warming up does
            y = self.computed()
        self.y, self.gradients = y.detach().clone(), [torch.empty_like(t) for t in self.inputs]

    def look(self) -> list[object]:
        return [*self.places.modes, *((p.data_ptr(), p.requires_grad) for p in self.parameters)]

    def computed(self) -> Tensor:
        with torch.set_grad_enabled(self.differentiates):
            return self.run(self.x)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        if self.look() != self.conditions or torch.is_autocast_enabled("cpu") != self.autocast:
            raise AssertionError("a recording is replayed under other conditions")
        self.x.copy_(x)
        y = self.computed()
        self.pool["graph"] = y if self.differentiates else None
        return self.y.copy_(y)

    @torch.no_grad()
    def backward(self, upstream: Tensor) -> list[Tensor | None]:
        found = torch.autograd.grad(self.pool["graph"], self.inputs, upstream, retain_graph=True, allow_unused=True)
        for kept, gradient in zip(self.gradients, found, strict=True):
            kept.copy_(torch.zeros_like(kept) if gradient is None else gradient)
        places = iter(self.gradients)
        return [next(places) if t.requires_grad else None for t in (self.x, *self.parameters)]
