"""A call of a torch function on fields: its arguments by name, and which of them are fields."""

from __future__ import annotations

import ast
import inspect
import numbers
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from steerable.types.field_types import FieldType

__all__ = [
    "OTHER_NAMES",
    "Call",
    "Operation",
    "Refused",
    "Result",
    "Rule",
    "Unfit",
    "bound_call",
    "is_number",
    "replaced",
    "tensors_in",
]

# The type of the result; one type per tensor of a tuple, None for those that are not fields; None for no field at all.
Result = FieldType | Sequence[FieldType | None] | None

# torch's functions and methods call one argument by several names.
OTHER_NAMES = {
    "self": "input", "tensor": "input", "axis": "dim", "train": "training", "keepdims": "keepdim", "ord": "p"
}  # fmt: skip


class Refused(TypeError):
    """Raised for an operation that is not equivariant, or is not known to be."""


class Unfit(Refused):
    """Raised for an operation that is equivariant on inputs of another size."""


@dataclass(frozen=True)
class Call:
    """One call of a torch function on fields.

    Attributes:
        name: the operation's bare name, such as ``"add"`` for ``torch.add`` and ``Tensor.add_``.
        arguments: every argument by name, with defaults filled in.
        types: the type of each argument that is a field, by its identity.
        value: what the function returned.
    """

    name: str
    arguments: Mapping[str, Any]
    types: Mapping[int, FieldType]
    value: Any = None

    def __getitem__(self, parameter: str) -> Any:
        return self.arguments[parameter]

    def type_of(self, argument: object) -> FieldType | None:
        return self.types.get(id(argument))

    @property
    def field(self) -> Tensor:
        """The field that the operation works on: its first argument."""
        found: Tensor = self.arguments["input"]
        return found

    @property
    def axes(self) -> int:
        """2 if the fields of the call are images, 3 if they are volumes."""
        return next(iter(self.types.values())).group.axes or 2

    @property
    def field_type(self) -> FieldType:
        found = self.type_of(self.arguments["input"])
        if found is None:
            raise Refused(f"`{self.name}` takes its field as the first argument; there it got something untyped.")
        return found


Rule = Callable[[Call], Result]


@dataclass(frozen=True)
class Operation:
    """The table's knowledge of one of torch's operations.

    Attributes:
        rule: gives the type of the result, or raises :class:`Refused`.
        signature: all its arguments; a call with others is refused.
        fields: the arguments that may be fields.
        weights: those that may be tensors without a type, such as a linear layer's weight.
        models: those of which only shape, dtype or device counts, so that any tensor will do.
        becomes: how ``convert`` follows it, such as ``"sum"`` or ``"activation"``; "" if it does not.
        name: the operation's bare name.
        layers: the modules of torch that do the same; a call of the function is converted as if it were the first one.
    """

    rule: Rule
    signature: inspect.Signature
    fields: tuple[str, ...]
    weights: tuple[str, ...]
    models: tuple[str, ...]
    becomes: str = ""
    name: str = ""
    layers: tuple[type[nn.Module], ...] = ()

    @classmethod
    def described(
        cls,
        rule: Rule,
        parameters: str,
        *,
        becomes: str = "",
        fields: str = "input",
        weights: str = "",
        models: str = "",
    ) -> Operation:
        """An operation from text such as ``"input, min=None, *, out=None"``."""
        in_fields, in_weights, in_models = (tuple(names.split()) for names in (fields, weights, models))
        return cls(rule, _signature(parameters), in_fields, in_weights, in_models, becomes)


def bound_call(
    name: str,
    operation: Operation,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    types: Mapping[int, FieldType],
) -> Call:
    """The call, still without its value; raises Refused for an argument that is unknown, or must not be a tensor."""
    known = operation.signature.parameters
    named = {key if key in known else OTHER_NAMES.get(key, key): item for key, item in kwargs.items()}
    try:
        bound = operation.signature.bind(*args, **named)
    except TypeError as error:
        raise Refused(f"this way of calling `{name}` is not known to be equivariant ({error}).") from None
    bound.apply_defaults()
    call = Call(name, bound.arguments, types)
    if call.arguments.get("out") is not None:
        raise Refused(f"`{name}` with out=... changes a tensor without changing its type. Use the result instead.")
    ranks = {tensor.ndim for key in operation.fields for tensor in tensors_in(call[key]) if id(tensor) in types}
    if len(ranks) > 1:
        raise Refused(
            f"`{name}` of fields of ranks {' and '.join(map(str, sorted(ranks)))}: a map of pixels and a pooled field "
            "do not belong to the same pixels. Give the pooled one as many dimensions of size 1 first."
        )
    for parameter, argument in call.arguments.items():
        _check_tensors(call, operation, parameter, argument)
    made_for = re.search(r"([123])d", operation.name)
    if made_for and types and int(made_for[1]) != call.axes and ranks != {2}:
        fitting, kind = name.replace(made_for[0], f"{call.axes}d"), "volumes" if call.axes == 3 else "images"
        group = next(iter(types.values())).group
        raise Refused(f"`{name}` has {made_for[1]} axes, but fields of {group.name} are {kind}. Use `{fitting}`.")
    return call


def _check_tensors(call: Call, operation: Operation, parameter: str, argument: object) -> None:
    if parameter in (*operation.fields, *operation.models):
        return
    for tensor in tensors_in(argument):
        if id(tensor) in call.types:
            raise Refused(f"`{call.name}` got a field as its argument `{parameter}`, which cannot be a field.")
        if parameter not in operation.weights and tensor.numel() != 1:
            raise Refused(
                f"`{call.name}` got a tensor of shape {tuple(tensor.shape)} as `{parameter}`: separate values for "
                "channels or pixels, which the group moves, break equivariance. Give a number."
            )


def _signature(text: str) -> inspect.Signature:
    """A signature from its text, whose defaults are constants; ``*sizes`` stands for any number of arguments."""
    parameters: list[inspect.Parameter] = []
    by_keyword = False
    for part in text.split(", "):
        name, _, default = part.partition("=")
        if name == "*":
            by_keyword = True
        elif name.startswith("**"):
            parameters.append(inspect.Parameter(name[2:], inspect.Parameter.VAR_KEYWORD))
        elif name.startswith("*"):
            parameters.append(inspect.Parameter(name[1:], inspect.Parameter.VAR_POSITIONAL))
        else:
            kind = inspect.Parameter.KEYWORD_ONLY if by_keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
            value = ast.literal_eval(default) if default else inspect.Parameter.empty
            parameters.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(parameters)


def tensors_in(value: object) -> Iterator[Tensor]:
    """Every tensor of a structure of tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Mapping):
        yield from tensors_in(tuple(value.values()))


def replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The same structure of tuples, lists and dicts, with ``replace`` applied to everything in it."""
    if isinstance(value, tuple | list):
        parts = [replaced(item, replace) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: replaced(item, replace) for key, item in value.items()}
    return replace(value)


def is_number(value: object) -> bool:
    """Whether a value is a single number, perhaps in a tensor of one element; a bool is not a number."""
    if isinstance(value, Tensor):
        return value.numel() == 1
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
