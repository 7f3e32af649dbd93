"""Fields in intermediate forms: stacked, with dimensions joined or exchanged, or partly reduced.

Such a tensor is not a field, but its further results may be fields again: a mean over flattened pixels, a maximum over
a stack, the output of attention between pixels. That is measured. π(g) turns fibres by ρ(g) and sends pixels to other
places: a function that commutes with every ρ(g), and with permutations of the pixels, commutes with π(g) for each g.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from steerable.algebra.group_interface import Element
from steerable.checking.calls import Call
from steerable.checking.commutation import SMALL, random_like
from steerable.checking.other_angles import agree
from steerable.checking.places import EquivarianceError
from steerable.checking.value_rules import admitted
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["Unfinished", "next_step"]

_LINEAR = frozenset(
    (
        "stack flatten unflatten view reshape squeeze view_as reshape_as unsqueeze permute transpose swapdims swapaxes "
        "movedim moveaxis mean sum bmm einsum"
    ).split()
)
_FIRST = _LINEAR | frozenset(
    "amax amin max min logsumexp var std softmax log_softmax softmin scaled_dot_product_attention".split()
)
# Nothing that picks some of the values: what is made of all but one pixel would rarely show.
_FURTHER = _FIRST | frozenset(
    (
        "matmul mm add sub mul multiply div neg clone contiguous dropout relu gelu silu tanh sigmoid exp square linear "
        "layer_norm multi_head_attention_forward"
    ).split()
)


@dataclass(frozen=True)
class Unfinished:
    """The steps that have been applied to fields so far.

    Attributes:
        fields: the fields.
        types: the type of each field, by its identity; all are of one group.
        make: gives the tensor from the fields, by their identity, and from what earlier steps gave, which it adds to.
        refused: the error for using the tensor as it is.
        finished: the type of the tensor, where it is a field.
    """

    fields: tuple[Tensor, ...]
    types: Mapping[int, FieldType]
    make: Callable[[Mapping[int, Tensor], dict[int, Tensor]], Tensor]
    refused: EquivarianceError
    finished: FieldType | None = None

    @property
    def field_type(self) -> FieldType:
        """The type of the first field."""
        return self.types[id(self.fields[0])]

    def of(self, values: Mapping[int, Tensor], earlier: dict[int, Tensor] | None = None) -> Tensor:
        """The tensor that other values of the fields would give; each step is applied once."""
        earlier = {} if earlier is None else earlier
        if id(self) not in earlier:
            earlier[id(self)] = self.make(values, earlier)
        return earlier[id(self)]


def next_step(
    call: Call,
    tensors: Sequence[Tensor],
    waiting: Mapping[int, Unfinished],
    function: Callable[..., Any],
    refused: EquivarianceError,
) -> Unfinished | None:
    """The result of a call on fields and unfinished tensors; None if it is not a step.

    Args:
        call: the call and its value.
        tensors: what it works on.
        waiting: what has been done to those that are not fields yet, by their identity.
        function: the call as a function of the tensors.
        refused: the error for using what it gives, where it is the first step.
    """
    value = _first(call.value)
    if call.name not in (_FURTHER if waiting else _FIRST) or call.arguments.get("dim", 0) is None:
        return None
    copies = [tensor.clone() for tensor in tensors]
    function(*copies)
    if any(copy._version for copy in copies) or value.dtype != tensors[0].dtype:
        return None  # it writes into them, or they are no longer the same numbers
    steps = [waiting.get(id(tensor)) or _before(call, tensor, refused) for tensor in tensors]
    types = {key: field_type for step in steps if step for key, field_type in step.types.items()}
    if not all(steps) or len({field_type.group for field_type in types.values()}) != 1:
        return None
    fields = {id(field): field for step in steps if step for field in step.fields}

    def make(values: Mapping[int, Tensor], earlier: dict[int, Tensor]) -> Tensor:
        return _first(function(*(step.of(values, earlier) for step in steps if step)))

    first = next(iter(waiting.values())).refused if waiting else refused
    after = Unfinished(tuple(fields.values()), types, make, first)
    return replace(after, finished=_type_of(after, value, "" if call.name in _LINEAR or not waiting else call.name))


def _first(value: Any) -> Tensor:
    """The tensor itself, or the values that come with their places."""
    tensor: Tensor = value[0] if isinstance(value, tuple) else value
    return tensor


def _before(call: Call, field: Tensor, refused: EquivarianceError) -> Unfinished | None:
    """A field before the first step; None for anything that is not a field."""
    field_type = call.type_of(field)
    if field_type is None:
        return None
    return Unfinished((field,), {id(field): field_type}, lambda values, _: values[id(field)], refused)


def _type_of(made: Unfinished, value: Tensor, name: str) -> FieldType | None:
    """The type of the result: that of a field, or scalars if all fields have other channels; None for no field.

    Refused if that is because of a capsule that does not admit the step of this name.
    """
    group = made.field_type.group
    is_pooled = all(n == 1 for n in value.shape[2:]) and value.ndim <= 2 + (group.axes or 2)
    shapes = [field.shape for field in made.fields]
    if value.ndim < 2 or len(value) != shapes[0][0] or not (is_pooled or value.shape[2:] in [s[2:] for s in shapes]):
        return None
    kept = [t for t in dict.fromkeys(made.types.values()) if t.channels == value.shape[1]]
    for found in kept or [FieldType(group, [(value.shape[1], group.trivial)])]:
        if _commutes(made, found):
            return found
    if name and kept:
        admitted(f"`{name}`", kept[0], "pointwise")
    return None


def _commutes(made: Unfinished, found: FieldType) -> bool:
    """Whether it commutes with ρ(g) and a permutation of the pixels of one sample, when the others become others.

    It is tried on large and on small numbers; where it has no finite values on either, nothing is known.
    """
    generator, is_finite = torch.Generator().manual_seed(0), False
    for size in (1.0, SMALL):
        values = {id(x): size * random_like(x, generator) for x in made.fields}
        before = made.of(values)
        for number, g in enumerate((*found.group.generators, *[found.group.identity] * 2)):
            orders = {n: torch.randperm(n, generator=generator) for n in {x[0, 0].numel() for x in values.values()}}
            one = slice(k := number % len(before), k + 1)
            others = {key: size * random_like(x, generator) for key, x in values.items()}
            for key, x in values.items():
                others[key][one] = _moved(x[one], g, made.types[key], orders)
            if not agree(made.of(others)[one], _moved(before[one], g, found, orders)):
                return False
            is_finite = is_finite or bool(before[one].isfinite().all())
    return is_finite


def _moved(x: Tensor, g: Element, field_type: FieldType, orders: Mapping[int, Tensor]) -> Tensor:
    """One sample with ρ(g) applied to every fibre, and with its pixels in the order for this many of them."""
    fibres = x.reshape(x.shape[1], -1).mT
    fibres = fibres[orders[len(fibres)]] if len(fibres) in orders else fibres
    return transform(fibres, g, field_type).mT.reshape(x.shape)
