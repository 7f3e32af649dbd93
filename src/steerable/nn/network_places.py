"""The places of a network's parts and their modes, which a recorded or compiled pass takes for granted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["NetworkPlaces", "untouched"]


class NetworkPlaces:
    """The modules, parameters and buffers of a network, as they are now.

    Values may change in place, as they do in training and by ``load_state_dict``. It takes some microseconds per layer
    to ask the questions below, since they are asked at every call.
    """

    def __init__(self, network: nn.Module) -> None:
        self.modules = list(network.modules())
        self.parameters = list(network.parameters())
        self._members: list[dict[str, Any]] = [
            d for m in self.modules for d in (m._modules, m._parameters, m._buffers) if d
        ]
        self._held = list(chain.from_iterable(map(dict.values, self._members)))  # so that no id is used again
        self._hooks = [
            hooks
            for module in self.modules[1:]  # those of the network itself run around its passes
            for hooks in (
                module._forward_hooks,
                module._forward_pre_hooks,
                module._backward_hooks,
                module._backward_pre_hooks,
            )
        ]
        self._now = self._look()

    def _look(self) -> tuple[list[int], list[int], list[bool]]:
        return (
            list(map(id, chain.from_iterable(map(dict.values, self._members)))),
            list(map(Tensor.data_ptr, self.parameters)),
            [p.requires_grad for p in self.parameters],
        )

    @property
    def unchanged(self) -> bool:
        """Whether all parts are where they were: not moved, replaced, frozen or unfrozen."""
        return self._look() == self._now

    @property
    def hooked(self) -> bool:
        """Whether the layers inside have hooks, which a recorded pass would not call."""
        return any(self._hooks)

    @property
    def modes(self) -> tuple[bool, ...]:
        """The modules that are in training mode."""
        return tuple([m.training for m in self.modules])

    @contextmanager
    def stand_ins(self) -> Iterator[list[nn.Parameter]]:
        """Parameters in the same memory that take the place of the network's own, and are part of no graph yet."""
        own = {id(p): nn.Parameter(p.detach(), p.requires_grad) for p in self.parameters}
        holders = [m._parameters for m in self.modules]
        before = [dict(holder) for holder in holders]
        for holder in holders:
            holder.update({name: own[id(p)] for name, p in holder.items() if p is not None})
        try:
            yield list(own.values())
        finally:
            for holder, parameters in zip(holders, before, strict=True):
                holder.update(parameters)

    @property
    def borrowed(self) -> bool:
        """Whether ``functional_call`` or the like has put other tensors in the place of parameters."""
        return any(type(p) is not nn.Parameter for m in self.modules for p in m._parameters.values() if p is not None)


@contextmanager
def untouched(network: nn.Module, device: torch.device) -> Iterator[None]:
    """A context after which running statistics and random numbers are as they were before."""
    buffers = list(network.buffers())
    before = [buffer.clone() for buffer in buffers]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            _restore(buffers, before)


@torch.no_grad()
def _restore(buffers: list[Tensor], values: list[Tensor]) -> None:
    for buffer, value in zip(buffers, values, strict=True):
        buffer.copy_(value)
