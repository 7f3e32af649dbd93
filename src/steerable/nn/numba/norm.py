"""The passes of a batch norm on a CPU, capsule by capsule: its statistics, then its values while they are in cache.

:mod:`steerable.nn.fused_norm` has the equations. Arrays are (batch, channels, pixels), dense. The invariant direction
of each capsule is w, which is 0 where there is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.fused_norm import Saved
from steerable.nn.numba.compiling import compiled, in_shares

__all__ = ["CapsuleTables", "KernelPasses"]

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]

MEAN_SQUARES_PER_VARIANCE = 25  # up to which the mean square less the squared mean loses no digits to speak of


class CapsuleTables(NamedTuple):
    """What the kernels know of a layer's capsules.

    - first_channel: (capsules + 1,), where each capsule's channels begin.
    - bias_index: (capsules,), each one's entry of the bias; -1 where it has none.
    - reference: (channels,), w.
    - inverse_square: (capsules,), 1 / ⟨w, w⟩, and 0 where w is 0.
    """

    first_channel: Integers
    bias_index: Integers
    reference: Floats
    inverse_square: Floats


def _moments_in_double(x: Floats, begin: int, end: int, direction: Floats, share: float) -> tuple[float, float]:
    """⟨w, mean⟩ / ⟨w, w⟩ and Σ (x - μ)² of a capsule; ``share`` is 1 / ⟨w, w⟩ over the values per channel."""
    centre = spread = 0.0
    for b in range(x.shape[0]):
        for c in range(begin, end):
            total = 0.0
            for p in range(x.shape[2]):
                total += x[b, c, p]
            centre += total * direction[c] * share
    for b in range(x.shape[0]):
        for c in range(begin, end):
            middle = centre * direction[c]
            for p in range(x.shape[2]):
                spread += (x[b, c, p] - middle) ** 2
    return centre, spread


moments_in_double = compiled(_moments_in_double, "reassoc")


def _forward(
    x: Floats, y: Floats, first: Integers, bias_index: Integers, direction: Floats, inverse_square: Floats,
    weight: Floats, bias: Floats, running_mean: Floats, running_variance: Floats, kept: Floats, eps: float,
    pace: float, start: int, stop: int,
) -> None:  # fmt: skip
    """y of some capsules, and ``kept``, (2, capsules): ⟨w, mean⟩ / ⟨w, w⟩ and 1/σ. Running statistics move by pace."""
    kind, batch, pixels = x.dtype.type, x.shape[0], x.shape[2]
    for k in range(start, stop):
        begin, end = first[k], first[k + 1]
        along = square = np.float64(0)
        for b in range(batch):
            for c in range(begin, end):
                total, total_square = kind(0), kind(0)
                for p in range(pixels):
                    total += x[b, c, p]
                    total_square += x[b, c, p] * x[b, c, p]
                along += total * direction[c]
                square += total_square
        values, share = batch * pixels * (end - begin), inverse_square[k] / (batch * pixels)
        centre = along * share
        spread = square - along * centre
        if square > MEAN_SQUARES_PER_VARIANCE * spread:  # the difference has lost digits
            centre, spread = moments_in_double(x, begin, end, direction, share)
        inverse = 1 / np.sqrt(spread / values + eps)
        kept[0, k], kept[1, k] = centre, inverse
        slope = weight[k] * inverse
        shift = (bias[bias_index[k]] if 0 <= bias_index[k] < len(bias) else 0.0) - centre * slope
        for b in range(batch):
            for c in range(begin, end):
                factor, term = kind(slope), kind(shift * direction[c])
                for p in range(pixels):
                    y[b, c, p] = x[b, c, p] * factor + term
        if pace > 0:
            # A mean that is zero by symmetry costs no degree of freedom.
            unbiased = spread / max(values - (inverse_square[k] > 0), 1)
            running_variance[k] += (unbiased - running_variance[k]) * pace
            for c in range(begin, end):
                running_mean[c] += (centre * direction[c] - running_mean[c]) * pace


def _backward(
    grad: Floats, x: Floats, to_x: Floats, first: Integers, bias_index: Integers, direction: Floats,
    inverse_square: Floats, weight: Floats, kept: Floats, to_weight: Floats, to_bias: Floats, start: int, stop: int,
) -> None:  # fmt: skip
    """The gradients of some capsules, of their scales and of their shifts."""
    kind, batch, pixels = x.dtype.type, x.shape[0], x.shape[2]
    for k in range(start, stop):
        begin, end = first[k], first[k + 1]
        centre, inverse = kept[0, k], kept[1, k]
        along = product = np.float64(0)
        for b in range(batch):
            for c in range(begin, end):
                middle, total, total_product = kind(centre * direction[c]), kind(0), kind(0)
                for p in range(pixels):
                    total += grad[b, c, p]
                    total_product += grad[b, c, p] * (x[b, c, p] - middle)
                along += total * direction[c]
                product += total_product
        to_weight[k] = product * inverse
        if 0 <= bias_index[k] < len(to_bias):
            to_bias[bias_index[k]] = along
        slope = weight[k] * inverse
        by_x = kind(-slope * inverse * inverse * product / (batch * pixels * (end - begin)))
        shift = -slope * along * inverse_square[k] / (batch * pixels)
        for b in range(batch):
            for c in range(begin, end):
                middle, factor, term = kind(centre * direction[c]), kind(slope), kind(shift * direction[c])
                for p in range(pixels):
                    to_x[b, c, p] = grad[b, c, p] * factor + (x[b, c, p] - middle) * by_x + term


forward, backward = compiled(_forward, "reassoc", "nsz"), compiled(_backward, "reassoc", "nsz")


class KernelPasses:
    """The passes of one call of a layer, on tensors whose channels are dense planes.

    Args:
        tables: those of the layer.
        eps: ε of the norm.
        running: its running mean of channels and running variance of capsules, or None where nothing is tracked.
        pace: how far these move.
    """

    def __init__(
        self, tables: CapsuleTables, eps: float, running: tuple[Tensor, Tensor] | None = None, pace: float = 0.0
    ) -> None:
        self._tables, self._eps, self._running, self._pace = tables, eps, running, pace

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Saved]:
        y, kept = torch.empty_like(x), np.empty((2, len(self._tables.inverse_square)))
        scales, shifts = self._affine(x, weight, bias)
        running = (shifts[:0], shifts[:0]) if self._running is None else [t.numpy() for t in self._running]
        known = (_planes(x), _planes(y), *self._tables, scales, shifts, *running, kept)
        in_shares(lambda *share: forward(*known, self._eps, self._pace, *share), kept.shape[1], x.numel())
        return y, (torch.from_numpy(kept),)

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, saved: Saved
    ) -> tuple[Tensor, Tensor, Tensor]:
        to_x, kept = torch.empty_like(x), saved[0].numpy()
        scales, shifts = self._affine(x, weight, bias)
        to_weight, to_bias = np.empty_like(scales), np.empty_like(shifts)
        known = (_planes(grad), _planes(x), _planes(to_x), *self._tables, scales, kept, to_weight, to_bias)
        in_shares(lambda *share: backward(*known, *share), kept.shape[1], x.numel())
        return to_x, torch.from_numpy(to_weight), torch.from_numpy(to_bias)

    def _affine(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Floats, Floats]:
        """Scales and shifts in numpy; always of the dtype of x, since a kernel is compiled for each combination."""
        ones = x.new_ones(len(self._tables.inverse_square)) if weight is None else weight
        return ones.numpy(), (x.new_empty(0) if bias is None else bias).numpy()


def _planes(x: Tensor) -> Floats:
    planes: Floats = x.numpy().reshape(x.shape[0], x.shape[1], -1)
    return planes
