"""``typecheck``: run any model once on typed tensors, and report the first line that breaks equivariance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from steerable.checking.calls import Refused, tensors_in
from steerable.checking.commutation import element_that_fails, redrawn_parameters
from steerable.checking.module_calls import followed_modules
from steerable.checking.other_angles import constants_turn_in
from steerable.checking.places import EquivarianceError, Run
from steerable.checking.typed_tensors import TypedTensor, plain_tensors, typed_result
from steerable.nn.sampling import EquivarianceWarning
from steerable.types.field_types import FieldType

__all__ = ["typecheck"]


def typecheck(
    model: nn.Module | Callable[[Any], Any],
    in_type: FieldType | None = None,
    *,
    size: int | tuple[int, ...] | None = None,
    batch: int = 2,
) -> FieldType | Any:
    """The type of a model's output, found by running it once on typed tensors; no data is needed.

    It follows arithmetic, ``torch.cat``, activations, pooling and the like through your own ``forward`` methods, and
    the layers of this library by their types. Operations, arguments and ways of calling that are not known to be
    equivariant are refused; those that are known are tried on random fields as well, and so is the model as a whole. It
    is in evaluation mode meanwhile and is not changed.

    Args:
        model: any module, or a function of one tensor.
        in_type: the type of its input; by default the model's own ``in_type``.
        size: height and width of the input that it is run on, or depth, height and width; by default a few, odd and
            even, are tried until all strides and windows fit one.
        batch: the number of samples in it.

    Returns:
        The FieldType of the output; for several outputs the same structure with types in place of tensors.

    Raises:
        EquivarianceError: a TypeError that names the first operation that breaks equivariance, with its source line.
    """
    in_type = in_type if in_type is not None else getattr(model, "in_type", None)
    if not isinstance(in_type, FieldType):
        raise TypeError(
            "typecheck needs the type of the input: typecheck(model, in_type=FieldType(...)); got "
            f"{type(in_type).__name__}."
        )
    # A compiled model is checked as it was written.
    model = getattr(model, "_orig_mod", getattr(model, "_torchdynamo_orig_callable", model))
    usual = [33, 32, 17, 16] if in_type.group.axes != 3 else [9, 8, 17, 16]
    sizes = [size] if size is not None else usual
    failures: list[Exception] = []
    for candidate in sizes:
        with warnings.catch_warnings():
            warnings.simplefilter("error", EquivarianceWarning)
            try:
                return _output_types(model, in_type, candidate, batch)
            except (EquivarianceError, EquivarianceWarning) as failure:
                failures.append(failure)
            except (ValueError, RuntimeError, AssertionError) as failure:  # of a size that the network does not take
                if size is not None:
                    raise
                failures.append(failure)
    first = next((f for f in failures if isinstance(f, EquivarianceError)), failures[0])
    if isinstance(first, EquivarianceWarning):
        raise EquivarianceError(str(first)) from first
    raise first


def _output_types(model: Callable[[Any], Any], in_type: FieldType, size: int | tuple[int, ...], batch: int) -> Any:
    extents = size if isinstance(size, tuple) else (size,) * (in_type.group.axes or 2)
    tensor = next((t for t in _tensors(model) if t.is_floating_point()), torch.empty(0))
    x = torch.zeros(batch, in_type.channels, *extents, dtype=tensor.dtype, device=tensor.device)
    run = Run(_output_types.__code__)
    with torch.no_grad(), followed_modules(model, run):
        output = model(typed_result(x, in_type))
        try:
            types = _types_in(output)
            run.on_plain_tensors = True
            _confirm_as_a_whole(model, x, in_type, types)
        except Refused as refusal:
            raise EquivarianceError(f"in the model's output: {refusal}") from None
    return types


def _confirm_as_a_whole(model: Callable[[Any], Any], x: Tensor, in_type: FieldType, types: Any) -> None:
    """Refuse a model whose values contradict its types, whatever it did where no operation was seen."""

    def outputs(field: Tensor) -> list[Tensor]:
        with torch.enable_grad():  # as in training
            return [tensor.detach() for tensor in tensors_in(model(field))]

    results = list(_field_types(types))
    try:
        with redrawn_parameters(model):
            element = (
                element_that_fails(
                    outputs, (x,), {}, {id(x): in_type}, results, slack=10, constants_turn=constants_turn_in(model)
                )
                if results
                else None
            )
    except EquivarianceError:  # it holds typed constants, and so takes no plain tensors
        return
    if element is not None:
        raise Refused(
            f"on random input it depends on whether `{element}` of {results[0].group.name} acts before or after the "
            "model, although no single operation was seen to break equivariance. Something works on values that are "
            "not fields, or a layer was changed after it was made."
        )


def _field_types(types: Any) -> Iterator[FieldType]:
    if isinstance(types, FieldType):
        yield types
    elif isinstance(types, tuple | list | dict):
        for part in types.values() if isinstance(types, dict) else types:
            yield from _field_types(part)


def _types_in(value: Any) -> Any:
    if isinstance(value, TypedTensor):
        plain_tensors(value, {})  # refuses what is not a field
        return value.field_type
    if isinstance(value, tuple | list):
        parts = [_types_in(item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: _types_in(item) for key, item in value.items()}
    if isinstance(value, Tensor):
        raise EquivarianceError(
            "the model's output is an untyped tensor: it does not depend on the input through fields."
        )
    if value is None or isinstance(value, str | int | float):
        return value
    raise Refused(f"typecheck looks into tuples, lists and dicts; it got {type(value).__name__}. Return one of those.")


def _tensors(model: object) -> Iterator[Tensor]:
    if isinstance(model, nn.Module):
        yield from model.parameters()
        yield from model.buffers()
