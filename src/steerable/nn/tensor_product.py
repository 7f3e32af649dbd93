"""The quadratic nonlinearity: products of capsules, mapped back to capsules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steerable.nn.capsule_products import multiply_capsules
from steerable.nn.channels import (
    channels_at_end,
    channels_second,
    in_channels_last,
    scale_channels,
    take,
    take_channels,
)
from steerable.nn.module import EquivariantModule
from steerable.nn.product_tables import ProductTables
from steerable.types.field_types import FieldType

__all__ = ["TensorProduct"]


class TensorProduct(EquivariantModule):
    """y = Σ_k w_k Q_k(x_i ⊗ x_j): products of capsules, with Q_k a basis of the maps that commute with the group.

    A polynomial of degree 2, exactly equivariant for every group and every capsule, with the learned weights w. Copies
    are not all multiplied with each other: copy t of each kind is multiplied by itself and by copy t of each other
    kind, and a kind with fewer copies starts again from its first; the results are added to copy t of each kind of
    the output. Weights start at random, such that independent normal channels give outputs of variance 1. Outputs grow
    with the square of inputs, so a norm belongs before this layer; ``snn.Residual(snn.TensorProduct(t))`` is
    x + Q(x ⊗ x).

    Shapes: (batch, in_type.channels, …) → (batch, out_type.channels, …).

    Args:
        field_type: the type that goes in.
        out_type: the type that comes out, by default the same.

    >>> from steerable import FieldType, so2
    >>> TensorProduct(FieldType(so2(), "8*A + 8*E1 + 8*E2")).weight.shape
    torch.Size([8, 11])
    """

    # Over a subgroup more maps commute, but copies are paired as the larger group pairs them: the weights stay its own.
    parameters_serve_subgroups = True

    left: Tensor
    right: Tensor
    number: Tensor
    factor: Tensor
    places: Tensor
    present: Tensor

    def __init__(self, field_type: FieldType, out_type: FieldType | None = None) -> None:
        super().__init__(field_type, field_type if out_type is None else out_type)
        if self.in_type.group != self.out_type.group:
            raise TypeError(
                f"TensorProduct maps between fields of one group; got in_type `{self.in_type}` of "
                f"{self.in_type.group.name} and out_type `{self.out_type}` of {self.out_type.group.name}. Put "
                "snn.Restrict in between."
            )
        tables = ProductTables(self.in_type, self.out_type)
        for kind, (capsule, _) in enumerate(self.out_type.terms):
            if not tables.makes(kind):
                raise TypeError(
                    f"TensorProduct: no product of a capsule of `{self.in_type}` with itself or with another kind has "
                    f"a part in capsule `{capsule}`, which would always be 0. Add the trivial capsule to the type, as "
                    f"in `{self.in_type} + {self.out_type.group.trivial}`, by which every capsule can be multiplied, "
                    f"or leave `{capsule}` out of out_type."
                )
        self.hands, self.shape = tables.hands, tables.shape
        self.register_index("left", tables.left)
        self.register_index("right", tables.right)
        self.register_index("number", tables.number)
        self.register_constant("factor", tables.factor)
        self.terms = tables.places.shape[1]
        self.register_index("places", tables.places.ravel())
        self.register_constant("present", tables.present.ravel())
        self._deviation = tables.deviation
        self.weight = nn.Parameter(torch.empty(tables.hands, tables.count))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        with torch.no_grad():
            nn.init.normal_(self.weight).mul_(torch.as_tensor(self._deviation).to(self.weight))

    def matrices(self) -> Tensor:
        """(hands, channels of a hand that come out, products in a hand): the matrix Σ_k w_k Q_k of each hand."""
        entries = take(self.weight, 1, self.number.flatten()).unflatten(1, self.number.shape) * self.factor
        matrices: Tensor = entries.sum(2).unflatten(1, self.shape)
        return matrices

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        products = take_channels(x, self.left) * take_channels(x, self.right)
        y = take_channels(multiply_capsules(products, self.matrices(), self.hands, each=True), self.places)
        if self.terms == 1:
            return y
        y = scale_channels(y, self.present.to(y.dtype))
        # On a GPU autocast makes sums float32 unless they say their dtype; inside a sum both count in float32.
        if in_channels_last(y):  # a sum over an axis in between would not stay in channels_last
            parts: Tensor = channels_at_end(y).unflatten(-1, (-1, self.terms))
            return channels_second(parts.sum(-1, dtype=y.dtype))
        terms: Tensor = y.unflatten(1, (-1, self.terms))
        return terms.sum(2, dtype=y.dtype)
