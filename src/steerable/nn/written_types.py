"""Field types as arguments of layers: as values, or as text with the name of a group."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steerable.algebra.families import group_named
from steerable.algebra.group_interface import Group
from steerable.errors import shown
from steerable.types.field_types import FieldType

__all__ = ["reads_types"]

Initialiser = Callable[..., None]

_ANNOTATIONS = ("FieldType", FieldType, "Sequence[FieldType]", Sequence[FieldType])


def reads_types(initialise: Initialiser) -> Initialiser:
    """An ``__init__`` that accepts text for arguments annotated ``FieldType``, and a keyword ``group`` to read it by.

    ``Conv2d("3*A1", "2*regular", 3, group="D4")`` is ``Conv2d(FieldType(D4, "3*A1"), FieldType(D4, "2*regular"), 3)``.
    Where one of several types is a ``FieldType``, text beside it is of the same group.
    """
    signature = inspect.signature(initialise)
    names = list(signature.parameters)[1:]
    places = [name for name in names if signature.parameters[name].annotation in _ANNOTATIONS]
    if not places or "group" in names:
        return initialise

    @functools.wraps(initialise)
    def with_types(self: object, *args: Any, **kwargs: Any) -> None:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if "group" in kwargs or not all(_are_types(given.get(name)) for name in places):
            group = kwargs.pop("group", None)
            read = _types(type(self).__name__, {name: given.get(name) for name in places}, group)
            args = tuple(read.get(name, value) for name, value in zip(names, args, strict=False)) + args[len(names) :]
            kwargs.update({name: value for name, value in read.items() if name in kwargs})
        initialise(self, *args, **kwargs)

    with_types.__signature__ = _with_group(signature)  # type: ignore[attr-defined]  # what help() shows
    return with_types


def _are_types(value: object) -> bool:
    return all(isinstance(item, FieldType) for item in (value if isinstance(value, list | tuple) else (value,)))


def _types(layer: str, given: Mapping[str, object], group: Group | str | None) -> dict[str, Any]:
    """The types that an ``__init__`` takes, by name, parsed if they are text; a tuple for a sequence of them."""
    many = {name: tuple(value) if isinstance(value, list | tuple) else (value,) for name, value in given.items()}
    for name, values in many.items():
        for value in values:
            if not isinstance(value, FieldType | str):
                raise TypeError(_refusal(layer, name, value))
    known = _group(layer, group, [t for values in many.values() for t in values if isinstance(t, FieldType)])
    read: dict[str, Any] = {}
    for name, values in many.items():
        types = tuple(_read(layer, name, value, known) for value in values)
        read[name] = types if isinstance(given[name], list | tuple) else types[0]
    return read


def _group(layer: str, group: Group | str | None, types: list[FieldType]) -> Group | None:
    if group is None:
        return types[0].group if types else None
    named = group_named(group) if isinstance(group, str) else group
    if not isinstance(named, Group):
        raise TypeError(f"{layer} takes group=... as a group or its name, such as 'D4'; got {shown(group)}.")
    for other in types:
        if other.group != named:
            raise TypeError(
                f"{layer} was given a type of {other.group.name}, `{other}`, and group={named.name}. A layer is "
                "equivariant to one group: leave out group=..., which is for types that are given as text."
            )
    return named


def _read(layer: str, name: str, value: FieldType | str, group: Group | None) -> FieldType:
    if isinstance(value, FieldType):
        return value
    if group is None:
        raise TypeError(
            f"{layer} got {name} as text, {shown(value)}, which does not say how a group moves it. Name the group, "
            f"{layer}(…, group='D4'), or give FieldType('D4', {shown(value)})."
        )
    return FieldType(group, value)


def _refusal(layer: str, name: str, value: object) -> str:
    example = f"{layer}('4*regular', …, group='D4')"
    if name in ("in_type", "out_type"):
        example = f"{layer}('3*A1', '4*regular', …, group='D4')"
    if value is None:
        return (
            f"{layer} needs {name}, the type of its field, which says how channels change when the image is turned: "
            f"the `out_type` of the layer before, a FieldType, or its text, as in {example}."
        )
    kind = f"{type(value).__name__} {shown(value)}" if isinstance(value, int | float) else type(value).__name__
    number = ", a number of channels does not" if name in ("in_type", "out_type") and isinstance(value, int) else ""
    return (
        f"{layer} takes a FieldType as {name}, got {kind}. A type says how channels change when the image is "
        f"turned{number}. Give the `out_type` of the layer before, FieldType('D4', '4*regular'), or text: {example}."
    )


def _with_group(signature: inspect.Signature) -> inspect.Signature:
    """The signature with ``group`` among the keywords."""
    parameters = list(signature.parameters.values())
    group = inspect.Parameter("group", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Group | str | None")
    last = len(parameters) - (parameters[-1].kind is inspect.Parameter.VAR_KEYWORD)
    return signature.replace(parameters=[*parameters[:last], group, *parameters[last:]])
