"""The parts of residual networks: pre-activation blocks between field types, and heads that give scores."""

from __future__ import annotations

import copy
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.algebra.group_interface import Group
from steerable.errors import check_choice
from steerable.models.first_weights import make_quiet
from steerable.models.layers_by_axes import layers_of
from steerable.types.field_types import FieldType
from steerable.types.network_plans import ResidualBlockPlan, network_nonlinearity
from steerable.types.restriction import seen_by

__all__ = ["Downsampling", "Head", "PreActivationBlock", "head_for", "nonlinearity", "restricted_head"]

Downsampling = Literal["pool", "stride"]
Head = Literal["linear", "mirror", "invariant", "max"]


class PreActivationBlock(snn.EquivariantModule):
    """a = act(norm(x)); y = shortcut(a) + conv2(act(norm(conv1(a)))), with x in place of shortcut(a) where types agree.

    Shapes: (batch, in_type.channels, h, w) → (batch, out_type.channels, h / stride, w / stride), and so for volumes.

    Args:
        plan: the types, the stride and the size of the filters.
        downsampling: how the image is reduced; see :class:`~steerable.models.ResNet`.
        dropout: the probability with which a capsule is dropped between the two convolutions.
    """

    def __init__(self, plan: ResidualBlockPlan, downsampling: Downsampling, dropout: float = 0.0) -> None:
        super().__init__(plan.in_type, plan.out_type)
        stride = plan.stride if downsampling == "stride" else 1
        kinds = layers_of(plan.in_type)
        entry = [kinds.norm(plan.in_type), nonlinearity(plan.in_type)]
        if plan.stride > 1 and downsampling == "pool":
            entry.append(kinds.mean(entry[-1].out_type, plan.stride))
        conv1, conv2, *shortcut = plan.convolutions
        taps, padding = plan.kernel_size, plan.kernel_size // 2
        self.entry: snn.EquivariantModule = snn.Sequential(*entry)
        self.body: snn.EquivariantModule = snn.Sequential(
            kinds.convolution(conv1.in_type, conv1.out_type, taps, stride=stride, padding=padding, bias=False),
            kinds.norm(plan.inner),
            nonlinearity(plan.inner),
            *([snn.Dropout(conv2.in_type, dropout)] if dropout else []),
            kinds.convolution(conv2.in_type, conv2.out_type, taps, padding=padding, bias=False),
        )
        self.shortcut: snn.EquivariantModule | None = (
            kinds.convolution(shortcut[0].in_type, shortcut[0].out_type, 1, stride=stride, bias=False)
            if shortcut
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        a = self.entry(x)
        y: Tensor = (x if self.shortcut is None else self.shortcut(a)) + self.body(a)
        return y

    def restricted_to(self, subgroup: Group) -> PreActivationBlock:
        twin = copy.copy(self)
        twin._modules = dict(self._modules)
        twin.entry, twin.body = self.entry.restrict(subgroup), self.body.restrict(subgroup)
        twin.shortcut = None if self.shortcut is None else self.shortcut.restrict(subgroup)
        twin.in_type, twin.out_type = twin.entry.in_type, twin.body.out_type
        return twin


def nonlinearity(field_type: FieldType) -> snn.EquivariantModule:
    """The layer for the nonlinearity that :func:`~steerable.types.network_plans.network_nonlinearity` names."""
    layers = {"ReLU": snn.ReLU, "CReLU": snn.CReLU, "mixed": snn.Activation}
    return layers[network_nonlinearity(field_type)](field_type)


def head_for(kind: Head, field_type: FieldType, num_classes: int) -> nn.Module:
    """The layers that make scores of a pooled field; :class:`~steerable.models.ResNet` describes the kinds."""
    check_choice("head", kind, get_args(Head))
    if kind == "linear":
        return nn.Linear(field_type.channels, num_classes)
    if kind == "invariant":
        return _quiet(snn.Linear(field_type, FieldType(field_type.group, [(num_classes, field_type.group.trivial)])))
    if kind == "mirror":
        if "m" not in field_type.group.elements:
            raise ValueError(
                f"head='mirror' is for groups with the mirror image m; {field_type.group.name} has none. "
                "Use a dihedral group, or head='linear'."
            )
        upright = snn.Restrict(field_type, ["e", "m"])
        scores = FieldType(upright.out_type.group, [(num_classes, upright.out_type.group.trivial)])
        return snn.Sequential(upright, _quiet(snn.Linear(upright.out_type, scores)))
    pool = snn.GroupPool(field_type, "max")
    return nn.Sequential(pool, nn.Linear(pool.out_type.channels, num_classes))


def _quiet(linear: snn.Linear) -> snn.Linear:
    """The layer with small scores at first: it adds up all poses of a feature, and D8 has sixteen of them."""
    make_quiet(linear)
    return linear


@torch.no_grad()
def restricted_head(head: nn.Module, field_type: FieldType, subgroup: Group) -> nn.Module:
    """The same head on a pooled field of this type, as a subgroup sees it."""
    if isinstance(head, snn.EquivariantModule):
        return head.restrict(subgroup)
    if isinstance(head, nn.Sequential):  # one number per capsule first, whose order stays
        pool, linear = head
        return nn.Sequential(restricted_head(pool, field_type, subgroup), copy.deepcopy(linear))
    new = copy.deepcopy(head)
    if not isinstance(new, nn.Linear):
        raise TypeError(f"a head is linear, or made of equivariant layers; got {type(head).__name__}.")
    order = torch.from_numpy(seen_by(field_type, subgroup).order)
    if not new.weight.is_meta:
        new.weight.copy_(new.weight[:, order.to(new.weight.device)])
    return new
