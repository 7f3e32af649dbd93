"""Checks of a run folder before anything is written: which run it holds, whether it can continue, and who may write.

A folder of the last revision has no ``plan.json``. Its ``config.json`` leaves nothing open, has the epochs that were
fitted to its minutes, and is enough for its plan; ``resolved.json`` says which images the run began with.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from steerable.atomic import is_leftover
from steerable.data.datasets import DATASETS
from steerable.data.pixel_formats import PixelFormat
from steerable.errors import listing
from steerable.locks import exclusive
from steerable.training.learning.checkpoints import has_checkpoint
from steerable.training.requests.config import OWN_IMAGES, RunConfig
from steerable.training.requests.plan import Plan
from steerable.training.requests.recipes import Recipe
from steerable.training.requests.run_files import (
    RESULTS,
    RESULTS_NEEDED,
    START_JSON,
    START_WEIGHTS,
    SUB_RUN,
    data_of_run,
    read_fields,
    read_object,
)

__all__ = [
    "check_run_folder",
    "check_same_data",
    "earlier_results",
    "is_of_last_revision",
    "locked",
    "plan_of_first_process",
    "read_as_before",
    "recorded_plan",
]

FILES = (
    *("plan.json", "resolved.json", START_JSON, START_WEIGHTS, "environment.json"),
    *("mistakes.json", "advice.json", "comparison.json", "results.json", "report.html"),
)
FOLDERS = ("checkpoints", "metrics", "model", SUB_RUN)
LOCK = ".lock"  # the name of a file
LONGEST_WAIT = 600.0  # seconds for the process that plans the run

DEFAULTS_WITHOUT_TURNS = {"validation": 0.15, "patience": 20}
"""What was the default for a folder or a table when recipes did not turn images yet."""


def check_run_folder(config: RunConfig, folder: Path) -> RunConfig | None:
    """The request of the run in the folder, if there is one; an error if it is another run or something else."""
    if not (folder / "config.json").is_file():
        if folder.exists() and (not folder.is_dir() or any(not _is_left_by_a_start(e.name) for e in folder.iterdir())):
            raise FileExistsError(f"{folder} exists and is not a run folder; choose another one.")
        return None
    for kind, is_kind, names in (("file", Path.is_file, FILES), ("folder", Path.is_dir, FOLDERS)):
        for path in (folder / name for name in names):
            if path.exists() and not is_kind(path):
                raise FileExistsError(
                    f"`{path}` is in the way: a run needs a {kind} of that name. Remove it, or choose another folder."
                )
    try:
        earlier = RunConfig.load(folder / "config.json")
    except ValueError as error:  # damaged or edited
        raise FileExistsError(f"{error} A run cannot be resumed without it; choose another folder.") from error
    asked = config.as_settled_in(earlier) if is_of_last_revision(earlier, folder) else config
    asked = _without_later_settings(asked, earlier, folder)
    if differences := asked.differences(earlier):
        raise FileExistsError(
            f"{folder} holds a run that differs in {listing(differences)}. Resume it with its own settings, or choose "
            "another folder."
        )
    return earlier.elsewhere(config)


def is_of_last_revision(earlier: RunConfig, folder: Path) -> bool:
    """Whether the run with this config was begun when there were no plans."""
    return not (folder / "plan.json").exists() and not earlier.left_open


def recorded_plan(folder: Path, earlier: RunConfig) -> Plan | None:
    """The plan of the run that the folder holds; None if it has none and needs none."""
    path = folder / "plan.json"
    way_on = "The run cannot continue without its plan: put the file back as it was, or choose another run folder."
    if not path.exists():
        if earlier.left_open and has_checkpoint(folder / "checkpoints"):
            raise ValueError(f"there is no file `{path}`. {way_on}")
        return None
    plan = Plan.load(path, way_on)
    if differences := plan.differences(earlier):
        raise ValueError(f"`{path}` and `{folder / 'config.json'}` differ in {listing(differences)}. {way_on}")
    return plan


def plan_of_first_process(folder: Path) -> Plan:
    """The plan of the first of several processes that were started together and all found an empty folder."""
    deadline = time.monotonic() + LONGEST_WAIT
    while not (folder / "config.json").is_file():  # written after the plan
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the first process of this run has planned nothing in `{folder}` for {LONGEST_WAIT / 60:g} minutes. "
                "All processes need to see the same folder."
            )
        time.sleep(0.05)
    return Plan.load(folder / "plan.json")


def check_same_data(now: Mapping[str, Any], folder: Path, plan: Plan | None) -> None:
    """Check that a resumed run sees the images that it began with."""
    try:
        before = plan.data if plan else data_of_run(folder)
    except FileNotFoundError:  # killed before it was written
        return
    except ValueError as error:
        raise ValueError(
            f"{error} It says which images the run began with. Remove the file to continue with the images as they are "
            "now, or choose another run folder."
        ) from error
    if before["digests"] != now["digests"]:
        raise ValueError(
            f"the images of `{now['name']}` have changed since the run in {folder} began: {_counts(before)} then, "
            f"{_counts(now)} now. Choose another run folder to train on them as they are now."
        )


def read_as_before(request: RunConfig, folder: Path | None, given: Plan | None) -> tuple[RunConfig, PixelFormat | None]:
    """The request with the image size, and the way to read numbers in files, of the run that is resumed or repeated.

    Another version of the library might choose them differently.

    Args:
        request: what the user says.
        folder: that of the run that is resumed; None for a new one.
        given: the plan that is repeated, where there is one.
    """
    try:
        if folder is not None:
            data = data_of_run(folder)
        elif given is not None:
            data = given.data
        else:
            return request, None
        if request.task == "segment":
            request = replace(request, tile=request.tile or data["image_size"][0])
        elif request.image_size is None and request.dataset not in DATASETS:
            request = replace(request, image_size=data["image_size"][0])
        return request, PixelFormat.from_dict(data.get("pixels"))
    except (FileNotFoundError, ValueError):  # damage is named when the images are compared
        return request, None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; if another process holds it, refuse and touch nothing.

    The system lets go of the lock when a process ends, however it ends, so that a killed run can be resumed.
    """
    with exclusive(folder / LOCK) as alone:
        if not alone:
            raise ValueError(
                f"another process is training in `{folder}`. Wait until it has ended, or stop it; or train in another "
                "folder."
            )
        yield


def earlier_results(folder: Path) -> dict[str, Any] | None:
    """The results of a run that has ended; None if it has not, or if it was stopped and can continue."""
    if not (folder / "results.json").is_file():
        return None
    try:
        results = read_fields(folder / "results.json", RESULTS, RESULTS_NEEDED)
        return None if results.get("stopped") else results
    except ValueError as error:
        raise ValueError(f"{error} Remove the file, and the same command makes it again.") from error


def _is_left_by_a_start(name: str) -> bool:
    """Whether a start that was killed before it wrote its config may have left a file of this name."""
    return name in (LOCK, "plan.json", "advice.json", START_JSON, START_WEIGHTS) or is_leftover(name)


def _without_later_settings(asked: RunConfig, earlier: RunConfig, folder: Path) -> RunConfig:
    """The request without recipe settings and defaults that did not exist when the run in the folder was begun."""
    known = read_object(folder / "config.json").get("recipe", {})
    later = {item.name: getattr(earlier.recipe, item.name) for item in fields(Recipe) if item.name not in known}
    changed: dict[str, Any] = {
        name: before
        for name, before in DEFAULTS_WITHOUT_TURNS.items()
        if "turn" in later and getattr(earlier, name) == before and getattr(asked, name) == OWN_IMAGES[name]
    }
    return replace(asked, recipe=replace(asked.recipe, **later), **changed)


def _counts(summary: Mapping[str, Any]) -> str:
    return f"{summary['images']['train']:,} training and {summary['images']['test']:,} test images"
