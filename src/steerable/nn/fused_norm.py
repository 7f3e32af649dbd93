"""Batch norm of capsules in few passes over the pixels: two there and two back.

With μ and σ² the centre and variance of each capsule, y = γ (x - μ)/σ + β w. From the gradient g of y, and with N
values per channel,

    ∂x = γ/σ · (g - P(Σ g)/N - (x - μ)/σ² · A(Σ g·(x - μ))/N)

where sums are those of channels, P is the projection onto invariant vectors and A the average over each capsule. It is
torch's batch norm, except for P and A. The gradients of γ and β are sums over capsules of what torch's would be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from steerable.nn.channels import (
    channels_at_end,
    channels_second,
    in_channels_last,
    is_batched,
    is_exported,
    is_traced,
    is_transformed,
    on_maps,
    scale_channels,
    shift_channels,
    widened,
)

__all__ = [
    "Affine",
    "NormPasses",
    "Saved",
    "as_images",
    "can_fuse",
    "dense",
    "fused_norm",
    "moments_norm",
    "scaled_and_shifted",
]

Affine = Callable[[Tensor, Tensor, "Tensor | None", "Tensor | None"], tuple[Tensor, Tensor, Tensor, Tensor]]
"""(mean, variance, weight, bias) → (scale, shift, centre, capsule variance), each one row per channel or capsule."""

Saved = tuple[Tensor, ...]
"""The small numbers of a forward pass that the backward pass needs."""


def can_fuse(x: Tensor, has_triton: bool) -> bool:
    """Whether ``fused_norm`` can run: eagerly, on pixels or voxels, on a CPU or with Triton, without torch.func."""
    if is_traced(x) or torch.compiler.is_compiling() or is_exported() or is_transformed():
        return False
    if type(x) is not Tensor or x.ndim not in (4, 5) or not x.numel():
        return False
    if x.is_cpu:
        return x.dtype in (torch.float32, torch.float64)
    return x.is_cuda and has_triton


def moments_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, affine: Affine
) -> tuple[Tensor, Tensor, Tensor]:
    """(y, centre, capsule variance) in plain tensor code, for any derivative; compilers fuse it."""
    variance, mean = _plain_moments(x)
    scale, shift, centre, total = affine(mean, variance, weight, bias)
    return scaled_and_shifted(x, scale, shift), centre, total


def _plain_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Variance and mean of each channel, in torch's order."""
    if is_traced(x):  # its rank is not known yet; this is right for all
        return torch.var_mean(x.transpose(1, -1).flatten(0, -2), [0], correction=0)
    last = in_channels_last(x)
    wide = widened(channels_at_end(x) if last else x)
    others = range(x.ndim - 1) if last else (0, *range(2, x.ndim))
    return torch.var_mean(wide, list(others), correction=0)


def scaled_and_shifted(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """scale · x + shift in x's dtype, computed in float32 at least, with one number per channel.

    Channels are the last axis where they are so in memory: a compiler lays out by its axes what it keeps, also of the
    gradient.
    """
    if is_traced(x):
        return shift_channels(scale_channels(x, scale), shift)
    last = in_channels_last(x)
    if not last:
        scale, shift = on_maps(scale, x.ndim - 2), on_maps(shift, x.ndim - 2)
    y = (widened(channels_at_end(x) if last else x) * scale + shift).to(x.dtype)
    return channels_second(y) if last else y


class NormPasses(Protocol):
    """The forward and the backward pass of one layer's batch norm on one kind of device."""

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Saved]:
        """y, and everything that ``backward`` needs."""

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, saved: Saved
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of x, weight and bias."""


def fused_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, passes: NormPasses, affine: Affine) -> Tensor:
    """y of x, (batch, channels, …), if :func:`can_fuse` allows it.

    ``affine`` is the same in tensor code, from which further derivatives come.
    """
    y: Tensor = _FusedNorm.apply(as_images(x), weight, bias, passes, affine)
    return y if x.ndim == 4 else y.view(x.shape)


def as_images(x: Tensor) -> Tensor:
    """A volume as an image of depth × (height · width), because statistics of channels ignore how voxels lie."""
    return x if x.ndim == 4 else x.flatten(3)


class _FusedNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, passes: NormPasses, affine: Affine
    ) -> Tensor:
        y, saved = passes.forward(dense(x), weight, bias)
        ctx.save_for_backward(x, weight, bias, *saved)
        ctx.passes, ctx.affine = passes, affine
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, *saved = ctx.saved_tensors
        if torch.is_grad_enabled() or is_batched(grad):  # a second derivative may follow
            return (*_differentiable_gradients(ctx, grad, x, weight, bias), None, None)
        x = dense(x)
        grad = dense(grad.to(x.dtype), like=x)
        to_x, to_weight, to_bias = ctx.passes.backward(grad, x, weight, bias, tuple(saved))
        return to_x, None if weight is None else to_weight, None if bias is None else to_bias, None, None


def _differentiable_gradients(
    ctx: Any, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor | None, ...]:
    follows = torch.is_grad_enabled()
    with torch.enable_grad():
        y, _, _ = moments_norm(x, weight, bias, ctx.affine)
    needed = ctx.needs_input_grad[:3]
    inputs = [t for t, asked in zip((x, weight, bias), needed, strict=True) if asked and t is not None]
    found = iter(torch.autograd.grad(y, inputs, grad, create_graph=follows))
    return tuple(next(found) if asked else None for asked in needed)


def dense(x: Tensor, like: Tensor | None = None) -> Tensor:
    """The same values, dense in memory: in the memory format of ``like``, or in x's own if it has one."""
    last = torch.channels_last
    if like is None:
        return x if x.is_contiguous() or x.is_contiguous(memory_format=last) else x.contiguous()
    return x.contiguous(memory_format=last if like.is_contiguous(memory_format=last) else torch.contiguous_format)
