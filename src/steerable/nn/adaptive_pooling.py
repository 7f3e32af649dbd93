"""Pooling to a given size, or over all pixels: the windows are symmetric on every input."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.admissibility import require_permutations
from steerable.nn.geometry import pair
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import axes_swapped
from steerable.types.field_types import FieldType

__all__ = ["AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "GlobalAvgPool", "GlobalMaxPool"]


class AdaptiveAvgPool2d(EquivariantModule):
    """The mean over windows that divide the field into ``output_size`` parts; symmetric for any size, any capsules.

    Shapes: (batch, channels, height, width) → (batch, channels, *output_size).
    """

    channelwise = True

    def __init__(self, field_type: FieldType, output_size: int | Sequence[int]) -> None:
        super().__init__(field_type, field_type)
        self.output_size = _adaptive_size(field_type, output_size)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return F.adaptive_avg_pool2d(x, self.output_size)

    def plain(self) -> nn.Module:
        return nn.AdaptiveAvgPool2d(self.output_size)


class AdaptiveMaxPool2d(EquivariantModule):
    """The maximum over windows that divide the field into ``output_size`` parts; capsules must be permutations.

    Shapes: (batch, channels, height, width) → (batch, channels, *output_size).
    """

    channelwise = True

    def __init__(self, field_type: FieldType, output_size: int | Sequence[int]) -> None:
        require_permutations("AdaptiveMaxPool2d", field_type, "NormMaxPool2d")
        super().__init__(field_type, field_type)
        self.output_size = _adaptive_size(field_type, output_size)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return F.adaptive_max_pool2d(x, self.output_size)

    def plain(self) -> nn.Module:
        return nn.AdaptiveMaxPool2d(self.output_size)


class GlobalAvgPool(EquivariantModule):
    """The mean over all pixels: a single fibre, which the group moves by ρ alone.

    Shapes: (batch, channels, height, width) → (batch, channels).
    """

    channelwise = True

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return x.mean((2, 3))

    def plain(self) -> nn.Module:
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


class GlobalMaxPool(EquivariantModule):
    """The maximum over all pixels, channel by channel; every capsule must be a permutation.

    Shapes: (batch, channels, height, width) → (batch, channels).
    """

    channelwise = True

    def __init__(self, field_type: FieldType) -> None:
        require_permutations("GlobalMaxPool", field_type, "GlobalAvgPool")
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        return x.amax((2, 3))


def _adaptive_size(field_type: FieldType, output_size: int | Sequence[int]) -> tuple[int, int]:
    size = pair(output_size, "output_size", minimum=1)
    if axes_swapped(field_type.group) and size[0] != size[1]:
        raise ValueError(
            f"{field_type.group.name} exchanges height and width, so that the output is square; got {size}."
        )
    return size
