"""The replacements of a conversion, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steerable.errors import listing

__all__ = ["NEW_WEIGHTS", "ConversionReport", "ReportRow"]

NEW_WEIGHTS = "All weights are new: pretrained ones are not carried over, and the network has to be trained."


@dataclass(frozen=True)
class ReportRow:
    """One replaced part of the network.

    Attributes:
        path: where it is, in the plain network and in the converted one; functions get a name of their own.
        before, after: what stood there, and what stands there now.
        parameters_before, parameters_after: their numbers.
        note: what differs from a plain replacement, such as a rounded number of channels; empty if nothing does.
    """

    path: str
    before: str
    after: str
    parameters_before: int
    parameters_after: int
    note: str = ""


@dataclass(frozen=True)
class ConversionReport:
    """All replacements of a conversion; ``print`` shows them as a table.

    Attributes:
        group: the group's name.
        match: what was kept equal, channels or parameters.
        width: the factor on the plain network's hidden channels, 1 for equal channels.
        rows: the replacements, in the order in which the network uses them.
        parameters_before, parameters_after: of the whole network.
        checked_size: height and width of the input on which all types were followed through the network, every stride
            and window was symmetric, and each result was measured to be equivariant to rounding; None if none of
            the sizes that were tried fits all strides and windows.
        check_failure: then, the first of those sizes and what does not fit.
        remark: a remark on the network as a whole; it may be empty.
        carried: the elements that the pixel grid carries, to which alone "exactly" refers; empty if these are all.
    """

    group: str
    match: str
    width: float
    rows: tuple[ReportRow, ...]
    parameters_before: int
    parameters_after: int
    checked_size: int | None
    check_failure: str = ""
    remark: str = ""
    carried: tuple[str, ...] = ()
    axes: int = 2

    def __str__(self) -> str:
        head = ("module", "before", "after", "parameters")
        cells = [
            (row.path, row.before, row.after, f"{row.parameters_before:,} → {row.parameters_after:,}")
            if row.parameters_before or row.parameters_after
            else (row.path, row.before, row.after, "")
            for row in self.rows
        ]
        total = f"{self.parameters_before:,} → {self.parameters_after:,}"
        lines = [*_table(head, cells), f"In all {total} parameters; {self.group}, equal {self.match}{self._factor()}."]
        lines.append(
            f"Exactly equivariant{self._part()} on {self._extents()} inputs, for instance."
            if self.checked_size
            else f"Not exact on any size that was tried, for instance on {self.check_failure}"
        )
        lines.append(NEW_WEIGHTS)
        return "\n".join([*lines, *filter(None, [self.remark]), *self._notes()])

    def _extents(self) -> str:
        return "×".join([str(self.checked_size)] * self.axes)

    def _part(self) -> str:
        """The elements that are exact, for a group that turns images by angles off the grid."""
        return f" to {listing(self.carried)}, and approximately to the rest of {self.group}," if self.carried else ""

    def _notes(self) -> list[str]:
        """One line for each note, with all the places that it concerns."""
        places: dict[str, list[str]] = {}
        for row in self.rows:
            if row.note:
                places.setdefault(row.note, []).append(row.path)
        return [f"{', '.join(paths)}: {note}." for note, paths in places.items()]

    def _factor(self) -> str:
        if self.match != "parameters":
            return ""
        near = abs(self.parameters_after - self.parameters_before) <= 0.1 * self.parameters_before
        return f"{'' if near else ' as nearly as hidden layers allow,'} at {self.width:.2f} times the channels"


def _table(head: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in (head, *cells)) for k in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *cells)]
    return [line.rstrip() for line in lines]
