"""The converted network put together, once there is a type for every fibre."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable

import torch
from torch import fx, nn

from steerable import nn as snn
from steerable.conversion.ledger import Step
from steerable.conversion.reading import Plan
from steerable.conversion.refusals import NoCounterpart, function_name, refusal
from steerable.conversion.report import ReportRow
from steerable.conversion.widths import Widths
from steerable.conversion.windows import Downsampling
from steerable.nn.activations import require
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.init import he_
from steerable.types.field_types import FieldType

__all__ = ["build", "count_parameters"]

_SCALARS = "scalars only, since it is added to the output; out_type=... lets the output be richer"


def build(plan: Plan, widths: Widths, downsampling: Downsampling) -> tuple[fx.GraphModule, tuple[ReportRow, ...]]:
    """The network with fresh weights, and what was replaced by what; ConversionError where a layer refuses its type.

    Each call of its graph knows its field type, and what it is called in messages, in ``meta``.
    """
    graph = fx.Graph()
    values = {plan.image: graph.placeholder("x")}
    values[plan.image].meta = {"field_type": widths.type_of(plan.in_fibre), "place": "the image"}
    modules: dict[str, nn.Module] = {}
    made: dict[tuple[str, tuple[FieldType, ...], FieldType], str] = {}
    rows, scalars, last = [], _scalar_stage(plan), {leaf for leaf in plan.out_fibre.leaves if leaf.scalar}
    for step in plan.steps:
        inputs = tuple(values[plan.aliases.get(node, node)] for node in step.inputs)
        before, after = tuple(widths.type_of(fibre) for fibre in step.before), widths.type_of(step.after)
        if step.operation is not None:
            _check_operation(step, before, after)
            arguments = {node: values[plan.aliases.get(node, node)] for node in step.inputs}
            # Keyword arguments other than the operands, such as alpha, go along.
            values[step.node] = graph.call_function(
                step.operation,
                fx.map_arg(step.node.args, arguments.__getitem__),
                fx.map_arg(step.node.kwargs, arguments.__getitem__),
            )
            values[step.node].meta = {"field_type": after, "place": step.place}
            continue
        key = (step.path, before, after)
        if key not in made:
            module, note = _counterpart(step, before, after, downsampling)
            if step.mixes and last.intersection(step.after.leaves):
                _start_small(module)
            made[key] = _free(step.path, modules, plan.taken)
            modules[made[key]] = module
            remarks = (_rounding(step, after), note, _SCALARS if step in scalars else "")
            rows.append(_row(made[key], step, module, "; ".join(filter(None, remarks))))
        values[step.node] = graph.call_module(made[key], inputs)
        values[step.node].meta = {"field_type": after, "place": step.place}
    graph.output(values[plan.result])
    return fx.GraphModule(modules, graph, class_name="ConvertedNetwork"), tuple(rows)


def _start_small(module: nn.Module) -> None:
    """Draw the weights of a layer that gives the scores such that they begin about as small as torch's own would.

    torch's layers have the gain 1/√3, He's rule √2. Behind a mean over pixels the d channels of a regular capsule are
    alike, and add up to √d times as much.
    """
    for layer in module.modules():
        if isinstance(layer, FilterBankModule):
            he_(layer, gain=math.sqrt(len(layer.in_type) / layer.in_type.channels / 3))


def _scalar_stage(plan: Plan) -> list[Step]:
    """The layers that give scalars only because sums tie them to the output; a single last layer is meant to."""
    leaves = {leaf for leaf in plan.out_fibre.leaves if leaf.scalar}
    tied = [step for step in plan.steps if step.mixes and leaves.intersection(step.after.leaves)]
    return tied if len(tied) > 1 else []


def count_parameters(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def _counterpart(
    step: Step, before: tuple[FieldType, ...], after: FieldType, downsampling: Downsampling
) -> tuple[nn.Module, str]:
    if step.build is None:
        raise RuntimeError("a step is an operation or has a builder")
    try:
        return step.build(before, after, downsampling)
    except (NoCounterpart, TypeError, ValueError) as reason:
        raise refusal(step.place, reason) from None


def _check_operation(step: Step, before: tuple[FieldType, ...], after: FieldType) -> None:
    """Refuse sums and products of fields that the group moves differently, or whose capsules do not admit them."""
    product = function_name(step.node) in ("mul", "imul", "multiply")
    different = [t for t in before if t != after and not (t.channels == 1 and product)]
    if different:
        raise refusal(
            step.place,
            f"it combines fields of types `{before[0]}` and `{before[-1]}`, which the group moves differently. Bring "
            "both to the same channels with a 1×1 convolution.",
        )
    shifts = step.operation in (torch.add, torch.sub, operator.add, operator.sub) and len(before) == 1
    if shifts or (product and len(before) == 2 and before[0] == before[1]):
        try:
            require("a sum with a number" if shifts else "a product of two fields", after, "pointwise")
        except TypeError as reason:
            raise refusal(step.place, reason) from None


def _free(path: str, modules: dict[str, nn.Module], taken: frozenset[str]) -> str:
    """The plain path, or one with a number where a layer without weights is used on several types."""
    name, count = path, 0
    while name in modules or (count and name in taken):
        count += 1
        name = f"{path}_{count}"
    return name


def _row(path: str, step: Step, module: nn.Module, note: str) -> ReportRow:
    plain = step.plain
    before = 0 if plain is None else count_parameters(plain.parameters())
    return ReportRow(path, _before(step, plain), _after(module), before, count_parameters(module.parameters()), note)


def _before(step: Step, plain: nn.Module | None) -> str:
    if plain is None or step.node.op != "call_module":
        return f"{function_name(step.node)}(…)"
    name = type(plain).__name__
    return f"{name} {step.before[0].channels} → {step.after.channels}" if step.mixes else name


def _after(module: nn.Module) -> str:
    if isinstance(module, snn.Sequential):
        names = ", ".join(map(_name, module))
        return f"{names} {module.in_type} → {module.out_type}"
    name = _name(module)
    if not isinstance(module, snn.EquivariantModule):
        return f"{name} (kept)"
    if type(module) in (snn.Pointwise, snn.Odd):
        name = f"{name}({type(module.function).__name__})"
    if isinstance(module, snn.Concat) or module.in_type == module.out_type:
        return f"{name} {module.out_type}"
    return f"{name} {module.in_type} → {module.out_type}"


def _name(module: nn.Module) -> str:
    """The layer's class; a pooling that fits every size computes what that of steerable.nn does where that one fits."""
    return type(module).__name__.removeprefix("Fitted")


def _rounding(step: Step, after: FieldType) -> str:
    plain = step.after.channels
    return f"{plain} channels became {after.channels}" if step.mixes and after.channels != plain else ""
