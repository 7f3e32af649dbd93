"""Locks between processes. The lock file stays; the system releases the lock when its process ends, even if killed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["exclusive"]

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None  # Windows has none


@contextmanager
def exclusive(path: Path, *, seconds: float = 0.0) -> Iterator[bool]:
    """Hold a lock; yields whether it was free. On systems without such locks, this is always True.

    Args:
        path: the lock file, which is made where there is none and is never removed.
        seconds: how long to wait for another process to release it.
    """
    if fcntl is None:
        yield True
        return
    # A link is not followed: it could make a file anywhere.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        yield _taken(handle, time.monotonic() + seconds)
    finally:
        os.close(handle)


def _taken(handle: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        except OSError:  # a file system without locks
            return True
        else:
            return True
