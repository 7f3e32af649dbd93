"""Messages about wrong input: the library's own messages, with their carets in place."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import ParamSpec

from markupsafe import Markup

from steerable.pages.templates import Templates

__all__ = ["MISTAKES", "TEMPLATES", "checked_number", "error_box", "or_message"]

MISTAKES = (ValueError, TypeError, OSError, ImportError)
"""What a wrong input raises; anything else is a bug and goes to the server's log."""
TEMPLATES = Templates("steerable.explorer")

P = ParamSpec("P")


def error_box(error: Exception) -> Markup:
    """A message in a fixed-width font, so that the caret of a text that does not parse stands below its place."""
    return TEMPLATES.render("error.html", text=str(error))


def or_message(function: Callable[P, Markup]) -> Callable[P, Markup]:
    """The function's page, or the message of the error that it raised."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Markup:
        try:
            return function(*args, **kwargs)
        except MISTAKES as error:
            return error_box(error)

    return guarded


def checked_number(value: object, what: str, low: int, high: int) -> int:
    """A whole number within limits, whatever a browser sent; otherwise a ValueError.

    >>> checked_number(3.0, "the filter's size", 1, 7)
    3
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        nearest = int(value)
        if nearest == value and low <= nearest <= high:
            return nearest
    raise ValueError(f"{what} must be a whole number from {low} to {high}; got {value}.")
