"""Sizes of fields that record the questions a model asks of them: ``if h > 40`` treats larger images differently."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from steerable.checking.places import Answers, Shape, current_run, source_line

__all__ = ["extents", "unseen_shapes", "without_notes"]

_LARGEST, _LARGEST_VOLUME = 512, 64  # sides of images and volumes that are tried where a model asks for their size
_LARGE_BATCH = 17
_TRIES, _TRIES_IN_ALL = 3, 16  # for each question, since strides may not fit the first, and for one model


Number = int | float


def _computed(function: Callable[..., Number], *, reflected: bool = False) -> Any:
    def method(self: Any, other: Any = 0) -> Any:
        if not isinstance(other, Number):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        value = function(_plain(a), _plain(b))
        kind = Extent if isinstance(value, int) else Ratio
        return kind(value, lambda shape: function(_on(a, shape), _on(b, shape)))

    return method


def _asked(function: Callable[..., bool]) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, Number):
            return NotImplemented
        answer, run = function(_plain(self), _plain(other)), current_run()
        if run is not None:
            constant = "a size" if isinstance(other, _FromSizes) else other
            asked = run.answers.setdefault((source_line(), function.__name__, constant), {})
            asked.setdefault(answer, lambda shape: function(_on(self, shape), _on(other, shape)))
        return answer

    return method


class _FromSizes:
    """A number that knows its approximate value on an input of another shape.

    Attributes:
        on: gives that number for (batch, height, width), or (batch, depth, height, width).
    """

    on: Callable[[Shape], Number]

    def __new__(cls, value: Number, on: Callable[[Shape], Number]) -> Any:
        self = super().__new__(cls, value)  # type: ignore[call-arg]
        self.on = on
        return self

    __add__ = __radd__ = _computed(operator.add)
    __mul__ = __rmul__ = _computed(operator.mul)
    __sub__, __rsub__ = _computed(operator.sub), _computed(operator.sub, reflected=True)
    __mod__, __rmod__ = _computed(operator.mod), _computed(operator.mod, reflected=True)
    __floordiv__, __rfloordiv__ = _computed(operator.floordiv), _computed(operator.floordiv, reflected=True)
    __truediv__, __rtruediv__ = _computed(operator.truediv), _computed(operator.truediv, reflected=True)
    __pow__, __neg__ = _computed(operator.pow), _computed(lambda a, _: -a)
    __lt__, __le__, __gt__, __ge__ = (_asked(f) for f in (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = _asked(operator.eq), _asked(operator.ne)

    def __bool__(self) -> bool:
        return bool(self != 0)


class Extent(_FromSizes, int):
    """A whole number, such as a height."""

    __hash__ = int.__hash__


class Ratio(_FromSizes, float):
    """A fraction, such as a height over a width."""

    __hash__ = float.__hash__


def _plain(number: Number) -> Number:
    return int(number) if isinstance(number, int) else float(number)


def without_notes(item: Any) -> Any:
    """The same number without a memory of sizes; anything else unchanged."""
    return _plain(item) if isinstance(item, (Extent, Ratio)) else item


def _on(number: Number, shape: Shape) -> Number:
    return number.on(shape) if isinstance(number, _FromSizes) else number


def extents(sizes: torch.Size) -> torch.Size:
    """The shape of a field, whose batch and sides are assumed to grow in proportion to those of the input."""
    run = current_run()
    if run is None:
        return sizes
    scaled = {0: 0} | {axis: axis - 1 for axis in range(2, len(sizes)) if len(sizes) == 1 + len(run.shape)}
    return torch.Size([_scaled(n, run.shape, scaled[axis]) if axis in scaled else n for axis, n in enumerate(sizes)])


def _scaled(n: int, given: Shape, axis: int) -> int:
    return n if axis and n == 1 else Extent(n, lambda shape: n * shape[axis] // given[axis])


def unseen_shapes(answers: Answers, fitting: Shape) -> Iterator[Shape]:
    """Shapes of an input on which a model may behave differently than on the one that fits.

    First come those on which a question should find an answer that it has not found yet, until it finds it, then a
    large batch and twice the size: Python computes ``len(x)``, ``int(h)`` and ``math.log2(h)`` without telling us.

    Args:
        answers: what was answered so far, which grows as the shapes are tried.
        fitting: a shape that the model takes.
    """
    yield from itertools.islice(_unseen_shapes(answers, fitting), _TRIES_IN_ALL)
    batch, *sides = fitting
    yield (_LARGE_BATCH, *sides)
    yield (batch, *(2 * n for n in sides))


def _unseen_shapes(answers: Answers, fitting: Shape) -> Iterator[Shape]:
    done: set[Any] = set()
    while waiting := [asked for asked in answers if asked not in done]:
        done.update(waiting)
        for asked in waiting:
            (answer, question), *_ = answers[asked].items()
            others = (shape for shape in _shapes(fitting) if _answered(question, shape) is not answer)
            for shape in itertools.islice(others, _TRIES):
                if len(answers[asked]) == 1:
                    yield shape


def _answered(question: Callable[[Shape], bool], shape: Shape) -> bool | None:
    try:
        return question(shape)
    except ArithmeticError:
        return None


def _shapes(fitting: Shape) -> Iterator[Shape]:
    """Other batches and sizes, then oblong images; first those that fit the same strides and are not large."""
    batch, *sides = fitting
    yield from ((n, *sides) for n in range(1, 65))
    largest, usual = _LARGEST if len(sides) == 2 else _LARGEST_VOLUME, sides[0]
    for n in sorted(range(1, largest + 1), key=lambda n: ((n - usual) % 16 != 0 or n > 4 * usual, abs(n - usual))):
        yield (batch, *(n,) * len(sides))
    for more in (32, 1):
        yield (batch, *sides[:-1], sides[-1] + more)
        yield (batch, sides[0] + more, *sides[1:])
