"""Changes of basis: a field in irreducible capsules, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.capsules import Capsule
from steerable.algebra.decomposition import decompose
from steerable.nn.capsule_products import multiply_capsules
from steerable.nn.channels import merge_order, take_channels
from steerable.nn.module import EquivariantModule
from steerable.types.field_types import FieldType

__all__ = ["FromIrreps", "ToIrreps"]


class _BasisChange(EquivariantModule):
    """A fixed square matrix on each capsule, with a reordering of channels before or after it."""

    matrices: Tensor
    order: Tensor

    def __init__(
        self, in_type: FieldType, out_type: FieldType, matrices: Sequence[np.ndarray], capsules: FieldType
    ) -> None:
        super().__init__(in_type, out_type)
        self.shapes = [(copies, capsule.dim) for capsule, copies in capsules.terms]
        self.register_constant("matrices", np.concatenate([m.ravel() for m in matrices] or [np.zeros(0)]))

    def change(self, x: Tensor) -> Tensor:
        """y = Mx for each capsule, kind by kind."""
        parts, at, matrix_at = [], 0, 0
        for copies, dim in self.shapes:
            matrix = self.matrices[matrix_at : matrix_at + dim * dim].view(dim, dim)
            parts.append(multiply_capsules(x.narrow(1, at, copies * dim), matrix, copies))
            at, matrix_at = at + copies * dim, matrix_at + dim * dim
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


class ToIrreps(_BasisChange):
    """y = A⁻¹x for each capsule, with A the basis in which ρ is block-diagonal: the field in irreducible capsules.

    Shapes: (batch, channels, …) → the same. For orthogonal capsules the map is orthogonal. ``FromIrreps`` undoes it.
    """

    def __init__(self, field_type: FieldType) -> None:
        stack, matrices = _irrep_stack(field_type)
        out_type = FieldType(field_type.group, stack)
        super().__init__(field_type, out_type, [np.linalg.inv(a) for a in matrices], field_type)
        self.register_index("order", merge_order(stack, out_type))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return take_channels(self.change(x), self.order)


class FromIrreps(_BasisChange):
    """x = Ay for each capsule: from irreducible capsules back to the type that ``ToIrreps`` started from.

    Shapes: (batch, channels, …) → the same.

    Args:
        field_type: the type that comes out; ``in_type`` is its decomposition.
    """

    def __init__(self, field_type: FieldType) -> None:
        stack, matrices = _irrep_stack(field_type)
        in_type = FieldType(field_type.group, stack)
        super().__init__(in_type, field_type, matrices, field_type)
        self.register_index("order", np.argsort(merge_order(stack, in_type)))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return self.change(take_channels(x, self.order))


def _irrep_stack(field_type: FieldType) -> tuple[list[Capsule], list[np.ndarray]]:
    """The irreps of every capsule in order, and the basis change A of each kind."""
    stack: list[Capsule] = []
    matrices = []
    for capsule, copies in field_type.terms:
        kind, basis = decompose(capsule.representation)
        matrices.append(basis)
        irreps = field_type.group.irreps_of(kind)
        stack += copies * [Capsule(irrep) for irrep, m in zip(irreps, kind, strict=True) for _ in range(m)]
    return stack, matrices
