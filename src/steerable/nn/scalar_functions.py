"""What a function must be for a nonlinearity to be equivariant: of single values, odd, or scale-free.

A function is tried on values of all magnitudes, in both single and double precision, in training and in evaluation
mode, and with other parameters than it has now, since training changes them. Where it does not keep its promise the
layer is refused. What lies between two values cannot be seen from outside; so the numbers that a function names itself,
such as the limits of a ``Hardtanh``, are tried too, with values between and beyond them.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from inspect import getclosurevars
from types import FunctionType

import numpy as np
import torch
from torch import Tensor, nn

__all__ = [
    "KNOWN",
    "ScalarFunction",
    "check_odd",
    "check_pixelwise",
    "check_scale_free",
    "check_valuewise",
    "function_name",
]

ScalarFunction = Callable[[Tensor], Tensor]


_TOLERANCES = {torch.float64: (1e-9, 1e-12), torch.float32: (1e-4, 1e-6)}  # relative, absolute
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
_REMEDY = "Use a function of single values, without parameters per channel."


def function_name(function: ScalarFunction) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _known(function: ScalarFunction) -> tuple[str, ...]:
    return KNOWN[type(function)] if isinstance(function, nn.Module) and type(function) in KNOWN else ()


def check_valuewise(label: str, function: ScalarFunction, channels: int) -> None:
    """TypeError for a function that sees where a value stands or which others there are: a softmax, a dropout."""
    if type(function) in KNOWN:
        return
    draw = np.random.default_rng(0)
    shape = (2, channels, 3, 4)
    x, other = (draw.normal(size=shape) * 10 ** draw.uniform(-3, 3, size=shape) for _ in range(2))
    order, kept = draw.permutation(x.size), draw.random(shape) < 0.5
    for trial in _trials(label, function, x):
        y, moved, mixed = trial(x, x.ravel()[order].reshape(shape), np.where(kept, x, other))
        moved_back, mixed_back = y.ravel()[order].reshape(shape), np.where(kept, y, mixed)
        if trial.differ(moved, moved_back) is not None or trial.differ(mixed, mixed_back) is not None:
            raise TypeError(
                f"{label}: the function does not act on each value alone; what it does to a value depends on where "
                f"the value stands or on the other values. {_REMEDY}"
            )


def check_pixelwise(label: str, function: ScalarFunction, channels: int) -> None:
    """TypeError for a function of lengths that sees where in the image they stand; one per channel is fine."""
    if type(function) in KNOWN:
        return
    draw = np.random.default_rng(0)
    flat, shape = (2, channels, 12), (2, channels, 3, 4)
    x = np.abs(draw.normal(size=flat) * 10 ** draw.uniform(-3, 3, size=flat))
    order = draw.permutation(12)
    for trial in _trials(label, function, x.reshape(shape)):
        y, moved = trial(x.reshape(shape), x[..., order].reshape(shape))
        if trial.differ(moved.reshape(flat), y.reshape(flat)[..., order]) is not None:
            raise TypeError(
                f"{label}: the function does not act on each pixel alone; what it does to a length depends on where "
                f"in the image it stands. {_REMEDY}"
            )


def check_odd(label: str, function: ScalarFunction, channels: int, remedy: str) -> None:
    """TypeError where ν(-a) differs from -ν(a) for some a."""
    if "odd" in _known(function):
        return
    values = _in_channels(_magnitudes(function), channels)
    for trial in _trials(label, function, values):
        ahead, back = trial(values, -values)
        if (where := trial.differ(ahead, -back)) is not None:
            raise TypeError(
                f"{label}: the function is not odd, ν(-a) differs from -ν(a) for a = {values.ravel()[where]:.6g}"
                f"{trial.circumstances}. {remedy}"
            )


def check_scale_free(label: str, function: ScalarFunction, channels: int) -> None:
    """TypeError where ν(ca) differs from cν(a) for some a and c > 0."""
    if "scale-free" in _known(function):
        return
    magnitudes = _magnitudes(function)
    values = _in_channels(np.concatenate([magnitudes, -magnitudes]), channels)
    for trial, scale in itertools.product(_trials(label, function, values), (2.5, 0.3, 1e3, 1e-3)):
        scaled, plain = trial(scale * values, values)
        if (where := trial.differ(scaled, scale * plain)) is not None:
            raise TypeError(
                f"{label}: the function is not scale-free, ν(ca) differs from cν(a) for c = {scale:g} and a = "
                f"{values.ravel()[where]:.6g}{trial.circumstances}. Leave scale_free off."
            )


# ---------------------------------------------------------------- trying a function


class _Trial:
    """A function as it may be one day: in one dtype and mode, with one draw of its parameters."""

    def __init__(self, function: ScalarFunction, dtype: torch.dtype, circumstances: str = "") -> None:
        self.function, self.dtype, self.circumstances = function, dtype, circumstances

    def __call__(self, *inputs: FloatArray) -> list[FloatArray]:
        """What the function makes of each, one after the other; random numbers outside stay as they are."""
        found = []
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            for values in inputs:
                y = self.function(torch.tensor(values, dtype=self.dtype, device="cpu"))
                if not isinstance(y, Tensor) or y.shape != values.shape:
                    given = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
                    raise TypeError(f"the result should be a tensor of the same shape, and is of {given}")
                found.append(y.double().numpy())
        return found

    def differ(self, y: FloatArray, expected: FloatArray) -> int | None:
        """The first place where the two differ by more than rounding, if there is one."""
        relative, absolute = _TOLERANCES[self.dtype]
        differ = ~np.isclose(y, expected, relative, absolute, equal_nan=True)
        return int(differ.argmax()) if differ.any() else None

    def is_steady(self, values: FloatArray) -> bool:
        """Whether it gives the same again, and is the same after it."""
        before = [tensor.clone() for tensor in _tensors(self.function)]
        first, second = self(values, values)
        unchanged = all(torch.equal(a, b) for a, b in zip(before, _tensors(self.function), strict=True))
        return unchanged and np.array_equal(first, second, equal_nan=True)


def _trials(label: str, function: ScalarFunction, values: FloatArray) -> list[_Trial]:
    """The trials of a function, which must be able to take such values in one dtype at least.

    A function on the meta device has no values, and no trials.
    """
    if any(tensor.is_meta for tensor in _tensors(function)):
        return []
    trials: list[_Trial] = []
    failures: list[Exception] = []
    for dtype in _TOLERANCES:
        try:
            steady = [(trial, trial.is_steady(values)) for trial in _versions(function, dtype)]
        except Exception as error:  # user code may raise anything; another dtype may still work
            failures.append(error)
            continue
        if not all(flag for _, flag in steady):
            raise TypeError(
                f"{label}: the function is random or keeps a state: called twice with the same values it gives "
                "different ones, or it has changed in between. Use a function that does neither, and `snn.Dropout` to "
                "drop capsules at random."
            )
        trials += [trial for trial, _ in steady]
    if not trials:
        raise TypeError(
            f"{label}: the function cannot be called with a tensor of shape {values.shape}: {failures[0]}. {_REMEDY}"
        ) from failures[0]
    return trials


def _versions(function: ScalarFunction, dtype: torch.dtype) -> Iterator[_Trial]:
    if not isinstance(function, nn.Module):
        yield _Trial(function, dtype)
        return
    for training in (True, False):
        now = copy.deepcopy(function).to("cpu", dtype).train(training)
        yield _Trial(now, dtype)
        if any(True for _ in now.parameters()):
            later = copy.deepcopy(now)
            generator = torch.Generator().manual_seed(0)
            for parameter in later.parameters():
                parameter.data = torch.rand(parameter.shape, generator=generator, device="cpu").to(parameter)
            yield _Trial(later, dtype, " once training has changed its parameters")


def _tensors(function: ScalarFunction) -> list[Tensor]:
    return [*function.parameters(), *function.buffers()] if isinstance(function, nn.Module) else []


# ---------------------------------------------------------------- where it is tried


def _magnitudes(function: ScalarFunction) -> FloatArray:
    """Values ≥ 0 of all magnitudes, and those at, between and beyond the numbers that the function names."""
    named = np.unique([float(abs(number)) for number in _numbers(function) if 0 < abs(number) < 1e30])
    between = (named[1:] + named[:-1]) / 2
    about = np.concatenate([named * factor for factor in (1, 0.999, 1.001, 0.5, 2, 10)])
    return np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 721), np.linspace(0.1, 12, 120), about, between])


def _in_channels(values: FloatArray, channels: int) -> FloatArray:
    """(1, channels, n, 1), as a layer gives them to its function; filled up with zeros."""
    rows = math.ceil(len(values) / channels)
    return np.pad(values, (0, rows * channels - len(values))).reshape(1, channels, rows, 1)


def _numbers(function: object) -> Iterator[float]:
    """The numbers that a function is made with: a module's settings; constants, defaults, closures, globals of code."""
    if isinstance(function, nn.Module):
        for module in function.modules():
            yield from _plain_numbers([*vars(module).values(), *module.parameters(), *module.buffers()])
            yield from _numbers(type(module).forward)
    elif isinstance(function, functools.partial):
        yield from _plain_numbers([*function.args, *function.keywords.values()])
        yield from _numbers(function.func)
    elif isinstance(function, FunctionType):
        yield from _plain_numbers([*function.__code__.co_consts, *(function.__defaults__ or ())])
        outside = getclosurevars(function)
        yield from _plain_numbers((function.__kwdefaults__ or {}).values())
        yield from _plain_numbers([*outside.nonlocals.values(), *outside.globals.values()])


def _plain_numbers(things: Iterable[object]) -> Iterator[float]:
    for thing in things:
        if isinstance(thing, int | float) and not isinstance(thing, bool):
            yield thing
        elif isinstance(thing, Tensor) and thing.numel() <= 64 and thing.is_floating_point() and not thing.is_meta:
            yield from thing.detach().flatten().tolist()
        elif isinstance(thing, tuple):
            yield from _plain_numbers(thing)
