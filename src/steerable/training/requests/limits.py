"""The values that a setting of a run may have: a number in a range, a flag, one of a few names, or text."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MOST_EPOCHS", "Flag", "Limit", "OneOf", "Range", "Text"]

MOST_EPOCHS = 10**6


@dataclass(frozen=True)
class Range:
    """The numbers from ``lowest`` to ``highest``.

    Args:
        lowest: the smallest number.
        highest: the largest number; there always is one, since no machine could handle more.
        whole: only whole numbers.
        above: not ``lowest`` itself.
        below: not ``highest`` itself.
        optional: or None.
    """

    lowest: float
    highest: float
    whole: bool = False
    above: bool = False
    below: bool = False
    optional: bool = False

    def __contains__(self, value: object) -> bool:
        if value is None:
            return self.optional
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        # Compared as they are: a whole number may be too large for a float. NaN is in no range.
        starts = value > self.lowest if self.above else value >= self.lowest
        return starts and (value < self.highest if self.below else value <= self.highest)

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        start = f"above {self.lowest:,}" if self.above else f"from {self.lowest:,}"
        end = "and below" if self.below else "and up to" if self.above else "to"
        return f"{kind} {start} {end} {self.highest:,}"


@dataclass(frozen=True)
class Flag:
    """True or false, or None if it is ``optional``."""

    optional: bool = False

    def __contains__(self, value: object) -> bool:
        return isinstance(value, bool) or (self.optional and value is None)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class OneOf:
    """One of a few names."""

    names: tuple[str, ...]

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and value in self.names

    def __str__(self) -> str:
        return f"one of {', '.join(self.names)}"


@dataclass(frozen=True)
class Text:
    """Any text, or None if it is ``optional``."""

    optional: bool = False

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) or (self.optional and value is None)

    def __str__(self) -> str:
        return "text"


Limit = Range | Flag | OneOf | Text
