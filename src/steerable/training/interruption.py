"""A run that is told to stop says so, and how to go on."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from lightning.pytorch.utilities.exceptions import SIGTERMException

from steerable.training.checkpoints import latest_checkpoint

__all__ = ["RunInterrupted", "reporting_interruptions"]


class RunInterrupted(KeyboardInterrupt):
    """A run ended before its time, because someone pressed Ctrl-C or the system asked it to terminate.

    Attributes:
        exit_code: what a program returns then: 128 and the number of the signal.
    """

    def __init__(self, folder: Path, received: signal.Signals) -> None:
        saved = latest_checkpoint(folder / "checkpoints") is not None
        how = "goes on from the last checkpoint" if saved else "begins anew, for nothing was saved yet"
        super().__init__(f"the run in `{folder}` was interrupted ({received.name}). The same command {how}.")
        self.exit_code = 128 + received


@contextlib.contextmanager
def reporting_interruptions(folder: Path) -> Iterator[None]:
    """Lightning ends the program when it is interrupted, on SIGTERM as if all were well; here it is an exception."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SIGTERMException as stop:
        raise RunInterrupted(folder, signal.SIGTERM) from stop
    except SystemExit as stop:
        if not isinstance(stop.__context__, KeyboardInterrupt):
            raise
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGINT, on_interrupt)  # which Lightning has switched off
        raise RunInterrupted(folder, signal.SIGINT) from stop
