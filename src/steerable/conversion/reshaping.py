"""Reading sizes and reshapes: a map of one pixel as a vector, and a vector as a map of one pixel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn

from steerable.conversion.binding import called
from steerable.conversion.layers import read_flatten
from steerable.conversion.ledger import TRIALS, Ledger, Signal, Step
from steerable.conversion.network import FibreToMap
from steerable.conversion.refusals import NoCounterpart, scope_of

__all__ = ["read_index", "read_permutation", "read_reshape"]


def read_permutation(ledger: Ledger, node: fx.Node, first: Any) -> None:
    """Note that a map's channels go last, or come back; NoCounterpart for any other order of dimensions."""
    signal = ledger.tensor(first, "last")
    probe = torch.empty(tuple(range(len(ledger.shape(first, 0)))), device="meta")
    moved = called(node, lambda _: probe)
    order, forms = tuple(moved.shape), {(0, 2, 3, 1): ("map", "last"), (0, 3, 1, 2): ("last", "map")}
    if order == tuple(probe.shape):
        ledger.alias(node, first, signal)
        return
    before, after = forms.get(order, ("", ""))
    if signal.form not in (before, "point" if before == "map" else before):
        raise NoCounterpart(
            f"it puts the dimensions into the order {order}. Only the channels of a map may go last, with "
            "x.permute(0, 2, 3, 1), and come back, with x.permute(0, 3, 1, 2)."
        )
    ledger.alias(node, first, Signal(after, signal.fibre))  # type: ignore[arg-type]


def read_reshape(ledger: Ledger, node: fx.Node, place: str, name: str, first: Any) -> None:
    """Note a reshape between (batch, channels, 1, 1) and (batch, channels); NoCounterpart for any other."""
    signal = ledger.tensor(first, "line")
    parameter = {"view": "size", "reshape": "shape", "squeeze": "dim"}[name]
    if set(node.kwargs) - {"input", parameter}:
        raise NoCounterpart(f"its argument {', '.join(set(node.kwargs) - {'input', parameter})} is not known here.")
    given: Any = node.args[1:] or tuple(node.kwargs[key] for key in (parameter,) if key in node.kwargs)
    given = tuple(given[0]) if len(given) == 1 and isinstance(given[0], Sequence) else given
    sizes = _named(ledger, first, given)
    if name == "squeeze" and (signal.form == "point" or signal.lined_by == "squeeze"):
        if _read_squeeze(ledger, node, place, first, given, signal):
            return
    elif signal.form in ("map", "point") and sizes in (["batch", "channels", -1], ["batch", "channels", "pixels"]):
        ledger.alias(node, first, Signal("line", signal.fibre, lined_by="flatten"))  # (batch, channels, pixels)
        return
    if signal.form in ("vector", "flat") and (name == "squeeze" or len(sizes) == 1):
        raise NoCounterpart(
            "it takes the dimension of the channels away. Leave it out, and apply it to what the network returns."
        )
    rows, rest = sizes[:1] in (["batch"], [-1]), sizes[1:]
    if signal.form in ("vector", "flat") and rows:
        if rest in (["channels", 1, 1], [-1, 1, 1]):
            _read_to_map(ledger, node, place, first, signal)
            return
        if rest in ([-1], ["channels"], ["values"]):
            ledger.alias(node, first, signal)
            return
    elif signal.form in ("map", "point") and name != "squeeze" and rows and len(rest) == 1:
        _read_flat_view(ledger, node, place, first, rest[0])
        return
    raise NoCounterpart(
        f"a reshape to {given} is not known to be equivariant. Flatten a 1×1 map with torch.flatten(x, 1), and make a "
        "map of a vector with x[:, :, None, None]."
    )


def _read_flat_view(ledger: Ledger, node: fx.Node, place: str, first: Any, last: int | str) -> None:
    """Note x.view(batch, last) of a map."""
    channels = ledger.signals[first].fibre.channels
    several = isinstance(last, int) and last != -1
    if several and not (ledger.pools_head and channels and int(last) % channels == 0):
        raise NoCounterpart(
            f"it lays several pixels of {channels} channels side by side. Pool over all pixels first, with "
            "nn.AdaptiveAvgPool2d(1); convert(..., head='pool') does so by itself."
        )
    path = ledger.free_path(scope_of(node)[0], "flatten")
    read_flatten(ledger, node, first, place, path, nn.Flatten(), certain=last == "channels")


def _named(ledger: Ledger, source: fx.Node, sizes: Sequence[Any]) -> list[Any]:
    """Sizes by what they are of a field: "batch", "channels", "pixels", "values" (all of one sample), or numbers."""
    names: list[Any] = []
    for size in sizes:
        candidates: list[set[Any]] = []
        for trial in TRIALS:
            shape, found = ledger.shape(source, trial), ledger.measured(size, trial)
            pixels, values = math.prod(shape[2:]), math.prod(shape[1:])
            known = {"batch": shape[0], "channels": shape[1], "pixels": pixels, "values": values}
            candidates.append({name for name, count in known.items() if count == found} | {found})
        common = set.intersection(*candidates)
        symbolic = [name for name in ("batch", "channels", "pixels", "values") if name in common]
        is_number = isinstance(size, int) and "channels" not in symbolic  # as 1 is, of a map of one pixel
        names.append(size if is_number or not symbolic else symbolic[0])
    return names


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
