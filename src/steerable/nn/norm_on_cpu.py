"""The passes of a batch norm on a CPU: torch's own kernels, and numpy for the numbers of capsules in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steerable.nn.capsule_numbers import AnyNumbers, CapsuleNumbers, Numbers, Shares
from steerable.nn.fused_norm import Saved
from steerable.nn.kept_filters import MadeFromParameters

__all__ = ["EvaluationOnCpu", "PassesOnCpu"]


class PassesOnCpu:
    """Batch norm by torch's own kernels, with one step in numpy between them.

    Args:
        numbers: the capsules of the layer.
        eps: ε of the norm.
        track: what is told the new centre of channels and the unbiased variance of capsules; None where nothing is.
    """

    def __init__(
        self, numbers: CapsuleNumbers, eps: float, track: Callable[[AnyNumbers, AnyNumbers], None] | None = None
    ) -> None:
        self._numbers, self._eps, self._track = numbers, eps, track

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Saved]:
        numbers, shares = self._numbers, self._numbers.shares(x.numel() // x.shape[1])
        with np.errstate(all="ignore"):  # torch does not warn of fields that are not finite
            centre, variance = _statistics(x, numbers, shares)
            rows = (centre, variance, numbers.scales(weight), numbers.biases(bias))
            tables = numbers.on_channels(np.array(rows, dtype=_DTYPES[x.dtype]), (0, 3))
            if self._track is not None:
                self._track(tables[0], variance * shares.unbiased)
        return _scaled(x, tables[0], tables[1], tables[2], tables[3], self._eps), (torch.from_numpy(tables),)

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, saved: Saved
    ) -> tuple[Tensor, Tensor, Tensor]:
        numbers, shares = self._numbers, self._numbers.shares(x.numel() // x.shape[1])
        centre, variance, scale, _ = saved[0].numpy()
        moments = torch.from_numpy(centre), torch.from_numpy(variance)
        # For μ and σ that are constants torch's gradients of scale and shift are Σ g·(x - μ)/σ and Σ g.
        _, sums, totals = _norm_backward(grad, x, None, *moments, None, None, False, self._eps, _SUMS)
        with np.errstate(all="ignore"):
            slope = scale / np.sqrt(variance + self._eps)
            to_weight, along = numbers.sums(sums.numpy()), numbers.along(totals.numpy())
            factors = np.array((to_weight * shares.of_capsule, along * shares.of_direction), dtype=slope.dtype)
            factors = numbers.on_channels(factors, (1,)) * -slope
        out = _scaled(x, centre, variance, factors[0], factors[1], self._eps)
        out.addcmul_(grad, torch.from_numpy(slope.reshape(-1, 1, 1)))
        to_bias = along[numbers.biased].astype(slope.dtype)
        return out, torch.from_numpy(to_weight.astype(slope.dtype)), torch.from_numpy(to_bias)


class EvaluationOnCpu:
    """y = γ (x - μ)/σ + β by running statistics; σ², γ and β of each channel are kept as long as they are the same.

    Args:
        numbers: the capsules of the layer.
    """

    def __init__(self, numbers: CapsuleNumbers) -> None:
        self._numbers = numbers
        self._kept: MadeFromParameters | None = None

    def __call__(
        self, x: Tensor, eps: float, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """y with this mean of channels and variance of capsules; nothing of it can be differentiated."""
        kept = self._kept
        if kept is None or eps not in kept.made or not kept.is_of(mean, variance, weight, bias):
            kept = self._kept = MadeFromParameters(mean, variance, weight, bias)
            rows = (variance.numpy(), self._numbers.scales(weight), self._numbers.biases(bias))
            tables = self._numbers.on_channels(np.array(rows, dtype=_DTYPES[x.dtype]), (2,))
            kept.made[eps] = [torch.from_numpy(table) for table in tables]
        variance, weight, bias = kept.made[eps]
        return torch.native_batch_norm(x, weight, bias, mean, variance, False, 0.0, eps)[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}


_DTYPES = {torch.float32: np.float32, torch.float64: np.float64}
_norm_backward = torch.ops.aten.native_batch_norm_backward.default
_SUMS = [False, True, True]
_MEAN_SQUARES_PER_VARIANCE = 25


def _scaled(
    x: Tensor, centre: AnyNumbers, variance: AnyNumbers, scale: AnyNumbers, shift: AnyNumbers, eps: float
) -> Tensor:
    """scale · (x - μ)/σ + shift."""
    mean, var, weight, bias = map(torch.from_numpy, (centre, variance, scale, shift))
    return torch.native_batch_norm(x, weight, bias, mean, var, False, 0.0, eps)[0]


def _statistics(x: Tensor, numbers: CapsuleNumbers, shares: Shares) -> tuple[Numbers, Numbers]:
    """Centre and variance of each capsule.

    Torch's statistics are not vectorised where channels are planes. Σ x² is, as Σ g·(x - 0) of the backward pass, and
    serves where the difference of the mean square and the squared mean loses no digits to speak of.
    """
    if x.is_contiguous():
        _, squares, totals = _norm_backward(
            x, x, None, None, None, *_zeros_and_ones(x.shape[1], x.dtype), True, 0.0, _SUMS
        )
        centre, square, variance = numbers.statistics(totals.numpy(), squares.numpy(), shares)
        if True not in (square > _MEAN_SQUARES_PER_VARIANCE * variance).tolist():
            return centre, variance
    count = x.numel() // x.shape[1]
    mean, spread = (t.numpy().astype(np.float64) for t in torch.batch_norm_update_stats(x, None, None, 0.0))
    centre, _, variance = numbers.statistics(mean * count, (spread + mean * mean) * count, shares)
    return centre, np.maximum(variance, 0)


@lru_cache(maxsize=256)
def _zeros_and_ones(channels: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(mode=False):  # what is made in it could not be used outside
        return torch.zeros(channels, dtype=dtype, device="cpu"), torch.ones(channels, dtype=dtype, device="cpu")
