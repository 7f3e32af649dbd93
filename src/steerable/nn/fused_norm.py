"""Batch norm of capsules in few passes over the pixels: two there and two back.

With μ and σ² the centre and variance of each capsule, y = γ (x - μ)/σ + β w. From the gradient g of y, and with N
values per channel,

    ∂x = γ/σ · (g - P(Σ g)/N - (x - μ)/σ² · A(Σ g·(x - μ))/N)

where sums are those of channels, P is the projection onto invariant vectors and A the average over each capsule. It is
torch's batch norm, but for P and A. The gradients of γ and β are sums over capsules of what torch's would be.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
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

_Numbers = NDArray[np.floating] | float


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

    def by_running_statistics(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """y with the layer's running statistics, where no gradients are recorded."""


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
        running: the running mean of channels and the running variance of capsules, where there are any.
        track: what is told the new centre of channels and the unbiased variance of capsules; None where nothing is.
    """

    def __init__(
        self,
        numbers: CapsuleNumbers,
        eps: float,
        running: tuple[Tensor | None, Tensor | None] = (None, None),
        track: Callable[[Tensor, Tensor], None] | None = None,
    ) -> None:
        self._numbers, self._eps, self._running, self._track = numbers, eps, running, track

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        numbers, count = self._numbers, x.numel() // x.shape[1]
        with np.errstate(all="ignore"):  # torch does not warn of fields that are not finite
            centre, variance = _statistics(x, numbers, count)
            rows = self._rows(x.dtype, centre, variance, weight, bias)
        if self._track is not None:
            self._track(rows[0], torch.from_numpy(numbers.unbiased(variance, count)))
        return self._scaled(x, *rows.unbind()[:4]), rows

    def by_running_statistics(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """y with the running statistics; nothing of it can be differentiated."""
        mean, variance = self._running
        if mean is None or variance is None:
            raise RuntimeError("only a norm with running statistics can use them")
        return self._scaled(x, mean, *self._rows(x.dtype, 0, variance.numpy(), weight, bias).unbind()[1:4])

    def backward(self, grad: Tensor, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        numbers, count = self._numbers, x.numel() // x.shape[1]
        centre, variance, _, _, slope = rows.unbind()
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
        self, dtype: torch.dtype, centre: _Numbers, variance: _Numbers, weight: Tensor | None, bias: Tensor | None
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
        return torch.zeros(channels, dtype=dtype), torch.ones(channels, dtype=dtype)
