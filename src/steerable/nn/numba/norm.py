"""The passes of a batch norm on a CPU, capsule by capsule: its statistics, then its values while they are in cache.

:mod:`steerable.nn.fused_norm` has the equations. Arrays are (batch, channels, pixels), or (pixels, channels) in
channels_last. The invariant direction of each capsule is w, which is 0 if there is none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.fused_norm import Saved
from steerable.nn.numba.compiling import KINDS, compiled, in_shares, numbers_at, shape_in_memory

__all__ = ["CapsuleTables", "KernelPasses"]

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]
Shape = tuple[int, ...]

PIXELS_AT_A_TIME = 128  # whose sums are of the field's own dtype, in channels_last
MEAN_SQUARES_PER_VARIANCE = 25  # up to which the mean square less the squared mean loses no digits to speak of


class CapsuleTables(NamedTuple):
    """The facts about a layer's capsules that the kernels need.

    - first_channel: (capsules + 1,), where each capsule's channels begin.
    - bias_index: (capsules,), each one's entry of the bias; -1 if it has none.
    - reference: (channels,), w.
    - inverse_square: (capsules,), 1 / ⟨w, w⟩, and 0 if w is 0.
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


def _settled(
    k: int, along: float, square: float, x: Floats, tables: CapsuleTables, parameters: tuple[Floats, Floats],
    running: tuple[Floats, Floats], kept: Floats, eps: float, pace: float,
) -> tuple[float, float]:  # fmt: skip
    """Scale and shift of a capsule with ⟨w, Σ x⟩ and Σ x². It is kept as in ``forward``; running statistics move."""
    begin, end = tables.first_channel[k], tables.first_channel[k + 1]
    count, inverse_square, direction = x.shape[0] * x.shape[2], tables.inverse_square[k], tables.reference
    values, share = count * (end - begin), inverse_square / count
    centre = along * share
    spread = square - along * centre
    if square > MEAN_SQUARES_PER_VARIANCE * spread:  # the difference has lost digits
        centre, spread = moments_in_double(x, begin, end, direction, share)
    inverse = 1 / np.sqrt(spread / values + eps)
    kept[0, k], kept[1, k] = centre, inverse
    weight, bias = parameters
    slope, entry = weight[k] * inverse, tables.bias_index[k]
    if pace > 0:
        mean, variance = running
        # A mean that is zero by symmetry costs no degree of freedom.
        unbiased = spread / max(values - (inverse_square > 0), 1)
        variance[k] += (unbiased - variance[k]) * pace
        for c in range(begin, end):
            mean[c] += (centre * direction[c] - mean[c]) * pace
    return slope, (bias[entry] if 0 <= entry < len(bias) else 0.0) - centre * slope


settled = compiled(_settled, "reassoc", "nsz")


def _forward_of_images(
    zero: Any, shape: Shape, of_x: int, of_y: int, first: Integers, entry: Integers, direction: Floats, inverse: Floats,
    scales: int, shifts: int, biases: int, means: int, variances: int, moments: int, eps: float, pace: float,
    start: int, stop: int,
) -> None:  # fmt: skip
    """y of some capsules, and ``kept``, (2, capsules): ⟨w, mean⟩ / ⟨w, w⟩ and 1/σ. Running statistics move by pace."""
    x, y = numbers_at(of_x, shape, zero), numbers_at(of_y, shape, zero)
    tables = CapsuleTables(first, entry, direction, inverse)
    parameters = numbers_at(scales, len(inverse), zero), numbers_at(shifts, biases, zero)
    running = numbers_at(means, len(direction), zero), numbers_at(variances, len(inverse), zero)
    kept = numbers_at(moments, (2, len(inverse)), np.float64(0))
    kind, (batch, _, pixels) = x.dtype.type, shape
    for k in range(start, stop):
        along = square = np.float64(0)
        for b in range(batch):
            for c in range(first[k], first[k + 1]):
                total, total_square = kind(0), kind(0)
                for p in range(pixels):
                    total += x[b, c, p]
                    total_square += x[b, c, p] * x[b, c, p]
                along += total * direction[c]
                square += total_square
        slope, shift = settled(k, along, square, x, tables, parameters, running, kept, eps, pace)
        for b in range(batch):
            for c in range(first[k], first[k + 1]):
                factor, term = kind(slope), kind(shift * direction[c])
                for p in range(pixels):
                    y[b, c, p] = x[b, c, p] * factor + term


def _forward_of_pixels(
    zero: Any, shape: Shape, of_x: int, of_y: int, first: Integers, entry: Integers, direction: Floats, inverse: Floats,
    scales: int, shifts: int, biases: int, means: int, variances: int, moments: int, eps: float, pace: float,
    start: int, stop: int,
) -> None:  # fmt: skip
    """The same where the channels of a pixel lie side by side, (pixels, channels)."""
    x, y = numbers_at(of_x, shape, zero), numbers_at(of_y, shape, zero)
    tables = CapsuleTables(first, entry, direction, inverse)
    parameters = numbers_at(scales, len(inverse), zero), numbers_at(shifts, biases, zero)
    running = numbers_at(means, len(direction), zero), numbers_at(variances, len(inverse), zero)
    kept = numbers_at(moments, (2, len(inverse)), np.float64(0))
    pixels = len(x)
    begin, end = first[start], first[stop]
    totals, squares = np.zeros(end - begin), np.zeros(end - begin)
    factors, terms = np.zeros(end - begin, x.dtype), np.zeros(end - begin, x.dtype)
    for some in range(0, pixels, PIXELS_AT_A_TIME):
        factors[:], terms[:] = 0, 0
        for p in range(some, min(some + PIXELS_AT_A_TIME, pixels)):
            values = x[p, begin:end]
            for c in range(len(values)):
                factors[c] += values[c]
                terms[c] += values[c] * values[c]
        totals += factors
        squares += terms
    for k in range(start, stop):
        along = square = np.float64(0)
        for c in range(first[k], first[k + 1]):
            along += totals[c - begin] * direction[c]
            square += squares[c - begin]
        whole = x.reshape(pixels, x.shape[1], 1)
        slope, shift = settled(k, along, square, whole, tables, parameters, running, kept, eps, pace)
        for c in range(first[k], first[k + 1]):
            factors[c - begin], terms[c - begin] = slope, shift * direction[c]
    for p in range(pixels):
        values, found = x[p, begin:end], y[p, begin:end]
        for c in range(len(values)):
            found[c] = values[c] * factors[c] + terms[c]


def _slopes(
    k: int, along: float, product: float, count: int, tables: CapsuleTables, weight: Floats, kept: Floats,
    to_weight: Floats, to_bias: Floats,
) -> tuple[float, float, float]:  # fmt: skip
    """The gradients of a capsule's scale and shift, and what g, x - μ and w are multiplied by in that of x."""
    dim, inverse, entry = tables.first_channel[k + 1] - tables.first_channel[k], kept[1, k], tables.bias_index[k]
    to_weight[k] = product * inverse
    if 0 <= entry < len(to_bias):
        to_bias[entry] = along
    slope = weight[k] * inverse
    return (
        slope,
        -slope * inverse * inverse * product / (count * dim),
        -slope * along * tables.inverse_square[k] / count,
    )


slopes = compiled(_slopes, "reassoc", "nsz")


def _backward_of_images(
    zero: Any, shape: Shape, of_grad: int, of_x: int, to: int, first: Integers, entry: Integers, direction: Floats,
    inverse: Floats, scales: int, to_scales: int, to_shifts: int, biases: int, moments: int, start: int, stop: int,
) -> None:  # fmt: skip
    """The gradients of some capsules, of their scales and of their shifts."""
    grad, x, to_x = numbers_at(of_grad, shape, zero), numbers_at(of_x, shape, zero), numbers_at(to, shape, zero)
    weight, kept = numbers_at(scales, len(inverse), zero), numbers_at(moments, (2, len(inverse)), np.float64(0))
    to_weight, to_bias = numbers_at(to_scales, len(inverse), zero), numbers_at(to_shifts, biases, zero)
    tables = CapsuleTables(first, entry, direction, inverse)
    kind, (batch, _, pixels) = x.dtype.type, shape
    for k in range(start, stop):
        along = product = np.float64(0)
        for b in range(batch):
            for c in range(first[k], first[k + 1]):
                middle, total, total_product = kind(kept[0, k] * direction[c]), kind(0), kind(0)
                for p in range(pixels):
                    total += grad[b, c, p]
                    total_product += grad[b, c, p] * (x[b, c, p] - middle)
                along += total * direction[c]
                product += total_product
        slope, by_x, shift = slopes(k, along, product, batch * pixels, tables, weight, kept, to_weight, to_bias)
        for b in range(batch):
            for c in range(first[k], first[k + 1]):
                middle, term = kind(kept[0, k] * direction[c]), kind(shift * direction[c])
                factor, factor_of_x = kind(slope), kind(by_x)
                for p in range(pixels):
                    to_x[b, c, p] = grad[b, c, p] * factor + (x[b, c, p] - middle) * factor_of_x + term


def _backward_of_pixels(
    zero: Any, shape: Shape, of_grad: int, of_x: int, to: int, first: Integers, entry: Integers, direction: Floats,
    inverse: Floats, scales: int, to_scales: int, to_shifts: int, biases: int, moments: int, start: int, stop: int,
) -> None:  # fmt: skip
    """The same where the channels of a pixel lie side by side."""
    grad, x, to_x = numbers_at(of_grad, shape, zero), numbers_at(of_x, shape, zero), numbers_at(to, shape, zero)
    weight, kept = numbers_at(scales, len(inverse), zero), numbers_at(moments, (2, len(inverse)), np.float64(0))
    to_weight, to_bias = numbers_at(to_scales, len(inverse), zero), numbers_at(to_shifts, biases, zero)
    tables = CapsuleTables(first, entry, direction, inverse)
    pixels = len(x)
    begin, end = first[start], first[stop]
    totals, products = np.zeros(end - begin), np.zeros(end - begin)
    middles, factors, factors_of_x, terms = np.zeros((4, end - begin), x.dtype)
    for k in range(start, stop):
        for c in range(first[k], first[k + 1]):
            middles[c - begin] = kept[0, k] * direction[c]
    for some in range(0, pixels, PIXELS_AT_A_TIME):
        factors[:], terms[:] = 0, 0
        for p in range(some, min(some + PIXELS_AT_A_TIME, pixels)):
            upstream, values = grad[p, begin:end], x[p, begin:end]
            for c in range(len(values)):
                factors[c] += upstream[c]
                terms[c] += upstream[c] * (values[c] - middles[c])
        totals += factors
        products += terms
    for k in range(start, stop):
        along = product = np.float64(0)
        for c in range(first[k], first[k + 1]):
            along += totals[c - begin] * direction[c]
            product += products[c - begin]
        slope, by_x, shift = slopes(k, along, product, pixels, tables, weight, kept, to_weight, to_bias)
        for c in range(first[k], first[k + 1]):
            factors[c - begin], factors_of_x[c - begin], terms[c - begin] = slope, by_x, shift * direction[c]
    for p in range(pixels):
        upstream, values, found = grad[p, begin:end], x[p, begin:end], to_x[p, begin:end]
        for c in range(len(values)):  # in two steps, since a loop over more arrays is not vectorised
            found[c] = (values[c] - middles[c]) * factors_of_x[c] + terms[c]
        for c in range(len(values)):
            found[c] += upstream[c] * factors[c]


FORWARD, BACKWARD = (
    {3: compiled(of_images, "reassoc", "nsz"), 2: compiled(of_pixels, "reassoc", "nsz")}
    for of_images, of_pixels in (
        (_forward_of_images, _forward_of_pixels),
        (_backward_of_images, _backward_of_pixels),
    )
)


class KernelPasses(NamedTuple):
    """The passes of one call of a layer, on tensors that are dense in either memory format and of the layer's dtype.

    - tables: those of the layer.
    - eps: ε of the norm.
    - running: its running mean of channels and running variance of capsules, or None if nothing is tracked.
    - pace: how far these move.
    """

    tables: CapsuleTables
    eps: float
    running: tuple[Tensor, Tensor] | None = None
    pace: float = 0.0

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Saved]:
        tables, eps, running, pace = self
        capsules, shape = len(tables.inverse_square), shape_in_memory(x)
        y, kept = torch.empty_like(x), torch.from_numpy(np.empty((2, capsules)))
        scales, shifts = _affine(x, weight, bias, capsules)
        mean, variance = (kept, kept) if running is None else running
        affine = scales.data_ptr(), shifts.data_ptr(), shifts.numel()
        moments = mean.data_ptr(), variance.data_ptr(), kept.data_ptr()
        known = KINDS[x.dtype], shape, x.data_ptr(), y.data_ptr(), *tables, *affine, *moments, eps, pace
        in_shares(FORWARD[len(shape)], known, capsules, x.numel())
        return y, (kept,)

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, saved: Saved
    ) -> tuple[Tensor, Tensor, Tensor]:
        tables, (kept,), shape = self.tables, saved, shape_in_memory(x)
        scales, shifts = _affine(x, weight, bias, len(tables.inverse_square))
        to_x, to_weight, to_bias = torch.empty_like(x), torch.empty_like(scales), torch.empty_like(shifts)
        fields = grad.data_ptr(), x.data_ptr(), to_x.data_ptr()
        affine = scales.data_ptr(), to_weight.data_ptr(), to_bias.data_ptr(), to_bias.numel()
        known = KINDS[x.dtype], shape, *fields, *tables, *affine, kept.data_ptr()
        in_shares(BACKWARD[len(shape)], known, len(scales), x.numel())
        return to_x, to_weight, to_bias


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, capsules: int) -> tuple[Tensor, Tensor]:
    """Scales and shifts of the dtype of x and dense: kernels know no other, and go by addresses."""
    scales = x.new_ones(capsules) if weight is None else weight
    shifts = x.new_empty(0) if bias is None else bias
    if not (scales.is_cpu and shifts.is_cpu and scales.numel() == capsules):
        raise RuntimeError(
            f"a field on the CPU needs a norm whose parameters are there, one scale for each of {capsules} capsules; "
            f"got {scales.numel()} on {scales.device}. Move the layer to where its input is."
        )
    if scales.dtype == shifts.dtype == x.dtype and scales.is_contiguous() and shifts.is_contiguous():
        return scales, shifts
    return scales.to(x.dtype).contiguous(), shifts.to(x.dtype).contiguous()
