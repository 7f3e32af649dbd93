"""Calls that move, join or reduce dimensions, recognised by their effect on random numbers.

``x.mean((2, 3))``, ``x.flatten(2).mean(-1)`` and ``x.mean(3).mean(2)`` give the same numbers, and so do the many ways
to make a vector of a map of one pixel, to make a map of a vector, and to move the channels to the end and back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from steerable import nn as snn
from steerable.checking.operations import known_operation
from steerable.checking.other_angles import agree
from steerable.conversion.extra_layers import VectorToMap
from steerable.conversion.graph_analysis import LARGE, PIXELS, SQUARES, TRIALS, Form, GraphAnalysis, Signal
from steerable.conversion.plain_calls import PlainCall, called
from steerable.conversion.refusals import NoCounterpart
from steerable.conversion.type_variables import TypeVariable

__all__ = ["COMPUTED", "read_layout"]

COMPUTED = (
    "its arguments are computed from sizes, which is followed for windows as large as the map, reshapes, F.interpolate "
    "and F.pad only. Give it numbers."
)
_POOLS = ("mean over pixels", "maximum over pixels")
_KINDS: dict[str, Callable[..., Tensor]] = {"Avg": torch.mean, "Max": torch.amax}


def read_layout(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record the effect of a call on a field, together with earlier calls; NoCounterpart if it is unknown.

    What is not known yet may become so by further calls, where it leaves samples and channels in their places.
    """
    if any(node is not call.source and node not in analysis.from_sizes for node in call.node.all_input_nodes):
        raise NoCounterpart("it takes two tensors, of which only sums, products and torch.cat are followed.")
    if call.becomes in _POOLS:
        call.arguments("dtype")
    if call.becomes == "index" and _cuts(call.node.args[1]):  # which would not show where all sizes are small enough
        raise NoCounterpart(_reason(analysis, call, analysis.signals[call.source]))
    signal = analysis.tensor(call.source, "unfinished", *(("last",) if call.becomes == "permutation" else ()))
    base, before = signal.base or call.source, signal.made
    field = analysis.signals[base]

    def made(x: Tensor, trial: int) -> Any:
        y = x if before is None else before(x, trial)
        if call.plain is not None:
            return call.plain(y)
        return called(call.node, lambda node: y if node is call.source else analysis.measured(node, trial))

    def tried(trials: Sequence[int]) -> list[tuple[Tensor, Any]]:
        return [_tried(made, analysis.shape(base, trial), trial) for trial in trials]

    pairs = tried((*TRIALS[:4], *LARGE))
    found = _name(analysis, field.form, pairs)
    if not found and field.form == "map" and call.name in ("view", "reshape"):  # perhaps of a single pixel
        found = "vector" if _name(analysis, "point", tried(PIXELS)) == "vector" else ""
    if not found and call.becomes.endswith("pooling"):  # in code that expects square images
        found = _name(analysis, field.form, tried(SQUARES))
    is_pair = before is not None and isinstance(before(pairs[0][0], 0), tuple)  # maxima and their places
    goes_on = is_pair or (signal.form == "unfinished" and call.becomes == "permutation")
    if call.name == "squeeze" and getattr(pairs[0][1], "shape", ()) == analysis.shape(call.source, 0):
        raise NoCounterpart(_reason(analysis, call, field))
    if found:
        _record(analysis, call, base, found)
    elif goes_on or (call.becomes != "index" and all(_keeps_samples_and_channels(*pair) for pair in pairs)):
        analysis.alias(call.node, base, Signal("unfinished", field.variable, base=base, made=made))
    elif _is_head(analysis, field, call):
        _record(analysis, call, base, "flat")
    else:
        raise NoCounterpart(_reason(analysis, call, field))


def _tried(made: Callable[[Tensor, int], Any], shape: tuple[int, ...], trial: int) -> tuple[Tensor, Any]:
    """Random numbers and the call's result for them; None if they have the wrong shape."""
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(trial), device="cpu")
    try:
        return x, made(x, trial)
    except NoCounterpart:
        return x, None


def _cuts(index: Any) -> bool:
    """Whether an index has a slice that may leave something out."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, slice) and part != slice(None) for part in parts)


def _keeps_samples_and_channels(x: Tensor, y: Any) -> bool:
    if isinstance(y, Tensor):
        return y.dtype == x.dtype and y.shape[:2] == x.shape[:2] and 2 < y.ndim < max(x.ndim, 4)
    return isinstance(y, tuple)  # maxima and their places


def _name(analysis: GraphAnalysis, form: Form, pairs: Sequence[tuple[Tensor, Any]]) -> str:
    """The name of what was made of all fields of a form; "" if it is unknown."""
    common = [
        [
            name
            for name, value in _known(analysis, form, x).items()
            if isinstance(y, Tensor) and y.dtype == x.dtype and agree(y, value)
        ]
        for x, y in pairs
    ]
    return next((name for name in common[0] if all(name in names for names in common)), "")


def _known(analysis: GraphAnalysis, form: Form, x: Tensor) -> Mapping[str, Tensor]:
    """The things that may be made of a field, by name; the first ones are preferred."""
    if form == "last":
        return {"same": x, "map": x.permute(analysis.channels_back)}
    if form in ("vector", "flat"):
        return {"same": x, "point": x[(..., *(None,) * analysis.axes)]}
    known = {
        "same": x,
        "vector" if form == "point" else "flat": x.flatten(1),
        "last": x.permute(analysis.channels_last),
    }
    for kind, reduced in _KINDS.items():
        known[f"Global{kind}Pool"] = reduced(x, analysis.pixel_dims)
        known[f"Adaptive{kind}Pool{analysis.axes}d"] = reduced(x, analysis.pixel_dims, keepdim=True)
        known[f"{kind} over channels"] = reduced(x, 1, keepdim=True)
    return known


def _record(analysis: GraphAnalysis, call: PlainCall, base: fx.Node, found: str) -> None:
    field = analysis.signals[base]
    variable = field.variable
    if found in ("same", "last", "map"):
        form: Form = field.form if found == "same" else found  # type: ignore[assignment]
        analysis.alias(call.node, base, dataclasses.replace(field, form=form))
    elif found in ("flat", "vector"):
        call = analysis.named(call, "flatten") if call.plain is None else call
        result = Signal("flat", variable, call.place) if found == "flat" else Signal("vector", variable)
        analysis.add(call, (base,), result, lambda before, after: snn.GlobalAvgPool(before[0]))
    elif found == "point":
        if field.form == "flat":
            raise NoCounterpart("it makes a map of a flattened one. Pool over all pixels first.")
        point = Signal("point", variable)
        analysis.add(analysis.named(call, "to_map"), (base,), point, lambda before, after: VectorToMap(before[0]))
    elif found.endswith("over channels"):
        _record_over_channels(analysis, call, base, _KINDS[found[:3]])
    else:
        size, kind = ((1,) if found.startswith("Adaptive") else ()), "Max" if "Max" in found else "Avg"
        pooled = analysis.named(call, _KINDS[kind].__name__)
        result = Signal("point" if size else "vector", variable)
        analysis.add(pooled, (base,), result, lambda before, after: getattr(snn, found)(before[0], *size))


def _record_over_channels(
    analysis: GraphAnalysis, call: PlainCall, base: fx.Node, reduce: Callable[..., Tensor]
) -> None:
    """Record a function of torch over all channels, in place of calls that do the same."""
    with call.node.graph.inserting_before(call.node):
        node = call.node.graph.call_function(reduce, (base, 1, True))
    node.meta = call.node.meta
    invariant = Signal(analysis.signals[base].form, TypeVariable(1, scalar=True))
    over_channels = dataclasses.replace(call, node=node, operation=known_operation(reduce))
    analysis.add(over_channels, (base,), invariant, function=reduce)
    analysis.alias(call.node, node, invariant)


def _sizes(call: PlainCall) -> tuple[Any, ...]:
    """The sizes that a reshape is given, or the dimensions that are squeezed, one by one or as a sequence."""
    given: Any = call.node.args[1:] or tuple(call.node.kwargs.values())
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], Sequence) else given


def _is_head(analysis: GraphAnalysis, field: Signal, call: PlainCall) -> bool:
    """Whether it views a map as vectors of a number of values that is written down, and may pool it instead."""
    sizes, channels = _sizes(call), field.variable.channels
    written = call.becomes == "reshape" and field.is_map and len(sizes) == 2 and isinstance(sizes[1], int)
    return analysis.pools_head and written and bool(channels) and sizes[1] > 0 and sizes[1] % channels == 0


def _reason(analysis: GraphAnalysis, call: PlainCall, field: Signal) -> str:
    """The reason why the effect of a call on a field is unknown, and what to write instead."""
    if call.name == "getattr":
        return "only what `max` returns has values. Take the tensor itself."
    if call.becomes.endswith("pooling"):
        return COMPUTED
    if call.becomes in _POOLS:
        return (
            f"only over all pixels, dim={analysis.pixel_dims}, or over all channels, dim=1 and keepdim=True, is it "
            f"equivariant; it has dim={call.arguments('dtype').get('dim')}."
        )
    if call.becomes == "permutation":
        order = tuple(called(call.node, lambda _: torch.empty(tuple(range(2 + analysis.axes)), device="meta")).shape)
        return (
            f"it puts the dimensions into the order {order}. Only the channels of a map may go last, with "
            f"x.permute{analysis.channels_last}, and come back, with x.permute{analysis.channels_back}."
        )
    if call.becomes == "flattening":
        plain: Any = call.plain
        return f"it flattens dimensions {plain.start_dim} to {plain.end_dim}; only all of one image, 1 to -1, can be."
    if call.becomes == "index":
        return (
            f"indexing takes channels or pixels apart. Only x[:, :{', None' * analysis.axes}] of a vector is followed, "
            f"and x[:, :{', 0' * analysis.axes}] of a map of one pixel."
        )
    given = _sizes(call)
    if unknown := set(call.node.kwargs) - {"input", "size", "shape", "dim"}:
        return f"its argument {', '.join(unknown)} is not known here."
    if field.is_vector and (call.name == "squeeze" or len(given) == 1):
        return "it takes the dimension of the channels away. Leave it out, and apply it to what the network returns."
    if field.is_map and call.name != "squeeze" and len(given) == 2:
        return (
            f"it lays several pixels of {field.variable.channels} channels side by side. Pool over all pixels first, "
            f"with nn.AdaptiveAvgPool{analysis.axes}d(1); convert(..., head='pool') does that for you."
        )
    return (
        f"a reshape to {given} is not known to be equivariant. Flatten a map of one pixel with torch.flatten(x, 1), "
        f"and make a map of a vector with x[:, :{', None' * analysis.axes}]."
    )
