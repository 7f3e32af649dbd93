"""Functions that are handed their weights, as the modules that hold them: ``F.conv2d(x, self.weight)`` is a Conv2d.

Subclasses of torch's layers call them in a ``forward`` of their own, and so do layers that keep parameters themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn

from steerable.conversion.graph_analysis import GraphAnalysis, Weight
from steerable.conversion.layer_calls import read_layer
from steerable.conversion.network_weights import is_weight
from steerable.conversion.plain_calls import PlainCall
from steerable.conversion.refusals import NoCounterpart, path_below_root

__all__ = ["read_with_weights"]

_STATISTICS = ("running_mean", "running_var")

# The weights that a function is handed, by the names of its arguments; None for those that it goes without.
Handed = Mapping[str, Weight | None]


def read_with_weights(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record a function with weights of the network's own as the module that does the same."""
    operation = call.operation
    if operation is None or not operation.layers:
        raise NoCounterpart("it is handed its weights, and no module of torch does the same. Use layers of torch.nn.")
    defaults = {key: p.default for key, p in operation.signature.parameters.items()}
    given = {**defaults, **call.arguments()}
    handed = {name: _weight(analysis, name, given.pop(name), operation.layers[0]) for name in operation.weights}
    if operation.becomes == "layer norm":
        given["normalized_shape"] = _fixed(analysis, given["normalized_shape"])
    computed: list[fx.Node] = []
    fx.map_arg({key: value for key, value in given.items() if key != "input"}, computed.append)
    if computed:
        raise NoCounterpart("its arguments are computed from sizes or values. Give it numbers.")
    with torch.device("meta"):  # only its options are read, and how many parameters it has
        plain = _MODULES[operation.becomes](analysis, call, given, handed)
    first = next((weight for weight in handed.values() if weight is not None), None)
    if first is None:
        named = analysis.named(call, call.name)
    else:
        _check_not_shared(analysis, call, plain, handed)
        named = analysis.named_by_weight(call, first, call.name)
    read_layer(analysis, dataclasses.replace(named, plain=plain))


def _weight(analysis: GraphAnalysis, name: str, value: object, layer: type[nn.Module]) -> Weight | None:
    if value is None:
        return None
    if is_weight(analysis, value):
        weight = analysis.weights[value]  # type: ignore[index]
        if weight.learned or name in _STATISTICS:
            return weight
    raise NoCounterpart(
        f"its {name.replace('_', ' ')} is computed, or is a constant, and such tensors are not parameters of the "
        f"network, which a counterpart learns. Use the module nn.{layer.__name__}."
    )


def _fixed(analysis: GraphAnalysis, shape: Any) -> list[int]:
    found = list(analysis.measured(shape, 0))
    if not analysis.always(shape, lambda _: found):
        raise NoCounterpart("it normalises pixels, and their number varies. Normalise the channels only.")
    return found


def _check_not_shared(analysis: GraphAnalysis, call: PlainCall, plain: nn.Module, handed: Handed) -> None:
    """NoCounterpart for weights that something else uses too, unless it is the same function of them."""
    paths = {name: None if weight is None else weight.path for name, weight in handed.items()}
    called = {str(node.target) for node in call.node.graph.nodes if node.op == "call_module"}
    use = f"{plain} {paths}"
    for path in filter(None, paths.values()):
        if path.rpartition(".")[0] in called or analysis.uses.setdefault(path, use) != use:
            raise NoCounterpart(
                f"`{path_below_root(path)}` is used in another way as well, and layers with separate weights would "
                "take its place. Give each its own."
            )


def _convolution(analysis: GraphAnalysis, call: PlainCall, given: dict[str, Any], handed: Handed) -> nn.Module:
    shape, groups = _shape(handed), given["groups"]
    transposed = call.name.startswith("conv_transpose")
    channels = (shape[0], shape[1] * groups) if transposed else (shape[1] * groups, shape[0])
    options = {key: value for key, value in given.items() if key != "input"}
    made: nn.Module = _layer(call)(*channels, shape[2:], **options, bias=handed["bias"] is not None)
    return made


def _linear(analysis: GraphAnalysis, call: PlainCall, given: dict[str, Any], handed: Handed) -> nn.Module:
    shape = _shape(handed)
    return nn.Linear(shape[1], shape[0], bias=handed["bias"] is not None)


def _batch_norm(analysis: GraphAnalysis, call: PlainCall, given: dict[str, Any], handed: Handed) -> nn.Module:
    tracked = handed["running_mean"] is not None
    follows = bool(call.node.meta.get("by_mode")) or "in_evaluation" in call.node.meta
    if (
        tracked != (handed["running_var"] is not None)
        or (tracked and not follows)
        or not (tracked or given["training"])
    ):
        raise NoCounterpart(
            "it takes statistics of the batch in training and running ones in evaluation only if `training` follows "
            "the mode of the network. Use the module nn.BatchNorm2d."
        )
    norm = nn.BatchNorm1d if analysis.tensor(call.source).is_vector else getattr(nn, f"BatchNorm{analysis.axes}d")
    made = norm(_channels(analysis, call, handed), given["eps"], given["momentum"], track_running_stats=tracked)
    return _with_weights(made, handed)


def _group_norm(analysis: GraphAnalysis, call: PlainCall, given: dict[str, Any], handed: Handed) -> nn.Module:
    return _with_weights(nn.GroupNorm(given["num_groups"], _channels(analysis, call, handed), given["eps"]), handed)


def _instance_norm(analysis: GraphAnalysis, call: PlainCall, given: dict[str, Any], handed: Handed) -> nn.Module:
    if handed["running_mean"] is not None or not given["use_input_stats"]:
        raise NoCounterpart("with running statistics it is followed as a module only. Use nn.InstanceNorm2d.")
    norm = getattr(nn, f"InstanceNorm{analysis.axes}d")
    return _with_weights(norm(_channels(analysis, call, handed), given["eps"], affine=True), handed)


def _layer_norm(analysis: GraphAnalysis, call: PlainCall, given: dict[str, Any], handed: Handed) -> nn.Module:
    return _with_weights(nn.LayerNorm(given["normalized_shape"], given["eps"]), handed)


def _activation(analysis: GraphAnalysis, call: PlainCall, given: dict[str, Any], handed: Handed) -> nn.Module:
    return nn.PReLU(_shape(handed)[0], device="cpu")  # which becomes a part of the counterpart


def _layer(call: PlainCall) -> Any:
    return call.operation.layers[0]  # type: ignore[union-attr]


def _shape(handed: Handed) -> tuple[int, ...]:
    weight = handed["weight"]
    if weight is None:
        raise NoCounterpart("it has no weight. Give it one.")
    return tuple(weight.values.shape)


def _channels(analysis: GraphAnalysis, call: PlainCall, handed: Handed) -> int:
    """How many channels a norm is for: as many as it has weights, or as come in where it has none."""
    first = next((weight for weight in handed.values() if weight is not None), None)
    found = analysis.tensor(call.source).variable.channels if first is None else first.values.numel()
    if found is None:
        raise NoCounterpart("nothing says how many channels it gets. Give in_channels=....")
    return found


def _with_weights(norm: Any, handed: Handed) -> nn.Module:
    """The norm without the weights that its function is not handed."""
    if handed["weight"] is None and handed.get("bias") is not None:
        raise NoCounterpart("it has a bias without a weight. Use the module that does the same.")
    for name in ("weight", "bias"):
        if handed[name] is None:
            setattr(norm, name, None)
    norm.affine = norm.elementwise_affine = handed["weight"] is not None
    return norm  # type: ignore[no-any-return]


# By what a function with weights becomes.
_MODULES: dict[str, Callable[[GraphAnalysis, PlainCall, dict[str, Any], Handed], nn.Module]] = {
    "convolution": _convolution,
    "linear map": _linear,
    "batch norm": _batch_norm,
    "group norm": _group_norm,
    "instance norm": _instance_norm,
    "layer norm": _layer_norm,
    "activation": _activation,
}
