"""Typed tensors, and ``typecheck``: run any model on them and hear of the first line that breaks equivariance."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from steerable.fields import FieldType
from steerable.nn.module import EquivariantModule
from steerable.nn.sampling import EquivarianceWarning
from steerable.nn.type_errors import mismatch
from steerable.type_rules import RULES, Call, Refusal

__all__ = ["EquivarianceError", "TypedTensor", "typecheck", "typed"]

# Attributes that are the field itself; others, such as .mT, move its pixels.
_SAME_FIELD = tuple(getattr(Tensor, name).__get__ for name in ("data", "grad", "real"))

_TORCH = os.path.dirname(torch.__file__)
_HERE = os.path.dirname(os.path.abspath(__file__))


class EquivarianceError(TypeError):
    """The first operation of a model that breaks equivariance, where it stands, why, and what to do."""


def _operator(function: Callable[[Any, Any], Any]) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        return function(self, other)

    return method


class TypedTensor(Tensor):
    """A tensor that knows its field type. Operations check it and pass it on; make one with :func:`typed`."""

    field_type: FieldType

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        known: dict[int, FieldType] = {}
        plain_args = _plain(args, known)
        plain_kwargs = _plain(kwargs, known)
        name = _operation(func)
        try:
            with torch._C.DisableTorchFunctionSubclass():
                value = func(*plain_args, **plain_kwargs)
        except RuntimeError as error:
            if (
                name in ("add", "sub", "radd", "rsub", "iadd", "isub") and len(known) == 2
            ):  # sizes differ: types say why
                first, second = (plain.field_type for plain in args[:2])
                raise EquivarianceError(f"{_place()}{mismatch(first, second)}") from error
            raise
        if name == "setitem":
            raise EquivarianceError(f"{_place()}writing into a part of a field is not known to be equivariant.")
        if not _has_tensor(value):
            return value
        if name == "get" and func in _SAME_FIELD:
            return typed(value, args[0].field_type)
        rule = RULES.get(name)
        try:
            if rule is None:
                raise Refusal(
                    f"`{name}` is not known to be equivariant. Use a layer of steerable.nn, or operations that act on "
                    "whole capsules."
                )
            result = rule(Call(name, plain_args, plain_kwargs, known, value))
        except Refusal as refusal:
            raise EquivarianceError(f"{_place()}{refusal}") from None
        if isinstance(result, FieldType):
            return typed(value, result)
        if result is None:
            return value
        return type(value)(typed(part, part_type) for part, part_type in zip(value, result, strict=True))

    # Tensor's own operators turn a TypeError into "unsupported operand"; these let the reason through.
    __add__ = __radd__ = __iadd__ = _operator(torch.add)
    __sub__ = __isub__ = _operator(torch.sub)
    __mul__ = __rmul__ = __imul__ = _operator(torch.mul)
    __truediv__ = __itruediv__ = _operator(torch.div)
    __rsub__ = _operator(lambda x, other: torch.add(torch.neg(x), other))
    __rtruediv__ = _operator(lambda x, other: torch.mul(torch.reciprocal(x), other))
    __pow__ = _operator(torch.pow)
    __matmul__ = _operator(torch.matmul)
    __mod__, __floordiv__ = _operator(torch.remainder), _operator(torch.floor_divide)
    __gt__, __ge__, __lt__, __le__ = (_operator(f) for f in (torch.gt, torch.ge, torch.lt, torch.le))

    def __repr__(self, *, tensor_contents: Any = None) -> Any:  # type: ignore[override]
        return f"TypedTensor({tuple(self.shape)}, {self.field_type!r})"


def typed(x: Tensor, field_type: FieldType) -> TypedTensor:
    """x as a field of the given type; the values are shared.

    >>> from steerable import FieldType, dihedral
    >>> G = dihedral(4)
    >>> a = typed(torch.zeros(1, 4, 5, 5), FieldType(G, "qm"))
    >>> (2 * a + a).field_type
    FieldType(D4, 'qm')
    """
    if x.ndim < 2 or x.shape[1] != field_type.channels:
        raise ValueError(
            f"a field of type `{field_type}` has shape (batch, {field_type.channels}, …); got {tuple(x.shape)}."
        )
    with torch._C.DisableTorchFunctionSubclass():
        result = x.as_subclass(TypedTensor)
    result.field_type = field_type
    return result


def typecheck(
    model: nn.Module | Callable[[Any], Any],
    in_type: FieldType | None = None,
    *,
    size: int | tuple[int, int] | None = None,
    batch: int = 2,
) -> FieldType | Any:
    """The type of a model's output, found by running it once on typed tensors; no data is needed.

    Follows arithmetic, ``torch.cat``, activations, pooling and the like through ``forward`` methods of your own, and
    the layers of this library by their types. The model is in evaluation mode meanwhile and is not changed.

    Args:
        model: any module, or a function of one tensor.
        in_type: the type of its input; by default the model's own ``in_type``.
        size: height and width of the input that it is run on; by default a few, odd and even, are tried until all
            strides and windows fit one.
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
    sizes = [size] if size is not None else [33, 32, 17, 16]
    failures: list[Exception] = []
    for candidate in sizes:
        with warnings.catch_warnings():
            if size is None:
                warnings.simplefilter("error", EquivarianceWarning)
            try:
                return _run_typed(model, in_type, candidate, batch)
            except (EquivarianceError, EquivarianceWarning) as failure:
                failures.append(failure)
            except ValueError as failure:  # a network may refuse a size; the next one is tried
                if size is not None:
                    raise
                failures.append(failure)
    first = next((f for f in failures if isinstance(f, EquivarianceError)), failures[0])
    raise EquivarianceError(str(first)) if isinstance(first, EquivarianceWarning) else first


def _run_typed(model: Callable[[Any], Any], in_type: FieldType, size: int | tuple[int, int], batch: int) -> Any:
    height, width = size if isinstance(size, tuple) else (size, size)
    tensor = next((t for t in _tensors(model) if t.is_floating_point()), torch.empty(0))
    x = torch.zeros(batch, in_type.channels, height, width, dtype=tensor.dtype, device=tensor.device)
    with torch.no_grad(), _watched(model):
        output = model(typed(x, in_type))
    return _types_in(output)


# -------------------------------------------------------------------- modules on typed tensors

_path: list[tuple[str, nn.Module]] = []


@contextmanager
def _watched(model: object) -> Iterator[None]:
    """Hooks that hand plain tensors to this library's layers, and note which module is running."""
    if not isinstance(model, nn.Module):
        yield
        return
    handles, inside = [], [0]
    modes = {module: module.training for module in model.modules()}

    def before(name: str) -> Callable[[nn.Module, tuple[Any, ...]], Any]:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> Any:
            _path.append((name, module))
            if isinstance(module, EquivariantModule):
                inside[0] += 1
                if inside[0] == 1:
                    _check_arguments(module, args)
                    return _plain(args, {})
            return None

        return hook

    def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        _path.pop()
        if isinstance(module, EquivariantModule):
            inside[0] -= 1
            if inside[0] == 0:
                return typed(output, module.out_type)
        return None

    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(before(name)))
        handles.append(module.register_forward_hook(after))
    model.eval()
    try:
        yield
    finally:
        _path.clear()
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode


def _check_arguments(module: EquivariantModule, args: tuple[Any, ...]) -> None:
    expected = getattr(module, "in_types", (module.in_type,))
    for given, wanted in zip(args, expected, strict=False):
        if not isinstance(given, TypedTensor):
            raise EquivarianceError(f"{_place()}{type(module).__name__} got an untyped tensor, expected `{wanted}`.")
        if given.field_type != wanted:
            raise EquivarianceError(
                f"{_place()}{type(module).__name__} takes a field of type `{wanted}` of {wanted.group.name}, but got "
                f"one of type `{given.field_type}` of {given.field_type.group.name}."
            )


def _place() -> str:
    """Where the model was when something was refused: its module, and the line of its source."""
    name = f"module `{_path[-1][0]}` ({type(_path[-1][1]).__name__})" if _path and _path[-1][0] else ""
    if not name and _path:
        name = type(_path[-1][1]).__name__
    line = _source_line()
    parts = [part for part in (name, line) if part]
    return f"in {', '.join(parts)}: " if parts else ""


def _source_line() -> str:
    """The innermost line that is neither torch's nor this library's, below the call of typecheck."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code is typecheck.__code__:
            return ""
        if not file.startswith((_TORCH, _HERE)):
            code = linecache.getline(file, frame.f_lineno).strip()
            return f"{os.path.basename(file)}, line {frame.f_lineno}" + (f" (`{code}`)" if code else "")
        frame = frame.f_back
    return ""


# -------------------------------------------------------------------- structures of tensors


def _plain(value: Any, known: dict[int, FieldType]) -> Any:
    """The same structure with plain tensors; ``known`` learns the types of those that had one."""
    if isinstance(value, TypedTensor):
        with torch._C.DisableTorchFunctionSubclass():
            plain = value.as_subclass(Tensor)
        known[id(plain)] = value.field_type
        return plain
    if isinstance(value, tuple | list):
        return type(value)(_plain(item, known) for item in value) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        return {key: _plain(item, known) for key, item in value.items()}
    return value


def _has_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    return isinstance(value, tuple | list) and any(isinstance(item, Tensor) for item in value)


def _types_in(value: Any) -> Any:
    if isinstance(value, TypedTensor):
        return value.field_type
    if isinstance(value, tuple | list):
        return type(value)(_types_in(item) for item in value)
    if isinstance(value, dict):
        return {key: _types_in(item) for key, item in value.items()}
    if isinstance(value, Tensor):
        raise EquivarianceError(
            "the model's output is an untyped tensor: it does not depend on the input through fields."
        )
    return value


def _tensors(model: object) -> Iterator[Tensor]:
    if isinstance(model, nn.Module):
        yield from model.parameters()
        yield from model.buffers()


def _operation(func: Callable[..., Any]) -> str:
    """The bare name: ``add`` for torch.add, Tensor.add_, Tensor.__add__."""
    return getattr(func, "__name__", str(func)).strip("_")
