"""A call of the plain network: its function, its arguments, and its name in messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import Tensor, fx, nn

from steerable.checking.calls import OTHER_NAMES, Operation
from steerable.checking.operations import known_layer, known_operation
from steerable.conversion.refusals import (
    NoCounterpart,
    call_name,
    path_below_root,
    place_of_call,
    place_of_module,
    scope_of,
)

__all__ = ["PlainCall", "called", "plain_call"]


@dataclass(frozen=True)
class PlainCall:
    """A call of a module, a function or a method.

    Attributes:
        node: the call in the graph of the plain network.
        place: what it is called in messages.
        operation: its row in the table of operations; None if it has none.
        plain: the module that is called, or the one that does what a function does; None for other functions.
        path: where that module is, or where the counterpart of a function will be.
    """

    node: fx.Node
    place: str
    operation: Operation | None
    plain: nn.Module | None = None
    path: str = ""

    @property
    def becomes(self) -> str:
        """The rule by which it is followed, from the table of operations; "" if it is unknown."""
        return self.operation.becomes if self.operation is not None else ""

    @property
    def name(self) -> str:
        """The bare name of the operation, ``add`` for ``x += y``, or of a function that is not known."""
        return self.operation.name if self.operation is not None else call_name(self.node)

    @property
    def source(self) -> Any:
        """Its first argument."""
        return self.node.args[0] if self.node.args else self.node.kwargs.get("input")

    @property
    def others(self) -> tuple[Any, ...]:
        """All arguments but the first."""
        return (self.node.args[1:], self.node.kwargs)

    @property
    def scope(self) -> str:
        """The path of the module in whose ``forward`` it stands."""
        return scope_of(self.node)[0]

    def arguments(self, *refused: str) -> dict[str, Any]:
        """The arguments that are given, by name.

        NoCounterpart for one that the table does not know, for ``out``, for those named in ``refused``, and for one
        other than ``training`` that follows the mode of the network.
        """
        if self.operation is None:
            raise NoCounterpart("its arguments are not known here.")
        known = {name: p for name, p in self.operation.signature.parameters.items() if name not in ("out", *refused)}
        if not isinstance(self.node.target, FunctionType):
            known.pop("_stacklevel", None)  # functions of torch.nn.functional alone have it
        ordered = [name for name, parameter in known.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        args, kwargs = self.node.args, self.node.kwargs
        if len(args) > len(ordered):
            raise NoCounterpart(
                f"its argument {args[len(ordered)]!r} in place {len(args)} is not known here. Leave it out."
            )
        given: dict[str, Any] = dict(zip(ordered, args, strict=False))
        for key, value in kwargs.items():
            name = key if key in known else OTHER_NAMES.get(key, key)
            if name not in known or name in given:
                raise NoCounterpart(f"its argument {key}={value!r} is not known here. Leave it out.")
            given[name] = value
        for key in self.node.meta.get("by_mode", ()):
            name = ordered[key] if isinstance(key, int) else OTHER_NAMES.get(key, key)
            if name != "training":
                raise NoCounterpart(
                    f"its argument {name} differs between training and evaluation. Give it one value for both."
                )
        return given


def plain_call(root: nn.Module, node: fx.Node) -> PlainCall:
    """The call behind a node of the graph; ``root`` is the module that holds its modules."""
    if node.op == "call_module":
        plain = root.get_submodule(str(node.target))
        path = path_below_root(str(node.target)) or type(plain).__name__.lower()
        return PlainCall(node, place_of_module(str(node.target), plain), known_layer(type(plain)), plain, path)
    function: Any = getattr(Tensor, node.target, None) if isinstance(node.target, str) else node.target
    return PlainCall(node, place_of_call(node), known_operation(function))


def called(node: fx.Node, stand_in: Callable[[fx.Node], Any]) -> Any:
    """The result of a call with each of its inputs replaced; NoCounterpart if it accepts no such replacement."""
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
