"""Runs that end on time: a schedule is shortened or lengthened if epochs take more or less time than planned."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from steerable.training.choosing.fitting import FEW_EPOCHS
from steerable.training.choosing.timing import EVALUATION, images_to_test
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.preparing import TrainingData
from steerable.training.learning.trainer import minutes_trained
from steerable.training.requests.plan import Plan

__all__ = ["Deadline"]

AIM = 0.97  # the share of the time that is left which a new schedule fills
LEAST = 0.93  # a schedule that fills less of it is made longer
PAUSE = 0.05  # the share of the time that was left which passes before the schedule is changed again
RECENT = 15  # epochs whose mean is what an epoch takes
EARLY = 3  # epochs of which too little is known to go by
LONGEST_TO_WRITE = 5.0  # seconds for the network, its results, the report, and Python itself; less in a short run
SHARE_TO_WRITE = 1 / 36  # of the run's time, for the same
LIKE_LOADING = 0.3  # of the time that loading took, for the same: a busy machine is as slow at the end
WORTH_TELLING = 0.1  # the share by which the number of epochs must change to be reported again


class Deadline(Callback):
    """Compares the time that the rest of the run takes with the time that is left, after each epoch.

    Where the two differ, the rest of the schedule is spread over the epochs that fit. Each such change goes into the
    plan before it takes effect, so that a run that is killed and resumed makes it again, and a run that repeats the
    plan needs no clock. The clock decides nothing up to the last change that the plan has already.

    Args:
        plan: the plan that the run follows; its settings have ``minutes``.
        path: the plan's file.
        data: the images, which say how long the test takes.
        started: when the command was started, by ``time.monotonic``.
        most: how many epochs the run may have.
        tell: called with a line about each change.
        loading: the seconds that the program took to begin.
    """

    def __init__(
        self,
        plan: Plan,
        path: Path,
        data: TrainingData,
        started: float,
        most: int,
        tell: Callable[[str], None] | None = None,
        loading: float = 0.0,
    ) -> None:
        self.plan, self.path, self.data, self.started, self.tell = plan, path, data, started, tell
        self.loading = loading
        self.most, self.told = max(most, plan.epochs), plan.epochs
        self.end = self.changed = self.epoch_began = self.validation_began = started
        self.epochs: list[float] = []  # seconds that each took, validation included
        self.validation = 0.0  # seconds that the last one took

    @property
    def minutes(self) -> float:
        """The time of the whole run."""
        return self.plan.settings.minutes or 0.0

    @property
    def typical_epoch(self) -> float:
        """Seconds per epoch. The first one compiles, records and fills caches, so it counts only if it is alone."""
        return statistics.mean(self.epochs[1:][-RECENT:] or self.epochs)

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Give a resumed run the minutes that were left to it."""
        self.end = self.started + 60 * (self.minutes - minutes_trained(trainer))
        self.epoch_began = self.changed = time.monotonic()

    def on_validation_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.validation_began = time.monotonic()

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        self.validation = time.monotonic() - self.validation_began

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        now, done, planned = time.monotonic(), trainer.current_epoch + 1, self.plan.epochs
        self.epochs.append(now - self.epoch_began)
        self.epoch_began = now
        recorded = max((since for since, _ in self.plan.rescheduled or ()), default=0)
        if trainer.should_stop or done >= planned or done <= recorded:
            return
        # All processes follow the clock of the first one.
        epochs = trainer.strategy.broadcast(self.epochs_that_fit(done, planned, now))
        if epochs != planned and isinstance(module, Classifier):
            self.changed = now
            self._reschedule(trainer, module, done, epochs)

    def epochs_that_fit(self, done: int, planned: int, now: float) -> int:
        """How many epochs the run has time for, including those that are done; ``planned`` if that is about right."""
        typical = self.typical_epoch
        left = self.end - now - self._seconds_to_finish(typical)
        is_early = len(self.epochs) < EARLY and left > 4 * typical
        is_soon = now - self.changed < PAUSE * (self.end - self.changed)
        if is_early or is_soon or LEAST * left <= (planned - done) * typical <= left:
            return planned
        return min(self.most, done + max(0, int(AIM * left / typical)))

    def _seconds_to_finish(self, epoch: float) -> float:
        """How long the run will take after its last epoch, estimated from a validation or else from an epoch."""
        per_image = EVALUATION * epoch / self.data.train.samples_per_epoch
        if self.data.validation is not None:
            # Where few images are held out, most of a validation is spent on other things.
            per_image = min(per_image, self.validation / self.data.validation.samples)
        writing = max(min(LONGEST_TO_WRITE, SHARE_TO_WRITE * 60 * self.minutes), LIKE_LOADING * self.loading)
        return writing + per_image * images_to_test(self.plan.settings, self.data)

    def _reschedule(self, trainer: pl.Trainer, module: Classifier, done: int, epochs: int) -> None:
        self.plan = replace(self.plan, rescheduled=(*(self.plan.rescheduled or ()), (done, epochs)))
        if trainer.is_global_zero:
            self.plan.save(self.path)
            if self.tell is not None and abs(epochs - self.told) > WORTH_TELLING * self.told:
                self.tell(self._in_words(done, epochs))
                self.told = epochs
        module.rescheduled = self.plan.rescheduled or ()
        trainer.fit_loop.max_epochs = epochs

    def _in_words(self, done: int, epochs: int) -> str:
        time_given = f"{self.minutes:g} minute{'' if self.minutes == 1 else 's'}"
        if epochs > self.told:
            return (
                f"After epoch {done}: there is time for {epochs} epochs instead of {self.told}, and the run takes them."
            )
        longer = math.ceil(self.minutes + (FEW_EPOCHS - epochs) * self.typical_epoch / 60)
        few = f" That is little; --minutes {longer} would be enough for {FEW_EPOCHS}."
        return (
            f"After epoch {done}: {self.told} epochs would take longer than {time_given}. The run ends after {epochs}, "
            f"and its learning rate falls accordingly.{few if epochs < min(FEW_EPOCHS, self.told) else ''}"
        )
