"""Trials of functions on numbers, with their present parameters and with others that training may bring.

A function is tried on values of all magnitudes, in both single and double precision, in training and in evaluation
mode, and with other parameters than it has now, since training changes them. The behaviour between two values cannot
be seen from outside; so the numbers that a function contains, such as the limits of a ``Hardtanh``, are tried too,
with values between and beyond them.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from inspect import getclosurevars
from types import FunctionType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["REMEDY", "FunctionTrial", "ScalarFunction", "in_channels", "magnitudes", "trials_of"]

ScalarFunction = Callable[[Tensor], Tensor]

FloatArray = NDArray[np.float64]

REMEDY = "Use a function of single values, without parameters per channel."

_TOLERANCES = {torch.float64: (1e-9, 1e-12), torch.float32: (1e-4, 1e-6)}  # relative, absolute


class FunctionTrial:
    """A function in one dtype and mode, with its present parameters or with others that training may bring."""

    def __init__(self, function: ScalarFunction, dtype: torch.dtype, circumstances: str = "") -> None:
        self.function, self.dtype, self.circumstances = function, dtype, circumstances

    def __call__(self, *inputs: FloatArray) -> list[FloatArray]:
        """The function's values on each input in turn; the global random state is left alone."""
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
        """Whether a second call gives the same values, and neither call changes the function."""
        before = [tensor.clone() for tensor in _tensors(self.function)]
        first, second = self(values, values)
        unchanged = all(torch.equal(a, b) for a, b in zip(before, _tensors(self.function), strict=True))
        return unchanged and np.array_equal(first, second, equal_nan=True)


def trials_of(label: str, function: ScalarFunction, values: FloatArray) -> list[FunctionTrial]:
    """The trials of a function, which must accept such values in at least one dtype.

    A function on the meta device has no values, and no trials.
    """
    if any(tensor.is_meta for tensor in _tensors(function)):
        return []
    trials: list[FunctionTrial] = []
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
            f"{label}: the function cannot be called with a tensor of shape {values.shape}: {failures[0]}. {REMEDY}"
        ) from failures[0]
    return trials


def _versions(function: ScalarFunction, dtype: torch.dtype) -> Iterator[FunctionTrial]:
    if not isinstance(function, nn.Module):
        yield FunctionTrial(function, dtype)
        return
    for training in (True, False):
        now = copy.deepcopy(function).to("cpu", dtype).train(training)
        yield FunctionTrial(now, dtype)
        if any(True for _ in now.parameters()):
            later = copy.deepcopy(now)
            generator = torch.Generator().manual_seed(0)
            for parameter in later.parameters():
                parameter.data = torch.rand(parameter.shape, generator=generator, device="cpu").to(parameter)
            yield FunctionTrial(later, dtype, " once training has changed its parameters")


def _tensors(function: ScalarFunction) -> list[Tensor]:
    return [*function.parameters(), *function.buffers()] if isinstance(function, nn.Module) else []


# ---------------------------------------------------------------- where it is tried


def magnitudes(function: ScalarFunction) -> FloatArray:
    """Values ≥ 0 of all magnitudes, and those at, between and beyond the numbers that the function names."""
    named = np.unique([float(abs(number)) for number in _numbers(function) if 0 < abs(number) < 1e30])
    between = (named[1:] + named[:-1]) / 2
    about = np.concatenate([named * factor for factor in (1, 0.999, 1.001, 0.5, 2, 10)])
    return np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 721), np.linspace(0.1, 12, 120), about, between])


def in_channels(values: FloatArray, channels: int) -> FloatArray:
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
