"""Reading sizes and reshapes: a map of one pixel as a vector, and a vector as a map of one pixel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx, nn

from steerable.conversion.layers import read_flatten
from steerable.conversion.ledger import Ledger, Signal, Step
from steerable.conversion.network import FibreToMap
from steerable.conversion.refusals import NoCounterpart, scope_of

__all__ = ["read_index", "read_reshape", "read_size"]


def read_size(ledger: Ledger, node: fx.Node, name: str, first: Any) -> None:
    """Note that a call gives the size of a tensor, or a part of it."""
    if name == "getattr" and node.args[1] != "shape":
        raise NoCounterpart(f"of a tensor's attributes only .shape can be followed, not .{node.args[1]}.")
    known = ledger.signals[first] if ledger.is_shape(first) else ledger.tensor(first)
    ledger.signals[node] = Signal("shape", known.fibre)


def read_reshape(ledger: Ledger, node: fx.Node, place: str, name: str, first: Any) -> None:
    """Note a reshape between (batch, channels, 1, 1) and (batch, channels); NoCounterpart for any other."""
    signal = ledger.tensor(first, line=True)
    sizes: Any = node.args[1:] or tuple(value for key, value in node.kwargs.items() if key != "input")
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    if name == "squeeze" and (signal.form == "point" or signal.lined_by == "squeeze"):
        if _read_squeeze(ledger, node, place, first, sizes, signal):
            return
    elif (
        signal.form in ("map", "point")
        and len(sizes) == 3
        and sizes[2] == -1
        and (sizes[1] == signal.fibre.channels or ledger.is_shape(sizes[1]))
    ):
        ledger.alias(node, first, Signal("line", signal.fibre, lined_by="flatten"))  # (batch, channels, pixels)
        return
    if signal.form in ("vector", "flat") and (name == "squeeze" or len(sizes) == 1):
        raise NoCounterpart(
            "it takes the dimension of the channels away. Leave it out, and apply it to what the network returns."
        )
    if signal.form in ("vector", "flat"):
        if len(sizes) == 4 and sizes[2:] == (1, 1):
            _read_to_map(ledger, node, place, first, signal)
            return
        if len(sizes) == 2:
            ledger.alias(node, first, signal)
            return
    elif signal.form != "line" and name != "squeeze" and len(sizes) == 2:
        last = sizes[1] if sizes else -1
        channels = signal.fibre.channels
        if last == -1 or last == channels or ledger.is_shape(last):
            path = ledger.free_path(scope_of(node)[0], "flatten")
            read_flatten(ledger, node, first, place, path, nn.Flatten(), certain=last != -1)
            return
        raise NoCounterpart(
            f"it lays several pixels of {channels} channels side by side. Pool over all pixels first, with "
            "nn.AdaptiveAvgPool2d(1)."
        )
    raise NoCounterpart(
        f"a reshape to {sizes} is not known to be equivariant. Flatten a 1×1 map with torch.flatten(x, 1), and make a "
        "map of a vector with x[:, :, None, None]."
    )


def _read_squeeze(ledger: Ledger, node: fx.Node, place: str, first: Any, dims: Any, signal: Signal) -> bool:
    """Note that the sides of a map of one pixel go, both or one at a time; False where it is something else."""
    sides = (2, 3) if signal.form == "point" else (2,)
    rank = len(sides) + 2
    if any(not isinstance(d, int) for d in dims):
        return False
    gone = {d % rank for d in dims} if dims else set(sides)
    if not gone <= set(sides):
        return False
    if gone != set(sides):
        ledger.alias(node, first, Signal("line", signal.fibre, lined_by="squeeze"))
        return True
    path = ledger.free_path(scope_of(node)[0], "flatten")
    source = ledger.aliases.get(first, first)
    read_flatten(ledger, node, source, place, path, nn.Flatten(), certain=True)
    return True


def read_index(ledger: Ledger, node: fx.Node, place: str, first: Any) -> None:
    """Note x[:, :, None, None] of a vector; NoCounterpart for any other."""
    signal = ledger.tensor(first)
    whole = (slice(None), slice(None), None, None)
    if node.args[1] == whole and signal.form == "vector":
        _read_to_map(ledger, node, place, first, signal)
        return
    if node.args[1] == (slice(None), slice(None), 0, 0) and signal.form == "point":
        read_flatten(ledger, node, first, place, ledger.free_path(scope_of(node)[0], "flatten"), nn.Flatten())
        return
    raise NoCounterpart(
        "indexing takes channels or pixels apart. Only x[:, :, None, None] of a vector is followed, and x[:, :, 0, 0] "
        "of a map of one pixel."
    )


def _read_to_map(ledger: Ledger, node: fx.Node, place: str, first: Any, signal: Signal) -> None:
    if signal.form == "flat":
        raise NoCounterpart("it makes a map of a flattened one. Pool over all pixels first.")

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        return FibreToMap(before[0]), ""

    path = ledger.free_path(scope_of(node)[0], "to_map")
    step = Step(node, place, (first,), (signal.fibre,), signal.fibre, path, None, build)
    ledger.add(step, Signal("point", signal.fibre))
