"""Batch norm of capsules on a GPU: the work per capsule in one small kernel, the work per pixel in one pass each way.

``capsule_affine`` turns the moments of channels into the scale and shift of each channel; compiled graphs hold one call
where plain tensor code has a dozen. :mod:`steerable.nn.batch_norm` has the same in tensor code.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

__all__ = ["AffineTables", "capsule_affine", "capsule_affine_gradients", "input_gradient", "scale_shift"]

_CAPSULES_PER_PROGRAM = 32
_VALUES_PER_PROGRAM = 1024


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
    kernel[(triton.cdiv(capsules, _CAPSULES_PER_PROGRAM),)](
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
    kernel[(triton.cdiv(capsules, _CAPSULES_PER_PROGRAM),)](
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


AffineTables = tuple[Tensor, Tensor, Tensor, Tensor, int, float]
"""What the kernels know of a layer.

(capsules + 1,) the first channel of each capsule; (capsules,) where a capsule's entry of ``bias`` is, or -1;
(channels,) the invariant direction w; (capsules,) 1 / ⟨w, w⟩, or 0; the largest capsule's dimension, rounded up to a
power of 2; ε.
"""


def capsule_affine(
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    tables: AffineTables,
    *,
    project: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(scale, shift, centre, capsule variance) of x ↦ scale·x + shift.

    mean, variance: (channels,); weight: (capsules,); bias: one entry per capsule that has an invariant direction.
    The centre is the invariant part of the mean, or without ``project`` the mean as it is; gradients of weight and bias
    only are those of the latter.
    """
    arguments = (mean, variance, *_present(weight, bias, tables), *tables, project)
    return _affine_op(*arguments) if torch.compiler.is_compiling() else _affine(_affine_kernel, *arguments)


def capsule_affine_gradients(
    grads: tuple[Tensor, Tensor],
    moments: tuple[Tensor, Tensor, Tensor],
    weight: Tensor | None,
    bias: Tensor | None,
    tables: AffineTables,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Of mean, variance, weight and bias, from those of scale and shift; moments: mean, centre, capsule variance."""
    parameters = _present(weight, bias, tables)
    found = _affine_gradients(_affine_backward_kernel, *grads, *moments, *parameters, *tables)
    return found[0], found[1], None if weight is None else found[2], None if bias is None else found[3]


def _present(weight: Tensor | None, bias: Tensor | None, tables: AffineTables) -> tuple[Tensor, Tensor]:
    weight = torch.ones_like(tables[3]) if weight is None else weight
    return weight, weight.new_empty(0) if bias is None else bias


@triton.jit
def _scale_shift_kernel(x, y, scale, shift, count, channels, inner, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    channel = (at // inner) % channels
    a, b = tl.load(scale + channel, mask=inside), tl.load(shift + channel, mask=inside)
    value = tl.load(x + at, mask=inside).to(a.dtype)
    tl.store(y + at, value * a + b, mask=inside)


@triton.jit
def _input_gradient_kernel(grad, x, out, scale, slope, constant, count, channels, inner, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    channel = (at // inner) % channels
    a, b = tl.load(scale + channel, mask=inside), tl.load(slope + channel, mask=inside)
    c = tl.load(constant + channel, mask=inside)
    g, value = tl.load(grad + at, mask=inside).to(a.dtype), tl.load(x + at, mask=inside).to(a.dtype)
    tl.store(out + at, g * a + value * b + c, mask=inside)


def scale_shift(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """scale · x + shift for (batch, channels, height, width), dense in either memory format."""
    y = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), _VALUES_PER_PROGRAM),)
    _scale_shift_kernel[grid](x, y, scale, shift, x.numel(), x.shape[1], _inner(x), BLOCK=_VALUES_PER_PROGRAM)
    return y


def input_gradient(grad: Tensor, x: Tensor, scale: Tensor, slope: Tensor, constant: Tensor) -> Tensor:
    """scale · grad + slope · x + constant, with one number per channel each; grad and x in the same memory format."""
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), _VALUES_PER_PROGRAM),)
    _input_gradient_kernel[grid](
        grad, x, out, scale, slope, constant, x.numel(), x.shape[1], _inner(x), BLOCK=_VALUES_PER_PROGRAM
    )
    return out


def _inner(x: Tensor) -> int:
    """How many values of one channel lie side by side."""
    return 1 if x.is_contiguous(memory_format=torch.channels_last) else x.shape[2] * x.shape[3]
