"""The plain network, read call by call: the parts to replace, and the tensors that share a type."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from operator import attrgetter

from torch import Tensor, fx, nn

from steerable.conversion.function_calls import read_function
from steerable.conversion.functions_as_layers import changes_its_input
from steerable.conversion.graph_analysis import GraphAnalysis, Signal, Weight
from steerable.conversion.layer_calls import read_layer
from steerable.conversion.plain_calls import PlainCall, plain_call
from steerable.conversion.plan import ConversionPlan, Step
from steerable.conversion.refusals import ConversionError, NoCounterpart, place_of_call, place_of_module, refusal
from steerable.conversion.tracing import Trace, traced_in_evaluation, traced_network
from steerable.conversion.type_variables import TypeVariable
from steerable.types.field_types import FieldType

__all__ = ["read_network"]

# What gives the memory of its argument under another name, at least in evaluation.
_VIEWS = ("same", "dropout", "flattening", "reshape", "permutation", "index", "expansion")


def read_network(
    model: nn.Module, analysis: GraphAnalysis, in_channels: int | None, out_type: FieldType | None
) -> ConversionPlan:
    """Follow one image through the network; ConversionError at the first part without a counterpart.

    What a network in evaluation mode does in training alone, such as auxiliary heads, may be without one.

    Args:
        model: the network.
        analysis: what is filled; it begins with nothing but the options.
        in_channels: the number of channels of the image, where no layer shows it.
        out_type: the type of the output; None for scalars.
    """
    trace, blank = traced_network(model), copy.deepcopy(analysis)
    try:
        return _read_trace(trace, model, analysis, in_channels, out_type)
    except ConversionError as reason:
        if model.training or not any("only_in_training" in node.meta for node in trace.graph.nodes):
            raise
        trace = traced_in_evaluation(model, str(reason).removeprefix("cannot convert ").partition(": ")[0])
        return _read_trace(trace, model, blank, in_channels, out_type)


def _read_trace(
    trace: Trace,
    model: nn.Module,
    analysis: GraphAnalysis,
    in_channels: int | None,
    out_type: FieldType | None,
) -> ConversionPlan:
    analysis.taken.update(path for path, _ in model.named_modules())
    nodes = list(trace.graph.nodes)
    image, result = nodes[0], nodes[-1]
    analysis.signals[image] = Signal("map", TypeVariable(in_channels, scalar=True))
    unread, memory = set(nodes[1:]), dict[fx.Node, fx.Node]()
    for node in nodes[1:-1]:
        unread.discard(node)
        call = plain_call(trace.root, node)
        try:
            _read(analysis, call, trace.root)
            if _is_change(analysis, call) and node.all_input_nodes:
                _write(node, node.all_input_nodes[0], unread, memory)
            elif _passes_on(call) and isinstance(call.source, fx.Node):
                memory[node] = memory.get(call.source, call.source)
        except NoCounterpart as reason:
            raise refusal(call.place, reason) from None
    real = analysis.source(_result(result, analysis, model))
    in_variable, out_variable = analysis.signals[image].variable, analysis.signals[real].variable
    if in_variable.channels is None:
        raise ValueError("nothing in the network says how many channels the image has; give in_channels=....")
    _fix_output(out_variable, out_type)
    steps = _needed(analysis, real)
    _check_training(analysis, steps, trace.claims)
    taken = frozenset(analysis.taken)
    return ConversionPlan(steps, image, real, in_variable, out_variable, analysis.aliases, taken, trace.remark)


def _read(analysis: GraphAnalysis, call: PlainCall, root: nn.Module) -> None:
    node = call.node
    if node.op == "get_attr":
        values = attrgetter(str(node.target))(root)
        analysis.weights[node] = Weight(str(node.target), isinstance(values, nn.Parameter), values)
    elif call.plain is not None:
        _check_only_argument(node)
        read_layer(analysis, call)
    else:
        read_function(analysis, call)


def _check_only_argument(node: fx.Node) -> None:
    unknown = [f"{key}=" for key in node.kwargs if key != "input"] or [
        repr(value) for value in (*node.args, *node.kwargs.values())[1:]
    ]
    if unknown:
        raise NoCounterpart(f"it is called with the argument {unknown[0]}, which is not known here. Leave it out.")


def _passes_on(call: PlainCall) -> bool:
    """Whether the result of a call may be its first argument itself, or a view of it."""
    copies = call.plain is None and call.name == "clone"
    return call.becomes in _VIEWS and not copies


def _write(node: fx.Node, into: fx.Node, unread: set[fx.Node], memory: dict[fx.Node, fx.Node]) -> None:
    """Replace the first argument of a call by its result in later calls, because it was written into.

    NoCounterpart if the same memory is used later under another name.

    Args:
        node: the call.
        into: its first argument.
        unread: the calls that follow.
        memory: for each call that passes on a tensor, the call that made the tensor.
    """
    into.replace_all_uses_with(node, delete_user_cb=unread.__contains__)
    memory[node] = owner = memory.get(into, into)
    for other in (owner, *memory):
        if memory.get(other, other) is owner and other is not node and not unread.isdisjoint(other.users):
            raise NoCounterpart(
                "it writes into a tensor that is used later under another name: as a view, or as what dropout or "
                "nn.Identity got. Use the operation that does not work in place."
            )


def _is_change(analysis: GraphAnalysis, call: PlainCall) -> bool:
    """Whether a call writes its result into its first argument."""
    if call.plain is not None:
        return bool(getattr(call.plain, "inplace", False))
    if call.node.op == "get_attr" or not changes_its_input(call):
        return False
    # x += 1 leaves a number alone.
    return call.node not in analysis.from_sizes or isinstance(analysis.measured(call.node, 0), Tensor)


def _check_training(analysis: GraphAnalysis, steps: Sequence[Step], claims: Iterable[tuple[fx.Node, fx.Node]]) -> None:
    """Refuse what is done in training only, unless it is dropout or a random factor, which evaluation leaves out."""
    for step in steps:
        if "only_in_training" in step.call.node.meta and not step.rests:
            raise refusal(
                step.call.place, "it is done in training only, which dropout may be, and one random factor per sample."
            )
    resting = {
        step.call.node: step for step in analysis.steps if step.rests and "only_in_training" in step.call.node.meta
    }
    for extra, expected in claims:
        node = analysis.source(extra)
        while node in resting:
            node = analysis.source(resting[node].inputs[0])
        if node is not analysis.source(expected):
            raise refusal(
                place_of_call(extra), "in evaluation something else takes its place, which cannot be followed."
            )


def _needed(analysis: GraphAnalysis, result: fx.Node) -> tuple[Step, ...]:
    """The steps that the result depends on."""
    wanted, steps = {result}, []
    for step in reversed(analysis.steps):
        if step.call.node in wanted:
            steps.append(step)
            wanted.update(map(analysis.source, step.inputs))
    return tuple(reversed(steps))


def _result(node: fx.Node, analysis: GraphAnalysis, model: nn.Module) -> fx.Node:
    result, place = node.args[0], place_of_module("", model)
    if not isinstance(result, fx.Node) or result not in analysis.signals:
        raise refusal(place, "it returns something other than one tensor that comes from the image. Return one tensor.")
    try:
        signal = analysis.tensor(result)
    except NoCounterpart as reason:
        raise refusal(place, reason) from None
    if signal.form == "flat" and not analysis.pools_head:
        raise refusal(
            signal.flattened_at,
            "nothing says that it flattens a single pixel, and more of them depend on where each pixel is. Pool over "
            "all pixels first, with nn.AdaptiveAvgPool2d(1); convert(..., head='pool') does that for you.",
        )
    return result


def _fix_output(variable: TypeVariable, out_type: FieldType | None) -> None:
    if out_type is None:
        variable.make_scalar()
        return
    if len(variable.leaves) > 1 or variable.leaves[0].scalar:
        raise ValueError(
            f"out_type=`{out_type}` cannot be chosen: the output is a concatenation, or is added to the image, whose "
            "type is fixed. Leave out_type out, or end the network with a 1×1 convolution."
        )
    if out_type.channels != variable.channels:
        raise ValueError(
            f"out_type=`{out_type}` has {out_type.channels} channels, but the network returns {variable.channels}."
        )
    variable.leaves[0].given = out_type
