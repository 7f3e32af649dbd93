"""A training run: data, plan, Lightning's trainer, and a folder that records what was done.

A run folder has

- ``config.json``: the request, as it was given
- ``plan.json``: what was decided: images, network, epochs, precision, and how each convolution is computed
- ``start.safetensors`` and ``start.json``: the trained network that it starts from, if there is one
- ``environment.json``: versions, hardware, git revision
- ``checkpoints/``: the run as it was last saved, to resume from, and as it was saved before that
- ``metrics/``: learning curves, CSV and TensorBoard
- ``model/``: the trained network, safetensors and its config, class names and image size
- ``mistakes.json``: the test images with the surest wrong answers
- ``advice.json``: with ``--advise``, what was found in the images before the run and what it chose from that
- ``plain/`` and ``comparison.json``: with ``--compare plain``, the run of a plain network, and how the two differ
- ``results.json``: the final figures; ``stopped`` says whether the user ended the run early; it can then be continued

A run with ``evaluate="validation"`` does not look at test images: it has no ``mistakes.json``, and its figures are
those of the validation images.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_only

from steerable.atomic import check_place, naming_full_disk, remove_leftovers
from steerable.data.images import Progress
from steerable.data.pixel_formats import PixelFormat
from steerable.errors import listing
from steerable.training.choosing.fitting import most_epochs, with_sized_model
from steerable.training.choosing.orientation import OPEN, look_for_an_up
from steerable.training.choosing.planning import make_plan, plan_here
from steerable.training.choosing.sizing import exact_side
from steerable.training.choosing.speed import threads_of_torch
from steerable.training.learning.checkpoints import has_checkpoint
from steerable.training.learning.preparing import TrainingData, prepare_data
from steerable.training.phases import Phase, unseen
from steerable.training.requests.config import RunConfig
from steerable.training.requests.plan import Plan
from steerable.training.requests.plan_in_words import announce_speed
from steerable.training.running.carrying_out import PreparedRun, announcement, carry_out, prepared_run
from steerable.training.running.deadline import Deadline
from steerable.training.running.interruption import reporting_interruptions
from steerable.training.running.run_folder import (
    check_run_folder,
    check_same_data,
    earlier_results,
    is_of_last_revision,
    locked,
    plan_of_first_process,
    read_as_before,
    recorded_plan,
)
from steerable.training.running.start import Start, with_network, with_start

__all__ = ["is_first_process", "train"]


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    plan: Plan | str | Path | None = None,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
    started: float | None = None,
    phase: Phase = unseen,
    images_of: Path | None = None,
) -> dict[str, Any]:
    """Train, test and write everything down; return what ``results.json`` contains.

    Args:
        config: the request.
        folder: the run folder. If it holds a run of the same request, that run continues where it was interrupted; with
            another request it is an error, and nothing is touched.
        plan: the plan of another run of the same request, or its file, to repeat that run bit for bit.
        progress: called with (images read, all images) while a folder of images is read.
        tell: called with a line about data and network and one about what makes the run fast before the training
            starts, and later with a line about each thing that was not planned.
        started: when the run's minutes began, by ``time.monotonic``; by default when this is called.
        phase: called with the name of each phase of the run, apart from training. It returns a context manager that
            shows the phase as long as it lasts, and gives a function of (done, total), or None.
        images_of: the folder of another run on the same images; they are read in the size and scale of that one.
    """
    folder, begun = Path(folder), time.monotonic()
    started = begun if started is None else started
    earlier = check_run_folder(config, folder)
    check_place(folder / "results.json")
    _check_devices(config)
    given = None if plan is None else _given(plan, config)
    start, request = with_network(earlier or config, None if earlier is None else folder)
    recorded = None if earlier is None else recorded_plan(folder, earlier)
    with phase("reading images") as reading:
        known = read_as_before(request, images_of if earlier is None else folder, given)
        request, data = _read(request, known, progress or reading, anew=earlier is None)
    if earlier is not None:
        check_same_data(data.summary(), folder, recorded)
    if (results := _results_already(folder, tell)) is not None:
        return results
    is_new = earlier is None or not is_of_last_revision(earlier, folder)
    planned = (given, request, folder, data, recorded, started, phase)
    followed = with_start(_followed(*planned) if is_new else make_plan(request, data, fit=False), start)
    data = data.at_size(followed.settings.image_size)
    timed = followed.rescheduled is not None and given is None  # a run that repeats a plan takes the time that it takes
    most = most_epochs(request, data)
    deadline = Deadline(followed, folder / "plan.json", data, started, most, tell, begun - started) if timed else None
    run = prepared_run(followed, request, folder, data, start=start, deadline=deadline, tell=tell)
    with naming_full_disk(folder):  # all that may be refused has been; from here on the folder is a run's
        folder.mkdir(parents=True, exist_ok=True)
    with naming_full_disk(folder), locked(folder) if run.trainer.is_global_zero else nullcontext():
        if run.trainer.is_global_zero:
            remove_leftovers(folder)
            if is_new and followed != recorded:
                _write_plan(followed, folder, config if earlier is None else None, start)
        # Another process may have ended this run meanwhile.
        return earlier_results(folder) or _carried_out(run, tell, phase)


def _read(
    request: RunConfig, known: tuple[RunConfig, PixelFormat | None], progress: Progress | None, *, anew: bool
) -> tuple[RunConfig, TrainingData]:
    """The request and its images; for a run that starts from a network, in a size on which that network is exact.

    Args:
        request: what the user says.
        known: the request, and how to read numbers in files, as far as an earlier run has found it out.
        progress: called with (images read, all images).
        anew: whether the run begins, so that the size may be chosen.
    """
    asked, pixels = known
    data = prepare_data(asked, pixels, progress)
    is_open = anew and asked.start is not None and asked.image_size is None and asked.task == "classify"
    if not is_open or (side := exact_side(asked.model, data.side)) == data.side:
        return request, data
    request = replace(request, image_size=side)
    return request, prepare_data(request, pixels, progress)


def _results_already(folder: Path, tell: Callable[[str], None] | None) -> dict[str, Any] | None:
    """The results of a run that has finished earlier, or None; the user is told if there are some."""
    results = earlier_results(folder)
    if results is not None and tell is not None:
        tell(
            f"The run in {folder} has finished earlier: nothing was trained now, and these are its results. To train "
            "again, choose another folder, or remove this one."
        )
    return results


def _carried_out(run: PreparedRun, tell: Callable[[str], None] | None, phase: Phase) -> dict[str, Any]:
    plan = run.plan
    if run.trainer.is_global_zero and tell is not None:
        if plan.looked:
            tell(plan.looked)
        tell(announcement(run))
        if run.origin:
            tell(run.origin)
        tell(announce_speed(vars(plan.settings), plan.backends.values()))
        if has_checkpoint(run.folder / "checkpoints"):
            tell("This run was begun earlier and continues from its last checkpoint.")
    with reporting_interruptions(run.folder), threads_of_torch(plan.threads):
        return carry_out(run, phase)


def _followed(
    plan: Plan | None,
    request: RunConfig,
    folder: Path,
    data: TrainingData,
    recorded: Plan | None,
    started: float,
    phase: Phase,
) -> Plan:
    """The plan that the run follows: its own, else the given one, else one that is made here."""
    if recorded is not None:
        moved = plan is not None and plan.accelerator != recorded.accelerator  # then its speed was planned anew
        if plan is not None and not moved and plan.settings.differences(recorded.settings):
            raise FileExistsError(f"{folder} holds a run that follows another plan; choose another folder.")
        return plan_here(recorded, request, data)
    if plan is not None:
        if plan.data["digests"] != data.summary()["digests"]:
            raise ValueError(f"the plan was made for images other than those of `{data.name}`. Leave the plan out.")
        _check_size(plan, request, data)
        return plan_here(plan, request, data)
    if not is_first_process():
        return plan_of_first_process(folder).elsewhere(request)
    looked = ""
    if request.orientation == OPEN:
        with phase("looking for an up in the images") as looking:
            request, looked = look_for_an_up(request, data, looking)
    with phase("measuring this machine's speed"):
        return replace(make_plan(request, data, started=started), looked=looked)


def is_first_process() -> bool:
    """Whether this is the process that plans and writes, as Lightning numbers them."""
    return getattr(rank_zero_only, "rank", 0) == 0


def _write_plan(plan: Plan, folder: Path, request: RunConfig | None, start: Start | None) -> None:
    """Write a run's plan and, at its beginning, the weights that it starts from and its request; return the plan."""
    if request is not None and (folder / "config.json").is_file():
        raise FileExistsError(f"another process has begun a run in `{folder}` in the meantime; choose another folder.")
    if request is not None and start is not None:
        start.save(folder)
    plan.save(folder / "plan.json")
    if request is not None:  # after the plan, so that whoever sees a request finds a plan as well
        request.save(folder / "config.json")


def _given(plan: Plan | str | Path, config: RunConfig) -> Plan:
    """A plan that the user gives, checked against the request."""
    plan = plan if isinstance(plan, Plan) else Plan.load(plan)
    # The images may lie elsewhere: they are compared by content, when they have been read.
    elsewhere: dict[str, Any] = {"dataset": config.dataset}
    if config.start is not None and plan.settings.start is not None:  # by their SHA-256
        elsewhere["start"] = config.start
    plan = replace(plan, settings=replace(plan.settings, **elsewhere))
    if differences := plan.differences(config):
        raise ValueError(
            f"the plan was made for a run that differs in {listing(differences)}. Give the settings that it was made "
            "for, or no plan."
        )
    return plan


def _check_size(plan: Plan, request: RunConfig, data: TrainingData) -> None:
    """Check that a number of parameters given with a plan leads to the plan's network, or to a wider one to shrink."""
    if request.parameters is None or request.fit == "shrink":
        return
    sized, planned = with_sized_model(request, data).model, plan.settings.model
    if differing := [f"{key}={planned.get(key)}" for key in sized if sized[key] != planned.get(key)]:
        raise ValueError(
            f"the plan was made for a network with {', '.join(differing)}, and parameters={request.parameters:,} lead "
            "to another one. Leave the parameters or the plan out."
        )


def _check_devices(config: RunConfig) -> None:
    """Refuse devices that are not there, before any image is read."""
    if config.accelerator == "gpu" and not torch.cuda.is_available():
        raise ValueError("accelerator is `gpu`, and torch finds no GPU on this machine. Use `auto` or `cpu`.")
    if config.cuda_graphs and (config.accelerator == "cpu" or not torch.cuda.is_available()):
        raise ValueError("cuda_graphs need an NVIDIA GPU, and this run has none. Leave them out.")
