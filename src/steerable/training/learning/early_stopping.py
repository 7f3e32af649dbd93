"""Early stopping: keep the weights of the epoch that is best on validation images, and end when none is better."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from steerable.training.learning.classifier import Classifier

__all__ = ["KeepBest"]

KEPT = ("loss", "epoch", "epochs_done", "metrics", "weights")
"""What a checkpoint holds of it."""


class KeepBest(Callback):
    """Remembers the best weights, and stops the run ``patience`` epochs after them.

    The best epoch is the one with the highest of the figures that :attr:`Classifier.chosen_by` names; of equal ones,
    and where it names none, the one with the lowest validation loss.

    All of it is part of the checkpoint, so that a run which is killed and resumed chooses the same epoch and stops at
    the same one as a run that was left alone.

    Args:
        patience: epochs of the planned schedule without a better one after which the run stops.
        tell: called with a line when that happens.
    """

    def __init__(self, patience: int, tell: Callable[[str], None] | None = None) -> None:
        self.patience, self.tell = patience, tell
        self.loss = math.inf
        self.epoch = self.epochs_done = 0  # counted from 1
        self.metrics: dict[str, float] = {}
        self.weights: dict[str, Tensor] = {}

    def exhausted(self, module: pl.LightningModule) -> bool:
        """Whether the best epoch is too long ago; a run that has been lengthened is more patient."""
        patience = float(self.patience)
        if isinstance(module, Classifier):
            before = [epochs for done, epochs in module.rescheduled if done < self.epochs_done]
            patience *= max(1.0, before[-1] / module.recipe.epochs) if before else 1.0
        return self.epochs_done - self.epoch >= patience

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if not isinstance(module, Classifier) or trainer.sanity_checking:
            return
        self.epochs_done = trainer.current_epoch + 1
        found = {key: float(value) for key, value in trainer.callback_metrics.items() if key.startswith("val_")}
        if self._is_better(found, module.chosen_by):
            self.loss, self.epoch, self.metrics = found["val_loss"], self.epochs_done, found
            self.weights = {key: value.cpu().clone() for key, value in module.best_model.state_dict().items()}

    def _is_better(self, found: dict[str, float], chosen_by: str) -> bool:
        """Whether an epoch with these figures beats the best one before; an epoch without a finite loss never does."""
        loss, figure = found["val_loss"], f"val_{chosen_by}"
        if not chosen_by or not self.metrics or found[figure] == self.metrics[figure]:
            return loss < self.loss
        return loss < math.inf and found[figure] > self.metrics[figure]

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if self.exhausted(module) and not trainer.should_stop:
            trainer.should_stop = True
            if self.tell is not None and trainer.is_global_zero:
                chosen_by = module.chosen_by if isinstance(module, Classifier) else ""
                best = f"{chosen_by.replace('_', ' ')} was highest" if chosen_by else "loss was lowest"
                self.tell(
                    f"The run ends after epoch {self.epochs_done}: its validation {best} after epoch {self.epoch}, and "
                    "these weights are kept."
                )

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        # A run that was killed after its last epoch, and before its results were written, has nothing left to train.
        trainer.should_stop = self.epochs_done > 0 and self.exhausted(module)

    def state_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in KEPT}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for key in KEPT:
            setattr(self, key, state_dict[key])

    def restore(self, module: Classifier) -> None:
        """Put the best weights back into the network."""
        if not self.weights:
            warnings.warn(
                "the validation loss was never finite, so no epoch was the best one, and the last weights are kept. "
                "Use a lower learning rate.",
                stacklevel=2,
            )
            return
        module.best_model.load_state_dict(self.weights)
