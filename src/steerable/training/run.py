"""A training run: data, network, Lightning's trainer, and a folder that says what was done.

A run folder has

- ``config.json``: everything that decides the outcome
- ``environment.json``: versions, hardware, git revision
- ``checkpoints/``: the last epoch, to resume from
- ``metrics/``: learning curves, CSV and TensorBoard
- ``model/``: the trained network, safetensors and its config
- ``results.json``: the final figures
"""

from __future__ import annotations

import contextlib
import inspect
import json
import platform
import subprocess
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from torch import nn

from steerable import nn as snn
from steerable.models import build_model
from steerable.training.batches import DeviceBatches
from steerable.training.checkpoints import AtomicCheckpoints, latest_checkpoint
from steerable.training.config import RunConfig
from steerable.training.datasets import load_dataset
from steerable.training.labelled import LabelledImages
from steerable.training.module import Classifier
from steerable.training.poses import pose_report
from steerable.training.preprocessing import Augmentation, Normalisation

__all__ = ["TrainingData", "environment", "fitted_to_minutes", "make_classifier", "prepare_data", "save_model", "train"]


@dataclass(frozen=True)
class TrainingData:
    """What a run trains, validates and tests on; ``validation`` is None where nothing was held out."""

    train: LabelledImages
    validation: LabelledImages | None
    test: LabelledImages


def prepare_data(config: RunConfig) -> TrainingData:
    """Load the data set, take the labelled subset, and hold out the validation images."""
    splits = load_dataset(config.dataset, data_dir=config.data_dir, image_size=config.image_size)
    train = splits.train
    if config.labels is not None and config.labels != len(train):
        train = train.balanced_subset(config.labels, seed=config.seed)
    if config.validation:
        train, validation = train.split(config.validation, seed=config.seed)
        return TrainingData(train, validation, splits.test)
    return TrainingData(train, None, splits.test)


def train(config: RunConfig, folder: str | Path, *, max_minutes: float | None = None) -> dict[str, Any]:
    """Train, test and write everything down; a run that was interrupted goes on where it stopped.

    Args:
        config: what to do.
        folder: the run folder. If it holds a run of the same config, that run is resumed; with another config it is an
            error, and nothing is touched.
        max_minutes: fit the number of epochs to this time, measured on a few steps before the run starts.

    Returns:
        What ``results.json`` contains.
    """
    folder = Path(folder)
    resumed = _check_folder(config, folder)
    config = resumed or config
    data = prepare_data(config)
    if max_minutes is not None and resumed is None:
        config = fitted_to_minutes(config, data, max_minutes)
    if (folder / "results.json").is_file():
        results: dict[str, Any] = json.loads((folder / "results.json").read_text())
        return results
    folder.mkdir(parents=True, exist_ok=True)
    if resumed is None:
        config.save(folder / "config.json")
    module = make_classifier(config, data)
    trainer = _trainer(config, folder)
    if trainer.is_global_zero:
        _keep_curves(folder)
    batches = _Batches(data, config)
    checkpoint = latest_checkpoint(folder / "checkpoints")
    started = time.perf_counter()
    with warnings.catch_warnings():
        _silence_lightning()
        trainer.fit(module, batches, ckpt_path=checkpoint, **_trusting(trainer))  # type: ignore[arg-type]
        minutes = (time.perf_counter() - started) / 60
        measured = {key: float(value) for key, value in trainer.callback_metrics.items() if key.startswith("val_")}
        measured.update(trainer.test(module, batches, verbose=False)[0])
    results = _results(config, module, trainer, data, measured, minutes)
    if trainer.is_global_zero:
        save_model(module, folder / "model")
        (folder / "environment.json").write_text(json.dumps(environment(), indent=2) + "\n")
        (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    return results


def make_classifier(config: RunConfig, data: TrainingData) -> Classifier:
    """The network, its normalisation and its schedule, from the seed alone."""
    torch.manual_seed(config.seed)
    options = {key: value for key, value in config.model.items() if key != "name"}
    classes = len(data.train.classes)
    model = build_model(config.model["name"], **{"in_channels": data.train.channels, "num_classes": classes, **options})
    if config.devices * config.nodes > 1:
        for layer in model.modules():
            if isinstance(layer, snn.BatchNorm2d):
                layer.sync = True
    return Classifier(
        model,
        Normalisation.fit(data.train.images, config.recipe.normalisation),
        config.recipe,
        num_classes=classes,
        train_size=len(data.train),
        seed=config.seed,
        compile_model=config.compile,
        channels_last=config.channels_last,
    )


def save_model(module: Classifier, folder: Path) -> None:
    """The trained network and its normalisation, in safetensors."""
    module.best_model.save_pretrained(folder)  # type: ignore[operator]
    module.normalisation.save(folder / "normalisation.safetensors")


def environment() -> dict[str, Any]:
    """Versions, hardware and the revision of the code."""
    packages = ("steerable", "torch", "lightning", "numpy")
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return {
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
        "cpu": platform.processor() or platform.machine(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "git": revision.stdout.strip() if revision.returncode == 0 else None,
    }


def fitted_to_minutes(config: RunConfig, data: TrainingData, minutes: float) -> RunConfig:
    """The same config with as many epochs as fit the time, by timing a few steps of a throw-away copy."""
    module = make_classifier(config, data)
    device = torch.device("cuda" if config.accelerator != "cpu" and torch.cuda.is_available() else "cpu")
    module.to(device)
    optimiser = module.configure_optimizers()
    batches = DeviceBatches(data.train, config.recipe.batch_size, shuffle=True, seed=config.seed, device=device)
    half = config.precision.startswith("bf16")
    times: list[float] = []
    while len(times) < 25 and sum(times) < 6 * minutes:  # at most a tenth of the budget
        for images, labels in batches:
            started = time.perf_counter()
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                scores = module.network(module.prepare(images))
            nn.functional.cross_entropy(scores.float(), labels).backward()
            optimiser.step()
            optimiser.zero_grad()
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - started)
            if len(times) == 25:
                break
    typical = sorted(times)[len(times) // 2]
    # A twentieth is left for validation, checkpoints and the test.
    epochs = max(1, int(0.95 * 60 * minutes / (typical * len(batches))))
    return replace(config, recipe=config.recipe.with_epochs(epochs))


class _Batches(pl.LightningDataModule):
    """Hands Lightning the images on whatever device and process it runs."""

    def __init__(self, data: TrainingData, config: RunConfig) -> None:
        super().__init__()
        self.data, self.config = data, config

    def _batches(self, images: LabelledImages, *, train: bool) -> DeviceBatches:
        if self.trainer is None:
            raise RuntimeError("batches are made when a trainer asks for them")
        recipe = self.config.recipe
        return DeviceBatches(
            images,
            recipe.batch_size if train else 500 * self.trainer.world_size,
            shuffle=train,
            seed=self.config.seed,
            device=self.trainer.strategy.root_device,
            augment=Augmentation(shift=recipe.shift) if train and recipe.augment else None,
            rank=self.trainer.global_rank,
            world_size=self.trainer.world_size,
        )

    def train_dataloader(self) -> DeviceBatches:
        return self._batches(self.data.train, train=True)

    def val_dataloader(self) -> DeviceBatches | list[Any]:
        return [] if self.data.validation is None else self._batches(self.data.validation, train=False)

    def test_dataloader(self) -> DeviceBatches:
        return self._batches(self.data.test, train=False)


class _Epochs(Callback):
    """Tells the batches which epoch it is; saves the run now and then, and after its last epoch."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.path, self.seconds = folder / "checkpoints" / "last.ckpt", seconds
        self.saved = time.monotonic()

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if isinstance(trainer.train_dataloader, DeviceBatches):
            trainer.train_dataloader.set_epoch(trainer.current_epoch)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        due = time.monotonic() - self.saved >= self.seconds or trainer.current_epoch + 1 == trainer.max_epochs
        if trainer.strategy.broadcast(due):  # all processes save together
            trainer.save_checkpoint(self.path)
            self.saved = time.monotonic()


def _keep_curves(folder: Path) -> None:
    """Lightning's CSV logger starts its file anew; what an interrupted run has logged is kept beside it."""
    curves = folder / "metrics" / "csv" / "metrics.csv"
    if curves.is_file():
        number = len(list(curves.parent.glob("metrics-*.csv")))
        curves.rename(curves.with_name(f"metrics-{number:03}.csv"))


def _trainer(config: RunConfig, folder: Path) -> pl.Trainer:
    loggers: list[Logger] = [CSVLogger(folder, name="metrics", version="csv")]
    with contextlib.suppress(ModuleNotFoundError):  # TensorBoard's curves are an extra
        loggers.append(TensorBoardLogger(folder, name="metrics", version="tensorboard"))
    callbacks: list[Callback] = [_Epochs(folder, config.checkpoint_seconds)]
    if config.progress:
        callbacks.append(RichProgressBar())
    return pl.Trainer(
        accelerator=config.accelerator,
        devices=config.devices,
        num_nodes=config.nodes,
        strategy="ddp" if config.devices * config.nodes > 1 else "auto",
        precision=config.precision,  # type: ignore[arg-type]
        max_epochs=config.recipe.epochs,
        logger=loggers,
        callbacks=callbacks,
        plugins=[AtomicCheckpoints()],
        enable_checkpointing=False,
        enable_progress_bar=config.progress,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1_000_000,
        default_root_dir=folder,
    )


def _trusting(trainer: pl.Trainer) -> dict[str, bool]:
    """Our own checkpoints hold more than tensors; newer Lightning versions ask whether to trust them."""
    return {"weights_only": False} if "weights_only" in inspect.signature(trainer.fit).parameters else {}


def _check_folder(config: RunConfig, folder: Path) -> RunConfig | None:
    """The config of the run that the folder holds, if it holds one."""
    if not (folder / "config.json").is_file():
        if folder.exists() and any(folder.iterdir()):
            raise FileExistsError(f"{folder} exists and is no run folder; choose another one.")
        return None
    earlier = RunConfig.load(folder / "config.json")
    # The number of epochs may have been fitted to a time budget; it is the earlier run's that counts.
    same_length = replace(config, recipe=config.recipe.with_epochs(earlier.recipe.epochs))
    if same_length.differences(earlier):
        raise FileExistsError(
            f"{folder} holds a run with another {', '.join(same_length.differences(earlier))}. Resume it with its own "
            "settings, or choose another folder."
        )
    return earlier.elsewhere(config)


def _silence_lightning() -> None:
    """Advice that does not apply: the data already lie on the device, and there is nothing to load in parallel."""
    patterns = (
        ".*does not have many workers.*",
        ".*exists and is not empty.*",
        ".*is smaller than the logging interval.*",
        ".*across ranks is zero.*",
        ".*isinstance\\(treespec, LeafSpec\\).*",
    )
    for pattern in patterns:
        warnings.filterwarnings("ignore", pattern)


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
    poses = pose_report(module, data.test, device=device) if trainer.is_global_zero else None
    return {
        "dataset": config.dataset,
        "labels": len(data.train),
        "classes": list(data.train.classes),
        "image_size": list(data.train.image_size),
        "model": config.model,
        "seed": config.seed,
        "parameters": sum(p.numel() for p in module.model.parameters()),
        "epochs": config.recipe.epochs,
        "test_error": 1 - measured["test_accuracy"],
        **measured,
        "poses": poses.to_dict() if poses is not None else None,
        "training_minutes": minutes,
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else environment()["cpu"],
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
