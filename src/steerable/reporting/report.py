"""One HTML page that compares runs: headline figures, learning curves, poses, confusion, costs, settings.

The page is self-contained: styles and drawings are inside it, and it loads nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steerable.atomic import write_text
from steerable.reporting.cost_table import cost_table
from steerable.reporting.drawings import (
    DRIFT_FLOOR,
    colours,
    confusion_figure,
    curve_figure,
    grouped_bars,
    power_of_ten,
)
from steerable.reporting.markup import Html, count, decimal, details, join, page, percent, small, table, tag
from steerable.reporting.mistake_pictures import gallery
from steerable.reporting.run_records import RunRecord, read_runs

__all__ = ["write_page", "write_report"]

_MISSING = "–"
_LARGEST_TABLE = 20  # classes; a larger confusion matrix is drawn


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
    """The same of runs that have been read."""
    out = Path(out)
    if out.is_dir():
        raise ValueError(f"{out} is a folder; a report is one HTML file. Write it to {out / 'report.html'}.")
    coloured = list(zip(records, colours(len(records)), strict=True))
    title = records[0].name if len(records) == 1 else f"{len(records)} runs"
    sections = (_headline, _curves, _poses, _confusion, _mistaken, _costs, _settings)
    text = page(f"steerable: {title}", tag("h1", title), *(section(coloured) for section in sections))
    write_text(out, text)  # in one step: a report that someone is reading is never half a report
    return out


Coloured = Sequence[tuple[RunRecord, str]]


def _headline(runs: Coloured) -> Html:
    heads = "run,model,data,labels,parameters,epochs,test error,accuracy over all poses,training minutes,hardware,seed"
    records = [run for run, _ in runs]
    lowest = _best([run.results.get("test_error") for run in records], min)
    highest = _best([run.poses.get("all_poses") for run in records], max)
    rows = []
    for run, colour in runs:
        found = run.results
        error, posed = found.get("test_error"), run.poses.get("all_poses")
        rows.append(
            [
                tag("td", _name(run, colour), class_="named"),
                tag("td", run.model_text, class_="model"),
                found.get("dataset", run.config.get("dataset", _MISSING)),
                count(found.get("labels", run.config.get("labels"))),
                count(found.get("parameters")),
                count(run.epochs) if run.finished else f"{run.epochs_done} of {count(run.epochs)}",
                tag("td", percent(error), class_=_number_class(error, lowest)),
                tag("td", percent(posed), class_=_number_class(posed, highest)),
                decimal(found.get("training_minutes")),
                found.get("hardware", _MISSING),
                str(found.get("seed", run.config.get("seed", _MISSING))),
            ]
        )
    notes = [tag("p", tag("b", run.name), ": ", note, class_="note") for run in records for note in run.notes]
    return join([table(heads.split(","), rows, numbers=(3, 4, 5, 6, 7, 8, 10)), *notes])


def _curves(runs: Coloured) -> Html:
    columns = sorted({column for run, _ in runs for column in run.curves})
    panels = []
    for title, ending in (("loss", "_loss"), ("accuracy", "_accuracy")):
        curves = [
            (colour, column.startswith("val_"), run.curves[column])
            for run, colour in runs
            for column in columns
            if column.endswith(ending) and column in run.curves
        ]
        if curves:
            panels.append((title, curves))
    if not panels:
        return Html()
    caption = "Solid: training. Dashed: validation." if any(c.startswith("val_") for c in columns) else "Training."
    drawing = curve_figure(panels, "learning curves")
    return join([tag("h2", "Learning curves"), _legend(runs), _drawn(drawing, caption)])


def _poses(runs: Coloured) -> Html:
    tested = [(run, colour) for run, colour in runs if run.by_pose("accuracy")]
    if not tested:
        return Html()
    elements = list(dict.fromkeys(element for run, _ in tested for element in run.by_pose("accuracy")))
    accuracy = grouped_bars(elements, [(c, run.by_pose("accuracy")) for run, c in tested], "accuracy by pose")
    drift = grouped_bars(elements, [(c, run.by_pose("drift")) for run, c in tested], "drift by pose", log=True)
    columns = [(run, c, what) for run, c in tested for what in ("accuracy", "drift")]
    heads = ["pose", *(tag("th", _name(run, c), " ", what, class_="number") for run, c, what in columns)]
    rows = [[element, *(cell for run, _ in tested for cell in _pose_cells(run, element))] for element in elements]
    rows.append(["mean", *(x for run, _ in tested for x in (percent(run.poses.get("all_poses")), ""))])
    e, r, r2, m, mr = (tag("code", element) for element in ("e", "r", "r2", "m", "mr"))
    turns = (e, " is upright, ", r, " a quarter turn counter-clockwise, ", r2, " two of them, ")
    poses = (*turns, m, " a mirror image, ", mr, " a mirror image after a quarter turn.")
    return join(
        [
            tag("h2", "Turned and mirrored images"),
            tag("p", "Every test image in every pose: ", *poses),
            _legend(tested),
            _drawn(accuracy, "Accuracy under each element of the group."),
            _drawn(
                drift,
                "Drift of the scores, ‖f(gx) − f(x)‖ / ‖f(x)‖ on average, on a logarithmic scale: how much a pose "
                f"changes what the network says. Values below {power_of_ten(DRIFT_FLOOR)} are drawn there.",
            ),
            table(heads, rows, numbers=range(1, len(columns) + 1)),
        ]
    )


def _pose_cells(run: RunRecord, element: str) -> tuple[str, str]:
    return percent(run.by_pose("accuracy").get(element)), small(run.by_pose("drift").get(element))


def _confusion(runs: Coloured) -> Html:
    parts = []
    for number, (run, colour) in enumerate(runs, start=1):
        if not run.confusion:
            continue
        shares = [[number / max(1, sum(row)) for number in row] for row in run.confusion]
        if len(run.classes) > _LARGEST_TABLE:
            caption = "Rows: true classes. Columns: what they were taken for. Share of the true class."
            matrix = _drawn(confusion_figure(shares, f"confusion matrix {number}"), caption)
        else:
            matrix = _confusion_table(run, shares)
        parts += [tag("h3", _name(run, colour)), tag("div", matrix, _mistakes(run, shares), class_="side")]
    if not parts:
        return Html()
    return join(
        [tag("h2", "Confusion"), tag("p", "Upright test images: true classes in rows, answers in columns."), *parts]
    )


def _confusion_table(run: RunRecord, shares: Sequence[Sequence[float]]) -> Html:
    rows = []
    for i, (counts, row) in enumerate(zip(run.confusion, shares, strict=True)):
        cells = []
        for j, (number, share) in enumerate(zip(counts, row, strict=True)):
            kind = ("right" if i == j else "wrong") if number else "none"
            cells.append(tag("td", number, class_=kind, style=f"--share:{share:.3f}" if number else None))
        rows.append([tag("td", run.classes[i], title=run.classes[i]), *cells, percent(row[i], 1)])
    heads = ["", *(tag("th", name, title=name) for name in run.classes), "right"]
    return table(heads, rows, class_="confusion")


def _mistakes(run: RunRecord, shares: Sequence[Sequence[float]]) -> Html:
    """The most frequent ones, in words."""
    pairs = [
        (number, i, j) for i, row in enumerate(run.confusion) for j, number in enumerate(row) if i != j and number > 0
    ]
    worst = sorted(pairs, key=lambda pair: (-pair[0], pair[1:]))[:8]
    if not worst:
        return tag("p", "No mistakes.", class_="quiet")
    items = [
        tag("li", f"{run.classes[i]} taken for {run.classes[j]}: {number} ({percent(shares[i][j], 1)})")
        for number, i, j in worst
    ]
    return tag("div", tag("p", "Most frequent mistakes", class_="quiet"), tag("ul", *items, class_="mistakes"))


def _mistaken(runs: Coloured) -> Html:
    parts = [part for run, colour in runs if run.mistakes for part in (tag("h3", _name(run, colour)), gallery(run))]
    if not parts:
        return Html()
    text = "Upright test images that were taken for another class, those that the network was surest of first."
    return join([tag("h2", "Mistakes"), tag("p", text), *parts])


def _costs(runs: Coloured) -> Html:
    parts = [part for run, colour in runs for part in (tag("h3", _name(run, colour)), cost_table(run))]
    text = (
        "What each convolution costs. μ is how many weights of the dense filter bank share one parameter, on "
        "average: the parameter utilisation."
    )
    return join([tag("h2", "Costs"), tag("p", text), *parts])


def _settings(runs: Coloured) -> Html:
    parts = []
    for run, colour in runs:
        parts.append(tag("h3", _name(run, colour), " ", tag("code", run.folder)))
        files = (("config", run.config), ("resolved", run.resolved), ("environment", run.environment))
        parts += [details(f"{name}.json", table((), _flat(values))) for name, values in files if values]
        if run.results:
            parts.append(details("results.json", tag("pre", _compact_json(run.results))))
    return join([tag("h2", "Settings"), *parts])


def _flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[Html, str]]:
    """Nested settings as rows: ``recipe.epochs``, 300."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield tag("code", f"{prefix}{key}"), value if isinstance(value, str) else json.dumps(value)


def _compact_json(values: dict[str, Any]) -> str:
    """One line for each key; a matrix indented number by number would fill pages."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def _name(run: RunRecord, colour: str) -> Html:
    return tag("span", tag("span", class_="swatch", style=f"background:{colour}"), run.name, class_="run")


def _legend(runs: Coloured) -> Html:
    if len(runs) == 1:  # the title says it
        return Html()
    return tag("ul", *(tag("li", _name(run, colour)) for run, colour in runs), class_="legend")


def _drawn(drawing: Html, caption: str) -> Html:
    return tag("figure", tag("div", drawing, class_="wide"), tag("figcaption", caption))


def _best(values: Sequence[float | None], pick: Any) -> float | None:
    """The best of several values; where all are equal, none is."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    return pick(known) if len(set(known)) > 1 else None


def _number_class(value: float | None, best: float | None) -> str:
    return "number best" if best is not None and value == best else "number"
