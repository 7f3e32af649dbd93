"""The passes of a batch norm on a GPU: a reduction, one small kernel for all capsules, and one pass over the pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from steerable.nn.fused_norm import Saved

if TYPE_CHECKING:
    from steerable.nn.triton.norm import AffineTables

__all__ = ["PassesOnGpu"]


class PassesOnGpu:
    """Batch norm by kernels of Triton.

    Args:
        tables: what the kernels know of the layer.
        track: what is told the centre of channels and the variance of capsules; None where nothing is.
    """

    def __init__(self, tables: AffineTables, track: Callable[[Tensor, Tensor], None] | None) -> None:
        self._tables, self._track = tables, track

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Saved]:
        from steerable.nn.triton import norm

        with torch.cuda.device_of(x):  # kernels run on the current device
            # Torch gives 1/σ, and 0 where σ² + ε = 0, as in a field that no filter reaches: without ε that would be ∞.
            mean, inverse_deviation = torch.batch_norm_stats(x, 1e-30)
            variance = inverse_deviation.reciprocal().square()
            scale, shift, centre, total = norm.capsule_affine(mean, variance, weight, bias, self._tables)
            y = norm.scale_shift(x, scale, shift)
        if self._track is not None:
            self._track(centre, total)
        return y, (mean, centre, total, scale)

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, saved: Saved
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        from steerable.nn.triton import norm

        mean, centre, total, scale = saved
        ones = torch.ones_like(mean)
        shifts, centred, _, _ = torch.batch_norm_backward_reduce(grad, x, mean, ones, None, True, False, False)
        small = (centred + shifts * mean, shifts)  # of scale and shift
        to_mean, to_variance, to_weight, to_bias = norm.capsule_affine_gradients(
            small, (mean, centre, total), weight, bias, self._tables
        )
        count = x.numel() // x.shape[1]
        slope = to_variance * (2 / count)
        out = norm.input_gradient(grad, x, scale, slope, to_mean / count - slope * mean)
        return out, to_weight, to_bias
