"""A training run: data, network, Lightning's trainer, and a folder that says what was done.

A run folder has

- ``config.json``: everything that decides the outcome
- ``resolved.json``: what that came to with these data: classes, sizes, the network, files that were left out
- ``environment.json``: versions, hardware, git revision
- ``checkpoints/``: the run as it was last saved, to resume from, and as it was saved before that
- ``metrics/``: learning curves, CSV and TensorBoard
- ``model/``: the trained network, safetensors and its config, class names and image size
- ``mistakes.json``: the test images that were most surely taken for something else
- ``results.json``: the final figures

A run with ``evaluate="validation"`` does not look at test images: it has no ``mistakes.json``, and its figures are
those of the validation images.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from steerable.atomic import is_leftover, naming_full_disk, remove_leftovers, write_json
from steerable.data.images import Progress
from steerable.training.checkpoints import latest_checkpoint, set_aside, ways_on
from steerable.training.classifier import Classifier
from steerable.training.config import RunConfig
from steerable.training.early_stopping import KeepBest
from steerable.training.environment import environment
from steerable.training.fitting import fitted_to_minutes, with_sized_model
from steerable.training.interruption import reporting_interruptions
from steerable.training.mistakes import worst_mistakes
from steerable.training.poses import pose_report
from steerable.training.preparing import TrainingData, make_classifier, prepare_data
from steerable.training.run_files import RESOLVED, RESULTS, RESULTS_NEEDED, read_fields
from steerable.training.run_lock import LOCK, locked
from steerable.training.trainer import RunBatches, has_begun, make_trainer, minutes_trained, silence_lightning

__all__ = [
    "TrainingData",
    "check_run_folder",
    "environment",
    "fitted_to_minutes",
    "make_classifier",
    "prepare_data",
    "save_model",
    "train",
]

FILES = ("resolved.json", "environment.json", "mistakes.json", "results.json", "report.html")
FOLDERS = ("checkpoints", "metrics", "model")


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    progress: Progress | None = None,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train, test and write everything down; a run that was interrupted goes on where it stopped.

    Args:
        config: what to do.
        folder: the run folder. If it holds a run of the same config, that run is resumed; with another config it is an
            error, and nothing is touched.
        progress: called with (images read, all images) while a folder of images is read.
        tell: called with one line about data and network before the training starts.

    Returns:
        What ``results.json`` contains.
    """
    folder = Path(folder)
    resumed = check_run_folder(config, folder)
    _check_devices(config)
    config = resumed or config
    data = prepare_data(config, progress)
    summary = data.summary()
    if resumed is not None:
        _check_same_data(summary, folder)
    if (folder / "results.json").is_file():
        return _earlier_results(folder)
    if config.minutes is not None and resumed is None:
        config = fitted_to_minutes(config, data, config.minutes)
    begun, config = config, with_sized_model(config, data)
    module = make_classifier(config, data)
    if begun.parameters is not None and config.fit != "shrink":
        _warn_of_size(sum(p.numel() for p in module.model.parameters()), begun.parameters, config.model["name"])
    keeper = KeepBest(config.patience) if config.patience and data.validation is not None else None
    trainer = make_trainer(config, folder, keeper)
    # All that may be refused has been; from here on the folder is a run's.
    with naming_full_disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with naming_full_disk(folder), locked(folder) if trainer.is_global_zero else nullcontext():
        if trainer.is_global_zero:
            remove_leftovers(folder)
        if resumed is None and trainer.is_global_zero:
            if (folder / "config.json").is_file():
                raise FileExistsError(
                    f"another process has begun a run in `{folder}` meanwhile; choose another folder."
                )
            begun.save(folder / "config.json")
        if (folder / "results.json").is_file():  # another process has ended this run meanwhile
            return _earlier_results(folder)
        if trainer.is_global_zero and tell is not None:
            tell(_announcement(config, module, data))
        with reporting_interruptions(folder):
            return _carry_out(config, folder, data, module, trainer, keeper)


def _carry_out(
    config: RunConfig,
    folder: Path,
    data: TrainingData,
    module: Classifier,
    trainer: pl.Trainer,
    keeper: KeepBest | None,
) -> dict[str, Any]:
    """The training itself, from the last checkpoint on, and what is written when it ends."""
    if trainer.is_global_zero:
        _keep_curves(folder)
        write_json(folder / "resolved.json", {**data.summary(), "model": config.model})
    batches = RunBatches(data, config)
    checkpoint = _checkpoint(folder / "checkpoints", module, speaks=trainer.is_global_zero)
    with warnings.catch_warnings():
        silence_lightning()
        _fit(trainer, module, batches, checkpoint)
        minutes = minutes_trained(trainer)
        measured = {key: float(value) for key, value in trainer.callback_metrics.items() if key.startswith("val_")}
        if keeper is not None:
            keeper.restore(module)
            measured = {**keeper.metrics, "best_epoch": keeper.epoch}
        tested = config.evaluate == "test"
        measure = trainer.test if tested else trainer.validate
        measured.update(measure(module, batches, verbose=False)[0])
    if keeper is not None:
        config = config.shortened(keeper.epochs_done)
    results = _results(config, module, trainer, data, measured, minutes)
    if trainer.is_global_zero:
        save_model(module, folder / "model", data, config.model)
        if tested:
            write_json(folder / "mistakes.json", worst_mistakes(module, data.test, device=trainer.strategy.root_device))
        write_json(folder / "environment.json", environment())
        write_json(folder / "results.json", results)
    return results


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
            f"the smallest {name} for these images has {found:,} parameters; {wanted:,} were asked for.", stacklevel=3
        )


def save_model(module: Classifier, folder: Path, data: TrainingData, model: dict[str, Any]) -> None:
    """The trained network and its normalisation in safetensors, and what the numbers of its classes mean."""
    module.best_model.save_pretrained(folder)  # type: ignore[operator]
    module.normalisation.save(folder / "normalisation.safetensors")
    write_json(
        folder / "images.json",
        {
            "classes": list(data.train.classes),
            "image_size": data.train.image_size[0],
            "channels": data.train.channels,
            "model": model,
        },
    )


def check_run_folder(config: RunConfig, folder: Path) -> RunConfig | None:
    """The config of the run that the folder holds, if it holds one; an error if it is another run or something else."""
    if not (folder / "config.json").is_file():
        if folder.exists() and (not folder.is_dir() or any(not _is_left_by_a_start(e.name) for e in folder.iterdir())):
            raise FileExistsError(f"{folder} exists and is no run folder; choose another one.")
        return None
    for kind, is_kind, names in (("file", Path.is_file, FILES), ("folder", Path.is_dir, FOLDERS)):
        for path in (folder / name for name in names):
            if path.exists() and not is_kind(path):
                raise FileExistsError(
                    f"`{path}` is in the way: a run has a {kind} of that name. Remove it, or choose another folder."
                )
    try:
        earlier = RunConfig.load(folder / "config.json")
    except ValueError as error:  # damaged or edited
        raise FileExistsError(f"{error} A run cannot be resumed without it; choose another folder.") from error
    # What was fitted to a time budget is the earlier start's, for another measurement would give another run.
    differences = config.as_fitted(earlier).differences(earlier)
    if differences:
        raise FileExistsError(
            f"{folder} holds a run with another {', '.join(differences)}. Resume it with its own settings, or choose "
            "another folder."
        )
    return earlier.elsewhere(config)


def _is_left_by_a_start(name: str) -> bool:
    """Whether a start that was killed before it wrote its config may have left a file of this name."""
    return name == LOCK or is_leftover(name)


def _earlier_results(folder: Path) -> dict[str, Any]:
    try:
        return read_fields(folder / "results.json", RESULTS, RESULTS_NEEDED)
    except ValueError as error:
        raise ValueError(f"{error} Remove the file, and the same command makes it anew.") from error


def _check_devices(config: RunConfig) -> None:
    """Refused before any image is read."""
    if config.accelerator == "gpu" and not torch.cuda.is_available():
        raise ValueError("accelerator is `gpu`, and torch finds no GPU on this machine. Use `auto` or `cpu`.")
    if config.cuda_graphs and (config.accelerator == "cpu" or not torch.cuda.is_available()):
        raise ValueError("cuda_graphs need an NVIDIA GPU, and this run has none. Leave them out.")


def _check_same_data(now: Mapping[str, Any], folder: Path) -> None:
    """A resumed run sees the images it began with."""
    try:
        before = read_fields(folder / "resolved.json", RESOLVED, ("digests", "images"))
    except FileNotFoundError:  # killed before it was written
        return
    except ValueError as error:
        raise ValueError(
            f"{error} It says which images the run began with. Remove the file to go on with the images as they are "
            "now, or choose another run folder."
        ) from error
    if before["digests"] != now["digests"]:
        raise ValueError(
            f"the images of `{now['name']}` have changed since the run in {folder} began: {_counts(before)} then, "
            f"{_counts(now)} now. Choose another run folder to train on them as they are now."
        )


def _counts(summary: Mapping[str, Any]) -> str:
    return f"{summary['images']['train']:,} training and {summary['images']['test']:,} test images"


def _announcement(config: RunConfig, module: Classifier, data: TrainingData) -> str:
    parts = {"training": data.train, "validation": data.validation, "test": data.test}
    counts = ", ".join(f"{len(part):,} {name}" for name, part in parts.items() if part is not None)
    height, width = data.train.image_size
    colour = "grey" if data.train.channels == 1 else "colour"
    size = sum(p.numel() for p in module.model.parameters())
    stops = 0 < config.patience < config.recipe.epochs and data.validation is not None
    early = f" at most, ending {config.patience} after the best one" if stops else ""
    return (
        f"{data.name}: {counts} images of {len(data.train.classes)} classes, {height}×{width} pixels, {colour}. "
        f"{config.model['name']} with {size:,} parameters, {config.recipe.epochs} epochs{early}."
    )


def _keep_curves(folder: Path) -> None:
    """Lightning's CSV logger starts its file anew; what an interrupted run has logged is kept beside it."""
    curves = folder / "metrics" / "csv" / "metrics.csv"
    if curves.is_file():
        number = len(list(curves.parent.glob("metrics-*.csv")))
        curves.rename(curves.with_name(f"metrics-{number:03}.csv"))


def _results(
    config: RunConfig,
    module: Classifier,
    trainer: pl.Trainer,
    data: TrainingData,
    measured: Mapping[str, float],
    minutes: float,
) -> dict[str, Any]:
    device = trainer.strategy.root_device
    module = module.to(device).eval()
    tested = config.evaluate == "test"
    poses = pose_report(module, data.test, device=device) if tested and trainer.is_global_zero else None
    return {
        "dataset": data.name,
        "labels": len(data.train),
        "classes": list(data.train.classes),
        "image_size": list(data.train.image_size),
        "model": config.model,
        "seed": config.seed,
        "parameters": sum(p.numel() for p in module.model.parameters()),
        "epochs": config.recipe.epochs,
        f"{config.evaluate}_error": 1 - measured["test_accuracy" if tested else "val_accuracy"],
        **measured,
        "poses": poses.to_dict() if poses is not None else None,
        "training_minutes": minutes,
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else environment()["cpu"],
    }
