"""Batch norm in few passes over the pixels: one to take the moments, one to apply them; the same number back.

The layer is x ↦ a·x + b with one a and b per channel, and a and b are functions of the channels' means and variances
alone. So its gradient is ``a·g + (2/N)·v̇·(x - mean) + ṁ/N`` with ṁ and v̇ the gradients of those small functions, which
autograd finds from Σ g and Σ g·x of each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from steerable.nn.channels import (
    in_channels_last,
    is_exported,
    is_traced,
    is_transformed,
    is_vector,
    scale_channels,
    shift_channels,
    widened,
)

__all__ = ["Affine", "AffineGradients", "can_fuse", "fused_norm", "moments_norm", "scaled_and_shifted"]

Affine = Callable[[Tensor, Tensor, "Tensor | None", "Tensor | None"], tuple[Tensor, Tensor, Tensor, Tensor]]
"""(mean, variance, weight, bias) → (scale, shift, centre, capsule variance), each one row per channel or capsule."""

AffineGradients = Callable[
    [tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor], "Tensor | None", "Tensor | None"],
    "tuple[Tensor | None, ...]",
]
"""(gradients of scale and shift, (mean, centre, capsule variance), weight, bias) → gradients of Affine's arguments."""


def can_fuse(x: Tensor, has_triton: bool) -> bool:
    """Whether ``fused_norm`` can run: eagerly, on images, on a CPU or a GPU with Triton, without torch.func."""
    if is_traced(x) or torch.compiler.is_compiling() or is_exported() or is_transformed():
        return False
    if type(x) is not Tensor or x.ndim != 4 or not x.numel():
        return False
    if x.device.type == "cpu":
        return x.dtype in (torch.float32, torch.float64)
    return x.device.type == "cuda" and has_triton


def moments_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, affine: Affine
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, centre, capsule variance) in plain tensor code, for any derivative; compilers fuse it."""
    variance, mean = _plain_moments(x)
    scale, shift, centre, total = affine(mean, variance, weight, bias)
    return scaled_and_shifted(x, scale, shift), centre, total


def _plain_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Variance and mean of each channel, in torch's order."""
    if is_traced(x):  # its rank is not known yet; this is right for pooled fields and images
        return torch.var_mean(x.transpose(1, -1).flatten(0, -2), [0], correction=0)
    last = in_channels_last(x)
    wide = widened(x.permute(0, 2, 3, 1) if last else x)
    return torch.var_mean(wide, [0] if is_vector(x) else [0, 1, 2] if last else [0, 2, 3], correction=0)


def scaled_and_shifted(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """scale · x + shift, in float32 at least and with one number per channel, as x's dtype.

    Channels are the last axis where they are so in memory: a compiler lays out by its axes what it keeps, also of the
    gradient.
    """
    if is_traced(x):
        return shift_channels(scale_channels(x, scale), shift)
    last = in_channels_last(x)
    if not (is_vector(x) or last):
        scale, shift = scale[:, None, None], shift[:, None, None]
    y = (widened(x.permute(0, 2, 3, 1) if last else x) * scale + shift).to(x.dtype)
    return y.permute(0, 3, 1, 2) if last else y


def fused_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    affine: Affine,
    with_gradients: tuple[Affine, AffineGradients] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """``moments_norm`` of x (batch, channels, height, width), where :func:`can_fuse` allows it.

    ``with_gradients`` computes the same as ``affine``, and its gradients; without it autograd finds them.
    """
    with torch.cuda.device_of(x):  # kernels run on the current device
        y, centre, total = _FusedNorm.apply(x, weight, bias, affine, with_gradients)
    return y, centre, total


class _FusedNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        affine: Affine,
        with_gradients: tuple[Affine, AffineGradients] | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        dense = _dense(x)
        mean, variance = _moments(dense)
        if with_gradients is not None:
            scale, shift, centre, total = with_gradients[0](mean, variance, weight, bias)
            ctx.moments, ctx.scale = (mean, centre, total), scale
        else:
            leaves = [None if t is None else t.detach().requires_grad_() for t in (mean, variance, weight, bias)]
            with torch.enable_grad():
                scale, shift, centre, total = affine(*leaves)  # type: ignore[arg-type]
            ctx.graph = (leaves, scale, shift)
            scale, shift, centre, total = (t.detach() for t in (scale, shift, centre, total))
            ctx.moments, ctx.scale = (mean, centre, total), scale
        y = _scale_shift(dense, scale, shift)
        ctx.save_for_backward(x, weight, bias)
        ctx.affine, ctx.with_gradients = affine, with_gradients
        ctx.mark_non_differentiable(centre, total)
        return y, centre, total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        grad = grads[0]
        if torch.is_grad_enabled():  # a second derivative may follow
            return (*_differentiable_gradients(ctx, grad, x, weight, bias), None, None)
        x = _dense(x)
        grad = _dense(grad.to(x.dtype), like=x)
        mean = ctx.moments[0]
        total, centred = _sums(grad, x, mean)
        small = (centred + total * mean, total)  # of scale and shift
        if ctx.with_gradients is not None:
            to_mean, to_variance, to_weight, to_bias = ctx.with_gradients[1](small, ctx.moments, weight, bias)
        else:
            to_mean, to_variance, to_weight, to_bias = _gradients_by_graph(ctx.graph, small)
        count = x.numel() // x.shape[1]
        slope = to_variance * (2 / count)
        out = _input_gradient(grad, x, ctx.scale, slope, to_mean / count - slope * mean)
        return out, to_weight, to_bias, None, None


def _gradients_by_graph(graph: Any, grads: tuple[Tensor, Tensor]) -> Any:
    """The gradients of mean, variance, weight and bias; None for what is absent."""
    leaves, scale, shift = graph
    found = iter(torch.autograd.grad((scale, shift), [t for t in leaves if t is not None], grads, retain_graph=True))
    return tuple(None if leaf is None else next(found) for leaf in leaves)


def _differentiable_gradients(
    ctx: Any, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor | None, ...]:
    y, _, _ = moments_norm(x, weight, bias, ctx.affine)
    needed = ctx.needs_input_grad[:3]
    inputs = [t for t, asked in zip((x, weight, bias), needed, strict=True) if asked and t is not None]
    found = iter(torch.autograd.grad(y, inputs, grad, create_graph=True))
    return tuple(next(found) if asked else None for asked in needed)


# ---------------------------------------------------------------- passes over the pixels


def _dense(x: Tensor, like: Tensor | None = None) -> Tensor:
    """The same values, dense in memory: in the memory format of ``like``, or in x's own if it has one."""
    last = torch.channels_last
    if like is None:
        return x if x.is_contiguous() or x.is_contiguous(memory_format=last) else x.contiguous()
    return x.contiguous(memory_format=last if like.is_contiguous(memory_format=last) else torch.contiguous_format)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel, in float32 at least."""
    if x.is_cuda:
        # torch gives 1/σ, and 0 where σ² + ε = 0, as in a field that no filter reaches: no ε at all would make that ∞.
        mean, inverse_deviation = torch.batch_norm_stats(x, 1e-30)
        return mean, inverse_deviation.reciprocal().square()
    mean, variance = torch.batch_norm_update_stats(x, None, None, 0.0)
    return mean, variance


def _scale_shift(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    if x.is_cuda:
        from steerable.nn.triton import norm

        return norm.scale_shift(x, scale, shift)
    return torch.addcmul(shift[:, None, None], x, scale[:, None, None])


def _sums(grad: Tensor, x: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Σ grad and Σ grad·(x - mean) of each channel."""
    ones = torch.ones_like(mean)
    if x.is_cuda:
        total, centred, _, _ = torch.batch_norm_backward_reduce(grad, x, mean, ones, None, True, False, False)
        return total, centred
    _, centred, total = torch.ops.aten.native_batch_norm_backward(
        grad, x, None, None, None, mean, ones, True, 0.0, [False, True, True]
    )
    return total, centred


def _input_gradient(grad: Tensor, x: Tensor, scale: Tensor, slope: Tensor, constant: Tensor) -> Tensor:
    if x.is_cuda:
        from steerable.nn.triton import norm

        return norm.input_gradient(grad, x, scale, slope, constant)
    out = torch.addcmul(constant[:, None, None], x, slope[:, None, None])
    return out.addcmul_(grad, scale[:, None, None])
