"""One process at a time in a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["LOCK", "locked"]

LOCK = ".lock"  # the file's name

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None  # Windows has none


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; where another process holds it, refuse, and touch nothing.

    The system lets go of the lock when a process ends, however it ends, so that a killed run can be resumed.
    """
    if fcntl is None:
        yield
        return
    with (folder / LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(
                f"another process is training in `{folder}`. Wait until it has ended, or stop it; or train in another "
                "folder."
            ) from error
        yield
