"""Numbers as they appear on a page; a missing value is a dash."""

from __future__ import annotations

__all__ = ["MISSING", "decimal", "percent", "small", "thousands"]

MISSING = "–"


def percent(share: float | None, digits: int = 2) -> str:
    """A share of 1 as a percentage.

    >>> percent(0.0863), percent(None)
    ('8.63%', '–')
    """
    return MISSING if share is None else f"{share:.{digits}%}"


def thousands(number: float | None) -> str:
    """A count, with commas between the thousands.

    >>> thousands(12345)
    '12,345'
    """
    return MISSING if number is None else f"{number:,}"


def decimal(number: float | None) -> str:
    """Two digits after the point; a small number has two significant digits.

    >>> decimal(5.678), decimal(0.01234)
    ('5.68', '0.012')
    """
    return MISSING if number is None else f"{number:,.2f}" if abs(number) >= 0.1 else f"{number:.2g}"


def small(number: float | None) -> str:
    """A number near zero, in scientific notation.

    >>> small(2.7e-7), small(0.0)
    ('2.7e-07', '0')
    """
    return MISSING if number is None else f"{number:.1e}" if number else "0"
