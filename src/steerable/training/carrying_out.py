"""Carrying out a planned run: from the last checkpoint on to the last epoch, and the figures at its end."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from steerable.training.checkpoints import latest_checkpoint, set_aside, ways_on
from steerable.training.classifier import Classifier
from steerable.training.config import RunConfig
from steerable.training.early_stopping import KeepBest
from steerable.training.plan import Plan
from steerable.training.preparing import TrainingData, make_classifier
from steerable.training.results import Measured, write_outcome
from steerable.training.trainer import RunBatches, has_begun, make_trainer, minutes_trained, silence_lightning

__all__ = ["announcement", "carry_out", "prepared_run"]


def prepared_run(
    plan: Plan, request: RunConfig, folder: Path, data: TrainingData
) -> tuple[Classifier, pl.Trainer, KeepBest | None]:
    """The network, on its device and with its backends, the trainer, and what keeps the best weights."""
    settings = plan.settings
    module = make_classifier(settings, data)
    if request.parameters is not None and request.fit != "shrink":
        _warn_of_size(sum(p.numel() for p in module.model.parameters()), request.parameters, settings.model["name"])
    keeper = KeepBest(settings.patience) if settings.patience and data.validation is not None else None
    trainer = make_trainer(settings, folder, keeper)
    module.to(trainer.strategy.root_device)
    try:
        module.use_backends(plan.backends)
    except ValueError as error:
        raise ValueError(f"the plan of this run cannot be followed here: {error}") from error
    return module, trainer, keeper


def carry_out(
    settings: RunConfig,
    folder: Path,
    data: TrainingData,
    module: Classifier,
    trainer: pl.Trainer,
    keeper: KeepBest | None,
) -> dict[str, Any]:
    """The training itself, and what is written when it ends; returns what ``results.json`` contains."""
    if trainer.is_global_zero:
        _keep_curves(folder)
    batches = RunBatches(data, settings)
    checkpoint = _checkpoint(folder / "checkpoints", module, speaks=trainer.is_global_zero)
    with warnings.catch_warnings():
        silence_lightning()
        _fit(trainer, module, batches, checkpoint)
        minutes = minutes_trained(trainer)
        figures = {key: float(value) for key, value in trainer.callback_metrics.items() if key.startswith("val_")}
        if keeper is not None:
            keeper.restore(module)
            figures = {**keeper.metrics, "best_epoch": keeper.epoch}
        measure = trainer.test if settings.evaluate == "test" else trainer.validate
        figures.update(measure(module, batches, verbose=False)[0])
    module.to(trainer.strategy.root_device)
    epochs = settings.recipe.epochs if keeper is None else keeper.epochs_done
    speaks = folder if trainer.is_global_zero else None
    return write_outcome(speaks, settings, module, data, Measured(figures, epochs, minutes))


def announcement(settings: RunConfig, module: Classifier, data: TrainingData) -> str:
    """One line about the images and the network of a run."""
    parts = {"training": data.train, "validation": data.validation, "test": data.test}
    counts = ", ".join(f"{len(part):,} {name}" for name, part in parts.items() if part is not None)
    height, width = data.train.image_size
    size = sum(p.numel() for p in module.model.parameters())
    stops = 0 < settings.patience < settings.recipe.epochs and data.validation is not None
    early = f" at most, ending {settings.patience} after the best one" if stops else ""
    return (
        f"{data.name}: {counts} images of {len(data.train.classes)} classes, {height}×{width} pixels, {data.colours}. "
        f"{settings.model['name']} with {size:,} parameters, {settings.recipe.epochs} epochs{early}."
    )


def _checkpoint(folder: Path, module: Classifier, *, speaks: bool) -> Path | None:
    """Where the run goes on from; a damaged checkpoint is named and makes room for the next one."""
    found, damaged = latest_checkpoint(folder, module.state_dict())
    for path, reason in damaged if speaks else ():
        kept = set_aside(path)
        warnings.warn(
            f"`{path}` {reason}. The run goes on from the checkpoint before it, `{found}`. The damaged one is now "
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
    """Lightning's CSV logger starts its file anew; what an interrupted run has logged is kept beside it."""
    curves = folder / "metrics" / "csv" / "metrics.csv"
    if curves.is_file():
        number = len(list(curves.parent.glob("metrics-*.csv")))
        curves.rename(curves.with_name(f"metrics-{number:03}.csv"))
