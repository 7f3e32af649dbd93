"""Helpers for error messages, which say what was given, what was expected, why, and what to do."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable

__all__ = ["check_choice", "did_you_mean", "expect", "frames_to_caller", "listing", "one_of", "shown"]


def expect(value: object, kind: type, what: str) -> None:
    """Raise TypeError unless a value is of the expected class; ``what`` describes that class, with an example.

    >>> expect(3, str, "the element, such as 'r'")
    Traceback (most recent call last):
    TypeError: expected the element, such as 'r', got int 3.
    """
    if not isinstance(value, kind):
        raise TypeError(f"expected {what}, got {type(value).__name__} {shown(value)}.")


def check_choice(name: str, value: object, choices: Iterable[object]) -> None:
    """Raise ValueError unless an argument is one of a few values.

    >>> check_choice("padding", "wrap", ["zero", "reflect"])
    Traceback (most recent call last):
    ValueError: `padding` must be one of zero, reflect; got 'wrap'.
    """
    choices = list(choices)
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(str, choices))}; got {value!r}.")


def frames_to_caller() -> int:
    """The ``stacklevel`` at which a warning names the line outside of this library from which it was called."""
    library = os.path.dirname(__file__) + os.sep
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(library):
        frame, level = frame.f_back, level + 1
    return level


def listing(names: Iterable[object], limit: int = 12) -> str:
    """Names in backticks, cut after ``limit`` so that a message stays readable.

    >>> listing(["e", "r"])
    '`e`, `r`'
    """
    names = [str(name) for name in names]
    text = ", ".join(f"`{name}`" for name in names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"


def one_of(names: Iterable[object]) -> str:
    """Names to choose from, in words.

    >>> one_of(["png", "svg", "pdf"])
    'png, svg or pdf'
    """
    *first, last = map(str, names)
    return f"{', '.join(first)} or {last}" if first else last


def shown(value: object) -> str:
    """A value as Python writes it, cut after 60 characters so that a message stays readable.

    >>> shown("9")
    "'9'"
    """
    if isinstance(value, int) and abs(value) >= 10**30:  # Python does not even write out the longest ones
        return "a number of more than 30 digits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: the nearest known ones, or all of them.

    >>> did_you_mean("qmr4", ["regular", "qmr", "qm"])
    'Did you mean `qmr` or `qm`?'
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return "Did you mean " + " or ".join(f"`{match}`" for match in close) + "?"
    return f"Known names: {listing(known)}."
