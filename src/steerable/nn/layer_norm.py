"""Layer norm: statistics over all channels of each fibre."""

from __future__ import annotations

import torch
from torch import Tensor

from steerable.nn.channels import scale_channels, shift_channels, widened
from steerable.nn.norms import CapsuleNorm, invariant_reference
from steerable.types.field_types import FieldType

__all__ = ["LayerNorm"]


class LayerNorm(CapsuleNorm):
    """y(p) = γ (x(p) - μ(p)w) / √(σ²(p) + ε) + β: each fibre separately, over all of its channels.

    w is 1 on permutation capsules and 0 on capsules without invariants: μ is the mean along the invariant directions.

    Shapes: (batch, channels, …) or (batch, channels) → the same.
    """

    takes_pooled = True

    reference: Tensor
    to_mean: Tensor

    def __init__(self, field_type: FieldType, eps: float = 1e-5, affine: bool = True, *, bias: bool = True) -> None:
        super().__init__(field_type, eps, affine, bias=bias)
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
