"""Reading reshapes: a map of one pixel as a vector, a vector as a map of one pixel, channels last and back."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn

from steerable.conversion.extra_layers import VectorToMap
from steerable.conversion.graph_analysis import TRIALS, GraphAnalysis, Signal
from steerable.conversion.layer_calls import read_flatten
from steerable.conversion.plain_calls import PlainCall, called
from steerable.conversion.refusals import NoCounterpart

__all__ = ["read_index", "read_permutation", "read_reshape"]


def read_permutation(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record that a map's channels go last, or come back; NoCounterpart for any other order of dimensions."""
    signal = analysis.tensor(call.source, "last")
    probe = torch.empty(tuple(range(len(analysis.shape(call.source, 0)))), device="meta")
    moved = called(call.node, lambda _: probe)
    order, forms = tuple(moved.shape), {analysis.channels_last: ("map", "last")}
    forms[analysis.channels_back] = ("last", "map")
    if order == tuple(probe.shape):
        analysis.alias(call.node, call.source, signal)
        return
    before, after = forms.get(order, ("", ""))
    if signal.form not in (before, "point" if before == "map" else before):
        raise NoCounterpart(
            f"it puts the dimensions into the order {order}. Only the channels of a map may go last, with "
            f"x.permute{analysis.channels_last}, and come back, with x.permute{analysis.channels_back}."
        )
    analysis.alias(call.node, call.source, Signal(after, signal.variable))  # type: ignore[arg-type]


def read_reshape(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record a reshape between (batch, channels, 1, 1) and (batch, channels); NoCounterpart for any other."""
    signal, squeeze = analysis.tensor(call.source, "sequence"), call.name == "squeeze"
    given = _sizes(call)
    sizes = _named(analysis, call.source, given)
    if squeeze and (signal.form == "point" or signal.made_by == "squeeze"):
        if _read_squeeze(analysis, call, given, signal):
            return
    elif signal.is_map and sizes in (["batch", "channels", -1], ["batch", "channels", "pixels"]):
        sequence = Signal("sequence", signal.variable, made_by="flatten")  # (batch, channels, pixels)
        analysis.alias(call.node, call.source, sequence)
        return
    if signal.is_vector and (squeeze or len(sizes) == 1):
        raise NoCounterpart(
            "it takes the dimension of the channels away. Leave it out, and apply it to what the network returns."
        )
    rows, rest = sizes[:1] in (["batch"], [-1]), sizes[1:]
    if signal.is_vector and rows:
        ones = [1] * analysis.axes
        if rest in (["channels", *ones], [-1, *ones]):
            _read_to_map(analysis, call, signal)
            return
        if rest in ([-1], ["channels"], ["values"]):
            analysis.alias(call.node, call.source, signal)
            return
    elif signal.is_map and not squeeze and rows and len(rest) == 1:
        _read_flat_view(analysis, call, rest[0])
        return
    raise NoCounterpart(
        f"a reshape to {given} is not known to be equivariant. Flatten a map of one pixel with torch.flatten(x, 1), "
        f"and make a map of a vector with x[:, :{', None' * analysis.axes}]."
    )


def _sizes(call: PlainCall) -> tuple[Any, ...]:
    """The sizes that a reshape is given, or the dimensions that are squeezed, one by one or as a sequence."""
    parameter = {"view": "size", "reshape": "shape", "squeeze": "dim"}[call.name]
    kwargs = call.node.kwargs
    unknown = set(kwargs) - {"input", parameter}
    if unknown:
        raise NoCounterpart(f"its argument {', '.join(unknown)} is not known here.")
    given: Any = call.node.args[1:] or tuple(kwargs[key] for key in (parameter,) if key in kwargs)
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], Sequence) else given


def _read_flat_view(analysis: GraphAnalysis, call: PlainCall, last: int | str) -> None:
    """Record x.view(batch, last) of a map."""
    channels = analysis.signals[call.source].variable.channels
    several = isinstance(last, int) and last != -1
    if several and not (analysis.pools_head and channels and int(last) % channels == 0):
        raise NoCounterpart(
            f"it lays several pixels of {channels} channels side by side. Pool over all pixels first, with "
            f"nn.AdaptiveAvgPool{analysis.axes}d(1); convert(..., head='pool') does that for you."
        )
    read_flatten(analysis, _as_flatten(analysis, call), certain=last == "channels")


def _as_flatten(analysis: GraphAnalysis, call: PlainCall) -> PlainCall:
    return dataclasses.replace(analysis.named(call, "flatten"), plain=nn.Flatten())


def _named(analysis: GraphAnalysis, source: fx.Node, sizes: Sequence[Any]) -> list[Any]:
    """Sizes by what they are of a field: "batch", "channels", "pixels", "values" (all of one sample), or numbers."""
    names: list[Any] = []
    for size in sizes:
        candidates: list[set[Any]] = []
        for trial in TRIALS:
            shape, found = analysis.shape(source, trial), analysis.measured(size, trial)
            pixels, values = math.prod(shape[2:]), math.prod(shape[1:])
            known = {"batch": shape[0], "channels": shape[1], "pixels": pixels, "values": values}
            candidates.append({name for name, count in known.items() if count == found} | {found})
        common = set.intersection(*candidates)
        symbolic = [name for name in ("batch", "channels", "pixels", "values") if name in common]
        is_number = isinstance(size, int) and "channels" not in symbolic  # as 1 is, of a map of one pixel
        names.append(size if is_number or not symbolic else symbolic[0])
    return names


def _read_squeeze(analysis: GraphAnalysis, call: PlainCall, dims: Any, signal: Signal) -> bool:
    """Record that the sides of a map of one pixel go, both or one at a time; False where it is something else."""
    sides = analysis.pixel_dims if signal.form == "point" else (2,)
    rank = len(sides) + 2
    if any(not isinstance(d, int) for d in dims):
        return False
    gone = {d % rank for d in dims} if dims else set(sides)
    if not gone <= set(sides):
        return False
    if gone != set(sides):
        if analysis.axes > 2:
            return False
        analysis.alias(call.node, call.source, Signal("sequence", signal.variable, made_by="squeeze"))
    else:
        flatten, source = _as_flatten(analysis, call), analysis.source(call.source)
        read_flatten(analysis, flatten, source=source, certain=True)
    return True


def read_index(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record x[:, :, None, None] of a vector; NoCounterpart for any other."""
    signal, index = analysis.tensor(call.source), call.node.args[1]
    everything = (slice(None), slice(None))
    if index == (*everything, *(None,) * analysis.axes) and signal.form == "vector":
        _read_to_map(analysis, call, signal)
        return
    if index == (*everything, *(0,) * analysis.axes) and signal.form == "point":
        read_flatten(analysis, _as_flatten(analysis, call))
        return
    raise NoCounterpart(
        f"indexing takes channels or pixels apart. Only x[:, :{', None' * analysis.axes}] of a vector is followed, and "
        f"x[:, :{', 0' * analysis.axes}] of a map of one pixel."
    )


def _read_to_map(analysis: GraphAnalysis, call: PlainCall, signal: Signal) -> None:
    if signal.form == "flat":
        raise NoCounterpart("it makes a map of a flattened one. Pool over all pixels first.")

    point = Signal("point", signal.variable)
    analysis.add(analysis.named(call, "to_map"), (call.source,), point, lambda before, after: VectorToMap(before[0]))
