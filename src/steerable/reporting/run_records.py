"""The contents of a run folder so far, whether the run is finished or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from steerable.data.datasets import DATASETS, KnownDataSet
from steerable.errors import listing
from steerable.reporting.curves import Curve, read_curves
from steerable.training.evaluation.class_figures import class_figures, counted_thing, nothing_learnt
from steerable.training.requests.run_files import (
    COMPARISON,
    COMPARISON_NEEDED,
    CONFIG,
    MISTAKES,
    PICTURES,
    PLAN,
    RESOLVED,
    RESULTS,
    RESULTS_NEEDED,
    SUB_RUN,
    Fields,
    read_fields,
    read_object,
    rescheduled_in,
)

__all__ = ["RunRecord", "read_runs"]

FIELDS: dict[str, Fields] = {
    "results": RESULTS,
    "environment": {},
    "plan": PLAN,
    "resolved": RESOLVED,
    "mistakes": MISTAKES,
    "pictures": PICTURES,
    "comparison": COMPARISON,
}
"""What a run writes beside its config, each in a file of that name."""
NEEDED = {"results": RESULTS_NEEDED, "comparison": COMPARISON_NEEDED}


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run folder; ``results`` and ``environment`` are empty while the run continues.

    ``notes`` say what is missing or could not be read, ``damage`` the latter alone. ``plan`` is the run's plan;
    ``resolved`` is what a folder has in its place that was written before there were plans. ``mistakes`` are those of
    :func:`~steerable.training.evaluation.mistakes.worst_mistakes`, ``pictures`` those of
    :func:`~steerable.training.evaluation.segmentation_pictures.example_pictures`, and ``comparison`` is what
    :func:`~steerable.training.trained_networks.comparison.compare` gives.
    """

    name: str
    folder: Path
    config: dict[str, Any]
    curves: dict[str, Curve]
    notes: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    resolved: dict[str, Any] = field(default_factory=dict)
    mistakes: dict[str, Any] = field(default_factory=dict)
    pictures: dict[str, Any] = field(default_factory=dict)
    comparison: dict[str, Any] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return bool(self.results)

    @property
    def model(self) -> dict[str, Any]:
        """The model's name and options."""
        return self.results.get("model") or self._settled.get("model") or self.config.get("model") or {}

    @property
    def model_text(self) -> str:
        """The model's name and options in one line."""
        options = (f"{key}={value}" for key, value in self.model.items() if key != "name")
        return ", ".join([str(self.model.get("name", "unnamed model")), *options])

    @property
    def in_channels(self) -> int:
        """The channels from the model's options, else from the saved network's config, else from the data set."""
        given = self.model.get("in_channels")
        if given is None:
            try:
                given = read_object(self.folder / "model" / "config.json").get("in_channels")
            except (OSError, ValueError):  # not finished yet
                given = None
        given = given or self.data.get("channels")
        if isinstance(given, int) and given:
            return given
        return self._known_data.channels if self._known_data else 3

    @property
    def _known_data(self) -> KnownDataSet | None:
        """The data set, if it is one that has a name."""
        return DATASETS.get(str(self.config.get("dataset")))

    @property
    def epochs_done(self) -> int:
        return max((max(curve) for curve in self.curves.values() if curve), default=0)

    @property
    def epochs(self) -> int | None:
        """How many epochs were trained, or are planned."""
        found: int | None = self.results.get("epochs") or self.planned_epochs
        return found

    @property
    def planned_epochs(self) -> int | None:
        """How many epochs the schedule has, as far as is known."""
        if rescheduled := rescheduled_in(self.plan):
            return int(rescheduled[-1][1])
        recipe = self._settled.get("recipe") or self.config.get("recipe") or {}
        planned: int | None = recipe.get("epochs")
        return planned

    @property
    def data(self) -> dict[str, Any]:
        """The facts about the images."""
        return self.plan.get("data") or self.resolved

    @property
    def _settled(self) -> dict[str, Any]:
        """The settings with nothing left open, as far as the folder has them."""
        return self.plan.get("settings") or self.resolved

    @property
    def poses(self) -> dict[str, Any]:
        return self.results.get("poses") or {}

    def by_pose(self, figure: str) -> dict[str, float]:
        """``"accuracy"`` or ``"drift"`` by element of the group; ``"turned_accuracy"`` by angle."""
        return {str(element): float(value) for element, value in (self.poses.get(figure) or {}).items()}

    @property
    def confusion(self) -> list[list[int]]:
        return self.poses.get("confusion") or []

    @property
    def class_figures(self) -> dict[str, float]:
        """Balanced accuracy and F1, also of runs whose results do not name them yet."""
        return class_figures(self.confusion) if self.confusion else {}

    @property
    def pose_sample(self) -> int:
        """The number of test images that were tested in all poses, if it was not all of them; else 0."""
        tried, count = self.poses.get("images"), sum(map(sum, self.confusion))
        return tried if isinstance(tried, int) and 0 < tried < count else 0

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes: the run's own, else those of a known data set, else numbers."""
        count = len(self.confusion)
        for names in (self.results.get("classes"), self._known_data and self._known_data.classes):
            if isinstance(names, list | tuple) and len(names) == count:
                return tuple(str(name) for name in names)
        return tuple(str(number) for number in range(count))


def read_runs(folders: Sequence[Path]) -> list[RunRecord]:
    """The runs in these folders, each once, named by as much of its path as tells it from the others.

    A run that is compared with a plain network comes with the run of that one.
    """
    if not folders:
        raise ValueError(
            "a report is about one run folder or more, and none was given. Name folders that `steerable train` wrote."
        )
    given = (Path(folder) for folder in folders)
    both = (path for folder in given for path in (folder, folder / SUB_RUN) if path is folder or _is_run(path))
    unique = list({folder.resolve(): folder for folder in both}.items())
    names = _short_names([absolute for absolute, _ in unique])
    return [_read_run(folder, name) for (_, folder), name in zip(unique, names, strict=True)]


def _read_run(folder: Path, name: str) -> RunRecord:
    _check_run_folder(folder)
    damage: list[str] = []
    try:
        config = read_fields(folder / "config.json", CONFIG)
    except ValueError as error:
        raise ValueError(f"{error} A report needs the run's config; start the run again to write it.") from None
    found: dict[str, dict[str, Any]] = {}
    for what, fields in FIELDS.items():
        found[what] = {}
        try:
            values = read_fields(folder / f"{what}.json", fields, NEEDED.get(what, ()))
            found[what] = {key: value for key, value in values.items() if value is not None or key not in fields}
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:  # damaged or edited
            remove = " Remove the file; the command that trained the run will write it again."
            damage.append(f"{error}{remove if what == 'results' else ''}")
    curves = read_curves(folder / "metrics" / "csv")
    record = RunRecord(name, folder, config, curves, (), tuple(damage), **found)
    notes = [*damage]
    if not record.finished and not (folder / "results.json").exists():
        done = f"{record.epochs_done}{_of(record.epochs)}"
        notes.insert(0, f"no results yet: {done} epochs are done; it runs or was interrupted.")
    if record.results.get("stopped"):
        notes.append(f"it was stopped in epoch {record.results['epochs']}{_of(record.planned_epochs)}.")
    if isinstance(wrong := record.results.get("validation_error"), float):
        notes.append(f"{wrong:.2%} error on its validation images; test images were not looked at.")
    if nothing := nothing_learnt(record.confusion, record.classes, counted_thing(record.results)):
        notes.append(nothing)
    if not curves:
        notes.append("no learning curves: metrics/csv/metrics.csv is missing or empty.")
    notes += record.data.get("notes") or []
    return replace(record, notes=tuple(notes))


def _is_run(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def _check_run_folder(folder: Path) -> None:
    expected = "A run folder is what `steerable train --out` writes, with config.json in it."
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder `{folder}`. {expected}")
    if _is_run(folder):
        return
    if not folder.is_dir():
        raise ValueError(f"`{folder}` is a file, not a run folder. {expected}")
    inside = sorted(path.parent for path in folder.glob("*/config.json") if (path.parent / "metrics").is_dir())
    remedy = f"It contains run folders; give those: {listing(inside)}." if inside else expected
    raise ValueError(f"`{folder}` is not a run folder: it has no config.json. {remedy}")


def _of(count: int | None) -> str:
    return "" if count is None else f" of {count}"


def _short_names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of different paths that differ."""
    longest = max(len(path.parts) for path in paths)
    for length in range(1, longest + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names
