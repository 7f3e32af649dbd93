"""Filter banks carried over to a subgroup: the same taps, as parameters of the larger space Hom_H(V ⊗ ρ_in, ρ_out)."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.filter_bank import FilterBankModule
from steerable.types.field_types import FieldType
from steerable.types.restriction import Seen

__all__ = ["carried_over", "exact_bank", "exact_bias", "order_by_groups", "set_filters", "set_up_as"]

BankT = TypeVar("BankT", bound=FilterBankModule)


def exact_bank(layer: FilterBankModule) -> Tensor:
    """(out, in / groups, *size): the filters in float64, on the CPU."""
    weight = _exact(layer.weight)
    return layer.plan.expand(weight, torch.from_numpy(layer.plan.basis))


def exact_bias(layer: FilterBankModule) -> NDArray[np.float64] | None:
    """(out,): the bias of each channel in float64, or None if there is none."""
    if layer.bias is None:
        return None
    index, factor = layer.invariants.lookup()
    expanded = layer.invariants.expand(_exact(layer.bias), torch.from_numpy(index), torch.from_numpy(factor))
    return np.asarray(expanded.numpy())


def _exact(parameter: Tensor) -> Tensor:
    return parameter.detach().to("cpu", torch.float64)


def set_filters(layer: BankT, bank: Tensor, bias: NDArray[np.float64] | None) -> BankT:
    """The layer, its parameters set such that it has these filters, group by group, and this bias of channels."""
    layer.weight.copy_(layer.plan.project(bank, torch.from_numpy(layer.plan.basis)))
    if layer.bias is not None and bias is not None:
        layer.bias.copy_(torch.from_numpy(layer.invariants.project(bias)))
    return layer


def carried_over(old: FilterBankModule, new: BankT, seen_in: Seen, seen_out: Seen) -> BankT:
    """The new layer, between the restricted types, with the old one's filters and bias in their order of channels."""
    if old.weight.is_meta:
        return set_up_as(old, new)
    bias, bank = exact_bias(old), exact_bank(old)[seen_out.order][:, seen_in.order]
    return set_filters(set_up_as(old, new), bank, None if bias is None else bias[seen_out.order])


def set_up_as(old: FilterBankModule, new: BankT) -> BankT:
    """The new layer with the device, dtype, mode and initialisation of the old one."""
    new.init = old.init
    new.weight.requires_grad_(old.weight.requires_grad)
    if new.bias is not None:
        new.bias.requires_grad_(old.weight.requires_grad if old.bias is None else old.bias.requires_grad)
    return new.to(old.weight.device, old.weight.dtype).train(old.training)


def order_by_groups(seen: Seen, before: FieldType, groups: int) -> list[int]:
    """The capsules of the restricted type, those of the convolution's first group first within each kind.

    ``groups`` divide each kind of capsule into equal shares. A subgroup may see two kinds as one, so that the shares
    of one group are no longer adjacent.
    """
    group_of_channel = np.concatenate(
        [np.repeat(np.arange(groups), copies // groups * capsule.dim) for capsule, copies in before.terms]
    )
    first = np.array([channels.start for channels in seen.field_type.slices])
    group_of_capsule = group_of_channel[seen.order[first]]
    kind = np.repeat(np.arange(len(seen.field_type.terms)), [copies for _, copies in seen.field_type.terms])
    return [int(k) for k in np.lexsort((np.arange(len(first)), group_of_capsule, kind))]
