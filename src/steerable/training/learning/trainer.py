"""Lightning's trainer as runs use it: batches from the device, a checkpoint now and then, and no advice."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger

from steerable.data.batches import Batches, DeviceBatches
from steerable.data.masked_images import MaskedImages
from steerable.errors import listing
from steerable.training.learning.checkpoints import LAST, AtomicCheckpoints
from steerable.training.learning.divergence import StopWhenDiverged
from steerable.training.learning.preparing import Images, TrainingData, training_batches
from steerable.training.learning.whole_images import WholeImages
from steerable.training.requests.config import RunConfig

__all__ = ["RunBatches", "has_begun", "make_trainer", "minutes_trained", "silence_lightning"]


class RunBatches(pl.LightningDataModule):
    """Hands Lightning the images, on whatever device and process it runs."""

    def __init__(self, data: TrainingData, settings: RunConfig) -> None:
        super().__init__()
        self.data, self.settings = data, settings

    @property
    def _process(self) -> pl.Trainer:
        if self.trainer is None:
            raise RuntimeError("there are no batches before a trainer asks for them")
        return self.trainer

    def _to_evaluate(self, images: Images) -> DeviceBatches | WholeImages:
        trainer = self._process
        if isinstance(images, MaskedImages):
            return WholeImages(images, trainer.strategy.root_device)
        return DeviceBatches(
            images,
            images.comfortable_batch * trainer.world_size,
            shuffle=False,
            seed=self.settings.seed,
            device=trainer.strategy.root_device,
            rank=trainer.global_rank,
            world_size=trainer.world_size,
        )

    def train_dataloader(self) -> Batches:
        trainer = self._process
        place = trainer.strategy.root_device, trainer.global_rank, trainer.world_size
        return training_batches(self.settings, self.data, *place)

    def val_dataloader(self) -> DeviceBatches | WholeImages | list[Any]:
        return [] if self.data.validation is None else self._to_evaluate(self.data.validation)

    def test_dataloader(self) -> DeviceBatches | WholeImages:
        return self._to_evaluate(self.data.test)


class _Epochs(Callback):
    """Tells the batches which epoch it is, saves the run now and then and after its last epoch, and counts its time."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.path, self.seconds = folder / "checkpoints" / LAST, seconds
        self.saved = self.started = time.monotonic()
        self.earlier = 0.0  # seconds up to the checkpoint that the run continues from
        self.begun = False

    def trained(self) -> float:
        """Seconds of training, including those before an interruption."""
        return self.earlier + time.monotonic() - self.started

    def state_dict(self) -> dict[str, Any]:
        return {"seconds": self.trained()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.earlier = state["seconds"]

    def on_load_checkpoint(self, trainer: pl.Trainer, module: pl.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint that lacks anything: momentum, best epoch or time would silently start anew."""
        kept = [callback.state_key for callback in trainer.callbacks if callback.state_dict()]  # type: ignore[attr-defined]
        if missing := [key for key in kept if key not in checkpoint["callbacks"]]:
            raise ValueError(f"it lacks the state of {listing(missing)}.")
        if len(checkpoint["optimizer_states"]) != 1:
            raise ValueError(f"it has {len(checkpoint['optimizer_states'])} optimisers, expected one.")

    def on_fit_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.saved = self.started = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.begun = True

    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if isinstance(trainer.train_dataloader, Batches):
            trainer.train_dataloader.set_epoch(trainer.current_epoch)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        last = trainer.should_stop or trainer.current_epoch + 1 == trainer.max_epochs
        is_whole = trainer.fit_loop.epoch_loop.batch_progress.is_last_batch  # a resumed run begins with a whole epoch
        due = is_whole and (last or time.monotonic() - self.saved >= self.seconds)
        if trainer.strategy.broadcast(due):  # all processes save together
            trainer.save_checkpoint(self.path)
            self.saved = time.monotonic()


class _Bar(RichProgressBar):
    """The progress bar without the logger's version, which is the same for every run."""

    def get_metrics(
        self, trainer: pl.Trainer, module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        return {name: value for name, value in super().get_metrics(trainer, module).items() if name != "v_num"}


def make_trainer(settings: RunConfig, folder: Path, epochs: int, watching: Sequence[Callback] = ()) -> pl.Trainer:
    """A trainer that writes curves and checkpoints into the run folder.

    Args:
        settings: of the run.
        folder: the run folder.
        epochs: how many to train for.
        watching: callbacks whose say on an epoch comes before it is saved.
    """
    loggers: list[Logger] = [CSVLogger(folder, name="metrics", version="csv")]
    with contextlib.suppress(ModuleNotFoundError):  # TensorBoard's curves are an extra
        loggers.append(TensorBoardLogger(folder, name="metrics", version="tensorboard"))
    callbacks: list[Callback] = [StopWhenDiverged(settings.recipe.learning_rate), *watching]
    callbacks.append(_Epochs(folder, settings.checkpoint_seconds))
    bar = settings.progress and sys.stdout.isatty()
    if bar:
        callbacks.append(_Bar())
    return pl.Trainer(
        accelerator=settings.accelerator,
        devices=settings.devices,
        num_nodes=settings.nodes,
        strategy="ddp" if settings.devices * settings.nodes > 1 else "auto",
        precision=settings.precision,  # type: ignore[arg-type]
        max_epochs=epochs,
        logger=loggers,
        callbacks=callbacks,
        plugins=[AtomicCheckpoints()],
        enable_checkpointing=False,
        enable_progress_bar=bar,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1_000_000,
        default_root_dir=folder,
    )


def minutes_trained(trainer: pl.Trainer) -> float:
    """The minutes that a run has been trained for, all its parts together."""
    return next(c.trained() for c in trainer.callbacks if isinstance(c, _Epochs)) / 60  # type: ignore[attr-defined]


def has_begun(trainer: pl.Trainer) -> bool:
    """Whether everything has been restored from a checkpoint, and the first step is next or done."""
    return any(callback.begun for callback in trainer.callbacks if isinstance(callback, _Epochs))  # type: ignore[attr-defined]


def silence_lightning() -> None:
    """Silence advice that does not apply: data are on the device already, and nothing can load in parallel."""
    patterns = (
        ".*does not have many workers.*",
        ".*exists and is not empty.*",
        ".*is smaller than the logging interval.*",
        ".*across ranks is zero.*",
        ".*in eval mode at the start of training.*",  # frozen parts
        ".*isinstance\\(treespec, LeafSpec\\).*",
    )
    for pattern in patterns:
        warnings.filterwarnings("ignore", pattern)
