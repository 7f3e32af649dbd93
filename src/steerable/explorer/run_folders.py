"""Run folders below the one that the explorer was started for; no others are opened."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

__all__ = ["run_folders", "run_path"]

# A search from a home folder should end soon.
_MOST_RUNS, _DEEPEST, _MOST_FOLDERS = 200, 4, 20_000


def run_folders(root: Path) -> list[str]:
    """Finished runs below a folder, by their paths from there; hidden folders are left out."""
    found = []
    for folder, below, files in itertools.islice(os.walk(root), _MOST_FOLDERS):
        depth = len(Path(folder).relative_to(root).parts)
        below[:] = sorted(name for name in below if not name.startswith(".")) if depth < _DEEPEST else []
        if {"results.json", "config.json"} <= set(files):
            found.append(Path(folder).relative_to(root).as_posix())
            below[:] = []
        if len(found) >= _MOST_RUNS:
            break
    return sorted(found)


def run_path(root: Path, text: object) -> Path:
    """The run folder that a text names, relative to the root; a ValueError if it is none, or leads elsewhere."""
    if not isinstance(text, str) or not text.strip():  # a control that was cleared gives None
        raise ValueError("no run folder was given. Choose one, or train one with `steerable train`.")
    path = (root / text.strip()).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ValueError(
            f"`{text}` is not below the folder that the explorer was started for. Start it with `steerable explore "
            "--runs FOLDER`, the folder that holds your runs."
        )
    for file in ("results.json", "config.json", "model/model.safetensors"):
        if not (path / file).is_file():
            raise ValueError(
                f"`{text}` is not a finished run folder: it has no {file}. A run folder is what `steerable "
                "train --out` writes."
            )
    for entry in (*path.iterdir(), *(path / "model").iterdir()):
        if not entry.resolve().is_relative_to(root.resolve()):
            raise ValueError(
                f"`{entry.relative_to(path)}` of the run `{text}` is a link to a file that is not below the folder "
                "that the explorer was started for. Put the file itself there."
            )
    return path
