"""Benchmarks that run side by side take turns to measure, and wait for their compilers all at once."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = Path(tempfile.gettempdir()) / "steerable-benchmarks.lock"


@contextmanager
def turn() -> Iterator[None]:
    """No other benchmark of this machine measures in the meantime. Turns do not nest."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed
        yield


def somebody_measures() -> bool:
    """Whether a benchmark has its turn."""
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
