"""Pooling from a group to a subgroup: D_n to C_n over the reflections, for instance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.capsules import Capsule
from steerable.algebra.group_interface import Group
from steerable.nn.channels import merge_order, take_channels
from steerable.nn.module import EquivariantModule
from steerable.types.field_types import FieldType
from steerable.types.restriction import restriction
from steerable.types.shared_subgroups import subgroup_of

__all__ = ["SubgroupPool"]


class SubgroupPool(EquivariantModule):
    """The maximum or mean over the parts of each capsule that a subgroup H moves alike: a smaller field, of H.

    A subgroup sees D_n's ``regular`` as two regular capsules of C_n, the rotations and the reflections:
    y(h) = max(x(h), x(hm)) is one. In general y(h) = max or mean of x(hg) over one g of each coset Hg of a regular
    capsule; for other capsules, the parts that :class:`Restrict` gives equal types are pooled. Parts that occur once
    stay as they are.

    Shapes: (batch, in_type.channels, …) → (batch, out_type.channels, …).

    Args:
        field_type: what goes in.
        subgroup: its name, such as ``"C4"``, or its elements, or the subgroup itself.
        mode: ``"max"`` for parts that H permutes; ``"mean"`` for any.

    >>> from steerable import FieldType, dihedral
    >>> SubgroupPool(FieldType(dihedral(4), "2*regular + E"), "C4").out_type
    FieldType(C4, '2*regular + E')
    """

    members: Tensor
    order: Tensor

    def __init__(
        self, field_type: FieldType, subgroup: Iterable[str] | Group, mode: Literal["max", "mean"] = "max"
    ) -> None:
        if mode not in ("max", "mean"):
            raise ValueError(f"mode must be 'max' or 'mean', got {mode!r}.")
        smaller = subgroup_of(field_type.group, subgroup)
        parts = [_parts(capsule, smaller, mode) for capsule, _ in field_type.terms]
        stack: list[Capsule] = []
        tables: list[np.ndarray] = []  # (parts that are pooled, dim) channels of each capsule that comes out
        for (capsule, copies), channels, found in zip(field_type.terms, field_type.term_slices, parts, strict=True):
            for copy in range(copies):
                stack += [kind for kind, _ in found]
                tables += [channels.start + copy * capsule.dim + table for _, table in found]
        super().__init__(field_type, FieldType(smaller, stack))
        self.mode = mode
        sizes = np.concatenate([np.full(table.shape[1], len(table)) for table in tables])
        columns = [column for table in tables for column in table.T]
        by_size = np.argsort(sizes, kind="stable")
        self.register_index("members", np.concatenate([columns[c] for c in by_size]))
        self.register_index("order", np.argsort(by_size)[merge_order(stack, self.out_type)])
        self.sizes = [(int(n), int((sizes == n).sum())) for n in np.unique(sizes)]

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        gathered, at, pooled = take_channels(x, self.members), 0, []
        for size, count in self.sizes:
            part = gathered.narrow(1, at, size * count).unflatten(1, (count, size))
            pooled.append(part.amax(2) if self.mode == "max" else part.mean(2))
            at += size * count
        return take_channels(torch.cat(pooled, dim=1) if len(pooled) > 1 else pooled[0], self.order)

    def extra_repr(self) -> str:
        groups = f"{self.in_type.group.name} → {self.out_type.group.name}"
        return f"{super().extra_repr()}, {groups}, mode={self.mode}"


def _parts(capsule: Capsule, subgroup: Group, mode: str) -> list[tuple[Capsule, np.ndarray]]:
    """The kinds of capsule that a subgroup sees in one, each with a row of channels per part of that kind."""
    restricted, order = restriction(FieldType(capsule.group, capsule), subgroup)
    found = []
    for (kind, copies), channels in zip(restricted.terms, restricted.term_slices, strict=True):
        if mode == "max" and copies > 1 and not kind.admits("pointwise"):
            raise TypeError(
                f"SubgroupPool(mode='max') is not admissible for capsule `{capsule}`: {subgroup.name} sees {copies} "
                f"times `{kind}` in it, whose matrices are not permutations. Use `SubgroupPool(mode='mean')`."
            )
        found.append((kind, order[channels].reshape(copies, kind.dim)))
    return found
