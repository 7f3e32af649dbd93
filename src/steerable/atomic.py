"""Files that are written completely or not at all.

Each is written under a temporary name that nobody can guess, and then moved into place in one step.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = [
    "DiskFull",
    "check_new_file",
    "check_place",
    "folder_in_place",
    "is_leftover",
    "make_folder",
    "naming_full_disk",
    "remove_leftovers",
    "write_bytes",
    "write_json",
    "write_text",
]

FULL = (errno.ENOSPC, errno.EDQUOT)
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]+\.part", re.DOTALL)


class DiskFull(OSError):
    """A file could not be written because the disk is full; the message names the file and the space it needs."""


def write_bytes(path: Path, content: bytes | memoryview, *, keep: Path | None = None) -> None:
    """Write a file completely or not at all, even if the process is killed.

    Args:
        path: the file; a link of that name is replaced, not followed.
        content: what to write.
        keep: where the file that ``path`` now names is moved to, a moment before the new one takes its place.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"`{path}` is a folder, expected the name of a file. Choose another name.")
    aside = _aside(path)
    with _naming_target(path, aside), naming_full_disk(path, len(content)):
        _make(path.parent, target=path)
        try:
            # It must not exist yet, so that no link is followed; the system applies the umask.
            with aside.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if keep is not None:
                with suppress(FileNotFoundError):
                    os.replace(path, keep)
            os.replace(aside, path)
        finally:
            with suppress(OSError):
                aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8; file names that are not valid UTF-8 are written as their original bytes."""
    write_bytes(path, text.encode("utf-8", errors="surrogateescape"))


def write_json(path: Path, values: Any) -> None:
    """Write indented JSON, with a newline at the end."""
    write_text(path, json.dumps(values, indent=2) + "\n")


def check_place(target: Path) -> None:
    """Refuse a file or folder that could not be written, before any work is done for it; nothing is created yet."""
    target = target.expanduser()
    above = next(folder for folder in target.absolute().parents if folder.exists())
    if not above.is_dir():
        # As the system calls it when the folder is to be made.
        number = errno.EEXIST if above == target.absolute().parent else errno.ENOTDIR
        why = f"`{above}` is a file, expected a folder"
        raise _like(OSError(number, ""), f"`{target}` cannot be written: {why}. Choose another place.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(
            f"`{target}` cannot be written: you are not allowed to create files in the folder `{above}`. Choose "
            "another place."
        )


def check_new_file(path: Path, example: str) -> None:
    """Refuse a name at which no file can be written; ``example`` is a name that such a file may have."""
    path = path.expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected the name of a file such as {path / example}.")
    check_place(path)


@contextmanager
def folder_in_place(folder: Path) -> Iterator[Path]:
    """An empty folder to write to; at the end it is renamed to ``folder``, or removed if something failed."""
    aside = _aside(folder)
    with _naming_target(folder, aside), naming_full_disk(folder):
        _make(folder.parent, target=folder)
        aside.mkdir()
        try:
            yield aside
            os.replace(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, unless it is there; an error says what is in the way."""
    for part in (folder.parent, folder):
        _make(part, target=folder)


@contextmanager
def naming_full_disk(target: Path, needed: int | None = None) -> Iterator[None]:
    """Turn the system's "no space left" into :class:`DiskFull`, which names the file and the space.

    Args:
        target: the file or folder that is being written.
        needed: its size in bytes, where it is known.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        named = _named_already(error)
        if named is error:
            raise
        if named is None:
            named = DiskFull(_full_disk(target, needed))
            named.errno = error.errno
        raise named from error


def is_leftover(name: str) -> bool:
    """Whether a file of this name was being written when its process was killed."""
    return _LEFTOVER.fullmatch(name) is not None


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left anywhere in a folder; nobody else may be writing there."""
    for path in folder.rglob(".*.part"):
        if is_leftover(path.name) and not path.is_dir():
            path.unlink(missing_ok=True)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}.part")


def _make(folder: Path, *, target: Path) -> None:
    """Make a folder in which ``target`` is to be written; an error says why ``target`` cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in FULL:
            raise
        blocking = next((path for path in (folder, *folder.parents) if path.exists() and not path.is_dir()), None)
        why = f"its folder `{folder}` cannot be made: {_reason(error)}"
        if blocking is not None:
            why = f"`{blocking}` is a file, expected a folder"
        raise _like(error, f"`{target}` cannot be written: {why}. Choose another place.") from error


@contextmanager
def _naming_target(target: Path, aside: Path) -> Iterator[None]:
    """Name the target, and not the temporary file, in errors about the latter."""
    try:
        yield
    except DiskFull as error:
        if str(aside) not in str(error):
            raise
        raise _like(error, str(error).replace(str(aside), str(target))) from error
    except OSError as error:
        if error.errno in FULL or error.filename is None or os.fspath(error.filename) != str(aside):
            raise
        raise _like(
            error,
            f"`{target}` cannot be written to the folder `{target.parent}`: {_reason(error)}. Choose another name, or "
            "a folder in which you may create files.",
        ) from error


def _like(error: OSError, message: str) -> OSError:
    """An error of the same class and number in other words."""
    found = type(error)(message)
    found.errno = error.errno
    return found


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOENT:  # what /proc says, for instance
        return "the system creates no files there"
    text = error.strerror or type(error).__name__
    return text[:1].lower() + text[1:]


def _named_already(error: BaseException | None) -> DiskFull | None:
    """The first error of this kind; closing the files after it fails again, with another message."""
    while error is not None and not isinstance(error, DiskFull):
        error = error.__context__
    return error


def _full_disk(target: Path, needed: int | None) -> str:
    place = next((folder for folder in (target, *target.absolute().parents) if folder.is_dir()), None)
    free = "" if place is None else f", and {_size(shutil.disk_usage(place).free)} are free"
    what = "could not be written" if needed is None else f"needs {_size(needed)}"
    return (
        f"the disk is full, or your share of it is used up: `{target}` {what}{free}. Make room there, or choose a "
        "place on another disk; then give the same command again."
    )


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
