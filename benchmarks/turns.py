"""Benchmarks that run side by side take turns to measure, and wait for their compilers all at once."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn() -> Iterator[None]:
    """No other benchmark of this machine measures in the meantime. Turns do not nest."""
    with (Path(tempfile.gettempdir()) / "steerable-benchmarks.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed
        yield
