"""A run whose weights grow without bound is stopped: what follows would be a network of no use."""

from __future__ import annotations

import math

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

__all__ = ["DivergenceError", "StopWhenDiverged"]


class DivergenceError(ValueError):
    """The training loss is not a finite number any more."""


class StopWhenDiverged(Callback):
    """Looks at the training loss after each epoch, before anything is saved.

    Args:
        learning_rate: the recipe's highest, which the message names.
    """

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate = learning_rate

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        loss = float(trainer.callback_metrics["train_loss"])
        if not math.isfinite(loss):
            raise DivergenceError(
                f"the training loss is {loss} after {trainer.current_epoch + 1} epochs: the weights have diverged. "
                f"Train anew with a learning rate below {self.learning_rate:g}."
            )
