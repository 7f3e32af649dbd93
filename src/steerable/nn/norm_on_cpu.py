"""The passes of a batch norm by torch's own kernels on a CPU without numba."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from steerable.nn.fused_norm import Affine, Saved
from steerable.nn.statistics_norms import StatisticsNorm

__all__ = ["PassesOnCpu"]

_backward = torch.ops.aten.native_batch_norm_backward.default


class PassesOnCpu(NamedTuple):
    """The passes of one call: one kernel for statistics, one for values, and small numbers between them.

    - layer: whose capsules they are, and who tracks statistics.
    - affine: what it makes of statistics.
    """

    layer: StatisticsNorm
    affine: Affine

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Saved]:
        mean, variance = torch.batch_norm_update_stats(x, None, None, 0.0)
        scale, shift, centre, total = self.affine(mean, variance, weight, bias)
        if self.layer.training and self.layer.running_mean is not None:
            self.layer._track_batch(centre.unsqueeze(0), total.unsqueeze(0), x.numel() // x.shape[1])
        return _scaled(x, torch.zeros_like(scale), scale, shift), (centre, total)

    def backward(
        self, grad: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None, saved: Saved
    ) -> tuple[Tensor, Tensor, Tensor]:
        layer, (centre, total), count = self.layer, saved, x.numel() // x.shape[1]
        constants = (layer.reference, layer.capsule_dims, layer.inverse_square)
        reference, dims, inverse_square = (t.to(centre.dtype) for t in constants)  # without parameters any dtype goes
        ones = torch.ones_like(centre)
        _, products, sums = _backward(grad, x, None, centre, ones, None, None, False, 0.0, [False, True, True])
        inverse = torch.rsqrt(total + layer.eps)
        slope = inverse if weight is None else inverse * weight
        both = layer.segments.sum_statistics(torch.stack((products, sums * reference)))
        to_weight, along = both[0] * inverse, both[1]
        by_x = -slope * inverse * to_weight / (dims * count)
        term = -slope * along * inverse_square / count
        slope, by_x, term = layer.segments.spread(torch.stack((slope, by_x, term)))
        to_x = _scaled(x, centre, by_x, term * reference).addcmul_(grad, slope.view(-1, 1, 1))
        return to_x, to_weight, along[inverse_square > 0]


def _scaled(x: Tensor, centre: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """scale · (x - μ) + shift in one pass, each one number per channel."""
    return torch.native_batch_norm(x, scale, shift, centre, torch.ones_like(centre), False, 0.0, 0.0)[0]
