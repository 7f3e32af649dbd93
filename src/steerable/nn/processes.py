"""Moments of channels over all processes of ``torch.distributed``."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["moments_over_processes", "several_processes"]


def several_processes() -> bool:
    """Whether this process is one of several that can currently exchange tensors."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def moments_over_processes(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(mean, variance, count) of x (batch, channels, …): two of shape (1, channels), and (1,) values per channel.

    A process may have no values; it still takes part, also in the backward pass, since the others wait for it.
    Where no process has any, mean and variance are 0.
    """
    dims = [0, *range(2, x.ndim)]
    count = x.numel() // x.shape[1]
    if count:
        variance, mean = torch.var_mean(x, dims, correction=0)
    else:
        mean = variance = x.sum(dims)  # zeros that autograd takes back to x, as on the other processes
    n = torch.full((1, 1), float(count), dtype=x.dtype, device=x.device)
    sums = _SumOverProcesses.apply(torch.cat([n * mean, n], dim=1))
    total = sums[:, -1:]
    divisor = total.clamp(min=1)
    whole = sums[:, :-1] / divisor
    # The mean first: E[x²] - E[x]² would cancel where the mean is large.
    spread = _SumOverProcesses.apply(n * (variance + (mean - whole).square())) / divisor
    return whole, spread, total.squeeze(0)


class _SumOverProcesses(torch.autograd.Function):
    """Σ over the processes of ``torch.distributed``; so is its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _SumOverProcesses.apply(gradients[0])  # type: ignore[no-any-return]
