"""Group norm: statistics over the pixels and channels of groups of capsules."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from steerable.nn.channels import on_maps, take, widened
from steerable.nn.norms import CapsuleNorm, has_no_values, invariant_reference
from steerable.types.field_types import FieldType

__all__ = ["GroupNorm"]


class GroupNorm(CapsuleNorm):
    """y = γ (x - μw) / √(σ² + ε) + β, with μ and σ² over the pixels and channels of each group of capsules.

    w is 1 on permutation capsules and 0 on capsules without invariants: μ is the mean along the invariant directions.

    Shapes: (batch, channels, …) → the same.
    """

    to_mean: Tensor
    to_variance: Tensor
    reference: Tensor
    capsule_group: Tensor
    channel_group: Tensor

    def __init__(
        self, num_groups: int, field_type: FieldType, eps: float = 1e-5, affine: bool = True, *, bias: bool = True
    ) -> None:
        super().__init__(field_type, eps, affine, bias=bias)
        if num_groups < 1 or len(field_type) % num_groups:
            raise ValueError(
                f"GroupNorm divides {len(field_type)} capsules into groups of equal numbers; {num_groups} groups do "
                "not divide them."
            )
        self.num_groups = num_groups
        group = np.repeat(np.arange(num_groups), len(field_type) // num_groups)
        group_of_channel = np.repeat(group, [c.dim for c in field_type.capsules])
        member = (group_of_channel[:, None] == np.arange(num_groups)).astype(np.float64)
        reference = invariant_reference(self.invariants)
        weight = (reference**2) @ member
        self.register_constant("to_mean", reference[:, None] * member / np.where(weight > 0, weight, 1))
        self.register_constant("to_variance", member / member.sum(0))
        self.register_constant("reference", reference)
        self.register_index("capsule_group", group)
        self.register_index("channel_group", group_of_channel)

    def normalise(self, x: Tensor) -> Tensor:
        if has_no_values(x):
            return self.without_values(x)
        wide = widened(x)
        variance, mean = torch.var_mean(wide, self.map_axes, correction=0)
        to_mean, to_variance = self.to_mean.to(mean.dtype), self.to_variance.to(mean.dtype)
        centre = take(mean @ to_mean, 1, self.channel_group) * self.reference.to(mean.dtype)
        group_variance = (variance + (mean - centre).square()) @ to_variance
        group_variance = take(group_variance, 1, self.capsule_group)
        scale, shift = self.scale_and_shift(centre, group_variance, self.weight, self.bias)
        scale, shift = (on_maps(numbers, len(self.map_axes)) for numbers in (scale, shift))
        return (wide * scale + shift).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, num_groups={self.num_groups}"
