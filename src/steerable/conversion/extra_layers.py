"""The few layers that only a converted network needs."""

from __future__ import annotations

import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable import nn as snn
from steerable.algebra.group_interface import Group
from steerable.nn.admissibility import require
from steerable.nn.channels import capsule_of_channel, is_traced, on_maps, scale_channels, take
from steerable.nn.sampling import axes_reversed
from steerable.nn.seen_by_subgroup import retyped
from steerable.types.field_types import FieldType
from steerable.types.restriction import seen_by

__all__ = ["CapsuleScale", "PadTo", "TrainingFactor", "VectorToMap"]


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


class PadTo(snn.EquivariantModule):
    """A field padded on all sides, or cropped, to the height and width of another, or to its three extents.

    Exact where an even number of pixels is added along each axis that the group reverses; elsewhere it warns.

    Shapes: (batch, channels, n, n'), (batch, like.channels, m, m') → (batch, channels, m, m').

    Args:
        field_type: the type of the field, which stays the same.
        like: the type of the other field.
        mode, value: as for ``torch.nn.functional.pad``.
    """

    def __init__(self, field_type: FieldType, like: FieldType, mode: str = "constant", value: float = 0.0) -> None:
        super().__init__(field_type, field_type)
        if mode == "constant" and value:
            require(f"PadTo(value={value})", field_type, "pointwise")
        self.in_types = (field_type, like)
        self.mode, self.value = mode, value
        self.reversed = axes_reversed(field_type.group, len(self.map_axes))
        self.warned: set[tuple[int, ...]] = set()

    def forward(self, x: Tensor, like: Tensor) -> Tensor:
        self.check_input(x)
        added = [like.shape[axis] - x.shape[axis] for axis in self.map_axes]
        sides = [side for n in reversed(added) for side in (n // 2, n - n // 2)]
        if not is_traced(x) and not torch.compiler.is_compiling():
            self._check(*added)
        return F.pad(x, sides, self.mode, self.value if self.mode == "constant" else None)

    def restricted_to(self, subgroup: Group) -> PadTo:
        types = [seen_by(field_type, subgroup).field_type for field_type in self.in_types]
        new = retyped(self, types[0], types[0])
        new.in_types, new.reversed = (types[0], types[1]), axes_reversed(subgroup, len(self.map_axes))
        return new

    def _check(self, *added: int) -> None:
        uneven = any(n % 2 and backwards for n, backwards in zip(added, self.reversed, strict=True))
        if not uneven or added in self.warned:
            return
        self.warned.add(added)
        names = ("slices", "rows", "columns")[-len(added) :]
        *first, last = [f"{n} {name}" for n, name in zip(added, names, strict=True)]
        rows = f"{', '.join(first)} and {last}"
        warnings.warn(
            f"PadTo is not exactly equivariant to {self.in_type.group.name} where it adds {rows}, since "
            "an odd number cannot be shared between both sides. Choose an input size that the network "
            "halves without remainder, such as a multiple of 32.",
            snn.EquivarianceWarning,
            stacklevel=4,
        )


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
    """In training, x times a factor for each sample, as stochastic depth draws it; x itself in evaluation.

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
