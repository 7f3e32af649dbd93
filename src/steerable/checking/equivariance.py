"""How far a network is from equivariance, measured over the whole group and the whole image."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypedDict, Unpack

import torch
from torch import Tensor, nn

from steerable.algebra.homomorphisms import inclusion
from steerable.nn.sampling import EquivarianceWarning
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["MeasurementOptions", "assert_equivariant", "equivariance_error", "equivariance_errors"]

# What rounding alone may leave, relative to the largest output.
_TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}

# Tried in this order where no input and no size is given: odd and even, and small enough to be quick.
_SIZES = (17, 16, 33, 32, 9, 8)


class MeasurementOptions(TypedDict, total=False):
    """What :func:`equivariance_errors` takes by keyword."""

    in_type: FieldType | None
    out_type: FieldType | None
    size: int | tuple[int, int] | None
    batch: int
    seed: int


def equivariance_errors(
    function: Callable[[Tensor], Tensor],
    x: Tensor | None = None,
    *,
    in_type: FieldType | None = None,
    out_type: FieldType | None = None,
    size: int | tuple[int, int] | None = None,
    batch: int = 2,
    seed: int = 0,
) -> dict[str, float]:
    """The relative error of each element g of the group: max |f(π_in(g) x) - π_out(g) f(x)| / max |f(x)|.

    Args:
        function: a module with ``in_type`` and ``out_type``, or any function of a tensor, both given here; a module
            is put into evaluation mode meanwhile.
        x: an input; by default a random one in the module's dtype and on its device.
        in_type, out_type: the types of input and output, where the function does not say them. An output without
            spatial dimensions is moved by ρ alone.
        size: height and width of the random input; by default a size that all strides of the module fit.
        batch, seed: of the random input.
    """
    in_type, out_type = _types(function, in_type, out_type)
    with _evaluation(function), torch.no_grad():
        if x is None:
            x = _example(function, in_type, size, batch, seed)
        y = function(x)
        scale = float(y.abs().max())
        smaller = inclusion(out_type.group, in_type.group) if out_type.group != in_type.group else None
        errors = {}
        for element in out_type.group.elements:
            moved = function(transform(x, smaller(element) if smaller else element, in_type))
            expected = transform(y, element, out_type)
            if moved.shape != expected.shape:
                raise AssertionError(
                    f"under `{element}` the output's shape changes from {tuple(expected.shape)} to "
                    f"{tuple(moved.shape)}."
                )
            difference = float((moved - expected).abs().max())
            errors[element] = difference / scale if scale > 0 else difference
    return errors


def equivariance_error(
    function: Callable[[Tensor], Tensor], x: Tensor | None = None, **options: Unpack[MeasurementOptions]
) -> float:
    """The largest of :func:`equivariance_errors`, over all elements of the group; it takes the same arguments."""
    errors = equivariance_errors(function, x, **options)
    return errors[_worst(errors)]


def assert_equivariant(
    function: Callable[[Tensor], Tensor],
    x: Tensor | None = None,
    *,
    tolerance: float | None = None,
    **options: Unpack[MeasurementOptions],
) -> None:
    """Raise an AssertionError, naming the worst element, when the error is above rounding level.

    It takes the arguments of :func:`equivariance_errors`, and ``tolerance``, which is by default 1e-12 in float64 and
    1e-5 in float32, relative to the largest output.
    """
    errors = equivariance_errors(function, x, **options)
    if tolerance is None:
        tolerance = _TOLERANCES[x.dtype if x is not None else _dtype(function)]
    worst = _worst(errors)
    if not errors[worst] <= tolerance:
        raise AssertionError(
            f"not equivariant: f(π(g)x) differs from π(g)f(x) by {errors[worst]:.2e} of the largest output for g = "
            f"`{worst}`; expected at most {tolerance:.0e}. Errors: "
            + ", ".join(f"{g} {e:.1e}" for g, e in errors.items())
        )


def _worst(errors: dict[str, float]) -> str:
    """The element with the largest error; NaN counts as the largest of all."""
    return max(errors, key=lambda g: math.inf if math.isnan(errors[g]) else errors[g])


def _types(function: object, in_type: FieldType | None, out_type: FieldType | None) -> tuple[FieldType, FieldType]:
    in_type = in_type if in_type is not None else getattr(function, "in_type", None)
    out_type = out_type if out_type is not None else getattr(function, "out_type", None)
    if in_type is None or out_type is None:
        raise TypeError(
            f"{type(function).__name__} does not say its types; pass in_type=... and out_type=... (for invariant "
            "outputs a type of trivial capsules, such as FieldType(G, '10*A1'))."
        )
    return in_type, out_type


def _dtype(function: object) -> torch.dtype:
    if isinstance(function, nn.Module):
        for tensor in (*function.parameters(), *function.buffers()):
            if tensor.is_floating_point():
                return tensor.dtype
    return torch.get_default_dtype()


def _example(
    function: Callable[[Tensor], Tensor], in_type: FieldType, size: int | tuple[int, int] | None, batch: int, seed: int
) -> Tensor:
    device = torch.device("cpu")
    if isinstance(function, nn.Module):
        device = next((t.device for t in (*function.parameters(), *function.buffers())), device)

    def draw(*shape: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(batch, in_type.channels, *shape, generator=generator, dtype=torch.float64).to(
            device, _dtype(function)
        )

    if size is not None:
        return draw(*(size if isinstance(size, tuple) else (size, size)))
    for shape in (*((s, s) for s in _SIZES), ()):
        x = draw(*shape)
        with warnings.catch_warnings():
            warnings.simplefilter("error", EquivarianceWarning)
            try:
                function(x)
            except (EquivarianceWarning, ValueError, RuntimeError, IndexError):
                continue
            return x
    return draw(_SIZES[0], _SIZES[0])


@contextmanager
def _evaluation(function: object) -> Iterator[None]:
    if not isinstance(function, nn.Module):
        yield
        return
    modes = {module: module.training for module in function.modules()}
    function.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
