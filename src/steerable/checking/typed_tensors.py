"""Tensors that know their field type: every operation of torch on them is checked, and its result is typed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steerable.checking.calls import Refused, Result, Unfit, bound_call, replaced, tensors_in
from steerable.checking.commutation import element_that_fails, is_invariant
from steerable.checking.extents import extents, without_notes
from steerable.checking.operation_lookup import operation_name
from steerable.checking.operations import QUESTIONS, REMEDIES, known_operation
from steerable.checking.places import EquivarianceError, UnfitSize, current_run, place
from steerable.checking.unfinished import Unfinished, next_step
from steerable.nn.type_errors import mismatch
from steerable.types.field_types import FieldType

__all__ = ["TypedTensor", "plain_tensors", "refused_at_place", "typed", "typed_result"]

# Attributes that are the field itself; others, such as .mT, move its pixels.
_SAME_FIELD = tuple(getattr(Tensor, name).__get__ for name in ("data", "grad", "real"))
_SET_DATA, _SET_FLAG = (getattr(Tensor, name).__set__ for name in ("data", "requires_grad"))


def _operator(function: Callable[[Any, Any], Any]) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        return function(self, other)

    return method


class TypedTensor(Tensor):
    """A tensor that knows its field type. Operations check it and pass it on; make one with :func:`typed`.

    Attributes:
        field_type: how the tensor transforms; None for what came of a field but is not one, such as the places of
            maxima. It can only be ignored.
        claimed: whether :func:`typed` made it. In a model such a tensor is a constant, which must be invariant.
        unfinished: what has been done to fields of which this will be one; else None.
    """

    field_type: FieldType | None
    claimed: bool
    unfinished: Unfinished | None

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return _checked(func, args, kwargs or {})
        except Refused as refusal:
            raise refused_at_place(refusal) from refusal.__cause__

    # Tensor's own operators turn a TypeError into "unsupported operand"; these let the reason through.
    __add__ = __radd__ = __iadd__ = _operator(torch.add)
    __sub__ = __isub__ = _operator(torch.sub)
    __mul__ = __rmul__ = __imul__ = _operator(torch.mul)
    __truediv__ = __itruediv__ = _operator(torch.div)
    __rsub__ = _operator(lambda x, other: torch.add(torch.neg(x), other))
    __rtruediv__ = _operator(lambda x, other: torch.mul(torch.reciprocal(x), other))
    __pow__, __rpow__ = _operator(torch.pow), _operator(lambda x, other: torch.pow(other, x))
    __matmul__, __rmatmul__ = _operator(torch.matmul), _operator(lambda x, other: torch.matmul(other, x))
    __mod__, __floordiv__ = _operator(torch.remainder), _operator(torch.floor_divide)
    __rmod__ = _operator(lambda x, other: torch.remainder(other, x))
    __rfloordiv__ = _operator(lambda x, other: torch.floor_divide(other, x))
    __gt__, __ge__, __lt__, __le__ = (_operator(f) for f in (torch.gt, torch.ge, torch.lt, torch.le))
    __eq__, __ne__ = _operator(torch.eq), _operator(torch.ne)
    __hash__ = Tensor.__hash__  # which a class with an __eq__ of its own would lose

    def __repr__(self, *, tensor_contents: Any = None) -> Any:  # type: ignore[override]
        return f"TypedTensor({tuple(self.shape)}, {self.field_type!r})"


def refused_at_place(refusal: TypeError) -> EquivarianceError:
    """The refusal as users see it, with the module and the line that it is about."""
    kind = UnfitSize if isinstance(refusal, Unfit) else EquivarianceError
    return kind(f"{place()}{refusal}")


def typed(x: Tensor, field_type: FieldType) -> TypedTensor:
    """x as a field of the given type; the values are shared.

    In a model that is being checked, x is a constant, and it is refused unless the group leaves it as it is.

    >>> from steerable import FieldType, dihedral
    >>> G = dihedral(4)
    >>> a = typed(torch.zeros(1, 4, 5, 5), FieldType(G, "qm"))
    >>> (2 * a + a).field_type
    FieldType(D4, 'qm')
    """
    if isinstance(x, TypedTensor) and not x.claimed:
        if x.field_type == field_type:
            return x
        raise EquivarianceError(
            f"{place()}a field of type `{x.field_type}` is declared to be one of type `{field_type}`, but nothing has "
            "changed how it transforms. Use a layer of steerable.nn that maps one type onto the other."
        )
    if current_run() is not None and not _on_plain_tensors() and x.requires_grad:
        raise EquivarianceError(
            f"{place()}a learned tensor is declared to be a field of type `{field_type}`, but training does not keep "
            "it invariant. Use a layer of steerable.nn that learns."
        )
    result = _wrapped(x, field_type)
    result.claimed = True
    return result


def _wrapped(x: Tensor, field_type: FieldType | None) -> TypedTensor:
    if field_type is not None and not (_is_field(x, field_type) and x.shape[1] == field_type.channels):
        raise ValueError(
            f"a field of type `{field_type}` has shape (batch, {field_type.channels}, …); got {tuple(x.shape)}."
        )
    with torch._C.DisableTorchFunctionSubclass():
        result = x.as_subclass(TypedTensor)
    result.field_type = field_type
    result.claimed = False
    result.unfinished = None
    return result


def _is_field(x: Tensor, field_type: FieldType) -> bool:
    """Whether x is a pooled field, a map, or a pooled field that is about to become a map of one pixel or voxel."""
    whole = 2 + (field_type.group.axes or 2)
    return x.ndim in (2, whole) or (2 < x.ndim < whole and all(n == 1 for n in x.shape[2:]))


def typed_result(value: Any, result: Result) -> Any:
    """The result of a function with its types: a tensor, or a tuple of them."""
    if result is None:
        return value
    if isinstance(result, FieldType):
        try:
            return _wrapped(value, result)
        except ValueError as error:
            raise Refused(str(error)) from None
    parts = [_wrapped(part, part_type) for part, part_type in zip(value, result, strict=True)]
    return type(value)(parts)


def plain_tensors(value: Any, known: dict[int, FieldType], waiting: dict[int, Unfinished] | None = None) -> Any:
    """The same structure with plain tensors; ``known`` collects the types of those that are fields.

    ``waiting`` learns what has been done to those that are not fields yet, which are refused where it is not given.
    """

    def plain(item: Any) -> Any:
        if isinstance(item, TypedTensor):
            tensor = _untyped(item)
            if item.unfinished is not None and waiting is not None:
                waiting[id(tensor)], known[id(tensor)] = item.unfinished, item.unfinished.field_type
                return tensor
            known[id(tensor)] = _usable_type(item, tensor)
            return tensor
        return without_notes(item)  # what is asked from here on, the model does not ask

    return replaced(value, plain)


def _usable_type(value: TypedTensor, plain: Tensor) -> FieldType:
    if value.unfinished is not None:
        raise value.unfinished.refused
    if value.field_type is None:
        raise Refused(
            "this was computed from a field but is not one, such as the places of maxima: nothing says how it "
            "transforms. Leave it unused."
        )
    if value.claimed and current_run() is not None and not is_invariant(plain, value.field_type):
        raise Refused(
            f"a constant field of type `{value.field_type}` is not invariant: the group moves it, but the model adds "
            "the same one to an image in every pose. Use a constant that the group leaves as it is."
        )
    return value.field_type


def _checked(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The typed result of one call of a torch function; Refused if it is not known to be equivariant."""
    if _on_plain_tensors():
        with torch._C.DisableTorchFunctionSubclass():
            return func(*replaced(args, _untyped), **replaced(kwargs, _untyped))
    name = operation_name(func)
    if name in QUESTIONS or name == "get":
        return _answer(func, name, args, kwargs)
    if name == "set":
        return _set_attribute(func, *args)
    if name == "setitem":
        raise Refused("writing into a part of a field is not known to be equivariant.")
    operation = known_operation(func)
    if operation is None:
        remedy = REMEDIES.get(name, "Use a layer of steerable.nn, or operations that act on whole capsules.")
        raise Refused(f"`{name}` is not known to be equivariant. {remedy}")
    known: dict[int, FieldType] = {}
    waiting: dict[int, Unfinished] = {}
    plain_args, plain_kwargs = plain_tensors(args, known, waiting), plain_tensors(kwargs, known, waiting)
    fields = {key: field_type for key, field_type in known.items() if key not in waiting}
    call = bound_call(name, operation, plain_args, plain_kwargs, fields)
    value = _value(func, name, plain_args, plain_kwargs, known)
    working = [t for key, item in call.arguments.items() if key not in operation.models for t in tensors_in(item)]
    if not any(id(tensor) in known for tensor in working):
        return value  # an untyped tensor that is only made like a field, as in mask.to(x)
    call = dataclasses.replace(call, value=value)
    try:
        if waiting:  # unless this is a step that makes a field of it
            raise next(iter(waiting.values())).refused
        result = operation.rule(call)
    except TypeError as refusal:
        learned = {id(t) for key in operation.weights for t in tensors_in(call[key]) if _is_learned(t)}
        given = [t for t in tensors_in((plain_args, plain_kwargs)) if id(t) not in learned]
        tensors = [t for t in given if id(t) in known or t.numel() != 1]
        function = _function_of(tensors, func, plain_args, plain_kwargs)
        after = next_step(call, tensors, waiting, function, refused_at_place(refusal))
        if after is None:
            raise
        return _typed_step(value, after)
    found = typed_result(value, result)
    if result is not None:
        _confirm(name, func, plain_args, plain_kwargs, known, value, result)
    return found


def _function_of(
    tensors: Sequence[Tensor], func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """The call as a function of some of its arguments."""

    def function(*others: Tensor) -> Any:
        given = {id(tensor): other for tensor, other in zip(tensors, others, strict=True)}
        new_args, new_kwargs = replaced((args, kwargs), lambda item: given.get(id(item), item))
        return func(*new_args, **new_kwargs)

    return function


def _typed_step(value: Any, after: Unfinished) -> Any:
    """The result of a step: a field if it is the last one, perhaps with the places of maxima, which are not one."""
    if isinstance(value, tuple):
        others = [None if other is None else _wrapped(other, None) for other in value[1:]]
        return type(value)([_typed_step(value[0], after), *others])
    found = _wrapped(value, after.finished)
    found.unfinished = None if after.finished else after
    return found


def _is_learned(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter, which the model as a whole is tried with other values of."""
    return isinstance(tensor, nn.Parameter) and tensor.requires_grad


def _on_plain_tensors() -> bool:
    """Whether a model is being measured as a whole, so that constants that it made typed are plain numbers."""
    run = current_run()
    return run is not None and run.on_plain_tensors


def _untyped(value: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(Tensor) if isinstance(value, TypedTensor) else value


def _answer(func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A field's shape, dtype and the like, or the field itself under another name."""
    with torch._C.DisableTorchFunctionSubclass():
        value = func(*args, **kwargs)
    if isinstance(value, torch.Size):
        return extents(value)
    if name == "size":
        return args[0].shape[args[1] if len(args) > 1 else kwargs["dim"]]
    if name in ("numel", "nelement"):
        return math.prod(args[0].shape)
    if not isinstance(value, Tensor):
        return value
    if func not in _SAME_FIELD:
        attribute = getattr(getattr(func, "__self__", None), "__name__", name)
        raise Refused(f"`{attribute}` is not known to be equivariant. Use a layer of steerable.nn.")
    result = _wrapped(value, args[0].field_type)
    result.claimed = args[0].claimed
    return result


def _value(func: Callable[..., Any], name: str, args: Any, kwargs: Any, known: Mapping[int, FieldType]) -> Any:
    """The function's result. Tensors that are not fields are copied, so that the model does not change."""
    copies: list[Tensor] = []

    def own(item: Any) -> Any:
        if id(item) in known or not isinstance(item, Tensor):
            return item
        copies.append(item.clone())
        return copies[-1]

    try:
        with torch._C.DisableTorchFunctionSubclass():
            value = func(*replaced(args, own), **replaced(kwargs, own))
    except RuntimeError as error:
        if name in ("add", "sub", "subtract") and len(known) == 2:  # sizes differ: types say why
            raise Refused(mismatch(*known.values())) from error
        raise
    if any(copy._version for copy in copies):
        raise Refused(f"`{name}` writes a field into an untyped tensor, which stays untyped. Use the result.")
    return value


def _confirm(
    name: str,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    known: Mapping[int, FieldType],
    value: Any,
    result: FieldType | Sequence[FieldType | None],
) -> None:
    """Refuse a result that a rule allows although the values contradict it."""
    if isinstance(value, Tensor) and known.get(id(value), result) != result:
        raise Refused(
            f"`{name}` writes a field of type `{result}` into one of type `{known[id(value)]}`, which keeps its type. "
            "Use the operation that does not work in place."
        )
    types = [result] if isinstance(result, FieldType) else list(result)
    for part, part_type in zip(tensors_in(value), types, strict=True):
        if part_type is not None and not part.is_floating_point():
            raise Refused(
                f"`{name}` gives numbers of {part.dtype}, but fields are made of real ones: others lose signs and "
                "fractions. Keep to floating-point dtypes."
            )
    with torch._C.DisableTorchFunctionSubclass():
        element = element_that_fails(func, args, kwargs, known, types)
    if element is not None:
        group = next(iter(known.values())).group
        raise Refused(
            f"`{name}` with these arguments does not commute with `{element}` of {group.name}: on random fields the "
            "result depends on which comes first. Use a layer of steerable.nn."
        )


def _set_attribute(func: Callable[..., Any], field: TypedTensor, new: Any) -> None:
    if func == _SET_DATA:
        if not isinstance(new, TypedTensor) or new.field_type != field.field_type:
            raise Refused(
                f"the data of a field of type `{field.field_type}` are replaced by something else. Assign a field of "
                "the same type, or use the new tensor itself."
            )
    elif func != _SET_FLAG:
        raise Refused("setting an attribute of a field is not known to be equivariant.")
    with torch._C.DisableTorchFunctionSubclass():
        func(field, plain_tensors(new, {}))
