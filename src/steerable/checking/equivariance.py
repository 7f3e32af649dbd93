"""Measurements of how far a network is from equivariance, over the whole group and the whole image.

Elements that the pixel grid does not carry, such as turns by 45°, move images by interpolation and move some of them
out of the square. For these the input is confined to a disc, in volumes to a ball, and the error is measured inside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from steerable.algebra.embeddings import embedding
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.checking.commutation import (
    SMALL,
    grid_generators,
    in_double,
    left_unchanged,
    random_like,
    redrawn_parameters,
)
from steerable.checking.discs import distance_in_disc, in_disc
from steerable.checking.examples import dtype_of, examples
from steerable.checking.other_angles import OtherAngles, constants_turn_in, rounding
from steerable.errors import did_you_mean, shown
from steerable.filters.pixel_grids import grid_spacing
from steerable.transforms import elements_on_the_grid, transform
from steerable.types.field_types import FieldType

__all__ = ["MeasurementOptions", "assert_equivariant", "equivariance_error", "equivariance_errors"]

# What rounding alone may leave, relative to the largest output.
_TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}


class InputOptions(TypedDict, total=False):
    """The keyword arguments of :func:`equivariance_errors`, apart from the elements."""

    in_type: FieldType | None
    out_type: FieldType | None
    size: int | tuple[int, ...] | None
    batch: int
    seed: int
    spacing: float | Sequence[float] | None


class MeasurementOptions(InputOptions, total=False):
    """The keyword arguments of :func:`equivariance_errors`."""

    elements: Iterable[Element] | None


def equivariance_errors(
    function: Callable[[Tensor], Tensor],
    x: Tensor | None = None,
    *,
    elements: Iterable[Element] | None = None,
    **options: Unpack[InputOptions],
) -> dict[Element, float]:
    """The relative error of each element g: max |f(π_in(g) x) - π_out(g) f(x)| / max |f(x)| over the whole image.

    For an element that the pixel grid does not carry, it is the root mean square of the difference, divided by that of
    f(x), both inside a disc (a ball for volumes); x is set to zero outside it beforehand.

    Args:
        function: a module with ``in_type`` and ``out_type``, or any function of a tensor, both given here; a module
            is put into evaluation mode meanwhile.
        x: an input; by default a random one in the module's dtype and on its device, which is smooth where an element
            is off the grid.
        in_type, out_type: the types of input and output, if the function does not have them. An output without
            spatial dimensions is moved by ρ alone.
        size: height and width of the random input, or depth, height and width; by default a size that all strides of
            the module fit.
        batch, seed: of the random input.
        spacing: how far apart pixels or voxels are along each axis, if not equally far.
        elements: some elements of the output's group; by default all of them, or for infinite groups
            those that the grid carries and eight random ones.
    """
    _check_names(options)
    group = _types(function, options.get("in_type"), options.get("out_type"))[1].group
    wanted = _tried(group) if elements is None else _listed(elements)
    exact, interpolated = _errors_by_kind(function, x, elements=wanted, **options)
    return {g: exact[g] if g in exact else interpolated[g] for g in wanted}


@overload
def equivariance_error(
    function: Callable[[Tensor], Tensor],
    x: Tensor | None = None,
    *,
    elements: None = None,
    **options: Unpack[InputOptions],
) -> float: ...


@overload
def equivariance_error(
    function: Callable[[Tensor], Tensor],
    x: Tensor | None = None,
    *,
    elements: Iterable[Element],
    **options: Unpack[InputOptions],
) -> NDArray[np.float64]: ...


def equivariance_error(
    function: Callable[[Tensor], Tensor],
    x: Tensor | None = None,
    *,
    elements: Iterable[Element] | None = None,
    **options: Unpack[InputOptions],
) -> float | NDArray[np.float64]:
    """The largest of :func:`equivariance_errors` over all elements, or one error for each of ``elements``.

    It takes the same arguments. For SO(2), O(3) and other infinite groups, "all" means the elements that are tried by
    default.
    """
    if elements is None:
        errors = equivariance_errors(function, x, **options)
        return errors[_worst(errors)]
    wanted = _listed(elements)
    errors = equivariance_errors(function, x, elements=wanted, **options)
    return np.array([errors[g] for g in wanted])


def assert_equivariant(
    function: Callable[[Tensor], Tensor],
    x: Tensor | None = None,
    *,
    tolerance: float | None = None,
    off_grid: float = 0.3,
    **options: Unpack[MeasurementOptions],
) -> None:
    """Raise an AssertionError that names the worst element if the error is above rounding level.

    It takes the arguments of :func:`equivariance_errors`, and two tolerances. ``tolerance`` is for elements that the
    pixel grid carries, by default 1e-12 in float64 and 1e-5 in float32, relative to the largest output. ``off_grid``
    is for all others, relative to the root mean square inside the disc. Their errors depend on the image as well as on
    the network, and the default is coarse: it overlooks small faults, and a correct network can exceed it on some
    images.

    Without x and size it is measured on an odd and on an even size, if it takes both: ``x[..., ::2, ::2]`` is exact on
    only one of them. Further measurements use small numbers, since a softmax of large ones is 1 and 0 whatever they
    are; numbers of many magnitudes, in float64, since ordinary ones do not reach a bound of 6; and a batch of which
    only one sample is moved.

    Constant images turn by every angle without interpolation, so a module whose filters respond to them as they should
    is also tried on those; only rounding errors are allowed there, or ``tolerance`` if that is more.

    A scale of ones, a matrix that begins as the identity and a running mean of zeros can hide a fault until they are
    trained. So a module is measured on the grid a second time, with parameters and buffers as training may make them.
    Parameters that are frozen by ``requires_grad_(False)`` stay as they are; if all are, this is left out.
    """
    _check_names(options, "elements", "tolerance", "off_grid")
    if (chosen := options.get("elements")) is not None:
        options["elements"] = _listed(chosen)
    in_type, out_type = _types(function, options.get("in_type"), options.get("out_type"))
    options["in_type"], options["out_type"] = in_type, out_type
    exact, interpolated = _errors_by_kind(function, x, **options)
    if tolerance is None:  # whole numbers have single precision at most once they are computed with
        tolerance = _TOLERANCES.get(x.dtype if x is not None else dtype_of(function), _TOLERANCES[torch.float32])
    with _evaluation(function), torch.no_grad():
        field, *others = [x] if x is not None else _examples(function, in_type, options)
    _assert_at_most(tolerance, exact, _size_in_words(field) if others else "", "the largest output")
    _assert_at_most(off_grid, interpolated, "", "the mean output inside the disc")
    if interpolated and constants_turn_in(function):
        constant = x if x is not None else next(_examples(function, in_type, options, smooth=True))
        if constant.is_floating_point():
            _assert_constants_turn(function, constant, interpolated, tolerance, options)
    if not exact:
        return
    generators = {out_type.group.identity, *grid_generators(out_type.group)}
    options["elements"] = [g for g in exact if chosen is not None or g in generators]
    for other in others or ([] if x is not None else [field]):
        errors, _ = _errors_by_kind(function, SMALL * other, **options)
        where = (_size_in_words(other) if others else "") + f", on numbers of about {SMALL}"
        _assert_at_most(tolerance, errors, where, "the largest output")
    with redrawn_parameters(function):
        if isinstance(function, nn.Module) and _is_to_be_trained(function):
            _train_once(function, field)
            errors, _ = _errors_by_kind(function, x, **options)
            when = " once it has been trained (freeze what training is to leave alone with `requires_grad_(False)`)"
            _assert_at_most(tolerance, errors, when, "the largest output")
        if x is None:
            _assert_on_further_looks(function, field, tolerance, options)


def _size_in_words(x: Tensor) -> str:
    return f" on inputs of size {x.shape[-1]} (give size=... where others are meant)"


def _examples(
    function: Callable[[Tensor], Tensor], in_type: FieldType, options: InputOptions, *, smooth: bool = False
) -> Iterator[Tensor]:
    given: Any = {name: value for name, value in options.items() if name in ("size", "batch", "seed")}
    return examples(function, in_type, **given, smooth=smooth)


def _is_to_be_trained(module: nn.Module) -> bool:
    parameters = list(module.parameters())
    return any(p.requires_grad for p in parameters) or (not parameters and any(True for _ in module.buffers()))


def _train_once(module: nn.Module, x: Tensor) -> None:
    """Let the module see an input in training, where it may learn running means, if it accepts one there."""
    module.train()
    with torch.no_grad(), torch.random.fork_rng(devices=[]), suppress(RuntimeError, ValueError, TypeError):
        module(x.clone())


def _assert_on_further_looks(
    function: Callable[[Tensor], Tensor], x: Tensor, tolerance: float, options: MeasurementOptions
) -> None:
    """Measure what ordinary numbers hide when all are moved alike; x is an input that the function takes."""
    with _evaluation(function):
        for run, other, where in _further_looks(function, x):
            errors, _ = _errors_by_kind(run, other, **options)
            _assert_at_most(tolerance, errors, where, "the largest output")


def _further_looks(
    function: Callable[[Tensor], Tensor], x: Tensor
) -> Iterator[tuple[Callable[[Tensor], Tensor], Tensor, str]]:
    """What is measured, on which input, and both in words."""
    twin, wide = in_double(function, x)
    if wide.dtype == torch.float64:  # else rounding would pass for a fault where numbers are large
        wide = random_like(wide, torch.Generator().manual_seed(0))
        with torch.no_grad():
            is_finite = bool(twin(wide.clone()).isfinite().all())
        if is_finite:
            yield twin, wide, " on numbers of many magnitudes"
    if len(set(x.shape[2:])) > 1:  # one that is turned does not fit beside the others
        return
    small = SMALL * x
    with torch.no_grad():
        answers = len(function(small.clone()))
    for k in {0, len(x) - 1} if answers == len(x) > 1 else ():

        def one_of_many(one: Tensor, k: int = k) -> Tensor:
            return function(torch.cat([small[:k], one, small[k + 1 :]]))[k : k + 1]

        others = " where other samples of the batch stay as they are (if they belong together, try batch=1)"
        yield one_of_many, small[k : k + 1], others


def _assert_constants_turn(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    elements: Iterable[Element],
    tolerance: float,
    options: MeasurementOptions,
) -> None:
    """Refuse a function that does not turn constant images of x's shape exactly, by angles off the grid."""
    in_type, out_type = _types(function, options.get("in_type"), options.get("out_type"))
    parent_of = embedding(out_type.group, in_type.group)
    slack = max(10.0, tolerance / rounding(x))
    run = partial(_outputs, function)
    trial = OtherAngles(run, {0: x}, {0: in_type}, [out_type], slack, constants_turn=True, feels_border=True)
    with _evaluation(function), torch.no_grad():
        for g in elements:
            if trial.fails_on_constants(g, parent_of(g)):
                raise AssertionError(
                    "not equivariant: f(π(g)x) differs from π(g)f(x) for constant images x, which need no "
                    f"interpolation, for g = `{g}`; expected the same up to rounding."
                )


def _outputs(function: Callable[[Tensor], Tensor], fields: Mapping[int, Tensor]) -> list[Tensor]:
    return [function(field.clone()) for field in fields.values()]


def _assert_at_most(allowed: float, errors: dict[Element, float], when: str, of: str) -> None:
    if errors and not errors[worst := _worst(errors)] <= allowed:
        raise AssertionError(
            f"not equivariant{when}: f(π(g)x) differs from π(g)f(x) by {errors[worst]:.2e} of {of} for g = `{worst}`; "
            f"expected at most {allowed:.0e}. Errors: " + ", ".join(f"{g} {e:.1e}" for g, e in errors.items())
        )


def _errors_by_kind(
    function: Callable[[Tensor], Tensor], x: Tensor | None, **options: Unpack[MeasurementOptions]
) -> tuple[dict[Element, float], dict[Element, float]]:
    """The errors of the elements that move fields exactly, and those of the elements that need interpolation."""
    in_type, out_type = _types(function, options.get("in_type"), options.get("out_type"))
    parent_of, chosen = embedding(out_type.group, in_type.group), options.get("elements")
    parents = {g: parent_of(g) for g in (_tried(out_type.group) if chosen is None else _listed(chosen))}
    spacing = options.get("spacing")
    on_grid = elements_on_the_grid(in_type.group, spacing)
    move = partial(transform, spacing=spacing)
    exact: dict[Element, float] = {}
    interpolated: dict[Element, float] = {}
    with _evaluation(function), torch.no_grad():
        for carried in (True, False):
            elements = [g for g, parent in parents.items() if (parent in on_grid) == carried]
            if not elements:
                continue
            field = x if x is not None else next(_examples(function, in_type, options, smooth=not carried))
            in_a_disc = not carried and field.ndim > 2  # pooled fields are moved exactly by every element
            apart = grid_spacing(tuple(field.shape[2:]), spacing)
            field = in_disc(field, apart) if in_a_disc else field
            y = function(field.clone())  # a function may write into what it gets
            if not isinstance(y, Tensor):
                raise TypeError(
                    f"one tensor is compared with another, but the function returned {type(y).__name__}. Measure one "
                    "output at a time, for instance with lambda x: model(x)[0], in_type=... and out_type=...."
                )
            if not y.numel():
                raise ValueError(
                    f"an output of shape {tuple(y.shape)} has no values to compare; give an input with at least one "
                    f"sample, not one of shape {tuple(field.shape)}."
                )
            for g in elements:
                moved, expected = function(move(field, parents[g], in_type).clone()), move(y, g, out_type)
                if moved.shape != expected.shape:
                    raise AssertionError(
                        f"under `{g}` the output's shape changes from {tuple(expected.shape)} to {tuple(moved.shape)}."
                    )
                if in_a_disc:
                    interpolated[g] = distance_in_disc(moved, expected, y, apart)
                else:
                    exact[g] = _largest_difference(moved, expected, y)
    return exact, interpolated


def _tried(group: Group) -> tuple[Element, ...]:
    """All elements of a finite group; for an infinite one, those that the grid carries and some random ones."""
    return group.elements if isinstance(group, FiniteGroup) else (*group.grid_elements, *group.random(8, seed=0))


def _listed(elements: Iterable[Element]) -> tuple[Element, ...]:
    if isinstance(elements, str) or not isinstance(elements, Iterable):
        raise TypeError(
            "`elements` takes elements in a list, such as ['r', 'r2'] or [so2().rotation(30)]; got "
            f"{type(elements).__name__} {shown(elements)}."
        )
    listed = tuple(elements)
    if not listed:
        raise ValueError("`elements` is empty, so nothing would be compared; leave it out to try them all.")
    return listed


def _check_names(options: Mapping[str, object], *others: str) -> None:
    """Refuse an unknown argument, because a misspelt one would go unnoticed."""
    known = (*InputOptions.__annotations__, *others)
    for name in options:
        if name not in known:
            raise TypeError(f"`{name}` is not an argument of this measurement. {did_you_mean(name, known)}")


def _largest_difference(moved: Tensor, expected: Tensor, y: Tensor) -> float:
    if not (y.is_floating_point() or y.is_complex()):  # bytes wrap around, truth values have no difference
        moved, expected, y = moved.double(), expected.double(), y.double()
    difference, scale = float((moved - expected).abs().max()), float(y.abs().max())
    return difference / scale if scale > 0 else difference


def _worst(errors: dict[Element, float]) -> Element:
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


@contextmanager
def _evaluation(function: object) -> Iterator[None]:
    """A context in which a module is in evaluation mode; afterwards it is as it was."""
    with left_unchanged() as remember:
        if isinstance(function, nn.Module):
            remember(function)
            function.eval()
        yield
