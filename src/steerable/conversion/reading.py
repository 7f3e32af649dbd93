"""The plain network, read call by call: what is to be replaced, and which tensors share a type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from torch import Tensor, fx, nn

from steerable.conversion.fibres import Fibre
from steerable.conversion.functional import changes_its_input
from steerable.conversion.layers import read_layer
from steerable.conversion.ledger import Ledger, Signal, Step, Weight
from steerable.conversion.operations import read_call
from steerable.conversion.refusals import NoCounterpart, path_below_root, place_of_call, place_of_module, refusal
from steerable.conversion.tracing import traced_network
from steerable.types.field_types import FieldType

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
        remark: what to say of the network as a whole; "" where there is nothing.
    """

    steps: tuple[Step, ...]
    image: fx.Node
    result: fx.Node
    in_fibre: Fibre
    out_fibre: Fibre
    aliases: dict[fx.Node, fx.Node]
    taken: frozenset[str]
    remark: str = ""


def read_network(
    model: nn.Module, in_channels: int | None, out_type: FieldType | None, *, pools_head: bool = False
) -> Plan:
    """Follow one image through the network; ConversionError at the first part without a counterpart."""
    trace = traced_network(model)
    ledger = Ledger(pools_head, taken={path for path, _ in model.named_modules()})
    nodes = list(trace.graph.nodes)
    image, result = nodes[0], nodes[-1]
    ledger.signals[image] = Signal("map", Fibre(in_channels, scalar=True))
    unread = set(nodes[1:])
    for node in nodes[1:-1]:
        unread.discard(node)
        place, path, plain = _part(trace.root, node)
        try:
            if node.op == "get_attr":
                values = attrgetter(str(node.target))(trace.root)
                ledger.weights[node] = Weight(str(node.target), isinstance(values, nn.Parameter), values)
            elif plain is not None:
                read_layer(ledger, node, _only_argument(node), place, path, plain)
            else:
                read_call(ledger, node, place)
            _read_change(ledger, node, plain, unread)
        except NoCounterpart as reason:
            raise refusal(place, reason) from None
    real = ledger.source(_result(result, ledger, model))
    in_fibre, out_fibre = ledger.signals[image].fibre, ledger.signals[real].fibre
    if in_fibre.channels is None:
        raise ValueError("nothing in the network says how many channels the image has; give in_channels=....")
    _fix_output(out_fibre, out_type)
    steps = _needed(ledger, real)
    _check_training(ledger, steps, trace.claims)
    taken = frozenset(ledger.taken)
    return Plan(steps, image, real, in_fibre, out_fibre, ledger.aliases, taken, trace.remark)


def _part(root: nn.Module, node: fx.Node) -> tuple[str, str, nn.Module | None]:
    """What a call is called in messages, and its path and module where it is one of a module."""
    if node.op != "call_module":
        return place_of_call(node), "", None
    plain = root.get_submodule(str(node.target))
    path = path_below_root(str(node.target)) or type(plain).__name__.lower()
    return place_of_module(str(node.target), plain), path, plain


def _only_argument(node: fx.Node) -> object:
    values = (*node.args, *(value for key, value in node.kwargs.items() if key == "input"))
    unknown = [f"{key}=" for key in node.kwargs if key != "input"] or [repr(value) for value in values[1:]]
    if unknown:
        raise NoCounterpart(f"it is called with the argument {unknown[0]}, which is not known here. Leave it out.")
    return values[0] if values else None


def _read_change(ledger: Ledger, node: fx.Node, plain: nn.Module | None, unread: set[fx.Node]) -> None:
    """After a call that writes into its first argument, whoever asks for that argument gets the result."""
    changes = bool(getattr(plain, "inplace", False)) if plain is not None else _is_change(ledger, node)
    if changes and node.all_input_nodes:
        node.all_input_nodes[0].replace_all_uses_with(node, delete_user_cb=unread.__contains__)


def _is_change(ledger: Ledger, node: fx.Node) -> bool:
    if node.op == "get_attr" or not changes_its_input(node):
        return False
    return node not in ledger.free or isinstance(ledger.measured(node, 0), Tensor)  # x += 1 leaves a number alone


def _check_training(ledger: Ledger, steps: Sequence[Step], claims: Iterable[tuple[fx.Node, fx.Node]]) -> None:
    """What is done in training only must come to nothing in evaluation, as dropout and factors of samples do."""
    for step in steps:
        if "only_in_training" in step.node.meta and not step.rests:
            raise refusal(
                step.place, "it is done in training only, which dropout may be, and one random factor per sample."
            )
    resting = {step.node: step for step in ledger.steps if step.rests and "only_in_training" in step.node.meta}
    for extra, expected in claims:
        node = ledger.source(extra)
        while node in resting:
            node = ledger.source(resting[node].inputs[0])
        if node is not ledger.source(expected):
            raise refusal(
                place_of_call(extra), "in evaluation something else takes its place, which cannot be followed."
            )


def _needed(ledger: Ledger, result: fx.Node) -> tuple[Step, ...]:
    """The steps that the result depends on; what is computed for nothing is left out."""
    wanted, steps = {result}, []
    for step in reversed(ledger.steps):
        if step.node in wanted:
            steps.append(step)
            wanted.update(map(ledger.source, step.inputs))
    return tuple(reversed(steps))


def _result(node: fx.Node, ledger: Ledger, model: nn.Module) -> fx.Node:
    result, place = node.args[0], place_of_module("", model)
    if not isinstance(result, fx.Node) or result not in ledger.signals:
        raise refusal(place, "it returns something else than one tensor that comes from the image. Return one tensor.")
    try:
        signal = ledger.tensor(result)
    except NoCounterpart as reason:
        raise refusal(place, reason) from None
    if signal.form == "flat" and not ledger.pools_head:
        raise refusal(
            signal.flattened_at,
            "nothing says that it flattens a single pixel, and more of them depend on where each pixel is. Pool over "
            "all pixels first, with nn.AdaptiveAvgPool2d(1); convert(..., head='pool') does so by itself.",
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
