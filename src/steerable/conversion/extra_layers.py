"""The few layers that only a converted network needs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.nn.channels import capsule_of_channel, on_maps, scale_channels, take
from steerable.types.field_types import FieldType

__all__ = ["CapsuleScale", "TrainingFactor", "VectorToMap"]


class VectorToMap(snn.EquivariantModule):
    """A pooled field as a map of one pixel or voxel, so that it can scale or shift a whole field.

    Shapes: (batch, channels) → (batch, channels, 1, 1), or (batch, channels, 1, 1, 1) for volumes.
    """

    channelwise = True

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, maps=False, pooled=True)
        return on_maps(x, len(self.map_axes))


class CapsuleScale(snn.EquivariantModule):
    """y_i = γ_i x_i, with a learned factor for each capsule, or one for all.

    Shapes: any (batch, channels, …) → the same.

    Args:
        field_type: the type, which stays the same.
        start: what the factors are at first.
        single: whether there is one factor for all capsules.
    """

    parameters_serve_subgroups = True

    entry: Tensor

    def __init__(self, field_type: FieldType, start: float = 1.0, *, single: bool = False) -> None:
        super().__init__(field_type, field_type)
        self.start = start
        capsules = capsule_of_channel(field_type)
        self.register_index("entry", np.zeros_like(capsules) if single else capsules)
        self.weight = nn.Parameter(torch.full((1 if single else len(field_type),), start))

    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, self.start)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return scale_channels(x, take(self.weight, 0, self.entry))


class TrainingFactor(snn.EquivariantModule):
    """In training, x times a factor for each sample, as in stochastic depth; in evaluation, x itself.

    The factor sees the number of samples and nothing else of x, so that it is the same for a transformed x.

    Shapes: any (batch, channels, …) → the same.

    Args:
        field_type: the type, which stays the same.
        factor: gives a number, or a tensor that has one entry per sample, when it is called with x.
    """

    channelwise = True

    def __init__(self, field_type: FieldType, factor: nn.Module) -> None:
        super().__init__(field_type, field_type)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return x * self.factor(x) if self.training else x

    def plain(self) -> nn.Module:
        return nn.Identity()
