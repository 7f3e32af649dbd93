"""Normalisation of whole capsules: what all norms share, group and layer norm.

A mean is subtracted along invariant directions only (elsewhere the mean of an equivariant field is zero by symmetry),
a variance is taken over all channels of a capsule, and the affine scale is one number per capsule. For fields of
trivial capsules each of these layers is torch's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steerable.nn.channels import (
    HALF_PRECISION,
    hides_shapes,
    is_traced,
    scale_channels,
    shift_channels,
    take,
    widened,
    without_autocast,
)
from steerable.nn.expansion import InvariantPlan
from steerable.nn.module import EquivariantModule
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType

__all__ = ["CapsuleNorm", "GroupNorm", "LayerNorm", "has_no_values", "invariant_reference"]


class CapsuleNorm(EquivariantModule):
    """What the norms share: the affine part, and the normalisation itself once centre and variance are known.

    ``weight`` has one entry per capsule, ``bias`` one per invariant direction; both are None without ``affine``.
    """

    ranks: tuple[int, ...] = (4,)

    bias_entry: Tensor
    bias_factor: Tensor

    def __init__(self, field_type: FieldType, eps: float, affine: bool) -> None:
        _require_orthogonal(type(self).__name__, field_type)
        super().__init__(field_type, field_type)
        self.eps, self.affine = eps, affine
        self.segments = Segments(field_type)
        self.invariants = InvariantPlan(field_type)
        entry, factor = self.invariants.lookup()
        self.register_index("bias_entry", entry)
        self.register_constant("bias_factor", factor)
        self.weight = nn.Parameter(torch.ones(len(field_type))) if affine else None
        has_bias = affine and self.invariants.parameters > 0
        self.bias = nn.Parameter(torch.zeros(self.invariants.parameters)) if has_bias else None

    def reset_parameters(self) -> None:
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=self.ranks)
        self.check_dtype(x)
        with without_autocast(self.bias_factor.device):
            return self.normalise(x)

    def normalise(self, x: Tensor) -> Tensor:
        raise TypeError(
            f"{type(self).__name__} is a base class; use BatchNorm2d, InstanceNorm2d, GroupNorm or LayerNorm."
        )

    def check_dtype(self, x: Tensor) -> None:
        """Refuse the mixtures of dtypes that torch's norms refuse; what goes in has the dtype of what comes out.

        Half precision may enter a layer in float32, as it does under autocast. A layer without parameters and running
        statistics takes any dtype.
        """
        own = next((t.dtype for t in (self.weight, getattr(self, "running_mean", None)) if t is not None), None)
        if is_traced(x) or own is None or x.dtype == own:
            return
        if own != torch.float32 or x.dtype not in HALF_PRECISION:
            raise TypeError(
                f"{type(self).__name__} holds {own}, but got a tensor of {x.dtype}. A norm takes fields of its own "
                f"dtype (and of half precision, if that is torch.float32): like torch's norms it does not convert "
                f"between the others. Convert one of them: `x.to({own})`, or `layer.to({x.dtype})`."
            )

    def without_values(self, x: Tensor) -> Tensor:
        """What the layer makes of a tensor without values: one like it, with gradients of zero.

        Mean 0 and variance 1 stand in for its statistics. Those would be NaN, and so would the gradients.
        """
        wide = widened(x)
        centre, variance = wide.new_zeros(1, self.in_type.channels), wide.new_ones(1, len(self.in_type))
        scale, shift = self.scale_and_shift(centre, variance, self.weight, self.bias)
        return shift_channels(scale_channels(wide, scale.squeeze(0)), shift.squeeze(0)).to(x.dtype)

    def scale_and_shift(
        self, centre: Tensor, capsule_variance: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """a and b, each (rows, channels), such that the layer is x ↦ a·x + b.

        Args:
            centre: (rows, channels), what is subtracted.
            capsule_variance: (rows, capsules).
            weight, bias: the layer's parameters, or stand-ins for them.
        """
        inverse = torch.rsqrt(capsule_variance + self.eps)
        if weight is not None:
            inverse = inverse * weight
        scale = self.segments.spread(inverse)
        shift = -centre * scale
        if bias is not None:
            shift = shift + self.expanded(bias)
        return scale, shift

    def on_channels(self, numbers: Tensor) -> Tensor:
        """(capsules,) → (channels,): each capsule's number on all of its channels."""
        return self.segments.spread(numbers.unsqueeze(0)).squeeze(0)

    def expanded(self, bias: Tensor) -> Tensor:
        """(channels,): the invariant vector that a bias stands for."""
        return self.invariants.expand(bias, self.bias_entry, self.bias_factor)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, eps={self.eps}, affine={self.affine}"


class GroupNorm(CapsuleNorm):
    """y = γ (x - μw) / √(σ² + ε) + β, with μ and σ² over the pixels and channels of each group of capsules.

    w is 1 on permutation capsules and 0 on capsules without invariants: μ is the mean along the invariant directions.

    Shapes: (batch, channels, height, width) → the same.
    """

    to_mean: Tensor
    to_variance: Tensor
    reference: Tensor
    capsule_group: Tensor
    channel_group: Tensor

    def __init__(self, num_groups: int, field_type: FieldType, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(field_type, eps, affine)
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
        variance, mean = torch.var_mean(wide, (2, 3), correction=0)
        to_mean, to_variance = self.to_mean.to(mean.dtype), self.to_variance.to(mean.dtype)
        centre = take(mean @ to_mean, 1, self.channel_group) * self.reference.to(mean.dtype)
        group_variance = (variance + (mean - centre).square()) @ to_variance
        group_variance = take(group_variance, 1, self.capsule_group)
        scale, shift = self.scale_and_shift(centre, group_variance, self.weight, self.bias)
        return (wide * scale[..., None, None] + shift[..., None, None]).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, num_groups={self.num_groups}"


class LayerNorm(CapsuleNorm):
    """y(p) = γ (x(p) - μ(p)w) / √(σ²(p) + ε) + β: each fibre by itself, over all of its channels.

    w is 1 on permutation capsules and 0 on capsules without invariants: μ is the mean along the invariant directions.

    Shapes: (batch, channels, height, width) or (batch, channels) → the same.
    """

    ranks = (2, 4)

    reference: Tensor
    to_mean: Tensor

    def __init__(self, field_type: FieldType, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(field_type, eps, affine)
        reference = invariant_reference(self.invariants)
        self.register_constant("reference", reference)
        total = float((reference**2).sum())
        self.register_constant("to_mean", reference / total if total else reference)

    def normalise(self, x: Tensor) -> Tensor:
        wide = widened(x)
        mean = scale_channels(wide, self.to_mean).sum(1, keepdim=True)
        centred = wide - scale_channels(mean.expand_as(wide), self.reference)
        y = centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + self.eps)
        if self.weight is not None:
            y = scale_channels(y, self.on_channels(self.weight))
        if self.bias is not None:
            y = shift_channels(y, self.expanded(self.bias))
        return y.to(x.dtype)


def has_no_values(x: Tensor) -> bool:
    """Whether x is an empty batch, or images without pixels: there is nothing to take statistics of."""
    return not hides_shapes(x) and x.numel() == 0


def _require_orthogonal(layer: str, field_type: FieldType) -> None:
    """TypeError where a capsule's length is not the same in all poses."""
    for capsule, _ in field_type.blocks:
        if not capsule.admits("norm"):
            raise TypeError(
                f"{layer} is not admissible for capsule `{capsule}`: its matrices are not orthogonal, so that a "
                f"variance over its channels depends on the pose. Change to an orthogonal basis first, for instance "
                f"with `ToIrreps`."
            )


def invariant_reference(invariants: InvariantPlan) -> Any:
    """(channels,): one invariant vector of the fibre, the sum of its invariant directions; 1 on permutations."""
    parts = [np.tile(directions.sum(0), copies) for copies, directions in invariants.kinds]
    return np.concatenate(parts)
