"""The reasons why a network, or a part of it, has no steerable counterpart, and the names of its parts."""

from __future__ import annotations

import itertools
from collections.abc import Container

from torch import fx, nn

__all__ = [
    "ROOT",
    "ConversionError",
    "NoCounterpart",
    "call_name",
    "free_path",
    "path_below_root",
    "place_of_call",
    "place_of_module",
    "refusal",
    "scope_of",
]

ROOT = "network"  # what the tracer calls the network itself


class ConversionError(TypeError):
    """A part of the network has no steerable counterpart; the message names it, says why, and what to do."""


class NoCounterpart(TypeError):
    """The reason and the remedy, still without the name of the part; raised and caught inside."""


def refusal(place: str, reason: object) -> ConversionError:
    """The message in full: ``place`` is a part of the network, ``reason`` says why and what to do."""
    return ConversionError(f"cannot convert {place}: {reason}")


def path_below_root(path: str) -> str:
    """The path as the user knows it: "" for the network itself, ``layer1.0.conv1`` for a part of it."""
    return path.removeprefix(ROOT).removeprefix(".")


def free_path(path: str, taken: Container[str]) -> str:
    """The path, or the first free one with a number appended."""
    numbered = (f"{path}_{count}" for count in itertools.count(1))
    return next(found for found in itertools.chain([path], numbered) if found not in taken)


def place_of_module(path: str, module: nn.Module) -> str:
    """The name of a module in messages."""
    below = path_below_root(path)
    return f"`{below}` ({type(module).__name__})" if below else f"the network ({type(module).__name__})"


def place_of_call(node: fx.Node) -> str:
    """The name of a call in messages: the function or method itself, and the module that calls it."""
    path, owner = scope_of(node)
    where = f"`{path}`" if path else "the network"
    return f"`{call_name(node)}` in the forward of {where} ({owner})"


def scope_of(node: fx.Node) -> tuple[str, str]:
    """Path and class of the module in whose ``forward`` a call stands."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    if not stack:
        return "", "Module"
    path, owner = stack[-1]
    return path_below_root(path), str(getattr(owner, "__name__", owner))


def call_name(node: fx.Node) -> str:
    """The bare name: ``relu`` for F.relu, torch.relu_ and Tensor.relu."""
    target = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return str(name).strip("_")
