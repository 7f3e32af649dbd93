"""Containers that check that neighbouring types fit when they are put together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, cast, overload

import numpy as np
import torch
from torch import Tensor, nn

from steerable.algebra.group_interface import Group
from steerable.nn.channels import hides_shapes, merge_order, take_channels
from steerable.nn.identity import Identity
from steerable.nn.module import EquivariantModule
from steerable.nn.seen_by_subgroup import retyped
from steerable.nn.type_errors import bridge, mismatch
from steerable.types.field_types import FieldType
from steerable.types.restriction import seen_by

__all__ = ["Concat", "Parallel", "Residual", "Sequential"]

ModuleT = TypeVar("ModuleT", bound=EquivariantModule)


class Sequential(EquivariantModule):
    """y = f_k(… f_2(f_1(x))), where each layer's ``out_type`` is the next one's ``in_type``.

    Shapes: those that the first layer takes → those that the last one gives.

    Args:
        layers: equivariant modules, or one OrderedDict of them by name.
    """

    def __init__(self, *layers: EquivariantModule | OrderedDict[str, EquivariantModule]) -> None:
        named = _named(layers)
        if not named:
            raise ValueError(
                "Sequential needs at least one layer, since nothing else says its type; use Identity(type)."
            )
        previous: tuple[str, EquivariantModule] | None = None
        for name, layer in named.items():
            if not isinstance(layer, EquivariantModule):
                raise TypeError(
                    f"Sequential takes equivariant layers; ({name}) is a {type(layer).__name__}, which has no types. "
                    "Use the layer of steerable.nn, or torch.nn.Sequential for what comes after the last field."
                )
            if previous is not None and previous[1].out_type != layer.in_type:
                raise TypeError(
                    f"Sequential: ({previous[0]}) {type(previous[1]).__name__} gives a field of type "
                    f"`{previous[1].out_type}` of {previous[1].out_type.group.name}, but ({name}) "
                    f"{type(layer).__name__} takes `{layer.in_type}` of {layer.in_type.group.name}. "
                    f"{_bridge(previous[1].out_type, layer.in_type)}"
                )
            previous = (name, layer)
        everything = list(named.values())
        super().__init__(everything[0].in_type, everything[-1].out_type)
        for name, layer in named.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self._modules.values():
            if layer is not None:
                x = layer(x)
        return x

    def plain(self) -> nn.Module:
        # Not named_children, which leaves out a layer that is used twice.
        return nn.Sequential(
            OrderedDict((name, layer.plain()) for name, layer in zip(self._modules, self, strict=True))
        )

    def restricted_to(self, subgroup: Group) -> Sequential:
        """Layer by layer; after a layer that continues with a smaller group, its intersection with the subgroup."""
        restricted: dict[tuple[EquivariantModule, Group], EquivariantModule] = {}  # a layer may be used twice
        layers: OrderedDict[str, EquivariantModule] = OrderedDict()
        for name, layer in zip(self._modules, self, strict=True):
            if (layer, subgroup) not in restricted:
                restricted[layer, subgroup] = layer.restrict(subgroup)
            layers[name] = restricted[layer, subgroup]
            subgroup = layers[name].out_type.group
        return _in_mode(Sequential(layers), self)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[EquivariantModule]:
        return iter(self._modules.values())  # type: ignore[arg-type]

    @overload
    def __getitem__(self, index: int) -> EquivariantModule: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> EquivariantModule | Sequential:
        layers = list(self)
        return Sequential(*layers[index]) if isinstance(index, slice) else layers[index]


class Residual(EquivariantModule):
    """y = shortcut(x) + body(x). Both must return identical capsules, because only those may be added.

    Shapes: those that both branches take → those that both give.

    Args:
        body: the residual branch.
        shortcut: the other branch; by default the identity.
    """

    def __init__(self, body: EquivariantModule, shortcut: EquivariantModule | None = None) -> None:
        for branch in (body, shortcut):
            if branch is not None and not isinstance(branch, EquivariantModule):
                raise TypeError(f"Residual takes equivariant modules, got {type(branch).__name__}.")
        if shortcut is None:
            if body.in_type != body.out_type:
                raise TypeError(f"Residual: {mismatch(body.in_type, body.out_type)} Pass that as the shortcut.")
            shortcut = Identity(body.in_type)
        if body.in_type != shortcut.in_type:
            raise TypeError(
                f"Residual: the body takes `{body.in_type}` of {body.in_type.group.name}, the shortcut "
                f"`{shortcut.in_type}` of {shortcut.in_type.group.name}; both start from one field."
            )
        if body.out_type != shortcut.out_type:
            raise TypeError(f"Residual: {mismatch(shortcut.out_type, body.out_type)}")
        super().__init__(body.in_type, body.out_type)
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.body(x)  # type: ignore[no-any-return]

    def restricted_to(self, subgroup: Group) -> Residual:
        return _in_mode(Residual(self.body.restrict(subgroup), self.shortcut.restrict(subgroup)), self)


class Parallel(EquivariantModule):
    """y = f_1(x) ⊕ f_2(x) ⊕ …: the direct sum of several branches' outputs, with equal capsules brought together.

    Shapes: each branch gets the whole input; channels add up.
    """

    def __init__(self, *branches: EquivariantModule) -> None:
        if not branches:
            raise ValueError("Parallel needs at least one branch.")
        first = branches[0]
        for k, branch in enumerate(branches):
            if not isinstance(branch, EquivariantModule):
                raise TypeError(f"Parallel takes equivariant modules; branch {k} is a {type(branch).__name__}.")
            if branch.in_type != first.in_type:
                raise TypeError(
                    f"Parallel: branch 0 takes `{first.in_type}` of {first.in_type.group.name}, branch {k} "
                    f"`{branch.in_type}` of {branch.in_type.group.name}; all start from one field."
                )
        join = Concat([branch.out_type for branch in branches])
        super().__init__(first.in_type, join.out_type)
        self.branches = nn.ModuleList(branches)
        self.join = join

    def forward(self, x: Tensor) -> Tensor:
        return self.join(*[branch(x) for branch in self.branches])  # type: ignore[no-any-return]

    def restricted_to(self, subgroup: Group) -> Parallel:
        branches = [branch.restrict(subgroup) for branch in cast(Iterable[EquivariantModule], self.branches)]
        new = Parallel(*branches)
        new.join = self.join.restricted_to(branches[0].out_type.group)  # which keeps the order of equal capsules
        new.out_type = new.join.out_type
        new.branches.training = self.branches.training
        return _in_mode(new, self)


class Concat(EquivariantModule):
    """x_1 ⊕ x_2 ⊕ …: torch.cat along the channels, with equal capsules brought together as in a field type.

    Call it with one tensor per type. Shapes: (batch, in_types[k].channels, …) → (batch, out_type.channels, …), where
    ``out_type`` is the sum of the types.
    """

    computes = False

    order: Tensor

    def __init__(self, in_types: Sequence[FieldType]) -> None:
        if not in_types:
            raise ValueError("Concat needs at least one type.")
        total = in_types[0]
        for field_type in in_types[1:]:
            total = total + field_type
        super().__init__(total, total)
        self.in_types = tuple(in_types)
        order = merge_order([c for t in in_types for c in t.capsules], total)
        self.reorder = not np.array_equal(order, np.arange(len(order)))
        self.register_index("order", order)

    def forward(self, *fields: Tensor) -> Tensor:
        if len(fields) != len(self.in_types):
            raise ValueError(f"Concat of {len(self.in_types)} types takes as many tensors, got {len(fields)}.")
        for k, (x, field_type) in enumerate(zip(fields, self.in_types, strict=True)):
            if not hides_shapes(x) and x.shape[1] != field_type.channels:
                raise ValueError(
                    f"Concat: input {k} has type `{field_type}`, {field_type.channels} channels; got {x.shape[1]}."
                )
        stacked = torch.cat(fields, dim=1)
        return take_channels(stacked, self.order) if self.reorder else stacked

    def restricted_to(self, subgroup: Group) -> Concat:
        parts, total = [seen_by(t, subgroup) for t in self.in_types], seen_by(self.out_type, subgroup)
        starts = np.cumsum([0, *(t.channels for t in self.in_types)])[:-1]
        stacked = np.concatenate([start + part.order for start, part in zip(starts, parts, strict=True)])
        order = np.argsort(stacked)[self._constants["order"][total.order]]
        new = retyped(self, total.field_type, total.field_type, order=order)
        new.in_types = tuple(part.field_type for part in parts)
        new.reorder = not np.array_equal(order, np.arange(len(order)))
        return new

    def plain(self) -> nn.Module:
        graph = torch.fx.Graph()
        fields = [graph.placeholder(f"x{k}") for k in range(len(self.in_types))]
        stacked = graph.call_function(torch.cat, (fields, 1))
        if self.reorder:
            stacked = graph.call_function(torch.index_select, (stacked, 1, graph.get_attr("order")))
        graph.output(stacked)
        return torch.fx.GraphModule({"order": self.order.clone()}, graph, class_name="PlainConcat")

    def extra_repr(self) -> str:
        return f"{' ⊕ '.join(f'({t})' for t in self.in_types)} → {self.out_type}"


def _in_mode(new: ModuleT, old: EquivariantModule) -> ModuleT:
    new.training = old.training
    return new


def _named(layers: Sequence[EquivariantModule | OrderedDict[str, EquivariantModule]]) -> dict[str, EquivariantModule]:
    if len(layers) == 1 and isinstance(layers[0], dict):
        return dict(layers[0])
    return {str(k): layer for k, layer in enumerate(layers)}  # type: ignore[misc]


def _bridge(given: FieldType, wanted: FieldType) -> str:
    if given.group != wanted.group:
        return f"Put `snn.Restrict` in between, or build both for {given.group.name}."
    return f"Put `{bridge(given, wanted)}` in between, or change one of the types."
