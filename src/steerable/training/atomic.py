"""Files that are whole or not there: written aside, and then put in place in one step."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["put_in_place", "write_json", "write_text"]


@contextmanager
def put_in_place(path: Path) -> Iterator[Path]:
    """A name beside ``path`` to write to; it becomes ``path`` at the end, or is removed where something failed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield aside
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """In UTF-8; names of files that are no UTF-8 are written as the bytes that they are."""
    with put_in_place(path) as aside:
        aside.write_text(text, "utf-8", errors="surrogateescape")


def write_json(path: Path, values: Any) -> None:
    """Indented, with a newline at the end."""
    write_text(path, json.dumps(values, indent=2) + "\n")
