"""The rows of the report: what each counterpart replaced, in words."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from steerable import nn as snn
from steerable.conversion.plan import Step
from steerable.conversion.refusals import function_name
from steerable.conversion.report import ReportRow
from steerable.nn.scalar_functions import function_name as scalar_function_name
from steerable.types.field_types import FieldType

__all__ = ["count_parameters", "report_row", "rounding"]


def count_parameters(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)


def report_row(path: str, step: Step, module: nn.Module, note: str) -> ReportRow:
    """The row for the counterpart ``module``, which stands at ``path``."""
    plain = step.call.plain
    before = 0 if plain is None else count_parameters(plain.parameters())
    return ReportRow(path, _before(step, plain), _after(module), before, count_parameters(module.parameters()), note)


def _before(step: Step, plain: nn.Module | None) -> str:
    if plain is None or step.call.node.op != "call_module":
        return f"{function_name(step.call.node)}(…)"
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
        name = f"{name}({scalar_function_name(module.function)})"
    if isinstance(module, snn.Concat) or module.in_type == module.out_type:
        return f"{name} {module.out_type}"
    return f"{name} {module.in_type} → {module.out_type}"


def _name(module: nn.Module) -> str:
    """The layer's class; a pooling that fits every size computes what that of steerable.nn does where that one fits."""
    return type(module).__name__.removeprefix("Fitted")


def rounding(step: Step, after: FieldType) -> str:
    """What to say of a number of channels that is not the plain network's; "" where it is."""
    plain = step.after.channels
    return f"{plain} channels became {after.channels}" if step.mixes and after.channels != plain else ""
