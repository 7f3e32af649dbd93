"""Maps from capsules to invariants, and from quotients to coarser quotients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.capsules import Capsule, quotient_name
from steerable.algebra.characters import intertwining_number
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.homomorphisms import inclusion
from steerable.algebra.induction import quotient
from steerable.algebra.intertwiners import hom_basis
from steerable.nn.admissibility import require
from steerable.nn.channels import scale_channels, take_channels
from steerable.nn.expansion import InvariantPlan
from steerable.nn.module import EquivariantModule
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType
from steerable.types.shared_subgroups import subgroup_of

__all__ = ["CosetPool", "GroupPool"]


class GroupPool(EquivariantModule):
    """One invariant channel per capsule.

    Shapes: (batch, in_type.channels, …) → (batch, number of capsules, …); ``out_type`` is that many trivial capsules.

    Args:
        field_type: what goes in.
        mode: ``"max"``, the largest channel of a permutation capsule and the largest absolute value of a signed one;
            ``"mean"``, the part along the invariant direction of the mean over the group, for any capsule that has such
            a direction: the mean of the channels for a permutation capsule; ``"norm"``, the length, for any orthogonal
            capsule.
    """

    direction: Tensor
    signed: Tensor

    def __init__(self, field_type: FieldType, mode: Literal["max", "mean", "norm"] = "max") -> None:
        if mode not in ("max", "mean", "norm"):
            raise ValueError(f"mode must be 'max', 'mean' or 'norm', got {mode!r}.")
        trivial = FieldType(field_type.group, [(len(field_type), field_type.group.trivial)])
        super().__init__(field_type, trivial)
        self.mode = mode
        self.segments = Segments(field_type)
        if mode == "max":
            require("GroupPool(mode='max')", field_type, "odd", remedy=_fitting_pools)
            signed = np.array([not c.admits("pointwise") for c in field_type.capsules for _ in range(c.dim)])
            self.any_signed = bool(signed.any())
            self.register_constant("signed", signed.astype(np.float64))
        elif mode == "norm":
            require("GroupPool(mode='norm')", field_type, "norm", remedy=_fitting_pools)
        else:
            self.register_constant("direction", _mean_direction(field_type))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        if self.mode == "norm":
            return self.segments.norm(x)
        if self.mode == "mean":
            return self.segments.sum(scale_channels(x, self.direction.to(x.dtype)))
        if self.any_signed:  # |a| = a + 2·max(-a, 0), on signed capsules only
            x = x + scale_channels(torch.relu(-x), 2 * self.signed.to(x.dtype))
        return self.segments.amax(x)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode}"


class CosetPool(EquivariantModule):
    """The maximum or mean over each coset of a subgroup K: ``regular``, or a quotient by a part of K, becomes G/K.

    y(gK) = max or mean of x(h) over the channels h in gK. The result is a field of the whole group;
    :class:`SubgroupPool` continues with a subgroup, D_n to C_n for instance.

    Shapes: (batch, in_type.channels, …) → (batch, out_type.channels, …).

    Args:
        field_type: capsules that are quotients by subgroups of K.
        subgroup: K, by its elements or its name; the whole group gives invariants.
        mode: ``"max"`` or ``"mean"``.
    """

    members: Tensor

    def __init__(
        self, field_type: FieldType, subgroup: Iterable[str] | Group, mode: Literal["max", "mean"] = "max"
    ) -> None:
        if mode not in ("max", "mean"):
            raise ValueError(f"mode must be 'max' or 'mean', got {mode!r}.")
        group = field_type.group
        if not isinstance(group, FiniteGroup):
            raise TypeError(
                f"CosetPool is not admissible for fields of {group.name}, got `{field_type}`: their channels are "
                "coefficients of functions, not values at elements, so there are no channels of a coset. Use "
                f"`GroupPool(mode='norm')`, or restrict to a finite group first, as with `snn.Restrict(..., 'C8')`."
            )
        smaller = subgroup_of(group, subgroup)
        images = inclusion(smaller, group).images  # C2's r is D4's r2
        members = tuple(g for g in group.elements if g in images)
        # A subgroup of which only a conjugate is in the catalogue is called by its place among all subgroups.
        name = quotient_name(group, members) or f"q{len(members)}_{group.subgroups().index(members)}"
        target = Capsule(quotient(group, members), name)
        super().__init__(field_type, FieldType(group, [(len(field_type), target)]))
        self.mode = mode
        tables = [_coset_channels(capsule, members) for capsule, _ in field_type.terms]
        self.widths = [(copies, *table.shape) for (_, copies), table in zip(field_type.terms, tables, strict=True)]
        index = [
            channels.start + copy * capsule.dim + table.ravel()
            for (capsule, copies), channels, table in zip(field_type.terms, field_type.term_slices, tables, strict=True)
            for copy in range(copies)
        ]
        self.register_index("members", np.concatenate(index))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        gathered, at, parts = take_channels(x, self.members), 0, []
        for copies, cosets, size in self.widths:
            part = gathered.narrow(1, at, copies * cosets * size).unflatten(1, (copies * cosets, size))
            parts.append(part.amax(2) if self.mode == "max" else part.mean(2))
            at += copies * cosets * size
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode}"


def _mean_direction(field_type: FieldType) -> np.ndarray:
    """(channels,): λ of each capsule with λ·x = ⟨w, Px⟩ / ⟨w, w⟩; 1/dim on a permutation capsule.

    w is the invariant direction and P the mean of ρ over the group. ⟨w, x⟩ alone is invariant for orthogonal capsules
    only. λ is that combination of the invariant functionals (the invariant vectors of the dual) which agrees with
    ⟨w, ·⟩ / ⟨w, w⟩ on invariant vectors.
    """
    parts = []
    trivial = field_type.group.trivial
    for (capsule, copies), (_, directions) in zip(field_type.terms, InvariantPlan(field_type).kinds, strict=True):
        if len(directions) == 0:
            raise TypeError(
                f"GroupPool(mode='mean') is not admissible for capsule `{capsule}`: it has no invariant direction, so "
                f"its mean over the group is zero. {_fitting_pools(capsule)}"
            )
        w = directions.sum(0)
        functionals = hom_basis(capsule.representation, trivial).dense()[:, 0, :]
        on_directions = directions @ w / (w @ w)
        parts.append(np.tile(np.linalg.solve(directions @ functionals.T, on_directions) @ functionals, copies))
    return np.concatenate(parts)


def _modes(capsule: Capsule) -> list[str]:
    """The modes of ``GroupPool`` that a capsule admits."""
    has_mean = intertwining_number(capsule.group.trivial, capsule.representation) > 0
    fitting = {"norm": capsule.admits("norm"), "max": capsule.admits("odd"), "mean": has_mean}
    return [mode for mode, fits in fitting.items() if fits]


def _fitting_pools(capsule: Capsule) -> str:
    """The remedy for a capsule that does not admit a way of pooling."""
    modes = _modes(capsule)
    if not modes:
        return "Change to an orthogonal basis first, for instance with `ToIrreps`, and use `GroupPool(mode='norm')`."
    return f"Use {', or '.join(f'`GroupPool(mode={mode!r})`' for mode in modes)}."


def _coset_channels(capsule: Capsule, members: tuple[str, ...]) -> np.ndarray:
    """(cosets of K, channels per coset) of a capsule whose channels are cosets of a subgroup of K."""
    group = capsule.group
    monomial = capsule.representation.monomial
    if monomial is None or not capsule.admits("pointwise"):
        raise TypeError(
            f"CosetPool is not admissible for capsule `{capsule}`: it pools the channels of `regular` and other "
            f"quotients, which the group permutes. {_fitting_pools(capsule)}"
        )
    inside = set(group.indices(members))
    reached = np.unique(monomial.image[:, 0])
    stabiliser = np.flatnonzero(monomial.image[:, 0] == 0)
    if len(reached) != capsule.dim or not inside.issuperset(stabiliser):
        raise TypeError(
            f"CosetPool: capsule `{capsule}` is the quotient by "
            f"{{{', '.join(group.elements[g] for g in stabiliser)}}}, "
            f"which is not a part of the subgroup {{{', '.join(members)}}}. Choose a subgroup that contains it."
        )
    return np.stack([np.unique(monomial.image[coset, 0]) for coset in group.coset_indices(members)])
