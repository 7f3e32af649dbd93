"""Batch norm of capsules in few passes over the pixels: two there and two back.

With μ and σ² the centre and variance of each capsule, y = γ (x - μ)/σ + β w. From the gradient g of y, and with N
values per channel,

    ∂x = γ/σ · (g - P(Σ g)/N - (x - μ)/σ² · A(Σ g·(x - μ))/N)

where sums are those of channels, P is the projection onto invariant vectors and A the average over each capsule. It is
torch's batch norm, but for P and A. The gradients of γ and β are sums over capsules of what torch's would be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from steerable.nn.capsule_numbers import CapsuleNumbers
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

__all__ = ["Affine", "NormPasses", "PassesOnCpu", "can_fuse", "fused_norm", "moments_norm", "scaled_and_shifted"]

Affine = Callable[[Tensor, Tensor, "Tensor | None", "Tensor | None"], tuple[Tensor, Tensor, Tensor, Tensor]]
"""(mean, variance, weight, bias) → (scale, shift, centre, capsule variance), each one row per channel or capsule."""


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


class NormPasses(Protocol):
    """The forward and the backward pass of one layer's batch norm on one kind of device."""

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """(y, rows): the rows have one number per channel each, and are what ``backward`` needs to know."""

    def backward(self, grad: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The gradients of x, weight and bias."""


def fused_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, passes: NormPasses, affine: Affine) -> Tensor:
    """y of x (batch, channels, height, width), where :func:`can_fuse` allows it.

    ``affine`` is the same in tensor code, from which further derivatives come.
    """
    y: Tensor = _FusedNorm.apply(x, weight, bias, passes, affine)
    return y


class _FusedNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, passes: NormPasses, affine: Affine
    ) -> Tensor:
        y, rows = passes.forward(_dense(x), weight, bias)
        ctx.save_for_backward(x, weight, bias, rows)
        ctx.passes, ctx.affine = passes, affine
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, rows = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative may follow
            return (*_differentiable_gradients(ctx, grad, x, weight, bias), None, None)
        x = _dense(x)
        to_x, to_weight, to_bias = ctx.passes.backward(_dense(grad, like=x), x, rows)
        return to_x, None if weight is None else to_weight, None if bias is None else to_bias, None, None


def _differentiable_gradients(
    ctx: Any, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor | None, ...]:
    y, _, _ = moments_norm(x, weight, bias, ctx.affine)
    needed = ctx.needs_input_grad[:3]
    inputs = [t for t, asked in zip((x, weight, bias), needed, strict=True) if asked and t is not None]
    found = iter(torch.autograd.grad(y, inputs, grad, create_graph=True))
    return tuple(next(found) if asked else None for asked in needed)


def _dense(x: Tensor, like: Tensor | None = None) -> Tensor:
    """The same values, dense in memory: in the memory format of ``like``, or in x's own if it has one."""
    last = torch.channels_last
    if like is None:
        return x if x.is_contiguous() or x.is_contiguous(memory_format=last) else x.contiguous()
    return x.contiguous(memory_format=last if like.is_contiguous(memory_format=last) else torch.contiguous_format)


class PassesOnCpu:
    """Batch norm by torch's own kernels, between which the numbers of capsules are worked out in numpy.

    Args:
        numbers: the capsules of the layer.
        eps: ε of the norm.
        track: what is told the new centre of channels and the unbiased variance of capsules; None where nothing is.
    """

    def __init__(self, numbers: CapsuleNumbers, eps: float, track: Callable[[Tensor, Tensor], None] | None) -> None:
        self._numbers, self._eps, self._track = numbers, eps, track

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        numbers = self._numbers
        with np.errstate(all="ignore"):  # torch does not warn of fields that are not finite
            centre, variance = numbers.statistics(*_moments(x))
            rows = np.empty((4, x.shape[1]), dtype=centre.dtype)
            rows[0], rows[1] = centre, numbers.on_channels(variance)
            rows[2] = 1 if weight is None else numbers.on_channels(weight.detach().numpy())
            rows[3] = 0 if bias is None else numbers.shift(bias.detach().numpy())
            unbiased = numbers.unbiased(variance, x.numel() // x.shape[1])
        known = torch.from_numpy(rows).to(x.dtype)
        if self._track is not None:
            self._track(known[0], torch.from_numpy(unbiased))
        return self._scaled(x, known, known[2], known[3]), known

    def backward(self, grad: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        numbers, count = self._numbers, x.numel() // x.shape[1]
        # For μ and σ that are constants torch's gradients of scale and shift are Σ g·(x - μ)/σ and Σ g.
        _, sums, totals = _norm_backward(
            grad, x, None, rows[0], rows[1], None, None, False, self._eps, [False, True, True]
        )
        with np.errstate(all="ignore"):
            to_weight, along = numbers.sums(sums.numpy()), numbers.along(totals.numpy())
            _, variance, weight, _ = rows.numpy()
            factors = np.empty((3, x.shape[1]), dtype=variance.dtype)
            factors[0] = weight / np.sqrt(variance + self._eps)
            factors[1] = factors[0] * numbers.on_channels(to_weight / (-count * numbers.dims))
            factors[2] = factors[0] * numbers.invariant(along / -count)
        scale, on_x, constant = torch.from_numpy(factors)
        out = self._scaled(x, rows, on_x, constant).addcmul_(grad, scale[:, None, None])
        return out, torch.from_numpy(to_weight), torch.from_numpy(along[numbers.biased]).to(x.dtype)

    def _scaled(self, x: Tensor, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """weight · (x - μ)/σ + bias."""
        return torch.native_batch_norm(x, weight, bias, rows[0], rows[1], False, 0.0, self._eps)[0]


_MEAN_SQUARES_PER_VARIANCE = 25

_norm_backward = torch.ops.aten.native_batch_norm_backward.default


def _moments(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each channel.

    Torch's statistics are not vectorised where channels are planes. Σ x² is, as Σ g·(x - 0) of the backward pass, and
    serves where the difference of the mean square and the squared mean loses no digits to speak of.
    """
    if x.is_contiguous():
        nothing = x.new_zeros(x.shape[1])
        flags = [False, True, True]
        _, squares, totals = _norm_backward(x, x, None, None, None, nothing, nothing + 1, True, 0.0, flags)
        count = x.numel() // x.shape[1]
        mean = totals.numpy() / count
        square = squares.numpy() / count
        variance = square - mean * mean
        if not (square > _MEAN_SQUARES_PER_VARIANCE * variance).any():
            return mean, variance
    mean, variance = torch.batch_norm_update_stats(x, None, None, 0.0)
    return mean.numpy(), variance.numpy()
