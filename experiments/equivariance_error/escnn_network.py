"""The experiment's network with escnn's layers, its default filters and its own ways of pooling and averaging."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from escnn import gspaces
from escnn import nn as enn
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "rotated_digits"))
from digit_networks import KERNELS, POOLED

__all__ = ["EscnnDigits"]


class EscnnDigits(nn.Module):
    """(batch, 1, 28, 28) → (batch, fields): the invariant features of a network over C_n."""

    def __init__(self, order: int, fields: Sequence[int]) -> None:
        super().__init__()
        space = gspaces.rot2dOnR2(order)
        self.image = source = enn.FieldType(space, [space.trivial_repr])
        layers = []
        for k, (size, count) in enumerate(zip(KERNELS, fields, strict=True)):
            target = enn.FieldType(space, count * [space.regular_repr])
            layers += [enn.R2Conv(source, target, size, padding=size // 2, bias=False)]
            layers += [enn.InnerBatchNorm(target), enn.ReLU(target, inplace=True)]
            layers += [enn.PointwiseAvgPoolAntialiased2D(target, sigma=0.66, stride=2)] if k in POOLED else []
            source = target
        self.layers = enn.SequentialModule(*layers, enn.GroupPooling(source))

    def forward(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.layers(self.image(x)).tensor.mean(dim=(2, 3))
        return pooled
