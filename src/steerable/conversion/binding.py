"""The arguments of a call by name, where what is not known is refused, never dropped; and calls made on stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from steerable.conversion.refusals import NoCounterpart

__all__ = ["bound", "called"]

_SYNONYMS = {"axis": "dim"}


def bound(node: fx.Node, names: str) -> dict[str, Any]:
    """The arguments of a call by name.

    Args:
        node: the call.
        names: of its parameters, in order; those behind a ``*`` are given by keyword only.

    NoCounterpart for any other argument, and for one other than ``training`` that follows the mode of the network.
    """
    places, _, keywords = names.partition("*")
    ordered = places.split()
    known = {*ordered, *keywords.split()}
    if len(node.args) > len(ordered):
        raise NoCounterpart(
            f"its argument {node.args[len(ordered)]!r} in place {len(node.args)} is not known here. Leave it out."
        )
    given: dict[str, Any] = dict(zip(ordered, node.args, strict=False))
    for key, value in node.kwargs.items():
        name = _SYNONYMS.get(key, key)
        if name not in known or name in given:
            raise NoCounterpart(f"its argument {key}={value!r} is not known here. Leave it out.")
        given[name] = value
    for key in node.meta.get("by_mode", ()):
        name = ordered[key] if isinstance(key, int) else key
        if name != "training":
            raise NoCounterpart(f"its argument {name} is another one in training than in evaluation. Fix it.")
    return given


def called(node: fx.Node, stand_in: Callable[[fx.Node], Any]) -> Any:
    """What a call gives when each of its inputs is replaced; NoCounterpart where it takes no such replacement."""
    args: Any = fx.map_arg(node.args, stand_in)
    kwargs: Any = fx.map_arg(node.kwargs, stand_in)
    try:
        if isinstance(node.target, str):
            return getattr(args[0], node.target)(*args[1:], **kwargs)
        return node.target(*args, **kwargs)
    except NoCounterpart:
        raise
    except Exception as error:  # whatever the plain code raises
        raise NoCounterpart(f"what it does with sizes cannot be followed ({type(error).__name__}: {error}).") from None
