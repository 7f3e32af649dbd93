"""Batch norm of capsules in compiled graphs: one small kernel each way for the numbers of capsules.

``capsule_affine`` turns the moments of channels into the scale and shift of each channel, for which plain tensor code
needs a dozen operations. :mod:`steerable.nn.batch_norm` has the same in tensor code, and
:mod:`steerable.nn.triton.norm_passes` something similar for eager code.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

__all__ = ["CAPSULES_PER_PROGRAM", "CapsuleTables", "NormTables", "capsule_affine", "channels_of"]

CAPSULES_PER_PROGRAM = 32

CapsuleTables = tuple[Tensor, Tensor, Tensor, Tensor, int]
"""What the kernels know of a layer.

(capsules + 1,) the first channel of each capsule; (capsules,) where a capsule's entry of ``bias`` is, or -1;
(channels,) the invariant direction w; (capsules,) 1 / ⟨w, w⟩, or 0; the largest capsule's dimension, rounded up to a
power of 2.
"""

NormTables = tuple[Tensor, Tensor, Tensor, Tensor, int, float]
"""The same, and ε."""


@triton.jit
def channels_of(first, k, inside, WIDTH: tl.constexpr):
    """For capsules k: the number of channels, the channels in rows of WIDTH, and which of these exist."""
    start = tl.load(first + k, mask=inside, other=0)
    dim = tl.load(first + k + 1, mask=inside, other=1) - start
    channel = start[:, None] + tl.arange(0, WIDTH)[None, :]
    mine = inside[:, None] & (tl.arange(0, WIDTH)[None, :] < dim[:, None])
    return dim, channel, mine


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
    dim, channel, mine = channels_of(first, k, inside, WIDTH)
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
    dim, channel, mine = channels_of(first, k, inside, WIDTH)
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


# ---------------------------------------------------------------- operators, as compiled graphs hold them


@triton_op("steerable::capsule_affine", mutates_args=())
def _affine(
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
    wrap_triton(_affine_kernel)[(triton.cdiv(capsules, CAPSULES_PER_PROGRAM),)](
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
        BLOCK=CAPSULES_PER_PROGRAM,
    )
    return scale, shift, centre, total


@triton_op("steerable::capsule_affine_gradients", mutates_args=())
def _affine_gradients(
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
    wrap_triton(_affine_backward_kernel)[(triton.cdiv(capsules, CAPSULES_PER_PROGRAM),)](
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
        BLOCK=CAPSULES_PER_PROGRAM,
    )
    return grad_mean, grad_variance, grad_weight, grad_bias


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    mean, _, weight, bias, *tables, ctx.width, ctx.eps, _ = inputs
    _, _, centre, total = output
    ctx.mark_non_differentiable(centre, total)  # they only feed the running averages
    ctx.save_for_backward(mean, centre, total, weight, bias, *tables)


def _backward(ctx: Any, grad_scale: Tensor, grad_shift: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    grads = _affine_gradients(grad_scale, grad_shift, *ctx.saved_tensors, ctx.width, ctx.eps)
    return (*grads, *[None] * 7)


_affine.register_autograd(_backward, setup_context=_remember)


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
    return _affine(mean, variance, weight, bias, *tables, project)
