"""The phases of a run, one by one, for whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

__all__ = ["Phase", "unseen"]

Phase = Callable[[str], AbstractContextManager[Callable[[int, int], None] | None]]
"""Shows what is being done as long as it is done; what it gives is called with (done, total) meanwhile."""


@contextmanager
def unseen(what: str) -> Iterator[None]:
    """A phase that nobody watches."""
    yield None
