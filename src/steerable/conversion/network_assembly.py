"""The converted network put together, once every type variable has a value, and a report of each replacement."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch import fx, nn

from steerable import nn as snn
from steerable.conversion.plan import ConversionPlan, Replacement, Step
from steerable.conversion.refusals import NoCounterpart, call_name, free_path, refusal
from steerable.conversion.report import ReportRow
from steerable.conversion.widths import Widths
from steerable.nn.admissibility import require
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.init import he_
from steerable.nn.scalar_functions import function_name
from steerable.types.field_types import FieldType

__all__ = ["assembled", "count_parameters"]

_SCALARS = "scalars only, since it is added to the output; out_type=... lets the output be richer"


def assembled(plan: ConversionPlan, widths: Widths) -> tuple[fx.GraphModule, tuple[ReportRow, ...]]:
    """The network with fresh weights, and its replacements; ConversionError if a layer refuses its type.

    Each call of its graph knows its field type, in ``meta``.
    """
    graph, modules, rows = fx.Graph(), dict[str, nn.Module](), list[ReportRow]()
    values = {plan.image: graph.placeholder("x")}
    values[plan.image].meta["field_type"] = widths.type_of(plan.in_variable)
    made: dict[tuple[str, tuple[FieldType, ...], FieldType], str] = {}
    score_layers = plan.score_layers
    for step in plan.steps:
        inputs = {node: values[plan.source(node)] for node in step.inputs}
        before, after = tuple(map(widths.type_of, step.before)), widths.type_of(step.after)
        call = step.call
        if step.function is not None:
            _check_function(step, before, after)
            # Arguments other than the operands, such as alpha, stay as they are.
            args, kwargs = (fx.map_arg(given, inputs.__getitem__) for given in (call.node.args, call.node.kwargs))
            values[call.node] = graph.call_function(step.function, args, kwargs)  # type: ignore[arg-type]
        else:
            key = (call.path, before, after)
            if key not in made:
                module, note = _counterpart(step, before, after)
                if step in score_layers:
                    _start_small(module)
                # A layer without weights that is used on several types has counterparts with numbers.
                in_the_way = {*modules, *plan.taken} if call.path in modules else ()
                made[key] = free_path(call.path, in_the_way)
                modules[made[key]] = module
                # A single last layer is meant to give scalars; others do so only because sums tie them to the output.
                tied = _SCALARS if step in score_layers and len(score_layers) > 1 else ""
                remarks = filter(None, (_rounding(step, after), step.note, note, tied))
                rows.append(_report_row(made[key], step, module, "; ".join(remarks)))
            values[call.node] = graph.call_module(made[key], tuple(inputs[node] for node in step.inputs))
        values[call.node].meta["field_type"] = after
    graph.output(values[plan.result])
    return fx.GraphModule(modules, graph, class_name="ConvertedNetwork"), tuple(rows)


def _start_small(module: nn.Module) -> None:
    """Draw the weights of a layer that gives the scores, so that they begin about as small as torch's own.

    torch's layers have the gain 1/√3, He's rule √2. Behind a mean over pixels the d channels of a regular capsule are
    alike, and add up to √d times as much.
    """
    for layer in module.modules():
        if isinstance(layer, FilterBankModule):
            he_(layer, gain=math.sqrt(len(layer.in_type) / layer.in_type.channels / 3))


def _counterpart(step: Step, before: tuple[FieldType, ...], after: FieldType) -> Replacement:
    if step.build is None:
        raise RuntimeError("a step calls a function or has a builder")
    try:
        made = step.build(before, after)
    except (NoCounterpart, TypeError, ValueError) as reason:
        raise refusal(step.call.place, reason) from None
    return made if isinstance(made, tuple) else (made, "")


def _check_function(step: Step, before: tuple[FieldType, ...], after: FieldType) -> None:
    """Refuse sums and products of fields that the group moves differently, or whose capsules do not admit them."""
    product = step.call.becomes == "product"
    reduces = step.call.becomes in ("mean over pixels", "maximum over pixels")  # over channels, if a function does it
    different = [t for t in before if t != after and not ((t.channels == 1 and product) or reduces)]
    if different:
        raise refusal(
            step.call.place,
            f"it combines fields of types `{before[0]}` and `{before[-1]}`, which the group moves differently. Bring "
            "both to the same channels with a 1×1 convolution.",
        )
    shifts = step.call.becomes == "sum" and len(before) == 1
    if shifts or reduces or (product and len(before) == 2 and before[0] == before[1]):
        what = (
            "a sum with a number" if shifts else "one number for all channels" if reduces else "a product of two fields"
        )
        try:
            require(what, before[0], "pointwise")
        except TypeError as reason:
            raise refusal(step.call.place, reason) from None


def count_parameters(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def _report_row(path: str, step: Step, module: nn.Module, note: str) -> ReportRow:
    """The row for the counterpart ``module``, which stands at ``path``."""
    plain = step.call.plain
    before = 0 if plain is None else count_parameters(plain.parameters())
    return ReportRow(path, _before(step, plain), _after(module), before, count_parameters(module.parameters()), note)


def _before(step: Step, plain: nn.Module | None) -> str:
    if plain is None or step.call.node.op != "call_module":
        return f"{call_name(step.call.node)}(…)"
    name = type(plain).__name__
    return f"{name} {step.before[0].channels} → {step.after.channels}" if step.mixes else name


def _after(module: nn.Module) -> str:
    if isinstance(module, snn.Sequential):
        names = ", ".join(map(_name, module))
        return f"{names} {module.in_type} → {module.out_type}"
    name = _name(module)
    if not isinstance(module, snn.EquivariantModule):
        return f"{name} (kept)"
    if isinstance(module, snn.Pointwise) and type(module) in (snn.Pointwise, snn.Odd):
        name = f"{name}({function_name(module.function)})"
    if isinstance(module, snn.Concat) or module.in_type == module.out_type:
        return f"{name} {module.out_type}"
    return f"{name} {module.in_type} → {module.out_type}"


def _name(module: nn.Module) -> str:
    """The layer's class; a pooling that fits every size computes what that of steerable.nn does where that one fits."""
    return type(module).__name__.removeprefix("Fitted")


def _rounding(step: Step, after: FieldType) -> str:
    """A note on a number of channels that differs from the plain network's; "" if it does not."""
    plain = step.after.channels
    return f"{plain} channels became {after.channels}" if step.mixes and after.channels != plain else ""
