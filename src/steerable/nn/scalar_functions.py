"""The conditions on a function for a nonlinearity to be equivariant: it acts on single values, is odd, or scale-free.

If a function does not keep its promise in a trial, the layer is refused; see :mod:`steerable.nn.function_trials`.
"""

from __future__ import annotations

import itertools

import numpy as np
from torch import nn

from steerable.nn.function_trials import REMEDY, ScalarFunction, in_channels, magnitudes, trials_of

__all__ = [
    "KNOWN",
    "ScalarFunction",
    "check_odd",
    "check_pixelwise",
    "check_scale_free",
    "check_valuewise",
    "function_name",
    "is_bare_relu",
]

# Torch's own, of which this is known, so that networks are built quickly; each of them acts on each value alone.
KNOWN: dict[type[nn.Module], tuple[str, ...]] = {
    nn.ReLU: ("scale-free",),
    nn.LeakyReLU: ("scale-free",),
    nn.ELU: (),
    nn.GELU: (),
    nn.SiLU: (),
    nn.Sigmoid: (),
    nn.Softplus: (),
    nn.Tanh: ("odd",),
    nn.Softsign: ("odd",),
}


def function_name(function: ScalarFunction) -> str:
    """The name of a function in messages; one with some arguments fixed has the name of the function itself."""
    named = getattr(function, "func", function)
    return getattr(named, "__name__", type(named).__name__)


def is_bare_relu(function: ScalarFunction) -> bool:
    """Whether a function is torch's ReLU without hooks."""
    return type(function) is nn.ReLU and not (
        function._forward_hooks
        or function._forward_pre_hooks
        or function._backward_hooks
        or function._backward_pre_hooks
    )


def _known(function: ScalarFunction) -> tuple[str, ...]:
    return KNOWN[type(function)] if isinstance(function, nn.Module) and type(function) in KNOWN else ()


def check_valuewise(label: str, function: ScalarFunction, channels: int) -> None:
    """Raise a TypeError for a function that sees the place of a value or other values: a softmax, a dropout."""
    if type(function) in KNOWN:
        return
    draw = np.random.default_rng(0)
    shape = (2, channels, 3, 4)
    x, other = (draw.normal(size=shape) * 10 ** draw.uniform(-3, 3, size=shape) for _ in range(2))
    order, kept = draw.permutation(x.size), draw.random(shape) < 0.5
    for trial in trials_of(label, function, x):
        y, moved, mixed = trial(x, x.ravel()[order].reshape(shape), np.where(kept, x, other))
        moved_back, mixed_back = y.ravel()[order].reshape(shape), np.where(kept, y, mixed)
        if trial.differ(moved, moved_back) is not None or trial.differ(mixed, mixed_back) is not None:
            raise TypeError(
                f"{label}: the function does not act on each value alone; what it does to a value depends on the "
                f"value's place or on other values. {REMEDY}"
            )


def check_pixelwise(label: str, function: ScalarFunction, channels: int) -> None:
    """TypeError for a function of lengths that sees where in the image they stand; one per channel is fine."""
    if type(function) in KNOWN:
        return
    draw = np.random.default_rng(0)
    flat, shape = (2, channels, 12), (2, channels, 3, 4)
    x = np.abs(draw.normal(size=flat) * 10 ** draw.uniform(-3, 3, size=flat))
    order = draw.permutation(12)
    for trial in trials_of(label, function, x.reshape(shape)):
        y, moved = trial(x.reshape(shape), x[..., order].reshape(shape))
        if trial.differ(moved.reshape(flat), y.reshape(flat)[..., order]) is not None:
            raise TypeError(
                f"{label}: the function does not act on each pixel alone; what it does to a length depends on its "
                f"place in the image. {REMEDY}"
            )


def check_odd(label: str, function: ScalarFunction, channels: int, remedy: str) -> None:
    """Raise a TypeError if ν(-a) differs from -ν(a) for some a."""
    if "odd" in _known(function):
        return
    values = in_channels(magnitudes(function), channels)
    for trial in trials_of(label, function, values):
        ahead, back = trial(values, -values)
        if (where := trial.differ(ahead, -back)) is not None:
            raise TypeError(
                f"{label}: the function is not odd, ν(-a) differs from -ν(a) for a = {values.ravel()[where]:.6g}"
                f"{trial.circumstances}. {remedy}"
            )


def check_scale_free(label: str, function: ScalarFunction, channels: int) -> None:
    """Raise a TypeError if ν(ca) differs from cν(a) for some a and c > 0."""
    if "scale-free" in _known(function):
        return
    sizes = magnitudes(function)
    values = in_channels(np.concatenate([sizes, -sizes]), channels)
    for trial, scale in itertools.product(trials_of(label, function, values), (2.5, 0.3, 1e3, 1e-3)):
        scaled, plain = trial(scale * values, values)
        if (where := trial.differ(scaled, scale * plain)) is not None:
            raise TypeError(
                f"{label}: the function is not scale-free, ν(ca) differs from cν(a) for c = {scale:g} and a = "
                f"{values.ravel()[where]:.6g}{trial.circumstances}. Leave scale_free off."
            )
