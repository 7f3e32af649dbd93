"""Equivariant linear maps on pooled fields."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.algebra.group_interface import Group
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.restricted_banks import carried_over
from steerable.nn.seen_by_subgroup import both_ends
from steerable.types.field_types import FieldType

__all__ = ["Linear"]


class Linear(FilterBankModule):
    """y = Ψx + b with ρ_out(h)Ψ = Ψρ_in(h): a map of single fibres, for instance after global pooling.

    Shapes: (batch, in_type.channels) → (batch, out_type.channels).
    """

    def __init__(self, in_type: FieldType, out_type: FieldType, bias: bool = True, *, init: str = "he") -> None:
        super().__init__(in_type, out_type, (), bias=bias, init=init)  # one tap, which no group moves

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, maps=False, pooled=True)
        bank, bias = self.filters()
        return F.linear(x, bank, bias)

    def restricted_to(self, subgroup: Group) -> Linear:
        seen_in, seen_out = both_ends(self, subgroup)
        with torch.random.fork_rng(devices=[]):
            new = Linear(seen_in.field_type, seen_out.field_type, self.takes_bias)
        return carried_over(self, new, seen_in, seen_out)

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """A ``torch.nn.Linear`` with the expanded matrix."""
        bank, bias = self.expand()
        return self.plain_layer(nn.Linear, bank, bias)
