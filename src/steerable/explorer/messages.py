"""What the page says when something given is wrong: the library's own message, its caret in place."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import ParamSpec

from steerable.reporting.markup import Html, tag

__all__ = ["MISTAKES", "error_box", "note", "or_message", "whole"]

MISTAKES = (ValueError, TypeError, OSError, ImportError)
"""What a wrong input raises; anything else is a bug and goes to the server's log."""

P = ParamSpec("P")


def error_box(error: Exception | str) -> Html:
    """A message in a fixed-width font: the caret of a text that does not parse stands below its place."""
    return tag("div", tag("pre", str(error)), class_="st-error", role="alert")


def note(*parts: object) -> Html:
    return tag("p", *parts, class_="st-note")


def or_message(function: Callable[P, Html]) -> Callable[P, Html]:
    """The function's page, or the message of the mistake that it met."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Html:
        try:
            return function(*args, **kwargs)
        except MISTAKES as error:
            return error_box(error)

    return guarded


def whole(value: object, what: str, low: int, high: int) -> int:
    """A whole number within limits, whatever a browser sent; ValueError in words otherwise.

    >>> whole(3.0, "the filter's size", 1, 7)
    3
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        nearest = int(value)
        if nearest == value and low <= nearest <= high:
            return nearest
    raise ValueError(f"{what} is a whole number from {low} to {high}; got {value}.")
