"""Ctrl-C on a terminal: the first one ends the training and keeps what it has reached, the second ends the program."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

__all__ = ["StopOnRequest"]


class StopOnRequest(Callback):
    """Ends the training after the step in which Ctrl-C was pressed, as if that step were the last one.

    This needs a user at a terminal, and a run of one process: several would stop at different steps.

    Args:
        tell: called with a line about what happens now.
    """

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self.tell = tell
        self.requested = False

    @contextlib.contextmanager
    def listening(self, trainer: pl.Trainer) -> Iterator[None]:
        """While this lasts, the first Ctrl-C is a request; after that, Ctrl-C is what it was before."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        if trainer.world_size > 1 or not in_main_thread or not sys.stdin or not sys.stdin.isatty():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def note(number: int, frame: Any) -> None:
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        if self.requested and not trainer.should_stop:
            self._stop(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Ctrl-C may have been pressed during validation."""
        if self.requested and not trainer.should_stop:
            self._stop(trainer)

    def _stop(self, trainer: pl.Trainer) -> None:
        trainer.should_stop = True
        if self.tell is not None:
            self.tell(
                f"Stopping in epoch {trainer.current_epoch + 1} of {trainer.max_epochs}: what has been learnt so far "
                "will be tested and saved. Press Ctrl-C again to end at once."
            )
