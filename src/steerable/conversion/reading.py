"""The plain network, read call by call: what is to be replaced, and which tensors share a type."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx, nn

from steerable.conversion.fibres import Fibre
from steerable.conversion.layers import read_layer
from steerable.conversion.ledger import Ledger, Signal, Step
from steerable.conversion.operations import read_call
from steerable.conversion.refusals import NoCounterpart, path_below_root, place_of_call, place_of_module, refusal
from steerable.conversion.tracing import traced_network
from steerable.fields import FieldType

__all__ = ["Plan", "read_network"]


@dataclass(frozen=True)
class Plan:
    """What the converted network will do, with types still to be chosen.

    Attributes:
        steps: in order.
        image, result: the plain calls that bring the input and the output; ``result`` after aliases.
        in_fibre, out_fibre: their channels.
        aliases: calls that only hand on what they got.
        taken: paths of the plain network.
    """

    steps: tuple[Step, ...]
    image: fx.Node
    result: fx.Node
    in_fibre: Fibre
    out_fibre: Fibre
    aliases: dict[fx.Node, fx.Node]
    taken: frozenset[str]


def read_network(model: nn.Module, in_channels: int | None, out_type: FieldType | None) -> Plan:
    """Follow one image through the network; ConversionError at the first part without a counterpart."""
    graph, modules = traced_network(model)
    ledger = Ledger(taken={path for path, _ in model.named_modules()})
    image = next(iter(graph.nodes))
    ledger.signals[image] = Signal("map", Fibre(in_channels, scalar=True))
    for node in list(graph.nodes)[1:]:
        if node.op == "output":
            result = _result(node, ledger, model)
            break
        if node.op == "call_module":
            plain = modules[str(node.target)]
            place = place_of_module(str(node.target), plain)
            path = path_below_root(str(node.target)) or type(plain).__name__.lower()
        else:
            place, path = place_of_call(node), ""
        try:
            if node.op == "call_module":
                read_layer(ledger, node, node.args[0] if node.args else None, place, path, plain)
            elif node.op in ("call_function", "call_method"):
                read_call(ledger, node, place)
        except NoCounterpart as reason:
            raise refusal(place, reason) from None
    in_fibre, out_fibre = ledger.signals[image].fibre, ledger.signals[result].fibre
    if in_fibre.channels is None:
        raise ValueError("nothing in the network says how many channels the image has; give in_channels=....")
    _fix_output(out_fibre, out_type)
    real = ledger.aliases.get(result, result)
    steps = _needed(ledger, real)
    return Plan(steps, image, real, in_fibre, out_fibre, ledger.aliases, frozenset(ledger.taken))


def _needed(ledger: Ledger, result: fx.Node) -> tuple[Step, ...]:
    """The steps that the result depends on; what is computed for nothing is left out."""
    wanted, steps = {result}, []
    for step in reversed(ledger.steps):
        if step.node in wanted:
            steps.append(step)
            wanted.update(ledger.aliases.get(node, node) for node in step.inputs)
    return tuple(reversed(steps))


def _result(node: fx.Node, ledger: Ledger, model: nn.Module) -> fx.Node:
    result, place = node.args[0], place_of_module("", model)
    if not isinstance(result, fx.Node) or result not in ledger.signals or ledger.is_shape(result):
        raise refusal(place, "it returns something else than one tensor that comes from the image. Return one tensor.")
    try:
        signal = ledger.tensor(result)
    except NoCounterpart as reason:
        raise refusal(place, reason) from None
    if signal.form == "flat":
        raise refusal(
            signal.flattened_at,
            "nothing says that it flattens a single pixel, and more of them depend on where each pixel is. Pool over "
            "all pixels first, with nn.AdaptiveAvgPool2d(1).",
        )
    return result


def _fix_output(fibre: Fibre, out_type: FieldType | None) -> None:
    if out_type is None:
        fibre.make_scalar()
        return
    if len(fibre.leaves) > 1 or fibre.leaves[0].scalar:
        raise ValueError(
            f"out_type=`{out_type}` cannot be chosen: the output is a concatenation, or is added to the image, whose "
            "type is fixed. Leave out_type out, or end the network with a 1×1 convolution."
        )
    if out_type.channels != fibre.channels:
        raise ValueError(
            f"out_type=`{out_type}` has {out_type.channels} channels, but the network returns {fibre.channels}."
        )
    fibre.leaves[0].given = out_type
