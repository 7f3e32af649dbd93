"""The functions that a ``forward`` calls between its layers: sums, products, concatenation, means over pixels."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from steerable import nn as snn
from steerable.checking.operations import known_layer
from steerable.conversion.functions_as_layers import as_layer, as_padding
from steerable.conversion.graph_analysis import Form, GraphAnalysis, Signal
from steerable.conversion.handed_weights import read_with_weights
from steerable.conversion.layer_calls import read_layer
from steerable.conversion.layouts import COMPUTED, read_layout
from steerable.conversion.network_weights import is_weight, read_reshaped_weight, read_scale
from steerable.conversion.plain_calls import PlainCall
from steerable.conversion.refusals import NoCounterpart
from steerable.conversion.sizes import is_about_sizes, read_expand_to, read_pad_to, read_resize_to
from steerable.conversion.stochastic_depth import read_training_factor
from steerable.conversion.type_variables import stack, unify

__all__ = ["FUNCTION_READERS", "read_function"]

_ARITHMETIC = ("sum", "product", "quotient")
_LAYOUTS = ("mean over pixels", "maximum over pixels", "reshape", "permutation", "index")


def read_function(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record the effect of a function or method; NoCounterpart if nothing equivariant does the same."""
    if is_about_sizes(analysis, call):
        analysis.from_sizes.add(call.node)
    elif is_weight(analysis, call.source) and call.becomes not in _ARITHMETIC:
        read_reshaped_weight(analysis, call.node)
    elif call.name == "getattr":  # the values among maxima and their places
        read_layout(analysis, call)
    else:
        FUNCTION_READERS.get(call.becomes, _read_as_layer)(analysis, call)


def _read_arithmetic(analysis: GraphAnalysis, call: PlainCall) -> None:
    given = call.arguments("rounding_mode")
    operands, quotient, product = [given["input"], given["other"]], call.becomes == "quotient", call.becomes != "sum"
    fields = [operand for operand in operands if isinstance(operand, fx.Node) and operand in analysis.signals]
    if quotient and operands[1] in fields:
        raise NoCounterpart(
            "division by a field amplifies rounding errors where the field is near zero. Multiply by a sigmoid, for "
            "instance."
        )
    if product and len(fields) == 1:
        other = operands[1 - operands.index(fields[0])]
        if is_weight(analysis, other) and not quotient:
            read_scale(analysis, call, fields[0], other)
            return
        drawn = isinstance(other, int | float) and "only_in_training" in call.node.meta
        if drawn or analysis.depends_on_sizes(other):
            read_training_factor(analysis, call, fields[0], other, inverse=quotient)
            return
    signals = [analysis.tensor(operand, "last") for operand in operands if not isinstance(operand, int | float)]
    result = signals[0] if len(signals) == 1 else _combined(signals[0], signals[1], product=product)
    analysis.add(call, tuple(fields), result, function=_out_of_place(call))


def _out_of_place(call: PlainCall) -> Callable[..., Any]:
    """The same operation with a new tensor as its result; autograd and the rest of the network see the same values.

    torch's functions take alpha=..., Python's operators a number first.
    """
    home = torch if call.node.kwargs or not hasattr(operator, call.name) else operator
    function: Callable[..., Any] = getattr(home, call.name)
    return function


def _combined(a: Signal, b: Signal, *, product: bool) -> Signal:
    """The signal of a sum or a product of two fields."""
    form, whole = _common_form(a, b), a.variable
    counts = (a.variable.channels, b.variable.channels)
    if product and 1 in counts and counts[0] != counts[1]:  # an invariant that scales all channels alike
        narrow, whole = (a.variable, b.variable) if counts[0] == 1 else (b.variable, a.variable)
        narrow.make_scalar()
    elif not unify(a.variable, b.variable):
        raise NoCounterpart(
            f"it takes {counts[0]} and {counts[1]} channels, which cannot get one type. Bring both to the same number "
            "with a 1×1 convolution."
        )
    return Signal(form, whole, a.flattened_at or b.flattened_at)


def _common_form(a: Signal, b: Signal) -> Form:
    forms = {a.form, b.form}
    if len(forms) == 1:
        return a.form
    if forms == {"map", "point"}:
        return "map"
    if forms == {"flat", "vector"}:
        return "flat"
    if "last" in forms:
        raise NoCounterpart("one of its fields has the channels last, the other does not. Permute both alike.")
    raise NoCounterpart("a map of pixels and a vector do not belong to the same pixels. Add [:, :, None, None].")


def _read_negative(analysis: GraphAnalysis, call: PlainCall) -> None:
    source = call.arguments()["input"]
    analysis.add(call, (source,), analysis.tensor(source, "last"), function=torch.neg)


def _read_same(analysis: GraphAnalysis, call: PlainCall) -> None:
    source = call.arguments()["input"]
    analysis.alias(call.node, source, analysis.tensor(source, "last"))


def _read_concatenation(analysis: GraphAnalysis, call: PlainCall) -> None:
    given = call.arguments()
    tensors, dim = given["tensors"], given.get("dim", 0)
    signals = [analysis.tensor(tensor) for tensor in tensors]
    maps, form = signals[0].is_map, signals[0].form
    if dim not in ((1, -3) if maps else (1, -1)):
        raise NoCounterpart(f"only channels, dim=1, can be concatenated; it has dim={dim}.")
    for signal in signals[1:]:
        if signal.is_map != maps:
            raise NoCounterpart("a map of pixels and a vector cannot be concatenated. Pool the map first.")
        form = form if form == signal.form else "map" if maps else "flat"

    flattened_at = next((signal.flattened_at for signal in signals if signal.flattened_at), "")
    whole = Signal(form, stack([signal.variable for signal in signals]), flattened_at)
    analysis.add(analysis.named(call, "cat"), tuple(tensors), whole, lambda before, after: snn.Concat(before))


def _read_padding(analysis: GraphAnalysis, call: PlainCall) -> None:
    if analysis.depends_on_sizes(call.others):
        read_pad_to(analysis, call)
        return
    options = call.arguments()
    options.pop("input")
    plain = as_padding(analysis.axes, **options)
    read_layer(analysis, dataclasses.replace(analysis.named(call, "pad"), plain=plain))


def _read_upsampling(analysis: GraphAnalysis, call: PlainCall) -> None:
    (read_resize_to if analysis.depends_on_sizes(call.others) else _read_as_layer)(analysis, call)


def _read_as_layer(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Read a function as the layer that does the same."""
    if call.becomes and call.operation is not None and call.operation.weights:
        read_with_weights(analysis, call)
        return
    if analysis.depends_on_sizes(call.others):
        if call.becomes not in ("average pooling", "maximum pooling"):
            raise NoCounterpart(COMPUTED)
        read_layout(analysis, call)
        return
    plain = as_layer(call)
    operation = known_layer(type(plain)) or call.operation
    read_layer(analysis, dataclasses.replace(analysis.named(call, call.name), plain=plain, operation=operation))


# By what a function becomes in the table of operations; all others are read as layers.
FUNCTION_READERS: dict[str, Callable[[GraphAnalysis, PlainCall], None]] = {
    **dict.fromkeys(_ARITHMETIC, _read_arithmetic),
    **dict.fromkeys(_LAYOUTS, read_layout),
    "negative": _read_negative,
    "same": _read_same,
    "concatenation": _read_concatenation,
    "padding": _read_padding,
    "upsampling": _read_upsampling,
    "expansion": read_expand_to,
}
