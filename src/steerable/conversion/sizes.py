"""Reading what a ``forward`` computes from sizes: shapes, numbers of pixels to be padded."""

from __future__ import annotations

from typing import Any

from torch import fx

from steerable.checking.operations import SHAPE_QUESTIONS
from steerable.conversion.extra_layers import PadTo
from steerable.conversion.graph_analysis import TRIALS, GraphAnalysis, Signal
from steerable.conversion.plain_calls import PlainCall
from steerable.conversion.plan import Replacement
from steerable.conversion.refusals import NoCounterpart, function_name

__all__ = ["fields_behind", "is_about_sizes", "read_pad_to"]

_ATTRIBUTES = ("shape", "ndim", "dtype", "device")


def is_about_sizes(analysis: GraphAnalysis, call: PlainCall) -> bool:
    """Whether a call sees no values of a field: only sizes, dtypes and devices, and what was made of those."""
    node = call.node
    name, inputs = function_name(node), node.all_input_nodes
    if name == "getattr" and inputs[0] in analysis.signals:
        if node.args[1] not in _ATTRIBUTES:
            raise NoCounterpart(
                f"of a tensor's attributes only {', '.join(_ATTRIBUTES)} can be followed, not {node.args[1]}."
            )
        return True
    asks = name in SHAPE_QUESTIONS or call.becomes == "new tensor"
    if asks and node.op == "call_method" and inputs[0] in analysis.signals:
        inputs = inputs[1:]
    return all(node in analysis.from_sizes for node in inputs)


def fields_behind(analysis: GraphAnalysis, value: Any) -> list[fx.Node]:
    """The fields whose sizes a value was computed from."""
    found: dict[fx.Node, None] = {}

    def visit(node: fx.Node) -> None:
        if node not in analysis.from_sizes:
            found[node] = None
            return
        for before in node.all_input_nodes:
            visit(before)

    fx.map_arg(value, visit)
    return list(found)


def read_pad_to(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record ``F.pad(x, sides)`` where the sides bring x to the size of another field; NoCounterpart for any others."""
    given = call.arguments()
    x, sides, mode, value = given["input"], given["pad"], given.get("mode", "constant"), given.get("value") or 0.0
    signal = analysis.tensor(x)
    others = [field for field in fields_behind(analysis, sides) if field is not x]
    if len(others) != 1 or any(not _brings_to(analysis, x, others[0], sides, trial) for trial in TRIALS):
        raise NoCounterpart(
            "it pads by what was computed from sizes, and that is followed only where it brings one map to the size of "
            "another: d // 2 pixels on the left and at the top, d - d // 2 on the right and at the bottom, for "
            "differences d of their widths and heights."
        )
    like = analysis.tensor(others[0])
    if not (signal.is_map and like.is_map):
        raise NoCounterpart("it takes a map of pixels, but gets a vector.")

    def build(before: Any, after: Any, downsampling: Any) -> Replacement:
        return PadTo(before[0], before[1], mode, value), "exact where an even number of rows and columns is added"

    analysis.add(analysis.named(call, "pad"), (x, others[0]), Signal("map", signal.variable), build)


def _brings_to(analysis: GraphAnalysis, x: fx.Node, like: fx.Node, sides: Any, trial: int) -> bool:
    """Whether the sides are those of :class:`PadTo`, for fields of random sizes."""
    ours, theirs = analysis.shape(x, trial)[2:], analysis.shape(like, trial)[2:]
    if not len(ours) == len(theirs) == analysis.axes:
        return False
    added = [m - n for n, m in zip(ours, theirs, strict=True)]
    expected = [side for n in reversed(added) for side in (n // 2, n - n // 2)]
    return list(analysis.measured(sides, trial)) == expected
