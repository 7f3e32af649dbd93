"""One process at a time in a run folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steerable.locks import exclusive

__all__ = ["LOCK", "locked"]

LOCK = ".lock"  # the file's name


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder; where another process holds it, refuse, and touch nothing.

    The system lets go of the lock when a process ends, however it ends, so that a killed run can be resumed.
    """
    with exclusive(folder / LOCK) as alone:
        if not alone:
            raise ValueError(
                f"another process is training in `{folder}`. Wait until it has ended, or stop it; or train in another "
                "folder."
            )
        yield
