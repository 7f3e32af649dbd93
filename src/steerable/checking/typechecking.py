"""``typecheck``: run any model once on typed tensors, and report the first line that breaks equivariance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steerable.checking.calls import Refused, replaced
from steerable.checking.extents import unseen_shapes
from steerable.checking.module_calls import followed_modules
from steerable.checking.places import Answers, EquivarianceError, Run, Shape, UnfitSize
from steerable.checking.typed_tensors import TypedTensor, plain_tensors, typed_result
from steerable.checking.whole_models import confirm_as_a_whole
from steerable.filters.pixel_grids import size_text
from steerable.nn.sampling import EquivarianceWarning
from steerable.types.field_types import FieldType

__all__ = ["followed_types", "typecheck"]


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
    equivariant are refused; those that are known are also tried on random fields. The model as a whole is tried too, if
    possible in float64, with parameters as training may make them: in evaluation, with all samples of a batch turned
    and with only one of them, and in training, with one value in place of all random ones. It is not changed.

    Args:
        model: any module, or a function of one tensor.
        in_type: the type of its input; by default the model's own ``in_type``.
        size: height and width of the input that it is run on, or depth, height and width; by default an odd size and
            an even one, others until all strides and windows fit, and if the model compares sizes, some on which the
            comparison has another result, up to 512 pixels or 64 voxels.
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
    if size is not None:
        return followed_types(model, in_type, size, batch)
    usual = (33, 32, 17, 16) if in_type.group.axes != 3 else (9, 8, 17, 16)
    return _on_usual_sizes(model, in_type, usual, batch)


def followed_types(
    model: Callable[[Any], Any],
    in_type: FieldType,
    size: int | tuple[int, ...],
    batch: int,
    *,
    measured: bool = True,
    answers: Answers | None = None,
) -> Any:
    """The types of the output, as :func:`typecheck` gives them for one size, whose misfits are errors.

    With ``measured=False`` the model is not measured as a whole. ``answers`` learns what it asks of sizes.
    """
    sides = size if isinstance(size, tuple) else (size,) * (in_type.group.axes or 2)
    run = Run(followed_types.__code__, (batch, *sides), {} if answers is None else answers)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EquivarianceWarning)
        try:
            return _output_types(model, in_type, run, measured=measured)
        except EquivarianceWarning as warning:
            raise UnfitSize(str(warning)) from warning


def _on_usual_sizes(model: Callable[[Any], Any], in_type: FieldType, sizes: Sequence[int], batch: int) -> Any:
    """The types of the output on the first size that fits.

    An odd size and an even one are tried in any case, since a model may do something else on each, and others where it
    asks for a size or compares sizes. It may find that one of them does not fit its strides, but nothing that it does
    there may break equivariance.
    """
    found: dict[int, Any] = {}
    failures: dict[Shape, Exception] = {}
    answers: Answers = {}

    def follow(shape: Shape, *, measured: bool = False) -> Any:
        samples, *sides = shape
        try:
            return followed_types(model, in_type, tuple(sides), samples, measured=measured, answers=answers)
        except (EquivarianceError, ValueError, RuntimeError, AssertionError) as failure:  # it may not take this size
            failures[shape] = failure

    axes = in_type.group.axes or 2
    for number, side in enumerate(sizes):
        if found and number > 1:
            break
        shape = (batch, *(side,) * axes)
        types = follow(shape, measured=not found)
        if shape not in failures:
            found[side] = types
    if not found:
        raise next((f for f in failures.values() if isinstance(f, EquivarianceError)), next(iter(failures.values())))
    fitting, types = next(iter(found.items()))
    for shape in unseen_shapes(answers, (batch, *(fitting,) * axes)):
        follow(shape)
    for shape, breach in failures.items():
        if isinstance(breach, EquivarianceError) and not isinstance(breach, UnfitSize):
            samples, *sides = shape
            size = size_text(sides) if len(set(sides)) > 1 else str(sides[0])
            where = f"inputs of size {size}" if samples == batch else f"a batch of {samples}"
            others = f"those of size {fitting}" if samples == batch else f"one of {batch}"
            raise EquivarianceError(
                f"{breach} This happens with {where}, but not with {others}. If all your inputs are like the latter, "
                f"say so: typecheck(..., size={fitting})."
            )
    return types


def _output_types(model: Callable[[Any], Any], in_type: FieldType, run: Run, *, measured: bool) -> Any:
    tensor = next((t for t in _tensors(model) if t.is_floating_point()), torch.empty(0))
    batch, *sides = run.shape
    x = torch.zeros(batch, in_type.channels, *sides, dtype=tensor.dtype, device=tensor.device)
    with torch.no_grad(), followed_modules(model, run):
        output = model(typed_result(x, in_type))
        try:
            types = replaced(output, _type_of)
            run.on_plain_tensors = True
            if measured:
                confirm_as_a_whole(model, x, in_type, types, run)
        except Refused as refusal:
            raise EquivarianceError(f"in the model's output: {refusal}") from None
    return types


def _type_of(value: Any) -> Any:
    if isinstance(value, TypedTensor):
        plain_tensors(value, {})  # refuses what is not a field
        return value.field_type
    if isinstance(value, Tensor):
        raise EquivarianceError(
            "the model's output is an untyped tensor: it does not depend on the input, or it does so through something "
            "whose operations are not seen, such as torch.vmap, a traced module or numpy. Leave that out of what is "
            "checked, or measure the model with st.testing.assert_equivariant."
        )
    if value is None or isinstance(value, str | int | float):
        return value
    raise Refused(f"typecheck looks into tuples, lists and dicts; it got {type(value).__name__}. Return one of those.")


def _tensors(model: object) -> Iterator[Tensor]:
    if isinstance(model, nn.Module):
        yield from model.parameters()
        yield from model.buffers()
