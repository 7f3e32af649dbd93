"""Modules that are called during a check: the types of this library's layers are trusted."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from steerable.checking.calls import Refused, tensors_in
from steerable.checking.commutation import element_that_fails, left_unchanged, redrawn_parameters
from steerable.checking.places import Run, as_if_unwarned, current
from steerable.checking.typed_tensors import TypedTensor, plain_tensors, refused_at_place, typed_result
from steerable.nn.module import EquivariantModule
from steerable.types.field_types import FieldType

__all__ = ["followed_modules"]

_CALL = nn.Module.__call__  # as torch made it: one check may run inside another


@contextmanager
def followed_modules(model: object, run: Run) -> Iterator[None]:
    """A context in which every called module is in evaluation mode, and layers take and give typed tensors.

    All calls of modules are followed, not only those of the model's own: a function may call a layer that it closes
    over, and a list may hold some.
    """
    if isinstance(model, nn.Module):
        run.names.update((id(module), name) for name, module in model.named_modules())
    before, thread = nn.Module.__call__, threading.get_ident()

    def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return _CALL(module, *args, **kwargs)
        module = getattr(module, "_orig_mod", module)  # a compiled part is checked as it was written
        remember(module)
        if module.training and not run.in_training:
            module.eval()
        if run.on_plain_tensors:
            return _CALL(module, *args, **kwargs)
        run.running.append(module)
        try:
            if not isinstance(module, EquivariantModule):
                return _CALL(module, *args, **kwargs)
            return _call_layer(run, module, args, kwargs)
        except Refused as refusal:
            raise refused_at_place(refusal) from None
        finally:
            run.running.pop()

    with left_unchanged() as remember:
        if isinstance(model, nn.Module):
            remember(model)
            model.eval()
        nn.Module.__call__ = call  # type: ignore[method-assign]
        try:
            with current(run):
                yield
        finally:
            nn.Module.__call__ = before  # type: ignore[method-assign]


def _call_layer(run: Run, module: EquivariantModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    outermost = not run.inside_layer
    known: dict[int, FieldType] = {}
    if outermost:
        _check_arguments(module, args, kwargs)
        args, kwargs = plain_tensors(args, known), plain_tensors(kwargs, known)
    run.inside_layer = True
    try:
        with as_if_unwarned(module):
            value = _CALL(module, *args, **kwargs)
        _confirm(module, args, kwargs, known, value)
    finally:
        run.inside_layer = not outermost
    return typed_result(value, module.out_type) if outermost else value


def _types_taken(module: EquivariantModule) -> tuple[FieldType, ...]:
    return tuple(getattr(module, "in_types", (module.in_type,)))


def _check_arguments(module: EquivariantModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a tensor that is not a field of the type that the layer expects for that argument."""
    name, wanted = type(module).__name__, _types_taken(module)
    try:
        given = list(tensors_in(tuple(inspect.signature(module.forward).bind(*args, **kwargs).arguments.values())))
    except TypeError:  # forward itself says best what is wrong
        return
    if len(given) != len(wanted):
        raise Refused(f"{name} takes {len(wanted)} fields, one for each of its types; it got {len(given)} tensors.")
    for tensor, field_type in zip(given, wanted, strict=True):
        if not isinstance(tensor, TypedTensor):
            raise Refused(f"{name} got an untyped tensor, expected `{field_type}`.")
        if tensor.unfinished is not None:
            raise tensor.unfinished.refused
        if tensor.field_type != field_type:
            found = tensor.field_type
            described = (
                "something that is not a field" if found is None else f"one of type `{found}` of {found.group.name}"
            )
            raise Refused(
                f"{name} takes a field of type `{field_type}` of {field_type.group.name}, but got {described}."
            )


def _confirm(
    module: EquivariantModule,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    known: dict[int, FieldType],
    value: Any,
) -> None:
    """Try a layer that somebody else wrote or hooked on random fields; this library's layers have their own tests."""
    if not isinstance(value, Tensor):
        raise Refused(f"{type(module).__name__} has one out_type, but returns {type(value).__name__}. Return a tensor.")
    hooked = bool(module._forward_hooks or module._forward_pre_hooks)
    if type(module).__module__.split(".")[0] == "steerable" and not hooked:
        return
    fields = tensors_in((args, kwargs))  # inside another layer they are plain, and come in the order of the types
    types = known or {id(field): taken for field, taken in zip(fields, _types_taken(module), strict=False)}
    with redrawn_parameters(module):
        element = element_that_fails(
            lambda *a, **k: _CALL(module, *a, **k),
            args,
            kwargs,
            types,
            [module.out_type],
            network=module,
        )
    if element is not None:
        raise Refused(
            f"{type(module).__name__} says that it maps `{module.in_type}` to `{module.out_type}`, but it does not "
            f"commute with `{element}` of {module.out_type.group.name}."
        )
