"""Initialisation of intertwiner coefficients.

He's rule asks that an output channel have the variance gain² · (mean square of an input channel). A bank Σ α_k ψ_k
with independent α_k of variance σ² sends white input to a capsule of total variance σ² · Σ‖ψ_k‖², summed over all the
sampled filters that feed the capsule; so σ² = gain² · dim / Σ‖ψ_k‖² for a capsule of that dim. Where the filters are
orthonormal, as on a pixel patch, the sum is their number.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn

from steerable.errors import did_you_mean
from steerable.nn.expansion import BankPlan
from steerable.types.field_types import FieldType

__all__ = ["he_", "initialise", "orthogonal_"]


class WithFilterBank(Protocol):
    """The part of a layer that initialisation needs; every layer with a filter bank has it."""

    in_type: FieldType
    out_type: FieldType
    plan: BankPlan
    weight: nn.Parameter
    basis: Tensor
    upsampling: int


def initialise(layer: WithFilterBank, rule: str) -> None:
    """Apply the rule of that name, ``"he"`` or ``"orthogonal"``."""
    rules = {"he": he_, "orthogonal": orthogonal_}
    if rule not in rules:
        raise ValueError(f"unknown initialisation {rule!r}. {did_you_mean(str(rule), rules)}")
    rules[rule](layer)


@torch.no_grad()
def he_(layer: WithFilterBank, gain: float = math.sqrt(2.0)) -> None:
    """Normal coefficients such that each output channel has variance gain² for white input of variance 1."""
    plan = layer.plan
    for start in range(0, len(plan.pairs), plan.in_kinds):
        row = plan.pairs[start : start + plan.in_kinds]
        energy = sum(pair.in_copies * pair.energy for pair in row) / layer.upsampling
        if energy:
            deviation = gain * math.sqrt(row[0].out_capsule.dim / energy)
            for pair in row:
                nn.init.normal_(plan.theta(layer.weight, pair), std=deviation)


@torch.no_grad()
def orthogonal_(layer: WithFilterBank, gain: float = 1.0) -> None:
    """An equivariant bank with singular values ``gain`` only, as a map from patches to fibres.

    The orthogonal polar factor of a random intertwiner between orthogonal representations is an intertwiner again.
    """
    types = (layer.in_type, layer.out_type)
    rough = [str(c) for t in types for c, _ in t.terms if not c.representation.is_orthogonal]
    if rough:
        raise ValueError(f"orthogonal initialisation needs orthogonal capsules; `{rough[0]}` is not. Use init='he'.")
    plan = layer.plan
    if not plan.space.exact:
        raise ValueError(
            f"orthogonal initialisation needs a pixel grid that carries all of {plan.space.group.name}; that of the "
            f"filter space `{plan.space}` does not, so an orthogonal bank would not be equivariant. Use init='he'."
        )
    he_(layer, gain=1.0)
    basis = layer.basis.double()
    bank = plan.expand(layer.weight.double(), basis)
    matrices = bank.reshape(plan.groups, -1, bank[0].numel())
    u, s, vh = torch.linalg.svd(matrices, full_matrices=False)
    alive = (s > 1e-6 * s.amax(dim=-1, keepdim=True).clamp_min(1e-300)).to(s.dtype)
    layer.weight.copy_(plan.project(gain * (u * alive.unsqueeze(-2)) @ vh, basis))
