"""The JSON files of a run folder, read with care: messages name what is damaged or edited, and what was expected."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steerable.data.pixel_formats import PixelFormat
from steerable.errors import shown

__all__ = [
    "ADVICE",
    "COMPARISON",
    "COMPARISON_NEEDED",
    "CONFIG",
    "FACTS",
    "FACTS_JSON",
    "IMAGES",
    "MISTAKES",
    "PICTURES",
    "PLAN",
    "PLAN_NEEDED",
    "PLAN_VERSION",
    "RESOLVED",
    "RESULTS",
    "RESULTS_NEEDED",
    "SHOWN",
    "START",
    "START_JSON",
    "START_WEIGHTS",
    "SUB_RUN",
    "Fields",
    "data_of_run",
    "kind_of",
    "read_fields",
    "read_object",
    "rescheduled_in",
]

DEEPEST = 50  # a run's own files are four deep; what is much deeper was made to break programs
LARGEST = 2**63
MOST_THREADS = 4096


@dataclass(frozen=True)
class Kind:
    """The kind of value that a file must have: a check, and words for it."""

    holds: Callable[[Any], bool]
    words: str


Fields = Mapping[str, Kind]
"""What each key of an object holds; further keys are not looked at, and null counts as absent."""


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; a ValueError if there is anything else."""
    try:
        value = json.loads(path.read_bytes().decode("utf-8"))
    except RecursionError:
        raise ValueError(f"`{path}` cannot be read as JSON: it is nested too deeply.") from None
    except ValueError as error:  # no JSON, no UTF-8
        raise ValueError(f"`{path}` cannot be read as JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ValueError(f"`{path}` holds {kind_of(value)}; expected a JSON object.")
    if _is_deeper(value, DEEPEST):
        raise ValueError(f"`{path}` is nested more than {DEEPEST} deep, which no file of a run is.")
    return value


def kind_of(value: object) -> str:
    """The kind of a value, in words.

    >>> kind_of(None), kind_of(3), kind_of("x"), kind_of([])
    ('null', 'a number', 'text', 'a list')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    return "text" if isinstance(value, str) else f"a {type(value).__name__}"


def read_fields(path: Path, fields: Fields, required: Iterable[str] = ()) -> dict[str, Any]:
    """The object in a JSON file. Values that are present are checked; null counts as absent.

    Args:
        path: the file.
        fields: what its keys hold; further keys are not looked at.
        required: those that must be there.
    """
    values = read_object(path)
    for key in required:
        if values.get(key) is None:
            raise ValueError(f"`{path}` has no `{key}`, expected {fields[key].words}.")
    for key in _wrong(values, fields):
        raise ValueError(f"`{path}` has {shown(values[key])} for `{key}`, expected {fields[key].words}.")
    return values


def data_of_run(folder: Path) -> dict[str, Any]:
    """The part of a run's plan about its images; in a folder of the last revision it is in ``resolved.json``."""
    if (folder / "plan.json").exists():
        found: dict[str, Any] = read_fields(folder / "plan.json", PLAN, ("data",))["data"]
        return found
    return read_fields(folder / "resolved.json", RESOLVED, FOUND)


def rescheduled_in(plan: Mapping[str, Any]) -> list[list[int]] | None:
    """The pairs (epochs done, epochs in all) in a ``plan.json``; in the last revision, runs could only be shortened."""
    found: list[list[int]] | None = plan.get("rescheduled", plan.get("shortened"))
    return found


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in inner for item in items]
        if not level:
            return False
    return True


def _wrong(values: Mapping[str, Any], fields: Fields) -> list[str]:
    """The keys with values of another kind."""
    return [key for key, kind in fields.items() if values.get(key) is not None and not kind.holds(values[key])]


def _whole(value: object, most: int = LARGEST - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _number(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST)


def _list(kind: Kind, words: str, also: Callable[[list[Any]], bool] | None = None) -> Kind:
    """A list of values of this kind; ``also`` is a further condition on it."""
    return Kind(lambda v: isinstance(v, list) and all(map(kind.holds, v)) and (also is None or also(v)), words)


def _by_name(kind: Kind, words: str) -> Kind:
    """An object whose values are all of this kind."""
    return Kind(lambda v: isinstance(v, dict) and all(map(kind.holds, v.values())), words)


def _object(
    words: str, needed: Fields, more: Fields | None = None, also: Callable[[dict[str, Any]], bool] | None = None
) -> Kind:
    """An object with the keys that are ``needed``, and perhaps ``more``."""
    fields = {**needed, **(more or {})}

    def holds(value: Any) -> bool:
        has_all = isinstance(value, dict) and None not in map(value.get, needed)
        return has_all and not _wrong(value, fields) and (also is None or also(value))

    return Kind(holds, words)


def _one_of(*names: str) -> Kind:
    return Kind(lambda v: v in names, " or ".join(names))


def _is_rescheduled(pairs: list[list[int]]) -> bool:
    """Whether the pairs are as ``Deadline`` writes them: ever later, each to another number of epochs than before."""
    whole = all(len(pair) == 2 and 0 < pair[0] <= pair[1] for pair in pairs)
    return whole and all(a[0] < b[0] and a[1] != b[1] for a, b in itertools.pairwise(pairs))


def _is_pixel_format(value: object) -> bool:
    """Whether a value is as ``PixelFormat.to_dict`` gives it."""
    try:
        return isinstance(value, dict) and bool(PixelFormat.from_dict(value))
    except ValueError:
        return False


TEXT = Kind(lambda v: isinstance(v, str), "text")
COUNT = Kind(_whole, "a whole number")
NUMBER = Kind(_number, "a number")
FLAG = Kind(lambda v: isinstance(v, bool), "true or false")
NAMES = _list(TEXT, "a list of names")
NUMBERS = _by_name(NUMBER, "numbers by their names")
COUNTS = _by_name(COUNT, "the number of images of each part")
DIGESTS = _by_name(Kind(lambda v: v is None or isinstance(v, str), ""), "a digest of each part's images")
SIDE = Kind(lambda v: _whole(v, 4096) and v > 0, "a number of pixels")
SIZE = _list(SIDE, "height and width, or three sides", lambda v: len(v) in (2, 3))
MODEL = _object("the model's `name` and its options", {"name": TEXT})
TASK = _one_of("classify", "segment")
PIXELS = Kind(_is_pixel_format, "how the numbers in image files become bytes")
RESCHEDULED = _list(
    _list(COUNT, ""), "pairs of epochs that were done, more and more, and of epochs in all", _is_rescheduled
)
MATRIX = _list(_list(COUNT, ""), "a square of whole numbers", lambda v: all(len(row) == len(v) for row in v))
BY_CLASS = _by_name(Kind(lambda v: v is None or _number(v), ""), "a number for each class that occurs")
BY_ANGLE = Kind(lambda v: NUMBERS.holds(v) and all(angle.isdecimal() for angle in v), "numbers by whole degrees")
POSES = _object(  # of ``PoseReport``
    "accuracy, drift and confusion by pose",
    {"accuracy": NUMBERS, "drift": NUMBERS, "confusion": MATRIX, "upright": NUMBER, "all_poses": NUMBER},
    {"group": TEXT, "own_poses": NAMES, "turned_accuracy": BY_ANGLE, "turned_drift": BY_ANGLE}
    | {"class_dice": BY_CLASS, "class_iou": BY_CLASS, "precisions": NUMBERS},
    lambda v: list(v["accuracy"]) == list(v["drift"]),
)
ESTIMATE = _object("a figure and its interval", {"value": NUMBER, "low": NUMBER, "high": NUMBER})
DIFFERENCE = _object("a difference", {"value": NUMBER, "low": NUMBER, "high": NUMBER, "p": NUMBER})
COMPARED_FIGURE = _object("a figure", {"steerable": ESTIMATE, "plain": ESTIMATE, "difference": DIFFERENCE})

FIGURES = ("accuracy", "loss", "dice", "iou", "average_precision", "ap50")
"""What is measured of validation and test images."""

RESULTS: Fields = {
    "dataset": TEXT,
    "augmentation": TEXT,
    "hardware": TEXT,
    "labels": COUNT,
    "seed": COUNT,
    "parameters": COUNT,
    "epochs": COUNT,
    "best_epoch": COUNT,
    "classes": NAMES,
    "image_size": SIZE,
    "model": MODEL,
    "task": TEXT,
    "poses": POSES,
    "training_minutes": NUMBER,
    "stopped": FLAG,
    **dict.fromkeys((f"{part}_{figure}" for part in ("test", "val") for figure in FIGURES), NUMBER),
    **dict.fromkeys(("test_error", "validation_error", "balanced_accuracy", "macro_f1"), NUMBER),
}
"""``results.json``."""

RESULTS_NEEDED = ("dataset", "model", "parameters", "epochs")
"""What every ``results.json`` has."""

START_JSON, START_WEIGHTS = "start.json", "start.safetensors"
"""The copy of the network that a run starts from, if it starts from a trained one."""

START: Fields = {"name": TEXT, "model": MODEL, "classes": NAMES}
"""``start.json``."""

CONFIG: Fields = {
    "dataset": TEXT,
    # One that starts from a trained network need not name it.
    "model": _object(MODEL.words, {}, {"name": TEXT}),
    "labels": COUNT,
    "seed": COUNT,
    "recipe": _object("the settings of a recipe", {}, {"epochs": COUNT}),
}
"""``config.json``, as far as a report needs it.

:class:`~steerable.training.requests.config.RunConfig` checks all of it.
"""

RESOLVED: Fields = {
    "name": TEXT,
    "classes": NAMES,
    "image_size": SIZE,
    "channels": COUNT,
    "pixels": PIXELS,
    "images": Kind(lambda v: COUNTS.holds(v) and {"train", "test"} <= v.keys(), COUNTS.words),
    "digests": DIGESTS,
    "notes": _list(TEXT, "a list of sentences"),
    "model": MODEL,
}
"""What was found out about a run's images: ``data`` in ``plan.json``, and ``resolved.json`` of the last revision."""

FOUND = ("images", "digests")
"""What must have been found out."""

PLAN_VERSION = 1

PLAN: Fields = {
    "version": Kind(lambda v: _whole(v) and v == PLAN_VERSION, f"{PLAN_VERSION}"),
    "settings": _object("the settings of a run", {}, CONFIG),
    "data": _object("what is known of the run's images", {key: RESOLVED[key] for key in FOUND}, RESOLVED),
    "backends": _by_name(TEXT, "the backend of each convolution"),
    "accelerator": TEXT,
    "threads": Kind(lambda v: _whole(v, MOST_THREADS) and v > 0, f"a whole number from 1 to {MOST_THREADS}"),
    "rescheduled": RESCHEDULED,
    "start": TEXT,
    "looked": TEXT,
    "shortened": RESCHEDULED,
}
"""``plan.json``; :class:`~steerable.training.requests.plan.Plan` checks all of it."""

PLAN_NEEDED = tuple(key for key in PLAN if key not in ("rescheduled", "shortened", "start", "looked"))
"""What every ``plan.json`` has: the end of a run without a time to keep, or of an earlier revision, is not moved."""

SHOWN = ("image", "truth", "prediction", "error")
"""The pictures of an example in a pose."""

MISTAKES: Fields = {
    "count": COUNT,
    "worst": _list(
        _object("", {"true": TEXT, "predicted": TEXT}, {"probability": NUMBER, "file": TEXT, "png": TEXT}),
        "a list of mistakes",
    ),
}
"""``mistakes.json``."""

PICTURES: Fields = {
    "colours": _by_name(Kind(lambda v: bool(re.fullmatch("#[0-9a-f]{6}", str(v))), ""), "colours such as #ffbc4d"),
    "examples": _list(
        _object(
            "",
            {"poses": _list(_object("", dict.fromkeys(("pose", *SHOWN), TEXT)), "")},
            {"file": TEXT, "dice": NUMBER, "average_precision": NUMBER},
        ),
        "a list of examples",
    ),
}
"""``pictures.json``, of a run for segmentation."""

FACTS_JSON = "facts.json"
"""What a model card was written from, beside a saved network."""

FACTS: Fields = {
    "task": TEXT,
    "dataset": TEXT,
    "images": COUNTS,
    "classes": NAMES,
    "size": TEXT,
    "digests": DIGESTS,
    "start": TEXT,
    "figures": NUMBERS,
    "poses": _object(
        "figures and drift by pose",
        {"figure": TEXT, "values": NUMBERS, "drift": NUMBERS},
        also=lambda v: v["values"].keys() <= v["drift"].keys(),
    ),
}
"""``facts.json``."""

ADVICE: Fields = {
    "model": _object("options of the model", {}),
    "recipe": _by_name(FLAG, "settings of the recipe"),
    "why": TEXT,
}
"""``advice.json``, as far as a run follows it."""

SUB_RUN = "plain"
"""The folder inside a run folder with the run of the plain network that it is compared with."""

COMPARED = ("upright", "all_poses", "agreement")
"""The figures that networks are compared by."""

COMPARISON: Fields = {
    "task": TASK,
    "images": COUNT,
    "posed": COUNT,
    "specimens": COUNT,
    "networks": _object(
        "the parameters of the steerable and the plain network",
        dict.fromkeys(("steerable", "plain"), _object("", {"parameters": COUNT}, RESULTS)),
    ),
    "figures": Kind(
        lambda v: _by_name(COMPARED_FIGURE, "").holds(v) and v.keys() >= {*COMPARED},
        "the figures of both networks and their differences",
    ),
    "judged_by": Kind(lambda v: v in ("", "upright"), "upright, or nothing"),
}
"""``comparison.json``."""

COMPARISON_NEEDED = tuple(key for key in COMPARISON if key != "judged_by")
"""What every ``comparison.json`` has; those of an earlier revision do not say by which figure networks are judged."""

IMAGES: Fields = {
    "mask_values": _list(COUNT, "a list of numbers"),
    "masks": _one_of("classes", "instances"),
    "classes": NAMES,
    "image_size": SIDE,
    "channels": COUNT,
    "pixels": PIXELS,
    "model": MODEL,
}
"""``images.json``, beside an exported network."""
