"""The passes of a batch norm on a CPU: torch's own kernels, and numpy for the numbers of capsules in between."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.capsule_numbers import CapsuleNumbers
from steerable.nn.fused_norm import Saved

__all__ = ["PassesOnCpu"]

_Numbers = NDArray[np.floating]


class PassesOnCpu:
    """Batch norm by torch's own kernels, with one step in numpy between them.

    Args:
        numbers: the capsules of the layer.
        eps: ε of the norm.
        track: what is told the new centre of channels and the unbiased variance of capsules; None where nothing is.
    """

    def __init__(
        self, numbers: CapsuleNumbers, eps: float, track: Callable[[Tensor, Tensor], None] | None = None
    ) -> None:
        self._numbers, self._eps, self._track = numbers, eps, track

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Saved]:
        numbers, count = self._numbers, x.numel() // x.shape[1]
        with np.errstate(all="ignore"):  # torch does not warn of fields that are not finite
            centre, variance = _statistics(x, numbers, count)
            rows = self._rows(x.dtype, centre, variance, weight, bias)
        if self._track is not None:
            self._track(rows[0], torch.from_numpy(numbers.unbiased(variance, count)))
        return self._scaled(x, *rows.unbind()[:4]), (rows,)

    def by_running_statistics(
        self, x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """y with the running mean of channels and variance of capsules; nothing of it can be differentiated."""
        rows = self._rows(x.dtype, 0, variance.numpy(), weight, bias)
        return self._scaled(x, mean, *rows.unbind()[1:4])

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, saved: Saved
    ) -> tuple[Tensor, Tensor, Tensor]:
        numbers, count = self._numbers, x.numel() // x.shape[1]
        centre, variance, _, _, slope = saved[0].unbind()
        # For μ and σ that are constants torch's gradients of scale and shift are Σ g·(x - μ)/σ and Σ g.
        _, sums, totals = _norm_backward(grad, x, None, centre, variance, None, None, False, self._eps, _SUMS)
        with np.errstate(all="ignore"):
            to_weight, along = numbers.sums(sums.numpy()), numbers.along(totals.numpy())
            factors = np.empty((2, len(to_weight)), dtype=sums.numpy().dtype)
            factors[0] = to_weight / (-count * numbers.dims)
            factors[1] = along * numbers.inverse_square / -count
            factors = numbers.on_channels(factors, (1,)) * slope.numpy()
        out = self._scaled(x, centre, variance, *torch.from_numpy(factors).unbind())
        out.addcmul_(grad, slope[:, None, None])
        return out, torch.from_numpy(to_weight), torch.from_numpy(along[numbers.biased])

    def _rows(
        self,
        dtype: torch.dtype,
        centre: _Numbers | float,
        variance: _Numbers,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """(5, channels): centre, variance, scale, shift, and the factor of x."""
        rows = np.zeros((5, len(variance)), dtype=np.float32 if dtype == torch.float32 else np.float64)
        rows[0], rows[1] = centre, variance
        rows[2] = 1 if weight is None else weight.detach().numpy()
        if bias is not None:
            rows[3, self._numbers.biased] = bias.detach().numpy()
        rows[4] = rows[2] / np.sqrt(variance + self._eps)
        return torch.from_numpy(self._numbers.on_channels(rows, (0, 3)))

    def _scaled(self, x: Tensor, centre: Tensor, variance: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        """scale · (x - μ)/σ + shift."""
        return torch.native_batch_norm(x, scale, shift, centre, variance, False, 0.0, self._eps)[0]


_norm_backward = torch.ops.aten.native_batch_norm_backward.default
_SUMS = [False, True, True]
_MEAN_SQUARES_PER_VARIANCE = 25


def _statistics(x: Tensor, numbers: CapsuleNumbers, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Centre and variance of each capsule.

    Torch's statistics are not vectorised where channels are planes. Σ x² is, as Σ g·(x - 0) of the backward pass, and
    serves where the difference of the mean square and the squared mean loses no digits to speak of.
    """
    if x.is_contiguous():
        _, squares, totals = _norm_backward(
            x, x, None, None, None, *_zeros_and_ones(x.shape[1], x.dtype), True, 0.0, _SUMS
        )
        square = squares.numpy() / count
        centre, variance = numbers.statistics(totals.numpy() / count, square)
        if not (numbers.sums(square) > _MEAN_SQUARES_PER_VARIANCE * numbers.dims * variance).any():
            return centre, variance
    moments = torch.batch_norm_update_stats(x, None, None, 0.0)
    mean, variance = (t.numpy().astype(np.float64) for t in moments)
    return numbers.statistics(mean, variance + mean * mean)


@lru_cache(maxsize=256)
def _zeros_and_ones(channels: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(mode=False):  # what is made in it could not be used outside
        return torch.zeros(channels, dtype=dtype, device="cpu"), torch.ones(channels, dtype=dtype, device="cpu")
