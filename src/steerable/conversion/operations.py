"""Reading what a ``forward`` does between its layers: sums, products, concatenation, means over pixels."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn

from steerable.conversion.binding import bound
from steerable.conversion.fibres import stack, unify
from steerable.conversion.functional import as_module
from steerable.conversion.layers import read_layer
from steerable.conversion.ledger import TRIALS, Form, Ledger, Signal, Step
from steerable.conversion.refusals import NoCounterpart, function_name, scope_of
from steerable.conversion.reshaping import read_index, read_permutation, read_reshape
from steerable.conversion.scales import (
    is_weight,
    read_layer_norm,
    read_reshaped_weight,
    read_scale,
    read_training_factor,
)
from steerable.conversion.sizes import is_about_sizes, read_pad_to
from steerable.nn import AdaptiveAvgPool2d, AdaptiveMaxPool2d, Concat, GlobalAvgPool, GlobalMaxPool

__all__ = ["read_call"]

# In-place operations become new tensors: autograd and the rest of the network see the same values. torch's functions
# take alpha=..., Python's operators a number first.
_Arithmetic = tuple[Callable[..., Any], Callable[..., Any]]
_SUMS: dict[str, _Arithmetic] = {
    **dict.fromkeys(("add", "iadd"), (torch.add, operator.add)),
    **dict.fromkeys(("sub", "isub", "subtract"), (torch.sub, operator.sub)),
}
_PRODUCTS: dict[str, _Arithmetic] = {
    **dict.fromkeys(("mul", "imul", "multiply"), (torch.mul, operator.mul)),
    **dict.fromkeys(("truediv", "itruediv", "div", "divide"), (torch.div, operator.truediv)),
}
_SAME = ("contiguous", "clone")
_GLOBAL_POOLS = {"mean": (GlobalAvgPool, AdaptiveAvgPool2d), "amax": (GlobalMaxPool, AdaptiveMaxPool2d)}
_WHOLE_WINDOW = {"avg_pool2d": nn.AdaptiveAvgPool2d, "max_pool2d": nn.AdaptiveMaxPool2d}


def read_call(ledger: Ledger, node: fx.Node, place: str) -> None:
    """Note what a function or method does; NoCounterpart where nothing equivariant does the same."""
    name, first = function_name(node), node.args[0] if node.args else node.kwargs.get("input")
    if is_about_sizes(ledger, node):
        ledger.free.add(node)
    elif is_weight(ledger, first) and name not in _SUMS and name not in _PRODUCTS:
        read_reshaped_weight(ledger, node)
    elif name in _SUMS or name in _PRODUCTS:
        _read_arithmetic(ledger, node, place, name)
    elif name in ("neg", "negative"):
        signal = ledger.tensor(bound(node, "input")["input"], "last")
        ledger.add(Step(node, place, (first,), (signal.fibre,), signal.fibre, operation=torch.neg), signal)  # type: ignore[arg-type]
    elif name in ("cat", "concat", "concatenate"):
        _read_cat(ledger, node, place)
    elif name in _GLOBAL_POOLS:
        _read_global_pool(ledger, node, place, name)
    elif name in ("view", "reshape", "squeeze"):
        read_reshape(ledger, node, place, name, first)
    elif name in ("permute", "movedim", "moveaxis", "transpose", "swapaxes", "swapdims"):
        read_permutation(ledger, node, first)
    elif name == "getitem":
        read_index(ledger, node, place, first)
    elif name in _SAME:
        ledger.alias(node, first, ledger.tensor(bound(node, "input * memory_format")["input"], "last"))  # type: ignore[arg-type]
    elif name == "layer_norm":
        plain, path = read_layer_norm(ledger, node)
        read_layer(ledger, node, first, place, path, plain)
    elif name == "pad" and ledger.is_free((node.args[1:], node.kwargs)):
        read_pad_to(ledger, node, place)
    else:
        _read_function(ledger, node, place, name, first)


def _read_arithmetic(ledger: Ledger, node: fx.Node, place: str, name: str) -> None:
    product, (function, symbol) = name in _PRODUCTS, {**_SUMS, **_PRODUCTS}[name]
    given = bound(node, "input other" if product else "input other * alpha")
    operands, quotient = [given["input"], given["other"]], function is torch.div
    fields = [operand for operand in operands if isinstance(operand, fx.Node) and operand in ledger.signals]
    if quotient and operands[1] in fields:
        raise NoCounterpart("division by a field is not known to be equivariant. Multiply by a sigmoid, for instance.")
    if product and len(fields) == 1:
        other = operands[1 - operands.index(fields[0])]
        if is_weight(ledger, other) and not quotient:
            read_scale(ledger, node, place, fields[0], other)
            return
        if ledger.is_free(other) or (isinstance(other, int | float) and "only_in_training" in node.meta):
            read_training_factor(ledger, node, place, fields[0], other, inverse=quotient)
            return
    signals = [ledger.tensor(operand, "last") for operand in operands if not isinstance(operand, int | float)]
    operation = function if node.kwargs else symbol
    if len(signals) == 1:
        fibre = signals[0].fibre
        ledger.add(Step(node, place, tuple(fields), (fibre,), fibre, operation=operation), signals[0])
        return
    a, b = signals
    form, whole = _common_form(a, b), a.fibre
    counts = (a.fibre.channels, b.fibre.channels)
    if product and 1 in counts and counts[0] != counts[1]:  # an invariant that scales all channels alike
        narrow, whole = (a.fibre, b.fibre) if counts[0] == 1 else (b.fibre, a.fibre)
        narrow.make_scalar()
    elif not unify(a.fibre, b.fibre):
        raise NoCounterpart(
            f"it takes {counts[0]} and {counts[1]} channels, which cannot get one type. Bring both to the same number "
            "with a 1×1 convolution."
        )
    step = Step(node, place, tuple(fields), (a.fibre, b.fibre), whole, operation=operation)
    ledger.add(step, Signal(form, whole, a.flattened_at or b.flattened_at))


def _common_form(a: Signal, b: Signal) -> Form:
    forms = {a.form, b.form}
    if len(forms) == 1:
        return a.form
    if forms == {"map", "point"}:
        return "map"
    if forms == {"flat", "vector"}:
        return "flat"
    if "last" in forms:
        raise NoCounterpart("one of its fields has the channels last, the other has not. Permute both alike.")
    raise NoCounterpart("a map of pixels and a vector do not belong to the same pixels. Add [:, :, None, None].")


def _read_cat(ledger: Ledger, node: fx.Node, place: str) -> None:
    given = bound(node, "tensors dim")
    tensors, dim = given["tensors"], given.get("dim", 0)
    signals = [ledger.tensor(tensor) for tensor in tensors]
    maps = signals[0].form in ("map", "point")
    if dim not in ((1, -3) if maps else (1, -1)):
        raise NoCounterpart(f"only channels, dim=1, can be concatenated; it has dim={dim}.")
    form = signals[0].form
    for signal in signals[1:]:
        if (signal.form in ("map", "point")) != maps:
            raise NoCounterpart("a map of pixels and a vector cannot be concatenated. Pool the map first.")
        form = form if form == signal.form else "map" if maps else "flat"
    whole = stack([signal.fibre for signal in signals])

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        return Concat(before), ""

    path = ledger.free_path(scope_of(node)[0], "cat")
    flattened_at = next((signal.flattened_at for signal in signals if signal.flattened_at), "")
    step = Step(node, place, tuple(tensors), tuple(s.fibre for s in signals), whole, path, None, build)
    ledger.add(step, Signal(form, whole, flattened_at))


def _read_global_pool(ledger: Ledger, node: fx.Node, place: str, name: str) -> None:
    given = bound(node, "input dim keepdim")
    first, dims, keep = given["input"], given.get("dim"), given.get("keepdim", False)
    signal = ledger.tensor(first, "line")
    one_side = dims if isinstance(dims, int) else None
    if one_side in (2, 3, -1, -2) and signal.form in ("map", "point") and not keep:
        ledger.alias(node, first, Signal("line", signal.fibre, lined_by=name))  # the other side may follow
        return
    # A mean of means is one over all pixels, but a mean of maxima is another after a turn.
    the_rest = (
        signal.form == "line" and not keep and one_side in (2, -1) and signal.lined_by in (name, "flatten", "squeeze")
    )
    dims = sorted(d % 4 for d in dims) if isinstance(dims, Sequence) else dims
    if not the_rest and (signal.form not in ("map", "point") or dims != [2, 3]):
        raise NoCounterpart(f"only over all pixels, dim=(2, 3), is it equivariant; it has dim={dims}.")

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        pooled, point = _GLOBAL_POOLS[name]
        return (point(before[0], 1) if keep else pooled(before[0])), ""

    path = ledger.free_path(scope_of(node)[0], name)
    step = Step(node, place, (first,), (signal.fibre,), signal.fibre, path, None, build)
    ledger.add(step, Signal("point" if keep else "vector", signal.fibre))


def _read_function(ledger: Ledger, node: fx.Node, place: str, name: str, first: Any) -> None:
    plain: nn.Module
    if name in _WHOLE_WINDOW and ledger.is_free((node.args[1:], node.kwargs)) and _covers_the_map(ledger, node, first):
        plain = _WHOLE_WINDOW[name](1)
    elif ledger.is_free((node.args[1:], node.kwargs)):
        raise NoCounterpart(
            "its arguments are computed from sizes, which is followed for windows as large as the map, reshapes and "
            "F.pad only. Give it numbers, such as scale_factor=2."
        )
    else:
        found = as_module(node)
        if found is None or len(node.all_input_nodes) > 1:
            raise NoCounterpart(
                "it is not known to be equivariant. Use layers of torch.nn, sums, products or torch.cat, or convert "
                "the rest."
            )
        plain = found
    read_layer(ledger, node, first, place, ledger.free_path(scope_of(node)[0], name), plain)


def _covers_the_map(ledger: Ledger, node: fx.Node, first: Any) -> bool:
    """Whether a pooling window is as large as the map, by the map's own size, and there is nothing else to it."""
    names = "padding dilation ceil_mode count_include_pad divisor_override return_indices"
    given = bound(node, f"input kernel_size stride * {names}")
    window, stride = given["kernel_size"], given.get("stride")
    usual = given.get("padding", 0) == 0 and given.get("dilation", 1) == 1 and stride in (None, [], ())
    if not usual or given.get("divisor_override") or given.get("return_indices") or not ledger.is_free(window):
        return False
    return all(_is_whole(ledger.measured(window, trial), ledger.shape(first, trial)[2:]) for trial in TRIALS)


def _is_whole(window: Any, sides: Sequence[int]) -> bool:
    """Whether it is (height, width), or one of them; the plain code then means square images."""
    return window in sides if isinstance(window, int) else tuple(window) == tuple(sides)
