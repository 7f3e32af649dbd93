"""Values that a ``forward`` computes from sizes: shapes, numbers of pixels to pad, sizes of other maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import fx

from steerable.checking.operations import SHAPE_QUESTIONS
from steerable.conversion.fitting_sizes import ExpandTo, FittedTo, PadTo, ResizeTo
from steerable.conversion.graph_analysis import GraphAnalysis, Signal
from steerable.conversion.plain_calls import PlainCall
from steerable.conversion.refusals import NoCounterpart, call_name
from steerable.types.field_types import FieldType

__all__ = ["fields_behind", "is_about_sizes", "read_expand_to", "read_pad_to", "read_resize_to"]

_ATTRIBUTES = ("shape", "ndim", "dtype", "device")


def is_about_sizes(analysis: GraphAnalysis, call: PlainCall) -> bool:
    """Whether a call sees no values of a field, only sizes, dtypes and devices, and results computed from those."""
    node = call.node
    name, inputs = call_name(node), node.all_input_nodes
    if name == "getattr" and inputs[0] in analysis.signals:
        if node.args[1] in _ATTRIBUTES:
            return True
        if node.args[1] != "values" or analysis.signals[inputs[0]].form != "unfinished":
            raise NoCounterpart(
                f"of a tensor's attributes only {', '.join(_ATTRIBUTES)} can be followed, not {node.args[1]}."
            )
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
    others = [field for field in fields_behind(analysis, sides) if field is not x]
    if len(others) != 1 or not analysis.always(sides, partial(_sides, analysis, x, others[0])):
        raise NoCounterpart(
            "it pads by what was computed from sizes, and that is followed only if it brings one map to the size of "
            "another: d // 2 pixels on the left and at the top, d - d // 2 on the right and at the bottom, for "
            "differences d of their widths and heights."
        )
    note = "exact where an even number of rows and columns is added"
    _add(analysis, analysis.named(call, "pad"), (x, others[0]), partial(PadTo, mode=mode, value=value), note)


def read_resize_to(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record ``F.interpolate(x, like.shape[2:])``; NoCounterpart for other sizes that are computed."""
    given = call.arguments()
    x, size, mode = given["input"], given.get("size"), given.get("mode", "nearest")
    like = _taken_from(analysis, x, size)
    if like is None or any(given.get(name) for name in ("scale_factor", "recompute_scale_factor", "antialias")):
        raise NoCounterpart(
            "its arguments are computed from sizes, which is followed only if they are the size of another map. Use "
            "F.interpolate(x, other.shape[2:]), or scale_factor=2."
        )
    note = "exact where it enlarges by a whole factor" if mode.startswith("nearest") else ""
    make = partial(ResizeTo, mode=mode, align_corners=given.get("align_corners"))
    _add(analysis, analysis.named(call, "resize"), (x, like), make, note)


def read_expand_to(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record that a map of one pixel is repeated over another, with ``expand_as`` or ``expand``."""
    x: Any = call.source
    signal = analysis.tensor(x)
    if call.name == "expand_as":
        like = call.arguments()["other"]
    else:
        sizes: Any = call.node.args[1:]
        sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence | fx.Node) else sizes
        like = _taken_from(analysis, x, sizes, whole=True)
    if signal.form != "point" or like is None or analysis.tensor(like).variable.channels != signal.variable.channels:
        raise NoCounterpart(
            "it repeats something other than a map of one pixel over another map of as many channels. Multiply or add "
            "the two as they are; or pool first, with nn.AdaptiveAvgPool2d(1)."
        )
    _add(analysis, analysis.named(call, "expand"), (x, like), ExpandTo, "")


def _taken_from(analysis: GraphAnalysis, x: fx.Node, sizes: Any, *, whole: bool = False) -> fx.Node | None:
    """The other map whose extents these sizes are, or whose ``whole`` shape; None if there is none."""
    kept = [whole and axis < 2 and size == -1 for axis, size in enumerate(sizes if isinstance(sizes, Sequence) else ())]

    def extents(like: fx.Node, trial: int) -> list[int]:
        shape = analysis.shape(like, trial)[0 if whole else 2 :]
        return [-1 if any(kept[axis : axis + 1]) else n for axis, n in enumerate(shape)]

    for like in fields_behind(analysis, sizes):
        if like is not x and analysis.signals[like].form == "map" and analysis.always(sizes, partial(extents, like)):
            return like
    return None


def _add(
    analysis: GraphAnalysis,
    call: PlainCall,
    fields: tuple[fx.Node, fx.Node],
    make: Callable[[FieldType, FieldType], FittedTo],
    note: str,
) -> None:
    """Record a layer that brings the first field to the size of the second."""
    signal, like = map(analysis.tensor, fields)
    if not (signal.is_map and like.is_map):
        raise NoCounterpart("it takes a map of pixels, but gets a vector.")

    result = Signal(like.form, signal.variable)
    analysis.add(call, fields, result, lambda before, after: make(before[0], before[1]), note=note)


def _sides(analysis: GraphAnalysis, x: fx.Node, like: fx.Node, trial: int) -> list[int]:
    """The sides of :class:`PadTo`, for fields of random sizes."""
    added = [m - n for n, m in zip(analysis.shape(x, trial)[2:], analysis.shape(like, trial)[2:], strict=False)]
    return [side for n in reversed(added) for side in (n // 2, n - n // 2)]
