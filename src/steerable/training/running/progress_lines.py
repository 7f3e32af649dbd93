"""The progress of a training as a line now and then, for logs and pipes, which have no progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

__all__ = ["ProgressLines"]


class ProgressLines(Callback):
    """Says which step of which epoch is done, and how good the network was at its last validation.

    Args:
        tell: called with each line.
        seconds: how much time passes between two lines.
    """

    def __init__(self, tell: Callable[[str], None], seconds: float = 10.0) -> None:
        self.tell, self.seconds = tell, seconds
        self.said = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.said = time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if time.monotonic() - self.said < self.seconds or not trainer.is_global_zero:
            return
        self.said = time.monotonic()
        accuracy = trainer.callback_metrics.get("val_accuracy")
        known = "" if accuracy is None else f", validation accuracy {float(accuracy):.1%}"
        steps = f"step {batch_idx + 1} of {trainer.num_training_batches}"
        self.tell(f"Epoch {trainer.current_epoch + 1} of {trainer.max_epochs}, {steps}{known}.")
