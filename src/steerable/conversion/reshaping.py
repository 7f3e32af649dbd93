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
    signal = ledger.tensor(first)
    sizes: Any = node.args[1:] or tuple(node.kwargs.values())
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    if signal.form in ("vector", "flat"):
        if len(sizes) == 4 and sizes[2:] == (1, 1):
            _read_to_map(ledger, node, place, first, signal)
            return
        if len(sizes) == 2:
            ledger.alias(node, first, signal)
            return
    elif (name == "squeeze" and not sizes and signal.form == "point") or (name != "squeeze" and len(sizes) == 2):
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


def read_index(ledger: Ledger, node: fx.Node, place: str, first: Any) -> None:
    """Note x[:, :, None, None] of a vector; NoCounterpart for any other."""
    signal = ledger.tensor(first)
    whole = (slice(None), slice(None), None, None)
    if node.args[1] == whole and signal.form == "vector":
        _read_to_map(ledger, node, place, first, signal)
        return
    raise NoCounterpart("indexing takes channels or pixels apart. Only x[:, :, None, None] of a vector is followed.")


def _read_to_map(ledger: Ledger, node: fx.Node, place: str, first: Any, signal: Signal) -> None:
    if signal.form == "flat":
        raise NoCounterpart("it makes a map of a flattened one. Pool over all pixels first.")

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        return FibreToMap(before[0]), ""

    path = ledger.free_path(scope_of(node)[0], "to_map")
    step = Step(node, place, (first,), (signal.fibre,), signal.fibre, path, None, build)
    ledger.add(step, Signal("point", signal.fibre))
