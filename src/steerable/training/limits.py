"""What a setting of a run may be: a number in a range, or a flag. Whatever else is refused, in the same words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from steerable.errors import shown

__all__ = ["MOST_EPOCHS", "Range", "check_flags", "check_numbers"]

MOST_EPOCHS = 10**6


@dataclass(frozen=True)
class Range:
    """The numbers from ``lowest`` to ``highest``.

    Args:
        lowest: the smallest.
        highest: the largest; there is always one, since no machine could handle more.
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


def check_numbers(owner: str, values: Mapping[str, Any], ranges: Mapping[str, Range]) -> None:
    """ValueError for the first value that is out of its range; ``owner`` stands before the setting's name."""
    for name, allowed in ranges.items():
        if values[name] not in allowed:
            raise ValueError(f"{owner}{name} is {allowed}; got {shown(values[name])}.")


def check_flags(owner: str, values: Mapping[str, Any], names: Iterable[str]) -> None:
    """ValueError for the first value that is neither true nor false."""
    for name in names:
        if not isinstance(values[name], bool):
            raise ValueError(f"{owner}{name} is true or false; got {shown(values[name])}.")
