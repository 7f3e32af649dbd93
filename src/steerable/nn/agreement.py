"""The test whether two ways to run a network give the same output and the same gradients, up to rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from steerable.nn.network_places import untouched

__all__ = ["Agreement"]

# Whatever is mixed up or left out is wrong by far more. Gradients collect the rounding of all layers.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.1}
TF32 = 0.05
OTHERS = 2  # inputs that are tried where the first one disagrees


class Results(NamedTuple):
    """The results of a network for one input in the current mode.

    Args:
        output: of the network.
        gradient: of a fixed function of the output, all parameters in a row; empty if none is recorded.
    """

    output: Tensor
    gradient: Tensor

    def deviation(self, other: Results) -> float:
        """The larger of the two relative differences; not a number counts as infinitely far."""
        parts = [
            float((a - b).norm() / a.norm().clamp(min=1e-30)) for a, b in zip(self, other, strict=True) if a.numel()
        ]
        return max((part if part == part else float("inf") for part in parts), default=0.0)


@dataclass(frozen=True)
class Agreement:
    """The results of a network for several inputs, to be compared with another way to run it.

    Rounding may carry a unit across the kink of a ReLU, and in a small network the gradient of one unit is visible. It
    is rare, so that it does not happen for all inputs; what is mixed up or left out is wrong for each of them.

    Args:
        results: what it computes of each input.
        limit: how far another way may be from this one, relative to its size; None if nothing can be compared,
            because the network draws random numbers.
    """

    results: tuple[tuple[Tensor, Results], ...]
    limit: float | None

    @staticmethod
    def of(network: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor) -> Agreement:
        """Run the network in this way, which counts as correct, on the input and on similar ones."""
        device, cast = x.device.type, torch.is_autocast_enabled(x.device.type)
        random_before = _random_state(x.device)
        with untouched(network, x.device):
            first = _passes(run, x, network)
            draws = not torch.equal(random_before, _random_state(x.device))
        if draws:
            return Agreement(((x, first),), None)
        with untouched(network, x.device):
            others = [(other, _passes(run, other, network)) for other in _others_like(x)]
        dtype = torch.get_autocast_dtype(device) if cast else x.dtype
        limit = TF32 if x.is_cuda and dtype == torch.float32 else TOLERANCES.get(dtype, 0.1)
        if cast:  # a deep network rounds as far as it does
            with untouched(network, x.device), torch.autocast(device, enabled=False):
                exact = _passes(run, x, network)
            limit = max(limit, 3 * exact.deviation(first))
        return Agreement(((x, first), *others), limit)

    def objection(self, network: nn.Module, run: Callable[[Tensor], Tensor]) -> str | None:
        """The difference when the network is run in another way; None if there is none."""
        least = float("inf")
        for x, expected in self.results:
            with untouched(network, x.device):
                found = _passes(run, x, network)
            if self.limit is None:
                return None
            least = min(least, expected.deviation(found))
            if least <= self.limit:
                return None
        return f"its result would differ from the network's own by {least:.1%}, where {self.limit:.1%} are rounding"


def _others_like(x: Tensor) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)  # one of its own: what the network draws later stays as it is
    return [x + torch.randn(x.shape, generator=random, device="cpu").to(x) for _ in range(OTHERS)]


def _passes(run: Callable[[Tensor], Tensor], x: Tensor, network: nn.Module) -> Results:
    """The output, and the gradients of all parameters in a row, in float64."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    y = run(x)
    if not isinstance(y, Tensor):
        raise TypeError(
            f"`accelerate` is for networks that return one tensor, and {type(network).__name__} returns a "
            f"{type(y).__name__}. Accelerate the part of it that returns a tensor."
        )
    gradients: list[Tensor] = []
    if y.requires_grad and parameters:
        weights = torch.linspace(-1, 1, y.numel(), device=y.device).view(y.shape).to(y.dtype)
        found = torch.autograd.grad(y, parameters, weights, allow_unused=True)
        gradients = [g.detach().double().flatten() for g in found if g is not None]
    return Results(y.detach().double(), torch.cat(gradients) if gradients else y.new_empty(0, dtype=torch.float64))


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
