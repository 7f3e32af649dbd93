"""Folders of training, validation and test files, by what they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

from steerable.data.files import is_run_folder

__all__ = ["PART_OF", "Part", "part_folders", "sub_folders", "with_test_part"]

Part = Literal["train", "validation", "test"]
PART_OF: dict[str, Part] = {
    **dict.fromkeys(("train", "training", "train_set", "training_set"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "validation_set"), "validation"),
    **dict.fromkeys(("test", "testing", "test_set"), "test"),
}
"""What the folders of each part are called, in small letters."""

Files = TypeVar("Files")


def part_folders(root: Path) -> dict[Part, Path]:
    """The sub-folders that are parts of the data; their names may be written in capitals."""
    found: dict[Part, Path] = {}
    for name in sub_folders(root):
        if name.lower() in PART_OF:
            found.setdefault(PART_OF[name.lower()], root / name)
    return found


def with_test_part(found: dict[Part, Files]) -> dict[Part, Files]:
    """The same parts; without a test part, the validation part is the test: held-out images are for the test."""
    return {"test" if part == "validation" and "test" not in found else part: files for part, files in found.items()}


def sub_folders(folder: Path) -> list[str]:
    """The names of the folders in a folder, without hidden ones, what desktops leave behind, and runs."""
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.is_dir() and not entry.name.startswith(".") and entry.name != "__MACOSX" and not _holds_runs(entry)
    )


def _holds_runs(folder: Path) -> bool:
    """Whether a folder is a run, or holds nothing but runs: `steerable train .` writes them beside the classes."""
    try:
        inside = list(folder.iterdir())
    except OSError:  # which is named where its files are looked for
        return False
    return is_run_folder(folder) or (bool(inside) and all(map(is_run_folder, inside)))
