"""The experiment's network with escnn's layers and its default filters.

Images are halved by the same low-pass filter as in ours: escnn's own one is not symmetric on images of even size.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from escnn import gspaces  # type: ignore[import-not-found]
from escnn import nn as enn
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn

sys.path.insert(0, str(Path(__file__).parents[1] / "rotated_digits"))
from digit_networks import KERNELS, POOLED

__all__ = ["EscnnDigits"]


class EscnnDigits(nn.Module):
    """(batch, 1, 28, 28) → (batch, fields): the invariant features of a network over C_n."""

    def __init__(self, order: int, fields: Sequence[int]) -> None:
        super().__init__()
        space = gspaces.rot2dOnR2(order)
        source = enn.FieldType(space, [space.trivial_repr])
        self.stages, self.halvings = nn.ModuleList(), nn.ModuleList()
        for k, (size, count) in enumerate(zip(KERNELS, fields, strict=True)):
            target = enn.FieldType(space, count * [space.regular_repr])
            convolution = enn.R2Conv(source, target, size, padding=size // 2, bias=False)
            self.stages.append(enn.SequentialModule(convolution, enn.InnerBatchNorm(target), enn.ReLU(target)))
            scalars = st.FieldType(st.dihedral(4), f"{target.size}*A1")
            self.halvings.append(snn.BlurPool2d(scalars) if k in POOLED else nn.Identity())
            source = target
        self.pooling = enn.GroupPooling(source)

    def forward(self, x: Tensor) -> Tensor:
        for stage, halving in zip(self.stages, self.halvings, strict=True):
            in_type: Any = stage.in_type
            x = halving(stage(in_type(x)).tensor)
        pooled: Tensor = self.pooling(self.pooling.in_type(x)).tensor.mean(dim=(2, 3))
        return pooled
