"""Reading what a ``forward`` computes from sizes: shapes, numbers of pixels to be padded."""

from __future__ import annotations

from typing import Any

from torch import fx, nn

from steerable.conversion.binding import bound
from steerable.conversion.ledger import TRIALS, Ledger, Signal, Step
from steerable.conversion.network import PadTo
from steerable.conversion.refusals import NoCounterpart, function_name, scope_of

__all__ = ["fields_behind", "is_about_sizes", "read_pad_to"]

_ATTRIBUTES = ("shape", "ndim", "dtype", "device")
_METHODS = ("size", "dim", "ndimension", "new_empty", "new_ones", "new_zeros", "new_full")


def is_about_sizes(ledger: Ledger, node: fx.Node) -> bool:
    """Whether a call sees no values of a field: only sizes, dtypes and devices, and what was made of those."""
    name, inputs = function_name(node), node.all_input_nodes
    if name == "getattr" and inputs[0] in ledger.signals:
        if node.args[1] not in _ATTRIBUTES:
            raise NoCounterpart(
                f"of a tensor's attributes only {', '.join(_ATTRIBUTES)} can be followed, not {node.args[1]}."
            )
        return True
    if name in _METHODS and node.op == "call_method" and inputs[0] in ledger.signals:
        inputs = inputs[1:]
    return all(node in ledger.free for node in inputs)


def fields_behind(ledger: Ledger, value: Any) -> list[fx.Node]:
    """The fields whose sizes a value was computed from."""
    found: dict[fx.Node, None] = {}

    def visit(node: fx.Node) -> None:
        if node not in ledger.free:
            found[node] = None
            return
        for before in node.all_input_nodes:
            visit(before)

    fx.map_arg(value, visit)
    return list(found)


def read_pad_to(ledger: Ledger, node: fx.Node, place: str) -> None:
    """Note ``F.pad(x, sides)`` where the sides bring x to the size of another field; NoCounterpart for any others."""
    given = bound(node, "input pad mode value")
    x, sides, mode, value = given["input"], given["pad"], given.get("mode", "constant"), given.get("value") or 0.0
    signal = ledger.tensor(x)
    others = [field for field in fields_behind(ledger, sides) if field is not x]
    if len(others) != 1 or any(not _brings_to(ledger, x, others[0], sides, trial) for trial in TRIALS):
        raise NoCounterpart(
            "it pads by what was computed from sizes, and that is followed only where it brings one map to the size of "
            "another: d // 2 pixels on the left and at the top, d - d // 2 on the right and at the bottom, for "
            "differences d of their widths and heights."
        )
    like = ledger.tensor(others[0])
    if signal.form not in ("map", "point") or like.form not in ("map", "point"):
        raise NoCounterpart("it takes a map of pixels, but gets a vector.")

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        return PadTo(before[0], before[1], mode, value), "exact where an even number of rows and columns is added"

    path = ledger.free_path(scope_of(node)[0], "pad")
    step = Step(node, place, (x, others[0]), (signal.fibre, like.fibre), signal.fibre, path, None, build)
    ledger.add(step, Signal("map", signal.fibre))


def _brings_to(ledger: Ledger, x: fx.Node, like: fx.Node, sides: Any, trial: int) -> bool:
    """Whether the sides come to those of :class:`PadTo`, for fields of random sizes."""
    ours, theirs = ledger.shape(x, trial)[2:], ledger.shape(like, trial)[2:]
    rows, columns = (m - n for n, m in zip(ours, theirs, strict=True)) if len(ours) == len(theirs) == 2 else (0, 0)
    return list(ledger.measured(sides, trial)) == [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2]
