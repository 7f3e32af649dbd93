"""Layers of a larger group as a subgroup sees them: the same function between restricted types."""

from __future__ import annotations

import copy
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from steerable.algebra.group_interface import Group
from steerable.nn.channels import take_channels
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import SamplingGuard
from steerable.types.field_types import FieldType
from steerable.types.restriction import Seen, seen_by
from steerable.types.shared_subgroups import shared_subgroup

__all__ = ["SeenBySubgroup", "both_ends", "retyped", "seen_by_subgroup"]

LayerT = TypeVar("LayerT", bound=EquivariantModule)


class SeenBySubgroup(EquivariantModule):
    """y = P_out f(P_in⁻¹ x): a layer f of a larger group, where P brings channels into the order of restricted types.

    Shapes: those of the layer.

    Args:
        layer: f.
        seen_in, seen_out: its types as the subgroup sees them.
    """

    before: Tensor
    after: Tensor

    def __init__(self, layer: EquivariantModule, seen_in: Seen, seen_out: Seen) -> None:
        super().__init__(seen_in.field_type, seen_out.field_type)
        self.layer = layer
        self.computes = layer.computes
        self._seen = seen_in, seen_out
        self.register_index("before", seen_in.back)
        self.register_index("after", seen_out.order)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        seen_in, seen_out = self._seen
        y: Tensor = self.layer(x if seen_in.keeps_order else take_channels(x, self.before))
        return y if seen_out.keeps_order else take_channels(y, self.after)

    def restricted_to(self, subgroup: Group) -> EquivariantModule:
        seen_in, seen_out = both_ends(self, subgroup)
        both = zip(self._seen, (seen_in, seen_out), strict=True)
        further = [Seen(new.field_type, old.order[new.order]) for old, new in both]
        return _like(self, SeenBySubgroup(_for_group(self.layer, subgroup), further[0], further[1]))


def both_ends(layer: EquivariantModule, subgroup: Group) -> tuple[Seen, Seen]:
    """The types of a layer as a subgroup of its first group sees them; the second may be a subgroup already."""
    start, end = layer.in_type.group, layer.out_type.group
    rest = subgroup if end == start else shared_subgroup(subgroup, end, start)
    return seen_by(layer.in_type, subgroup), seen_by(layer.out_type, rest)


def seen_by_subgroup(layer: EquivariantModule, subgroup: Group) -> EquivariantModule:
    """A copy of a layer between restricted types, with the parameters that it has."""
    if next(layer.parameters(), None) is not None and not layer.parameters_serve_subgroups:
        raise TypeError(
            f"{type(layer).__name__} cannot be restricted from {layer.in_type.group.name} to {subgroup.name}: it has "
            "parameters, and nothing says what becomes of them over a subgroup. Build it from layers of steerable.nn "
            "in `snn.Sequential`, `snn.Residual` or `snn.Parallel`, or give the class a method "
            "`restricted_to(subgroup)` that returns the same function between the restricted types."
        )
    seen_in, seen_out = both_ends(layer, subgroup)
    if layer.channelwise:
        return retyped(_for_group(layer, subgroup), seen_in.field_type, seen_out.field_type)
    return _like(layer, SeenBySubgroup(_for_group(layer, subgroup), seen_in, seen_out))


def retyped(layer: LayerT, in_type: FieldType, out_type: FieldType, **tables: NDArray[np.intp]) -> LayerT:
    """A copy of a layer between other types of as many channels, with some of its constant indices replaced."""
    twin = copy.deepcopy(layer)
    twin.in_type, twin.out_type = in_type, out_type
    for name, values in tables.items():
        device = getattr(twin, name).device
        twin.register_index(name, values)
        setattr(twin, name, getattr(twin, name).to(device))
    return twin


def _for_group(layer: EquivariantModule, group: Group) -> EquivariantModule:
    """A copy of a layer whose windows are checked for another group."""
    twin = copy.deepcopy(layer)
    guard = getattr(twin, "guard", None)
    if isinstance(guard, SamplingGuard):
        twin.__dict__["guard"] = guard.of_group(group)
    return twin


def _like(layer: EquivariantModule, new: SeenBySubgroup) -> SeenBySubgroup:
    """The new layer on the device and in the mode of the old one."""
    tensors = [*layer.parameters(), *layer.buffers()]
    if tensors:
        new.before, new.after = new.before.to(tensors[0].device), new.after.to(tensors[0].device)
    new.training = layer.training
    return new
