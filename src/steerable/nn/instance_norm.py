"""Instance norm of whole capsules: statistics over the pixels of each image."""

from __future__ import annotations

import torch
from torch import Tensor

from steerable.nn.statistics_norms import StatisticsNorm
from steerable.types.field_types import FieldType

__all__ = ["InstanceNorm2d", "InstanceNorm3d"]


class InstanceNorm(StatisticsNorm):
    """The base of instance norms; a subclass sets the number of axes."""

    def __init__(
        self,
        field_type: FieldType,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(field_type, eps, momentum, affine, track_running_stats, bias=bias)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | int]:
        variance, mean = torch.var_mean(x, self.map_axes, correction=0)
        return mean, variance, self.values_per_channel(x, over_batch=False)


class InstanceNorm2d(InstanceNorm):
    """y = γ (x - μ) / √(σ² + ε) + β, with μ and σ² of each capsule over the pixels of each image.

    Shapes: (batch, channels, height, width) → the same. Defaults are those of ``torch.nn.InstanceNorm2d``.
    """

    axes = 2


class InstanceNorm3d(InstanceNorm):
    """y = γ (x - μ) / √(σ² + ε) + β, with μ and σ² of each capsule over the voxels of each volume.

    Shapes: (batch, channels, depth, height, width) → the same. Defaults are those of ``torch.nn.InstanceNorm3d``.
    """

    axes = 3
