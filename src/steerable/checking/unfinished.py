"""Fields on their way: stacked, with pixels flattened, or with pixels reduced along one axis after another.

Such a tensor is not a field, and nothing but a further step may be done to it. Steps that leave samples and channels,
or the whole map, are together one operation: a mean over all pixels, say, or a maximum over a stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from steerable.checking.calls import Call, is_number
from steerable.checking.places import EquivarianceError
from steerable.checking.value_rules import admitted
from steerable.types.field_types import FieldType

__all__ = ["Unfinished", "begun", "next_step"]

# Reductions that give the same along one axis after another as along all at once, and those that do not.
_STEPWISE = "mean sum amax amin max min logsumexp".split()
_AT_ONCE = "var std".split()
_SOFTMAXES = "softmax log_softmax softmin".split()
_VIEWS = "flatten view reshape view_as reshape_as".split()
_SAMPLES, _CHANNELS, _STACKED = (0,), (1,), (-1,)


@dataclass(frozen=True)
class Unfinished:
    """What has been done to fields so far.

    Attributes:
        fields: the fields, which have one type.
        field_type: that type.
        axes: for each dimension, the dimensions of the fields that it consists of; none where they were reduced.
        reduction: the name of the reduction that was begun; "" for none.
        linear: whether all steps are, so that every capsule admits them.
        make: gives the tensor alone, or at first all fields, from the fields.
        refused: the error for using the tensor as it is.
    """

    fields: tuple[Tensor, ...]
    field_type: FieldType
    axes: tuple[tuple[int, ...], ...]
    reduction: str
    linear: bool
    make: Callable[..., tuple[Tensor, ...]]
    refused: EquivarianceError

    @property
    def whole(self) -> tuple[tuple[int, ...], ...]:
        """The axes of a whole map."""
        return tuple((axis,) for axis in range(self.fields[0].ndim))

    @property
    def is_finished(self) -> bool:
        """Whether it is a field: pooled, or a whole map."""
        left = tuple(axes for axes in self.axes if axes)
        return self.axes == self.whole or (self.axes[:2] == (_SAMPLES, _CHANNELS) == left)

    def type_in(self, call: Call) -> FieldType:
        """The type of what the last step has finished; refused where a capsule does not admit the steps."""
        return self.field_type if self.linear else admitted(f"`{call.name}`", self.field_type, "pointwise")


def begun(call: Call, fields: Sequence[Tensor], refused: EquivarianceError) -> Unfinished | None:
    """Fields before the first step; None where they have no common type, or are pooled."""
    field_type = call.type_of(fields[0])
    if field_type is None or any(call.type_of(f) != field_type or f.ndim != 2 + call.axes for f in fields):
        return None
    axes = tuple((axis,) for axis in range(fields[0].ndim))
    return Unfinished(tuple(fields), field_type, axes, "", True, lambda *fields: fields, refused)


def next_step(
    before: Unfinished, call: Call, tensors: Sequence[Tensor], function: Callable[..., Any]
) -> Unfinished | None:
    """What a call makes of it; None where it is not a step.

    Args:
        before: what was done before.
        call: the call and its value.
        tensors: what it works on: what ``before.make`` gives.
        function: the call as a function of these.
    """
    fits = before.is_finished if call.name == "stack" else len(tensors) == 1
    after = _stepped(before, call) if fits else None
    if after is None:
        return None

    def make(*fields: Tensor) -> tuple[Tensor, ...]:
        made = before.make(*fields)
        if call.name in _VIEWS:  # the numbers in it are those of one input; turned, an oblong one has others
            return (made[0].reshape(fields[0].shape if after.is_finished else (*fields[0].shape[:2], -1)),)
        result = function(*made)
        return (result[0] if isinstance(result, tuple) else result,)

    return replace(after, make=make)


def _stepped(before: Unfinished, call: Call) -> Unfinished | None:
    if call.name == "stack":
        dim = call["dim"] % (len(before.axes) + 1)
        return replace(before, axes=(*before.axes[:dim], _STACKED, *before.axes[dim:]))
    if call.name in _VIEWS:
        axes = _viewed(before, call.field.shape, call.value.shape)
        return replace(before, axes=axes) if axes and call.value.dtype == call.field.dtype else None
    if call.name in _SOFTMAXES:
        everywhere = is_number(call["dim"]) and before.axes[call["dim"]] == tuple(range(2, before.fields[0].ndim))
        return replace(before, linear=False) if everywhere else None
    return _reduced(before, call) if call.name in _STEPWISE + _AT_ONCE else None


def _viewed(before: Unfinished, old: Sequence[int], new: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    """The axes after pixels were flattened, or became a map again."""
    pixels = tuple(axis for axes in before.axes[2:] for axis in axes)
    if before.axes[:2] != (_SAMPLES, _CHANNELS):
        return None
    if tuple(new) == (*old[:2], math.prod(old[2:])):
        return _SAMPLES, _CHANNELS, pixels
    whole = before.whole
    return whole if new == before.fields[0].shape and pixels == tuple(range(2, len(whole))) else None


def _reduced(before: Unfinished, call: Call) -> Unfinished | None:
    dims = call["dim"]
    if before.reduction not in ("", call.name) or not isinstance(dims, int | tuple | list):
        return None
    reduced = {dim % len(before.axes) for dim in ([dims] if isinstance(dims, int) else dims)}
    if not reduced or any(before.axes[dim] in (_SAMPLES, _CHANNELS) for dim in reduced):
        return None
    kept = [() if dim in reduced else axes for dim, axes in enumerate(before.axes)]
    axes = tuple(axes for dim, axes in enumerate(kept) if call["keepdim"] or dim not in reduced)
    linear = before.linear and call.name in ("mean", "sum")
    after = replace(before, axes=axes, reduction=call.name, linear=linear)
    return after if call.name in _STEPWISE or (after.is_finished and not before.reduction) else None
