"""Norms carried over to a subgroup: the larger group's statistics, and the subgroup's affine part.

A subgroup sees several capsules where the larger group has one. Statistics of each of them would give another function;
the statistics stay those of the larger group, so that nothing changes, and only the scales and shifts become finer.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from steerable.algebra.group_interface import Group
from steerable.nn.channels import capsule_of_channel, scale_channels, shift_channels
from steerable.nn.norms import CapsuleNorm
from steerable.nn.plain import WithPlainCounterpart
from steerable.types.restriction import Seen, seen_by

__all__ = ["RestrictedNorm", "restricted_norm"]


class RestrictedNorm(CapsuleNorm):
    """y = γ' P N(P⁻¹x) + β', with a norm N of a larger group; γ' has one entry per capsule that the subgroup sees.

    Shapes: those of the norm.

    Args:
        norm: N, without an affine part of its own.
        seen: its type as the subgroup sees it.
        affine, bias: whether there are γ' and β'.
    """

    before: Tensor
    after: Tensor

    def __init__(self, norm: CapsuleNorm, seen: Seen, *, affine: bool, bias: bool) -> None:
        super().__init__(seen.field_type, norm.eps, affine, bias=bias)
        self.takes_pooled = norm.takes_pooled
        self.norm = norm
        self.register_index("before", seen.back)
        self.register_index("after", seen.order)

    def normalise(self, x: Tensor) -> Tensor:
        weight = None if self.weight is None else self.on_channels(self.weight)
        bias = None if self.bias is None else self.expanded(self.bias)
        return self.norm.normalise_in_order(x, (self.before, self.after), weight, bias)

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """The plain form of the larger group's norm, with channels brought into its order and back."""
        weight = None if self.weight is None else self.on_channels(self.weight).clone()
        bias = None if self.bias is None else self.expanded(self.bias).clone()
        return _Reordered(self.norm.plain(), (self.before, self.after), weight, bias).plain()

    def without_affine(self) -> CapsuleNorm:
        return self.norm.without_affine()

    def restricted_to(self, subgroup: Group) -> RestrictedNorm:
        own = seen_by(self.in_type, subgroup)
        return restricted_norm(self, Seen(own.field_type, self._constants["after"][own.order]), own)


class _Reordered(WithPlainCounterpart):
    """γ P N(P⁻¹x) + β for a module N of torch, from which torch.fx makes a graph."""

    before: Tensor
    after: Tensor

    def __init__(
        self, norm: nn.Module, places: tuple[Tensor, Tensor], weight: Tensor | None, bias: Tensor | None
    ) -> None:
        super().__init__()
        self.norm = norm
        self.register_buffer("before", places[0].clone())
        self.register_buffer("after", places[1].clone())
        self.weight = None if weight is None else nn.Parameter(weight)
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.index_select(self.norm(torch.index_select(x, 1, self.before)), 1, self.after)
        y = y if self.weight is None else scale_channels(y, self.weight)
        return y if self.bias is None else shift_channels(y, self.bias)


def restricted_norm(norm: CapsuleNorm, seen: Seen, own: Seen) -> RestrictedNorm:
    """A norm as a subgroup sees it, with scales and shifts that leave its function as it is.

    Args:
        norm: the norm.
        seen: the type of the statistics, as the subgroup sees it.
        own: the type of the norm, as the subgroup sees it.
    """
    new = RestrictedNorm(norm.without_affine(), seen, affine=norm.affine, bias=norm.takes_bias)
    statistics = next((t for t in norm.buffers() if t.is_floating_point()), torch.zeros(0))
    holder = statistics if norm.weight is None else norm.weight
    new = new.to(holder.device, holder.dtype).train(norm.training)
    if norm.weight is None or new.weight is None or holder.is_meta:
        return new
    first = [channels.start for channels in own.field_type.slices]
    capsule = torch.from_numpy(capsule_of_channel(norm.in_type)[own.order[first]]).to(holder.device)
    new.weight.copy_(norm.weight[capsule])
    new.weight.requires_grad_(norm.weight.requires_grad)
    if new.bias is not None and norm.bias is not None:
        index, factor = norm.invariants.lookup()
        shift = norm.invariants.expand(
            norm.bias.detach().to("cpu", torch.float64), torch.from_numpy(index), torch.from_numpy(factor)
        )
        found = new.invariants.project(np.asarray(shift.numpy())[own.order])
        new.bias.copy_(torch.from_numpy(found))
        new.bias.requires_grad_(norm.bias.requires_grad)
    return new
