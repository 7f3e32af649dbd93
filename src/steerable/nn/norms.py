"""Normalisation of whole capsules: the common part of all norms.

A mean is subtracted along invariant directions only (elsewhere the mean of an equivariant field is zero by symmetry),
a variance is taken over all channels of a capsule, and the affine scale is one number per capsule. For fields of
trivial capsules each of these layers is torch's own.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steerable.algebra.group_interface import Group
from steerable.nn.channels import (
    HALF_PRECISION,
    hides_shapes,
    is_traced,
    scale_channels,
    shift_channels,
    take_channels,
    widened,
    without_autocast,
)
from steerable.nn.expansion import InvariantPlan
from steerable.nn.module import EquivariantModule
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType
from steerable.types.restriction import seen_by

__all__ = ["CapsuleNorm", "has_no_values", "invariant_reference"]


class CapsuleNorm(EquivariantModule):
    """The base of the norms: the affine part, and the normalisation itself once centre and variance are known.

    ``weight`` has one entry per capsule, ``bias`` one per invariant direction; both are None without ``affine``, and
    ``bias`` also where it is switched off.
    """

    takes_pooled = False  # True for norms that take (batch, channels) as well

    bias_entry: Tensor
    bias_factor: Tensor

    def __init__(self, field_type: FieldType, eps: float, affine: bool, *, bias: bool) -> None:
        _require_orthogonal(type(self).__name__, field_type)
        super().__init__(field_type, field_type)
        self.eps, self.affine, self.takes_bias = eps, affine, bias
        self.segments = Segments(field_type)
        self.invariants = InvariantPlan(field_type)
        entry, factor = self.invariants.lookup()
        self.register_index("bias_entry", entry)
        self.register_constant("bias_factor", factor)
        self.weight = nn.Parameter(torch.ones(len(field_type))) if affine else None
        has_bias = affine and bias and self.invariants.parameters > 0
        self.bias = nn.Parameter(torch.zeros(self.invariants.parameters)) if has_bias else None

    def reset_parameters(self) -> None:
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=self.takes_pooled)
        self.check_dtype(x)
        with without_autocast(self.bias_factor.device):
            return self.normalise(x)

    def normalise(self, x: Tensor) -> Tensor:
        raise TypeError(
            f"{type(self).__name__} is a base class; use BatchNorm2d, InstanceNorm2d, GroupNorm or LayerNorm."
        )

    def normalise_in_order(
        self, x: Tensor, places: tuple[Tensor, Tensor], weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """γ P N(P⁻¹x) + β for a norm N without affine part and channels in another order.

        Args:
            x: (batch, channels, …) in that order.
            places: ``x[:, places[0]]`` is in the norm's own order, and ``places[1]`` leads back.
            weight, bias: γ and β of each channel, in the order of x.
        """
        before, after = places
        y = take_channels(self.normalise(take_channels(x, before)), after)
        y = y if weight is None else scale_channels(y, weight)
        return (y if bias is None else shift_channels(y, bias)).to(x.dtype)

    def without_affine(self) -> CapsuleNorm:
        """A copy that only normalises."""
        twin = copy.deepcopy(self)
        twin.affine, twin.weight, twin.bias = False, None, None
        return twin

    def restricted_to(self, subgroup: Group) -> CapsuleNorm:
        from steerable.nn.restricted_norm import restricted_norm

        seen = seen_by(self.in_type, subgroup)
        return restricted_norm(self, seen, seen)

    def check_dtype(self, x: Tensor) -> None:
        """Refuse the mixtures of dtypes that torch's norms refuse; the output has the input's dtype.

        Half precision may enter a layer in float32, as it does under autocast. A layer without parameters and running
        statistics takes any dtype.
        """
        weight = self._parameters.get("weight")
        holder = self._buffers.get("running_mean") if weight is None else weight
        own = None if holder is None else holder.dtype
        if is_traced(x) or own is None or x.dtype == own:
            return
        if own != torch.float32 or x.dtype not in HALF_PRECISION:
            raise TypeError(
                f"{type(self).__name__} holds {own}, but got a tensor of {x.dtype}. A norm takes fields of its own "
                f"dtype (and of half precision, if that is torch.float32): like torch's norms it does not convert "
                f"between the others. Convert one of them: `x.to({own})`, or `layer.to({x.dtype})`."
            )

    def without_values(self, x: Tensor) -> Tensor:
        """The output for a tensor without values: a similar tensor, with gradients of zero.

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


def has_no_values(x: Tensor) -> bool:
    """Whether x is an empty batch, or fields without pixels, of which there are no statistics."""
    return not hides_shapes(x) and x.numel() == 0


def _require_orthogonal(layer: str, field_type: FieldType) -> None:
    """Raise a TypeError if a capsule's length is not the same in all poses."""
    for capsule, _ in field_type.terms:
        if not capsule.admits("norm"):
            raise TypeError(
                f"{layer} is not admissible for capsule `{capsule}`: its matrices are not orthogonal, so a "
                f"variance over its channels depends on the pose. Change to an orthogonal basis first, for instance "
                f"with `ToIrreps`."
            )


def invariant_reference(invariants: InvariantPlan) -> Any:
    """(channels,): one invariant vector of the fibre, the sum of its invariant directions; 1 on permutations."""
    parts = [np.tile(directions.sum(0), copies) for copies, directions in invariants.kinds]
    return np.concatenate(parts)
