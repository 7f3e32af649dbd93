"""Runs that are told to stop say so, and how to continue."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from lightning.pytorch.utilities.exceptions import SIGTERMException

from steerable.training.learning.checkpoints import has_checkpoint

__all__ = ["RunInterrupted", "reporting_interruptions"]


class RunInterrupted(KeyboardInterrupt):
    """A run ended early, because someone pressed Ctrl-C or the system asked it to terminate.

    Args:
        message: which run, and how to continue it.
        exit_code: what a program returns then: 128 and the number of the signal.
    """

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message, exit_code)
        self.message, self.exit_code = message, exit_code

    def __str__(self) -> str:
        return self.message


@contextlib.contextmanager
def reporting_interruptions(folder: Path) -> Iterator[None]:
    """Turn an interruption into an exception; Lightning would end the program, on SIGTERM as if all were well."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SIGTERMException as stop:
        raise _interrupted(folder, signal.SIGTERM) from stop
    except KeyboardInterrupt as stop:
        raise _interrupted(folder, signal.SIGINT) from stop
    except SystemExit as stop:
        if not isinstance(stop.__context__, KeyboardInterrupt):
            raise
        with contextlib.suppress(ValueError, TypeError):  # not in the main thread; not a handler of Python's
            signal.signal(signal.SIGINT, on_interrupt)  # which Lightning has switched off
        raise _interrupted(folder, signal.SIGINT) from stop


def _interrupted(folder: Path, received: signal.Signals) -> RunInterrupted:
    saved = has_checkpoint(folder / "checkpoints")
    how = "continues from the last checkpoint" if saved else "starts again, because nothing was saved yet"
    message = f"the run in `{folder}` was interrupted ({received.name}). The same command {how}."
    return RunInterrupted(message, 128 + received)
