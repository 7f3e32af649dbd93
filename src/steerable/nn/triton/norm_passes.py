"""The passes of a batch norm in eager code on a GPU: torch's own kernels, and one of ours between them.

Ours works out the numbers of capsules from those of channels. It has one row per number and one column per channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from steerable.nn.fused_norm import Saved
from steerable.nn.triton.launching import Launcher
from steerable.nn.triton.norm import CAPSULES_PER_PROGRAM, CapsuleTables, channels_of

__all__ = ["NormKernels", "PassesOnGpu", "RunningStatistics"]


@triton.jit
def _pace(batches, kind: tl.constexpr, MOMENTUM: tl.constexpr):
    """How far running statistics move in a step. A fixed momentum counts the batch; otherwise it is counted already."""
    if MOMENTUM < 0:  # a cumulative average
        pace = 1.0 / tl.load(batches).to(kind)
    else:
        pace = tl.full((), MOMENTUM, kind)
        if tl.program_id(0) == 0:
            tl.store(batches, tl.load(batches) + 1)
    return pace


@triton.jit
def _move(place, value, pace, mask):
    old = tl.load(place, mask=mask, other=0.0).to(value.dtype)
    tl.store(place, old + pace * (value - old), mask=mask)


@triton.jit(do_not_specialize=["count"])
def _rows_kernel(
    mean,
    deviation,
    weight,
    bias,
    running_mean,
    running_variance,
    batches,
    rows,
    count,
    first,
    bias_index,
    reference,
    inverse_square,
    capsules,
    channels,
    BY_BATCH: tl.constexpr,
    TRACK: tl.constexpr,
    SCALED: tl.constexpr,
    SHIFTED: tl.constexpr,
    MOMENTUM: tl.constexpr,
    EPS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < capsules
    dim, channel, mine = channels_of(first, k, inside, WIDTH)
    kind = rows.dtype.element_ty
    w = tl.load(reference + channel, mask=mine, other=0.0).to(kind)
    if BY_BATCH:
        m = tl.load(mean + channel, mask=mine, other=0.0)
        inverse_deviation = tl.load(deviation + channel, mask=mine, other=1.0)
        square = tl.load(inverse_square + k, mask=inside, other=0.0)
        c = (tl.sum(m * w, axis=1) * square)[:, None] * w
        v = 1.0 / (inverse_deviation * inverse_deviation) + (m - c) * (m - c)
        total = tl.sum(tl.where(mine, v, 0.0), axis=1) / dim
        if TRACK:
            values = dim.to(kind) * count
            # A mean that is zero by symmetry costs no degree of freedom.
            unbiased = total * values / tl.maximum(values - tl.where(square > 0, 1.0, 0.0), 1.0)
            pace = _pace(batches, kind, MOMENTUM)
            _move(running_mean + channel, c, pace, mine)
            _move(running_variance + k, unbiased, pace, inside)
    else:
        c = tl.load(running_mean + channel, mask=mine, other=0.0).to(kind)
        total = tl.load(running_variance + k, mask=inside, other=1.0).to(kind)
    row = rows + channel
    inverse = (1.0 / tl.sqrt(total + tl.full((), EPS, kind)))[:, None]
    tl.store(row, c, mask=mine)
    tl.store(row + channels, tl.broadcast_to(inverse, (BLOCK, WIDTH)), mask=mine)
    scale, shift = tl.full((BLOCK,), 1.0, kind), tl.zeros((BLOCK,), kind)
    if SCALED:
        scale = tl.load(weight + k, mask=inside, other=0.0).to(kind)
    if SHIFTED:
        index = tl.load(bias_index + k, mask=inside, other=-1)
        shift = tl.load(bias + index, mask=inside & (index >= 0), other=0.0).to(kind)
    tl.store(row + 2 * channels, tl.broadcast_to(scale[:, None], (BLOCK, WIDTH)), mask=mine)
    tl.store(row + 3 * channels, shift[:, None] * w, mask=mine)


@triton.jit(do_not_specialize=["count"])
def _sums_kernel(
    total,
    centred,
    rows,
    averages,
    grad_weight,
    grad_bias,
    count,
    first,
    bias_index,
    reference,
    inverse_square,
    capsules,
    channels,
    SHIFTED: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < capsules
    dim, channel, mine = channels_of(first, k, inside, WIDTH)
    w = tl.load(reference + channel, mask=mine, other=0.0)
    along = tl.sum(w * tl.load(total + channel, mask=mine, other=0.0), axis=1)
    spread = tl.sum(tl.load(centred + channel, mask=mine, other=0.0), axis=1)
    inverse = tl.load(rows + channels + tl.load(first + k, mask=inside, other=0), mask=inside, other=0.0)
    square = tl.load(inverse_square + k, mask=inside, other=0.0)
    tl.store(averages + channel, (along * square / count)[:, None] * w, mask=mine)
    tl.store(averages + channels + channel, tl.broadcast_to((spread / dim / count)[:, None], (BLOCK, WIDTH)), mask=mine)
    tl.store(grad_weight + k, spread * inverse, mask=inside)
    if SHIFTED:
        index = tl.load(bias_index + k, mask=inside, other=-1)
        tl.store(grad_bias + index, along, mask=inside & (index >= 0))


RunningStatistics = tuple["Tensor | None", "Tensor | None", "Tensor | None"]
"""The running mean of channels, the running variance of capsules and the number of batches, or three times None."""


Parameters = tuple["Tensor | None", "Tensor | None"]
"""The layer's weight and bias."""

Numbers = tuple["float | None", float, int]
"""The momentum, ε, and the number of values per channel."""

_MOST_LAUNCHERS = 32


class NormKernels:
    """The kernels of one layer.

    Args:
        tables: what they know of the layer.

    Attributes:
        reference: the invariant directions of the tables, by which a layer knows whether they are still its own.
        one: the number 1 in int32 on the device.
    """

    def __init__(self, tables: CapsuleTables) -> None:
        *fixed, self._width = tables
        self.reference: Tensor = fixed[2]
        self.capsules, self._channels = fixed[3].shape[0], fixed[2].shape[0]
        self._fixed = (*fixed, self.capsules, self._channels)
        self._grid = (triton.cdiv(self.capsules, CAPSULES_PER_PROGRAM), 1, 1)
        self._launchers: dict[tuple[Any, ...], Launcher] = {}
        self._rooms: dict[int, tuple[Tensor, ...]] = {}  # for the rows of evaluation, by stream
        self.one = torch.ones(1, dtype=torch.int32, device=self.reference.device)

    def of_batch(
        self, mean: Tensor, deviation: Tensor, parameters: Parameters, running: RunningStatistics, numbers: Numbers
    ) -> Tensor:
        """(4, channels): centre, 1/σ, scale and shift, of a batch's mean and 1/σ; running statistics follow them.

        Args:
            numbers: the momentum, where None averages over all batches; ε; and the number of values per channel.
        """
        momentum, eps, count = numbers
        rows = torch.empty(4, self._channels, dtype=mean.dtype, device=mean.device)
        tracks = running[0] is not None
        launcher = self._launcher(parameters, (True, tracks), (-1.0 if momentum is None else momentum, eps))
        launcher((mean, deviation, *self._present(parameters), *self._present(running), rows), count)
        return rows

    def of_running(self, parameters: Parameters, running: RunningStatistics, eps: float) -> tuple[Tensor, ...]:
        """The same four rows of the running statistics, in memory that the next call on this stream overwrites."""
        if torch.cuda.is_current_stream_capturing():  # what a graph allocates is its own
            room = self._new_room()
        else:
            stream = torch._C._cuda_getCurrentRawStream(self.reference.get_device())
            if stream not in self._rooms:
                self._rooms[stream] = self._new_room()
            room = self._rooms[stream]
        launcher = self._launcher(parameters, (False, False), (0.0, eps))
        unused = (self.reference, self.reference)
        launcher((*unused, *self._present(parameters), *self._present(running), room[0]), 1)
        return room[1:]

    def _new_room(self) -> tuple[Tensor, ...]:
        dtype = torch.promote_types(self.reference.dtype, torch.float32)
        rows = torch.empty(4, self._channels, dtype=dtype, device=self.reference.device)
        return rows, *rows.unbind()

    def _present(self, tensors: Sequence[Tensor | None]) -> list[Tensor]:
        return [self.reference if t is None else t.contiguous() for t in tensors]

    def _launcher(
        self, parameters: Parameters, by_batch: tuple[bool, bool], momentum_and_eps: tuple[float, float]
    ) -> Launcher:
        flags = (*by_batch, parameters[0] is not None, parameters[1] is not None, *momentum_and_eps)
        launcher = self._launchers.get(flags)
        if launcher is None:
            if len(self._launchers) >= _MOST_LAUNCHERS:  # of a momentum that changes at every step, for instance
                self._launchers.clear()
            constants = (*flags, self._width, CAPSULES_PER_PROGRAM)
            launcher = self._launchers[flags] = Launcher(_rows_kernel, self._grid, *self._fixed, *constants)
        return launcher

    def sums(self, total: Tensor, centred: Tensor, rows: Tensor, count: int, biases: int) -> tuple[Tensor, ...]:
        """The averages of Σ g and Σ g·(x - μ) that the gradient of x needs, and the gradients of weight and bias."""
        launcher = self._launchers.get((biases,))
        if launcher is None:
            constants = (biases > 0, self._width, CAPSULES_PER_PROGRAM)
            launcher = self._launchers[(biases,)] = Launcher(_sums_kernel, self._grid, *self._fixed, *constants)
        averages, grad_weight = rows.new_empty(2, self._channels), rows.new_empty(self.capsules)
        grad_bias = rows.new_empty(biases)
        launcher((total, centred, rows, averages, grad_weight, grad_bias if biases else rows), count)
        return *averages.unbind(), grad_weight, grad_bias


class PassesOnGpu:
    """One call of a layer.

    Args:
        kernels: those of the layer.
        running: the layer's running statistics, where they are used.
        momentum: how far they move in a step; None averages over all batches.
        eps: ε of the norm.
    """

    def __init__(self, kernels: NormKernels, running: RunningStatistics, momentum: float | None, eps: float) -> None:
        self._kernels, self._running, self._momentum, self._eps = kernels, running, momentum, eps

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Saved]:
        # Torch gives 1/σ, and 0 if σ² + ε = 0, as in a field that no filter reaches: without ε that would be ∞.
        moments = torch.batch_norm_stats(x, 1e-30)
        self._begin_tracking()
        numbers = self._momentum, self._eps, x.numel() // x.shape[1]
        rows = self._kernels.of_batch(*moments, (weight, bias), self._running, numbers)
        centre, inverse, scale, shift = rows.unbind()
        return torch.batch_norm_elemt(x, scale, shift, centre, inverse, 0.0), (rows,)

    def by_running_statistics(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """y with the running statistics; nothing of it can be differentiated."""
        centre, inverse, scale, shift = self._kernels.of_running((weight, bias), self._running, self._eps)
        return torch.batch_norm_elemt(x, scale, shift, centre, inverse, 0.0)

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, saved: Saved
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        (rows,) = saved
        centre, inverse, scale, _ = rows.unbind()
        total, centred, _, _ = torch.batch_norm_backward_reduce(grad, x, centre, inverse, None, True, False, False)
        count, biases = x.numel() // x.shape[1], 0 if bias is None else bias.shape[0]
        along, spread, grad_weight, grad_bias = self._kernels.sums(total, centred, rows, count, biases)
        # The averages are divided by the count already.
        to_x = torch.batch_norm_backward_elemt(grad, x, centre, inverse, scale, along, spread, self._kernels.one)
        return to_x, grad_weight, grad_bias

    def _begin_tracking(self) -> None:
        mean, variance, batches = self._running
        if mean is None or variance is None or batches is None:
            return
        if self._momentum is None:  # otherwise the kernel counts
            batches.add_(1)
        # The kernel moves them without autograd's knowledge.
        torch.autograd.graph.increment_version([t for t in (mean, variance, batches) if not t.is_inference()])
