"""The end of a run whose weights grow without bound: anything further would give a useless network."""

from __future__ import annotations

import math

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from steerable.training.learning.classifier import Classifier

__all__ = ["DivergenceError", "StopWhenDiverged"]


class DivergenceError(ValueError):
    """The training loss, or the network itself, is no longer a finite number."""


class StopWhenDiverged(Callback):
    """Checks the training loss and the network to evaluate after each epoch, before anything is saved.

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
                f"Train again with a learning rate below {self.learning_rate:g}."
            )
        if isinstance(module, Classifier) and (name := _first_not_finite(module)) is not None:
            wider = f", or with precision 32-true in place of {trainer.precision}" if "16" in trainer.precision else ""
            raise DivergenceError(
                f"`{name}` of the network is not finite after {trainer.current_epoch + 1} epochs, though the training "
                f"loss is {loss:.4g}. Train again with a learning rate below {self.learning_rate:g}{wider}."
            )


def _first_not_finite(module: Classifier) -> str | None:
    """The first of the averaged weights and statistics that is not finite; one answer from the device."""
    state = {name: t for name, t in module.best_model.state_dict().items() if t.is_floating_point()}
    finite = torch.stack([t.isfinite().all() for t in state.values()]).tolist()
    return next((name for name, good in zip(state, finite, strict=True) if not good), None)
