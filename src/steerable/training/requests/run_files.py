"""The JSON files of a run folder, read with care: what is damaged or was edited is named, with what was expected."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
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

Fields = Mapping[str, tuple[Callable[[Any], bool], str]]
"""What each key of a file holds: whether a value may stand there, and that in words."""


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; ValueError where there is something else."""
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
    """What a value is, in words.

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
            raise ValueError(f"`{path}` has no `{key}`, expected {fields[key][1]}.")
    for key, (holds, words) in fields.items():
        if values.get(key) is not None and not holds(values[key]):
            raise ValueError(f"`{path}` has {shown(values[key])} for `{key}`, expected {words}.")
    return values


def data_of_run(folder: Path) -> dict[str, Any]:
    """What a run's plan says about its images; ``resolved.json`` says it in a folder of the last revision."""
    if (folder / "plan.json").exists():
        found: dict[str, Any] = read_fields(folder / "plan.json", PLAN, ("data",))["data"]
        return found
    return read_fields(folder / "resolved.json", RESOLVED, FOUND)


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level = [item for items in inner for item in items]
        if not level:
            return False
    return True


def _holds(values: Mapping[str, Any], fields: Fields) -> bool:
    return all(values.get(key) is None or holds(values[key]) for key, (holds, _) in fields.items())


def _text(value: object) -> bool:
    return isinstance(value, str)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST


def _number(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST)


def _list(value: object, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(holds, value))


def _by_name(value: object, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(holds, value.values()))


def _model(value: object) -> bool:
    return isinstance(value, dict) and _text(value.get("name"))


def _matrix(value: object) -> bool:
    return isinstance(value, list) and all(_list(row, _whole) and len(row) == len(value) for row in value)


def _poses(value: object) -> bool:
    """What ``PoseReport.to_dict`` gives."""
    if not isinstance(value, dict):
        return False
    poses = [value.get("accuracy"), value.get("drift")]
    return (
        all(_by_name(figures, _number) for figures in poses)
        and list(poses[0]) == list(poses[1])  # type: ignore[arg-type]
        and _matrix(value.get("confusion"))
        and _number(value.get("upright"))
        and _number(value.get("all_poses"))
        and _text(value.get("group", ""))
        and _list(value.get("own_poses", []), _text)
        and all(_by_angle(value.get(name, {})) for name in ("turned_accuracy", "turned_drift"))
    )


def _by_angle(value: object) -> bool:
    """Numbers by whole degrees, which are text in JSON."""
    return _by_name(value, _number) and isinstance(value, dict) and all(angle.isdecimal() for angle in value)


def _estimate(value: object, needed: tuple[str, ...] = ("value", "low", "high")) -> bool:
    """The fields of an ``Estimate``."""
    return isinstance(value, dict) and all(_number(value.get(key)) for key in needed)


def _compared(value: object) -> bool:
    """What ``compare`` says of one figure."""
    return (
        isinstance(value, dict)
        and all(_estimate(value.get(name)) for name in ("steerable", "plain"))
        and _estimate(value.get("difference"), ("value", "low", "high", "p"))
    )


def _networks(value: object) -> bool:
    """What ``comparison.json`` says of the two networks."""
    return isinstance(value, dict) and all(
        isinstance(value.get(name), dict) and "parameters" in value[name] and _holds(value[name], RESULTS)
        for name in ("steerable", "plain")
    )


def rescheduled_in(plan: Mapping[str, Any]) -> list[list[int]] | None:
    """The pairs (epochs done, epochs in all) in a ``plan.json``; those of the last revision could only be shortened."""
    found: list[list[int]] | None = plan.get("rescheduled", plan.get("shortened"))
    return found


def _rescheduled(value: object) -> bool:
    """As ``Deadline`` writes them: later and later, each to another number of epochs than the one before."""
    if not _list(value, lambda pair: _list(pair, _whole) and len(pair) == 2 and 0 < pair[0] <= pair[1]):
        return False
    pairs: list[list[int]] = value  # type: ignore[assignment]
    return all(a[0] < b[0] and a[1] != b[1] for a, b in itertools.pairwise(pairs))


def _pixels(value: object) -> bool:
    """What ``PixelFormat.to_dict`` gives."""
    try:
        return isinstance(value, dict) and bool(PixelFormat.from_dict(value))
    except ValueError:
        return False


def _side(value: object) -> bool:
    return _whole(value) and 0 < value <= 4096  # type: ignore[operator]


def _size(value: object) -> bool:
    return isinstance(value, list) and len(value) in (2, 3) and all(map(_side, value))


_NAMES = (lambda value: _list(value, _text), "a list of names")
_MODEL = (_model, "the model's `name` and its options")
_COUNT = (_whole, "a whole number")
_NUMBER = (_number, "a number")
_TEXT = (_text, "text")
_RESCHEDULED = (_rescheduled, "pairs of epochs that were done, more and more, and of epochs in all")
_PIXELS = (_pixels, "how the numbers in image files become bytes")

FIGURES = ("accuracy", "loss", "dice", "iou", "average_precision", "ap50")
"""What is measured of validation and test images."""

RESULTS: Fields = {
    "dataset": _TEXT,
    "augmentation": _TEXT,
    "hardware": _TEXT,
    "labels": _COUNT,
    "seed": _COUNT,
    "parameters": _COUNT,
    "epochs": _COUNT,
    "best_epoch": _COUNT,
    "classes": _NAMES,
    "image_size": (_size, "height and width, or three sides"),
    "model": _MODEL,
    "task": _TEXT,
    "poses": (_poses, "accuracy, drift and confusion by pose"),
    "training_minutes": _NUMBER,
    "stopped": (lambda value: isinstance(value, bool), "true or false"),
    **dict.fromkeys((f"{part}_{figure}" for part in ("test", "val") for figure in FIGURES), _NUMBER),
    **dict.fromkeys(("test_error", "validation_error", "balanced_accuracy", "macro_f1"), _NUMBER),
}
"""``results.json``."""

RESULTS_NEEDED = ("dataset", "model", "parameters", "epochs")
"""What every ``results.json`` has."""

START_JSON, START_WEIGHTS = "start.json", "start.safetensors"
"""The copy of the network that a run starts from, where it goes on from a trained one."""

START: Fields = {"name": _TEXT, "model": _MODEL, "classes": _NAMES}
"""``start.json``."""

CONFIG: Fields = {
    "dataset": _TEXT,
    # One that starts from a trained network need not name it.
    "model": (lambda value: isinstance(value, dict) and _text(value.get("name", "")), _MODEL[1]),
    "labels": _COUNT,
    "seed": _COUNT,
    "recipe": (
        lambda value: isinstance(value, dict) and (value.get("epochs") is None or _whole(value["epochs"])),
        "the settings of a recipe",
    ),
}
"""``config.json``, as far as a report needs it.

:class:`~steerable.training.requests.config.RunConfig` checks all of it.
"""

RESOLVED: Fields = {
    "name": _TEXT,
    "classes": _NAMES,
    "image_size": (_size, "height and width, or three sides"),
    "channels": _COUNT,
    "pixels": _PIXELS,
    "images": (
        lambda value: _by_name(value, _whole) and {"train", "test"} <= value.keys(),
        "the number of images of each part",
    ),
    "digests": (lambda value: _by_name(value, lambda d: d is None or _text(d)), "a digest of each part's images"),
    "notes": (lambda value: _list(value, _text), "a list of sentences"),
    "model": _MODEL,
}
"""What was found out about a run's images: ``data`` in ``plan.json``, and ``resolved.json`` of the last revision."""

FOUND = ("images", "digests")
"""What must have been found out."""

PLAN_VERSION = 1

PLAN: Fields = {
    "version": (lambda value: value == PLAN_VERSION and _whole(value), f"{PLAN_VERSION}"),
    "settings": (lambda value: isinstance(value, dict) and _holds(value, CONFIG), "the settings of a run"),
    "data": (
        lambda value: isinstance(value, dict) and _holds(value, RESOLVED) and None not in map(value.get, FOUND),
        "what is known of the run's images",
    ),
    "backends": (lambda value: _by_name(value, _text), "the backend of each convolution"),
    "accelerator": _TEXT,
    "threads": (lambda value: _whole(value) and 1 <= value <= MOST_THREADS, f"a whole number from 1 to {MOST_THREADS}"),
    "rescheduled": _RESCHEDULED,
    "start": _TEXT,
    "looked": _TEXT,
    "shortened": _RESCHEDULED,
}
"""``plan.json``; :class:`~steerable.training.requests.plan.Plan` checks all of it."""

PLAN_NEEDED = tuple(key for key in PLAN if key not in ("rescheduled", "shortened", "start", "looked"))
"""What every ``plan.json`` has: the end of a run without a time to keep, or of an earlier revision, is not moved."""

MISTAKES: Fields = {
    "count": _COUNT,
    "worst": (
        lambda value: _list(value, lambda m: isinstance(m, dict) and _number(m.get("probability", 0))),
        "a list of mistakes",
    ),
}
"""``mistakes.json``."""

PICTURES: Fields = {
    "examples": (lambda value: _list(value, lambda item: isinstance(item, dict)), "a list of examples"),
}
"""``pictures.json``, of a run for segmentation."""

FACTS_JSON = "facts.json"
"""What a model card was written from, beside a saved network."""

FACTS: Fields = {
    "task": _TEXT,
    "dataset": _TEXT,
    "images": (lambda value: _by_name(value, _whole), "the number of images of each part"),
    "classes": _NAMES,
    "size": _TEXT,
    "digests": (lambda value: _by_name(value, lambda d: d is None or _text(d)), "a digest of each part's images"),
    "start": _TEXT,
    "figures": (lambda value: _by_name(value, _number), "numbers by their names"),
    "poses": (
        lambda value: (
            isinstance(value, dict)
            and _text(value.get("figure"))
            and all(_by_name(value.get(key), _number) for key in ("values", "drift"))
            and value["values"].keys() <= value["drift"].keys()
        ),
        "figures and drift by pose",
    ),
}
"""``facts.json``."""
ADVICE: Fields = {
    "model": (lambda value: isinstance(value, dict), "options of the model"),
    "recipe": (lambda value: _by_name(value, lambda each: isinstance(each, bool)), "settings of the recipe"),
    "why": _TEXT,
}
"""``advice.json``, as far as a run goes by it."""

SUB_RUN = "plain"
"""The folder inside a run folder with the run of the plain network that it is compared with."""

COMPARED = ("upright", "all_poses", "agreement")
"""The figures that networks are compared by."""

COMPARISON: Fields = {
    "task": (lambda value: value in ("classify", "segment"), "classify or segment"),
    "images": _COUNT,
    "posed": _COUNT,
    "specimens": _COUNT,
    "networks": (_networks, "the parameters of the steerable and the plain network"),
    "figures": (
        lambda value: isinstance(value, dict) and value.keys() >= {*COMPARED} and all(map(_compared, value.values())),
        "the figures of both networks and their differences",
    ),
}
"""``comparison.json``."""

COMPARISON_NEEDED = tuple(COMPARISON)
"""What every ``comparison.json`` has."""

IMAGES: Fields = {
    "mask_values": (lambda value: _list(value, _whole), "a list of numbers"),
    "masks": (lambda value: value in ("classes", "instances"), "classes or instances"),
    "classes": _NAMES,
    "image_size": (_side, "a number of pixels"),
    "channels": _COUNT,
    "pixels": _PIXELS,
    "model": _MODEL,
}
"""``images.json``, beside an exported network."""
