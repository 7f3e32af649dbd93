"""Batch norm of capsules on a GPU: what is worked out per capsule takes one small kernel each way.

Compiled graphs hold ``capsule_affine``, which turns the moments of channels into the scale and shift of each channel,
where plain tensor code has a dozen operations. In eager code :class:`PassesOnGpu` puts a kernel between torch's own.
:mod:`steerable.nn.batch_norm` has the same in tensor code.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

from steerable.nn.triton.launching import Launcher

__all__ = ["NormTables", "PassesOnGpu", "RunningStatistics", "capsule_affine"]

_CAPSULES_PER_PROGRAM = 32

NormTables = tuple[Tensor, Tensor, Tensor, Tensor, int, float]
"""What the kernels know of a layer.

(capsules + 1,) the first channel of each capsule; (capsules,) where a capsule's entry of ``bias`` is, or -1;
(channels,) the invariant direction w; (capsules,) 1 / ⟨w, w⟩, or 0; the largest capsule's dimension, rounded up to a
power of 2; ε.
"""


@triton.jit
def _affine_kernel(
    mean,
    variance,
    weight,
    bias,
    first,
    bias_index,
    reference,
    inverse_square,
    scale,
    shift,
    centre,
    capsule_variance,
    capsules,
    PROJECT: tl.constexpr,
    EPS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < capsules
    start = tl.load(first + k, mask=inside, other=0)
    dim = tl.load(first + k + 1, mask=inside, other=1) - start
    channel = start[:, None] + tl.arange(0, WIDTH)[None, :]
    mine = inside[:, None] & (tl.arange(0, WIDTH)[None, :] < dim[:, None])
    m = tl.load(mean + channel, mask=mine, other=0.0)
    v = tl.load(variance + channel, mask=mine, other=0.0)
    w = tl.load(reference + channel, mask=mine, other=0.0)
    c = m
    if PROJECT:
        along = tl.sum(m * w, axis=1) * tl.load(inverse_square + k, mask=inside, other=0.0)
        c = along[:, None] * w
    total = tl.sum(v + (m - c) * (m - c), axis=1) / dim
    s = tl.load(weight + k, mask=inside, other=0.0) / tl.sqrt(total + EPS)
    index = tl.load(bias_index + k, mask=inside, other=-1)
    b = tl.load(bias + index, mask=inside & (index >= 0), other=0.0)
    tl.store(scale + channel, tl.broadcast_to(s[:, None], (BLOCK, WIDTH)), mask=mine)
    tl.store(shift + channel, b[:, None] * w - c * s[:, None], mask=mine)
    tl.store(centre + channel, c, mask=mine)
    tl.store(capsule_variance + k, total, mask=inside)


@triton.jit
def _affine_backward_kernel(
    grad_scale,
    grad_shift,
    mean,
    centre,
    capsule_variance,
    weight,
    first,
    bias_index,
    reference,
    inverse_square,
    grad_mean,
    grad_variance,
    grad_weight,
    grad_bias,
    capsules,
    EPS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < capsules
    start = tl.load(first + k, mask=inside, other=0)
    dim = tl.load(first + k + 1, mask=inside, other=1) - start
    channel = start[:, None] + tl.arange(0, WIDTH)[None, :]
    mine = inside[:, None] & (tl.arange(0, WIDTH)[None, :] < dim[:, None])
    ga = tl.load(grad_scale + channel, mask=mine, other=0.0)
    gb = tl.load(grad_shift + channel, mask=mine, other=0.0)
    c = tl.load(centre + channel, mask=mine, other=0.0)
    r = tl.load(mean + channel, mask=mine, other=0.0) - c
    w = tl.load(reference + channel, mask=mine, other=0.0)
    total = tl.load(capsule_variance + k, mask=inside, other=1.0)
    gamma = tl.load(weight + k, mask=inside, other=0.0)
    inverse = 1.0 / tl.sqrt(total + EPS)
    through_scale = tl.sum(ga - gb * c, axis=1)  # dL / d(γ/σ)
    through_variance = -0.5 * through_scale * gamma * inverse * inverse * inverse / dim  # dL/dσ² of the capsule, / dim
    along = tl.sum(w * gb, axis=1)
    to_centre = -gamma * inverse * along * tl.load(inverse_square + k, mask=inside, other=0.0)
    tl.store(grad_mean + channel, to_centre[:, None] * w + 2 * through_variance[:, None] * r, mask=mine)
    tl.store(grad_variance + channel, tl.broadcast_to(through_variance[:, None], (BLOCK, WIDTH)), mask=mine)
    tl.store(grad_weight + k, through_scale * inverse, mask=inside)
    index = tl.load(bias_index + k, mask=inside, other=-1)
    tl.store(grad_bias + index, along, mask=inside & (index >= 0))


def _affine(
    kernel: Any,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor,
    bias: Tensor,
    first: Tensor,
    bias_index: Tensor,
    reference: Tensor,
    inverse_square: Tensor,
    width: int,
    eps: float,
    project: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scale, shift, centre = (torch.empty_like(mean) for _ in range(3))
    capsules = weight.shape[0]
    total = mean.new_empty(capsules)
    kernel[_grid(capsules)](
        mean,
        variance,
        weight,
        bias,
        first,
        bias_index,
        reference,
        inverse_square,
        scale,
        shift,
        centre,
        total,
        capsules,
        PROJECT=project,
        EPS=eps,
        WIDTH=width,
        BLOCK=_CAPSULES_PER_PROGRAM,
    )
    return scale, shift, centre, total


def _affine_gradients(
    kernel: Any,
    grad_scale: Tensor,
    grad_shift: Tensor,
    mean: Tensor,
    centre: Tensor,
    capsule_variance: Tensor,
    weight: Tensor,
    bias: Tensor,
    first: Tensor,
    bias_index: Tensor,
    reference: Tensor,
    inverse_square: Tensor,
    width: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    grad_mean, grad_variance = torch.empty_like(mean), torch.empty_like(mean)
    grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(bias)
    capsules = weight.shape[0]
    kernel[_grid(capsules)](
        grad_scale.contiguous(),
        grad_shift.contiguous(),
        mean,
        centre,
        capsule_variance,
        weight,
        first,
        bias_index,
        reference,
        inverse_square,
        grad_mean,
        grad_variance,
        grad_weight,
        grad_bias,
        capsules,
        EPS=eps,
        WIDTH=width,
        BLOCK=_CAPSULES_PER_PROGRAM,
    )
    return grad_mean, grad_variance, grad_weight, grad_bias


# ---------------------------------------------------------------- operators, as compiled graphs hold them


@triton_op("steerable::capsule_affine", mutates_args=())
def _affine_op(
    mean: Tensor,
    variance: Tensor,
    weight: Tensor,
    bias: Tensor,
    first: Tensor,
    bias_index: Tensor,
    reference: Tensor,
    inverse_square: Tensor,
    width: int,
    eps: float,
    project: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tables = (first, bias_index, reference, inverse_square, width, eps)
    return _affine(wrap_triton(_affine_kernel), mean, variance, weight, bias, *tables, project)


@triton_op("steerable::capsule_affine_gradients", mutates_args=())
def _affine_gradients_op(
    grad_scale: Tensor,
    grad_shift: Tensor,
    mean: Tensor,
    centre: Tensor,
    capsule_variance: Tensor,
    weight: Tensor,
    bias: Tensor,
    first: Tensor,
    bias_index: Tensor,
    reference: Tensor,
    inverse_square: Tensor,
    width: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    moments, tables = (mean, centre, capsule_variance), (first, bias_index, reference, inverse_square, width, eps)
    kernel = wrap_triton(_affine_backward_kernel)
    return _affine_gradients(kernel, grad_scale, grad_shift, *moments, weight, bias, *tables)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    mean, _, weight, bias, *tables, ctx.width, ctx.eps, _ = inputs
    _, _, centre, total = output
    ctx.mark_non_differentiable(centre, total)  # they only feed the running averages
    ctx.save_for_backward(mean, centre, total, weight, bias, *tables)


def _backward(ctx: Any, grad_scale: Tensor, grad_shift: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    grads = _affine_gradients_op(grad_scale, grad_shift, *ctx.saved_tensors, ctx.width, ctx.eps)
    return (*grads, *[None] * 7)


_affine_op.register_autograd(_backward, setup_context=_remember)


def capsule_affine(
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    tables: NormTables,
    *,
    project: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(scale, shift, centre, capsule variance) of x ↦ scale·x + shift, for compiled graphs.

    mean, variance: (channels,); weight: (capsules,); bias: one entry per capsule that has an invariant direction.
    The centre is the invariant part of the mean, or without ``project`` the mean as it is; gradients of weight and bias
    only are those of the latter.
    """
    weight = torch.ones_like(tables[3]) if weight is None else weight
    bias = weight.new_empty(0) if bias is None else bias
    return _affine_op(mean, variance, weight, bias, *tables, project)


# ---------------------------------------------------------------- eager code


@triton.jit(do_not_specialize=["capsules", "channels", "count"])
def _rows_kernel(
    mean,
    deviation,
    weight,
    bias,
    first,
    bias_index,
    reference,
    inverse_square,
    running_mean,
    running_variance,
    batches,
    rows,
    capsules,
    channels,
    count,
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
    start = tl.load(first + k, mask=inside, other=0)
    dim = tl.load(first + k + 1, mask=inside, other=1) - start
    channel = start[:, None] + tl.arange(0, WIDTH)[None, :]
    mine = inside[:, None] & (tl.arange(0, WIDTH)[None, :] < dim[:, None])
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
            pace = MOMENTUM
            if MOMENTUM < 0:  # a cumulative average
                pace = 1.0 / tl.load(batches).to(kind)
            values = dim.to(kind) * count
            # A mean that is zero by symmetry costs no degree of freedom.
            unbiased = total * values / tl.maximum(values - tl.where(square > 0, 1.0, 0.0), 1.0)
            old_mean = tl.load(running_mean + channel, mask=mine, other=0.0).to(kind)
            old_variance = tl.load(running_variance + k, mask=inside, other=0.0).to(kind)
            tl.store(running_mean + channel, old_mean + pace * (c - old_mean), mask=mine)
            tl.store(running_variance + k, old_variance + pace * (unbiased - old_variance), mask=inside)
    else:
        c = tl.load(running_mean + channel, mask=mine, other=0.0).to(kind)
        total = tl.load(running_variance + k, mask=inside, other=1.0).to(kind)
    row = rows + channel
    inverse = (1.0 / tl.sqrt(total + EPS))[:, None]
    tl.store(row, c, mask=mine)
    tl.store(row + channels, tl.broadcast_to(inverse, (BLOCK, WIDTH)), mask=mine)
    if SCALED:
        scale = tl.load(weight + k, mask=inside, other=0.0)[:, None]
        tl.store(row + 2 * channels, tl.broadcast_to(scale, (BLOCK, WIDTH)), mask=mine)
    else:
        tl.store(row + 2 * channels, tl.full((BLOCK, WIDTH), 1.0, kind), mask=mine)
    if SHIFTED:
        index = tl.load(bias_index + k, mask=inside, other=-1)
        shift = tl.load(bias + index, mask=inside & (index >= 0), other=0.0)[:, None]
        tl.store(row + 3 * channels, shift * w, mask=mine)
    else:
        tl.store(row + 3 * channels, tl.zeros((BLOCK, WIDTH), kind), mask=mine)


@triton.jit(do_not_specialize=["capsules", "channels", "count"])
def _sums_kernel(
    total,
    centred,
    rows,
    first,
    bias_index,
    reference,
    inverse_square,
    averages,
    grad_weight,
    grad_bias,
    capsules,
    channels,
    count,
    SHIFTED: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < capsules
    start = tl.load(first + k, mask=inside, other=0)
    dim = tl.load(first + k + 1, mask=inside, other=1) - start
    channel = start[:, None] + tl.arange(0, WIDTH)[None, :]
    mine = inside[:, None] & (tl.arange(0, WIDTH)[None, :] < dim[:, None])
    w = tl.load(reference + channel, mask=mine, other=0.0)
    along = tl.sum(w * tl.load(total + channel, mask=mine, other=0.0), axis=1)
    spread = tl.sum(tl.load(centred + channel, mask=mine, other=0.0), axis=1)
    inverse = tl.load(rows + channels + start, mask=inside, other=0.0)
    square = tl.load(inverse_square + k, mask=inside, other=0.0)
    tl.store(averages + channel, (along * square / count)[:, None] * w, mask=mine)
    tl.store(averages + channels + channel, tl.broadcast_to((spread / dim / count)[:, None], (BLOCK, WIDTH)), mask=mine)
    tl.store(grad_weight + k, spread * inverse, mask=inside)
    if SHIFTED:
        index = tl.load(bias_index + k, mask=inside, other=-1)
        tl.store(grad_bias + index, along, mask=inside & (index >= 0))


_start_rows, _start_sums = Launcher(_rows_kernel), Launcher(_sums_kernel)


def _grid(capsules: int) -> tuple[int, int, int]:
    return triton.cdiv(capsules, _CAPSULES_PER_PROGRAM), 1, 1


RunningStatistics = tuple["Tensor | None", "Tensor | None", "Tensor | None"]
"""The running mean of channels, the running variance of capsules and the number of batches, or three times None."""


class PassesOnGpu:
    """Batch norm by torch's own kernels, between which one kernel works out the numbers of capsules.

    Args:
        tables: what the kernels know of the layer.
        one: the number 1 in int32 on the device.
        running: the layer's running statistics.
        momentum: how far they move in a step; None averages over all batches.
        tracks: whether they move.
    """

    def __init__(
        self, tables: NormTables, one: Tensor, running: RunningStatistics, momentum: float | None, *, tracks: bool
    ) -> None:
        self._tables, self._one, self._running = tables, one, running
        self._momentum = -1.0 if momentum is None else momentum
        self._tracks = tracks
        self._biases = 0

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        # Torch gives 1/σ, and 0 where σ² + ε = 0, as in a field that no filter reaches: without ε that would be ∞.
        moments = torch.batch_norm_stats(x, 1e-30)
        if self._tracks:
            self._count_batch()
        self._biases = 0 if bias is None else bias.shape[0]
        rows = self._rows(moments, weight, bias, x.numel() // x.shape[1])
        return self._scaled(x, rows), rows

    def by_running_statistics(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """y with the running statistics; nothing of it can be differentiated."""
        return self._scaled(x, self._rows(None, weight, bias, 1))

    def backward(self, grad: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        *tables, width, _ = self._tables
        capsules, channels, count = tables[3].shape[0], x.shape[1], x.numel() // x.shape[1]
        centre, inverse, weight, _ = rows.unbind()
        total, centred, _, _ = torch.batch_norm_backward_reduce(grad, x, centre, inverse, None, True, False, False)
        averages = rows.new_empty(2, channels)
        grad_weight, grad_bias = rows.new_empty(capsules), rows.new_empty(self._biases)
        written = (averages, grad_weight, grad_bias)
        constants = (self._biases > 0, width, _CAPSULES_PER_PROGRAM)
        _start_sums(_grid(capsules), total, centred, rows, *tables, *written, capsules, channels, count, *constants)
        # The averages are divided by the count already.
        to_x = torch.batch_norm_backward_elemt(grad, x, centre, inverse, weight, *averages.unbind(), self._one)
        return to_x, grad_weight, grad_bias

    def _rows(
        self, moments: tuple[Tensor, Tensor] | None, weight: Tensor | None, bias: Tensor | None, count: int
    ) -> Tensor:
        """(4, channels): centre, 1/σ, scale and shift."""
        *tables, width, eps = self._tables
        reference, capsules = tables[2], tables[3].shape[0]
        nothing = reference
        mean, deviation = (nothing, nothing) if moments is None else moments
        running = (nothing if t is None else t for t in self._running)
        dtype = torch.promote_types(reference.dtype, torch.float32) if moments is None else mean.dtype
        rows = torch.empty(4, reference.shape[0], dtype=dtype, device=reference.device)
        parameters = (nothing if weight is None else weight, nothing if bias is None else bias)
        numbers = (capsules, reference.shape[0], count)
        by_batch = moments is not None
        flags = (by_batch, by_batch and self._tracks, weight is not None, bias is not None)
        constants = (*flags, self._momentum, eps, width, _CAPSULES_PER_PROGRAM)
        _start_rows(_grid(capsules), mean, deviation, *parameters, *tables, *running, rows, *numbers, *constants)
        return rows

    def _scaled(self, x: Tensor, rows: Tensor) -> Tensor:
        centre, inverse, weight, bias = rows.unbind()
        return torch.batch_norm_elemt(x, weight, bias, centre, inverse, 0.0)

    def _count_batch(self) -> None:
        mean, variance, batches = self._running
        if mean is not None and variance is not None and batches is not None:
            batches.add_(1)
            # The kernel moves them without autograd's knowledge.
            torch.autograd.graph.increment_version([t for t in (mean, variance) if not t.is_inference()])
