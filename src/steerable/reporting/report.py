"""One HTML page that compares runs: headline figures, learning curves, poses, confusion, costs, settings.

The page is self-contained: styles and drawings are inside it, and it loads nothing. Its text is in the templates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from steerable.atomic import write_text
from steerable.pages.numbers import MISSING
from steerable.pages.templates import Templates
from steerable.reporting.comparisons import comparison_section
from steerable.reporting.confusion import confusion_rows, confusion_shares, most_frequent_mistakes
from steerable.reporting.cost_table import cost_table
from steerable.reporting.drawings import (
    DRIFT_FLOOR,
    colours,
    confusion_figure,
    curve_figure,
    grouped_bars,
    power_of_ten,
)
from steerable.reporting.plan_rows import plan_rows
from steerable.reporting.run_records import RunRecord, read_runs
from steerable.reporting.segmentation import example_rows, overlap_rows, precision_rows
from steerable.training.requests.run_files import SHOWN

__all__ = ["write_page", "write_report"]

_LARGEST_TABLE = 20  # classes; a larger confusion matrix is drawn
_TEMPLATES = Templates("steerable.reporting")

Coloured = Sequence[tuple[RunRecord, str]]


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Write a page about one or more run folders, finished or not.

    Args:
        runs: folders that ``train`` wrote.
        out: the HTML file; its folder is made where it does not exist.

    Returns:
        ``out``.
    """
    return write_page(read_runs(runs), out)


def write_page(records: Sequence[RunRecord], out: Path) -> Path:
    """Write the same page about runs that have been read."""
    out = Path(out)
    if out.is_dir():
        raise ValueError(f"`{out}` is a folder; a report is one HTML file. Write it to `{out / 'report.html'}`.")
    runs: Coloured = list(zip(records, colours(len(records)), strict=True))
    folders = {run.folder for run in records}
    named = [
        run.name for run in records if run.folder.parent not in folders
    ]  # runs inside others are compared with them
    text = _TEMPLATES.render(
        "report.html",
        title=named[0] if len(named) == 1 else f"{len(named)} runs",
        runs=runs,
        missing=MISSING,
        lowest_error=_best(records, lambda run: run.results.get("test_error"), min),
        highest_accuracy=_best(records, lambda run: run.poses.get("all_poses"), max),
        comparisons=[(run, c, comparison_section(run, k)) for k, (run, c) in enumerate(runs) if run.comparison],
        curves=_curves(runs),
        validated=any(column.startswith("val_") for run in records for column in run.curves),
        poses=_poses(runs),
        confusions=list(_confusions(runs)),
        mistaken=[(run, colour) for run, colour in runs if run.mistakes],
        segments=any("test_dice" in run.results for run in records),
        classifies=any("test_dice" not in run.results for run in records),
        volumes=any(len(run.data.get("image_size") or ()) == 3 for run in records),
        overlaps=[(run, colour, rows) for run, colour in runs if (rows := overlap_rows(run))],
        counts_objects=any("test_average_precision" in run.results for run in records),
        precisions=[(run, colour, found) for run, colour in runs if (found := precision_rows(run))],
        segmented=[(run, colour, seen) for run, colour in runs if (seen := example_rows(run))],
        pictures=SHOWN,
        cost_tables=[(run, colour, costs) for run, colour in runs if (costs := cost_table(run)) is not None],
        plan_rows=plan_rows,
        files=_files,
        flat=_flat,
        compact_json=_compact_json,
    )
    write_text(out, f"{text}\n")  # in one step: a report that someone is reading is never half a report
    return out


def _curves(runs: Coloured) -> Markup | None:
    """Loss, accuracy, Dice and average precision over the epochs; None if no run has any."""
    columns = sorted({column for run, _ in runs for column in run.curves})
    panels = []
    for title, ending in (
        ("loss", "_loss"),
        ("accuracy", "_accuracy"),
        ("Dice", "_dice"),
        ("average precision", "_average_precision"),
    ):
        curves = [
            (colour, column.startswith("val_"), run.curves[column])
            for run, colour in runs
            for column in columns
            if column.endswith(ending) and column in run.curves
        ]
        if curves:
            panels.append((title, curves))
    return curve_figure(panels, "learning curves") if panels else None


def _poses(runs: Coloured) -> dict[str, Any] | None:
    """Accuracy and drift in every pose, for the runs that were tested in all poses; None if there are none."""
    tested = [(run, colour) for run, colour in runs if run.by_pose("accuracy")]
    if not tested:
        return None
    elements = list(dict.fromkeys(element for run, _ in tested for element in run.by_pose("accuracy")))
    return {
        "runs": tested,
        "elements": elements,
        "accuracy": grouped_bars(elements, [(c, run.by_pose("accuracy")) for run, c in tested], "accuracy by pose"),
        "drift": grouped_bars(elements, [(c, run.by_pose("drift")) for run, c in tested], "drift by pose", log=True),
        "drift_floor": power_of_ten(DRIFT_FLOOR),
        "turned": _over_angles(tested),
    }


def _over_angles(runs: Coloured) -> Markup | None:
    """Accuracy and drift over the angle, for the runs whose test images were turned; None if there are none."""
    panels = []
    for title, name in (("accuracy", "turned_accuracy"), ("drift of the scores", "turned_drift")):
        curves = [(colour, {int(angle): v for angle, v in run.by_pose(name).items()}) for run, colour in runs]
        if found := [(colour, False, curve) for colour, curve in curves if curve]:
            panels.append((title, found))
    return curve_figure(panels, "accuracy and drift over angles", over="angle") if panels else None


def _confusions(runs: Coloured) -> Iterator[dict[str, Any]]:
    """A drawing, or the rows of a table, and the most frequent mistakes of each run that has a confusion matrix."""
    for number, (run, colour) in enumerate(runs, start=1):
        if not run.confusion:
            continue
        shares = confusion_shares(run)
        large = len(run.classes) > _LARGEST_TABLE
        yield {
            "run": run,
            "colour": colour,
            "drawing": confusion_figure(shares, f"confusion matrix {number}") if large else None,
            "rows": [] if large else confusion_rows(run, shares),
            "most_frequent": most_frequent_mistakes(run, shares),
        }


def _files(run: RunRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files of a run that are shown as tables of settings, each with its title."""
    shown = {
        "config.json: what was requested": run.config,
        "plan.json: what the run settled on": run.plan,
        "resolved.json: what was found out about the images": run.resolved,
        "environment.json: versions and hardware": run.environment,
    }
    return ((name, values) for name, values in shown.items() if values)


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as rows: ``recipe.epochs``, 300."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)


def _compact_json(values: dict[str, Any]) -> str:
    """One line for each key; a matrix indented number by number would fill pages."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def _best(
    runs: Sequence[RunRecord], figure: Callable[[RunRecord], float | None], pick: Callable[[list[float]], float]
) -> float | None:
    """The best figure of several runs on the same images; None if all are equal."""
    if len({run.results["dataset"] for run in runs if run.finished}) > 1:
        return None
    known = [value for value in map(figure, runs) if value is not None and math.isfinite(value)]
    return pick(known) if len(set(known)) > 1 else None
