"""The execution of a planned run: from the last checkpoint to the last epoch, and the figures at its end."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from steerable.data.labelled_images import LabelledImages
from steerable.data.masked_images import MaskedImages
from steerable.training.choosing.sizing import size_in_words
from steerable.training.evaluation.poses import upright_scores
from steerable.training.learning.checkpoints import latest_checkpoint, set_aside, ways_on
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.early_stopping import KeepBest
from steerable.training.learning.preparing import TrainingData, augmentation, make_classifier
from steerable.training.learning.trainer import RunBatches, has_begun, make_trainer, minutes_trained, silence_lightning
from steerable.training.phases import Phase, unseen
from steerable.training.requests.config import RunConfig
from steerable.training.requests.plan import Plan
from steerable.training.running.deadline import Deadline
from steerable.training.running.progress_lines import ProgressLines
from steerable.training.running.results import Measured, upright_figures, write_outcome
from steerable.training.running.start import Start
from steerable.training.running.stopping import StopOnRequest

__all__ = ["PreparedRun", "announcement", "carry_out", "prepared_run"]


@dataclass(frozen=True)
class PreparedRun:
    """A run that is ready to begin.

    Args:
        plan: what it follows.
        folder: where it writes.
        data: its images.
        module: the network, on its device and with its backends.
        trainer: Lightning's.
        keeper: what keeps the best weights; None if the last ones are the run's.
        stopping: what listens to Ctrl-C.
        origin: one line about the trained network that it starts from; "" if weights are drawn.
    """

    plan: Plan
    folder: Path
    data: TrainingData
    module: Classifier
    trainer: pl.Trainer
    keeper: KeepBest | None
    stopping: StopOnRequest
    origin: str = ""


def prepared_run(
    plan: Plan,
    request: RunConfig,
    folder: Path,
    data: TrainingData,
    *,
    start: Start | None = None,
    deadline: Deadline | None = None,
    tell: Callable[[str], None] | None = None,
) -> PreparedRun:
    """Build the network and the trainer of a run; a ValueError if the plan cannot be followed on this machine."""
    settings = plan.settings
    module = make_classifier(settings, data)
    origin = "" if start is None else start.carry_into(module.model, data.train.classes, settings.freeze)
    if module.averaged is not None:
        module.averaged.load_state_dict(module.model.state_dict())
    if request.parameters is not None and request.fit != "shrink":
        _warn_of_size(sum(p.numel() for p in module.model.parameters()), request.parameters, settings.model["name"])
    keeper = KeepBest(settings.patience, tell) if settings.patience and data.validation is not None else None
    stopping = StopOnRequest(tell)
    # The best weights and the time are noted before a checkpoint is written.
    lines = ProgressLines(tell) if tell is not None and settings.progress and not sys.stdout.isatty() else None
    watching = [callback for callback in (stopping, keeper, deadline, lines) if callback is not None]
    trainer = make_trainer(settings, folder, plan.epochs, watching)
    module.rescheduled = plan.rescheduled or ()
    module.to(trainer.strategy.root_device)
    try:
        module.use_backends(plan.backends)
    except ValueError as error:
        way_on = "Or begin a new run in another folder, without this plan."
        raise ValueError(f"the plan of this run cannot be followed here: {error} {way_on}") from error
    return PreparedRun(plan, folder, data, module, trainer, keeper, stopping, origin)


def carry_out(run: PreparedRun, phase: Phase = unseen) -> dict[str, Any]:
    """Train the network, write the results, and return what ``results.json`` contains."""
    settings, folder, data = run.plan.settings, run.folder, run.data
    module, trainer, keeper = run.module, run.trainer, run.keeper
    if trainer.is_global_zero:
        _keep_curves(folder)
    batches = RunBatches(data, settings)
    checkpoint = _checkpoint(folder / "checkpoints", module, speaks=trainer.is_global_zero)
    with warnings.catch_warnings():
        silence_lightning()
        with run.stopping.listening(trainer):
            _fit(trainer, module, batches, checkpoint)
        minutes = minutes_trained(trainer)
        epochs = trainer.current_epoch if keeper is None else keeper.epochs_done
        figures = {key: float(value) for key, value in trainer.callback_metrics.items() if key.startswith("val_")}
        if keeper is not None:
            keeper.restore(module)
            figures = {**keeper.metrics, "best_epoch": keeper.epoch}
        module.to(trainer.strategy.root_device).eval()
        upright = None
        if settings.evaluate == "test" and isinstance(data.test, LabelledImages) and trainer.world_size == 1:
            with phase("testing"):  # once, for the loss and for everything about single images
                upright = upright_scores(module, data.test, device=module.device)
            figures.update(upright_figures(upright, data.test.labels))
        else:
            measure = trainer.test if settings.evaluate == "test" else trainer.validate
            figures.update(measure(module, batches, verbose=False)[0])
    module.to(trainer.strategy.root_device)
    measured = Measured(figures, epochs, minutes, stopped=run.stopping.requested, upright=upright)
    speaks = folder if trainer.is_global_zero else None
    return write_outcome(speaks, settings, module, data, measured, phase)


def announcement(run: PreparedRun) -> str:
    """One line about the images and the network of a run."""
    settings, data, epochs = run.plan.settings, run.data, run.plan.epochs
    parts = {"training": data.train, "validation": data.validation, "test": data.test}
    counts = ", ".join(f"{len(part):,} {name}" for name, part in parts.items() if part is not None)
    sides = data.train.image_size
    things, points = ("images", "pixels") if len(sides) == 2 else ("volumes", "voxels")
    shape = f"{'×'.join(map(str, sides))} {points}"
    size = sum(p.numel() for p in run.module.model.parameters())
    stops = 0 < settings.patience < epochs and data.validation is not None
    length = "1 epoch" if epochs == 1 else f"{epochs} epochs"
    early = f" at most, ending {settings.patience} after the best one" if stops else ""
    shown = augmentation(settings, data.train)
    tiles = "tiles of " if settings.task == "segment" else ""
    return (
        f"{data.name}: {counts} {things} {_what_they_show(data)}, {tiles}{shape}"
        f"{_reduction(data)}, {data.colours}. "
        f"{settings.model['name']} with {size:,} parameters{size_in_words(settings, sides[0])}, {length}{early}."
        + (f" Augmentation: {shown}." if shown is not None else "")
    )


def _what_they_show(data: TrainingData) -> str:
    if isinstance(data.train, MaskedImages) and data.train.kind == "instances":
        return f"with {data.train.objects:,} numbered objects to train on (instances)"
    return f"of {len(data.train.classes)} classes"


def _reduction(data: TrainingData) -> str:
    """The reason why images are smaller than they were read, and how to keep them."""
    if data.pixels is None or data.pixels.reduction == 1:
        return ""
    side = data.side * data.pixels.reduction
    return f" (reduced from {side}×{side} to have enough epochs; --image-size {side} keeps them)"


def _checkpoint(folder: Path, module: Classifier, *, speaks: bool) -> Path | None:
    """The checkpoint that the run continues from; a damaged one is named and set aside for the next one."""
    found, damaged = latest_checkpoint(folder, module.state_dict())
    for path, reason in damaged if speaks else ():
        kept = set_aside(path)
        warnings.warn(
            f"`{path}` {reason}. The run continues from the previous checkpoint, `{found}`. The damaged one is now "
            f"called `{kept.name}` and can be deleted.",
            stacklevel=3,
        )
    return found


def _fit(trainer: pl.Trainer, module: Classifier, batches: RunBatches, checkpoint: Path | None) -> None:
    try:
        trainer.fit(module, batches, ckpt_path=checkpoint)
    except torch.OutOfMemoryError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        if checkpoint is None or has_begun(trainer):
            raise
        # Whole, and with all tensors of the network, but otherwise not what this version saves.
        raise ValueError(
            f"`{checkpoint}` does not fit this run ({type(error).__name__}: {error}). {ways_on(checkpoint.parent)}"
        ) from error


def _warn_of_size(found: int, wanted: int, name: str) -> None:
    if found > 1.5 * wanted:
        warnings.warn(
            f"the smallest {name} for these images has {found:,} parameters, and the run wants {wanted:,}.",
            stacklevel=4,
        )


def _keep_curves(folder: Path) -> None:
    """Keep the curves of an interrupted run beside the new file, because Lightning's CSV logger begins anew."""
    curves = folder / "metrics" / "csv" / "metrics.csv"
    if curves.is_file():
        number = len(list(curves.parent.glob("metrics-*.csv")))
        curves.rename(curves.with_name(f"metrics-{number:03}.csv"))
