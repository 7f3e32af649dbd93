"""Files below a folder, and names and reasons for those that cannot be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "Unusable",
    "check_regular",
    "files_below",
    "is_run_folder",
    "left_out",
    "looks_like_an_image",
    "named",
    "printable",
    "reason",
    "source_name",
]

SUFFIXES = frozenset(
    (
        *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".tif", ".tiff", ".bmp", ".gif"),
        *(".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif", ".npy", ".npz", ".nii"),
    )
)

LINK = "a link to a folder, which is not followed; put the folder itself there"


class Unusable(ValueError):
    """A file that is intact but cannot be used; the message is the reason in a few words without a full stop."""


def check_regular(path: Path) -> None:
    """Refuse pipes and devices: reading from one would wait forever."""
    if path.exists() and not path.is_file():
        raise Unusable("it is not a regular file")


def files_below(folder: Path) -> tuple[list[Path], list[tuple[str, str]]]:
    """Return (files, [(folder, why it cannot be opened)]) with all files below a folder in the order of their names.

    Links to folders are not followed, because they may lead in a circle. Hidden files and folders, what desktops leave
    behind, and runs of this library are left out.
    """
    left_behind = ("thumbs.db", "desktop.ini", "__macosx")
    closed: list[tuple[str, str]] = []

    def complain(error: OSError) -> None:
        closed.append((printable(error.filename), reason(error)))

    def wanted(name: str) -> bool:
        return not name.startswith(".") and name.lower() not in left_behind

    found = []
    for here, folders, names in os.walk(folder, onerror=complain):
        folders[:] = [name for name in folders if wanted(name) and not is_run_folder(Path(here, name))]
        closed += [(printable(Path(here, name)), LINK) for name in folders if Path(here, name).is_symlink()]
        found += [Path(here, name) for name in names if wanted(name)]
    return sorted(found, key=lambda path: path.as_posix()), closed


def is_run_folder(folder: Path) -> bool:
    """Whether ``steerable train`` has written a folder; people keep run folders among their images."""
    return (folder / "config.json").is_file() and (folder / "plan.json").is_file()


def looks_like_an_image(path: Path) -> bool:
    """Whether a file is an image or a volume, judged by its name alone."""
    known = path.suffix.lower() in SUFFIXES or path.name.lower().endswith(".nii.gz")
    return known and not path.name.startswith(".")


def source_name(path: Path) -> str:
    """The name of a folder or table, for titles and run folders."""
    path = path.expanduser().resolve()
    return printable(path.stem if path.is_file() else path.name)


def printable(name: object) -> str:
    """A file's name as text that can be written anywhere: bytes that are not UTF-8 become question marks."""
    return str(name).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def reason(error: Exception) -> str:
    """The reason why a file cannot be read, in a few words without a full stop."""
    if isinstance(error, Unusable):
        return str(error)
    kind = type(error).__name__
    if kind == "UnidentifiedImageError":
        return "not an image of a known format"
    if kind.startswith("DecompressionBomb"):
        from PIL import Image

        return f"too large: images of up to {Image.MAX_IMAGE_PIXELS:,} pixels are read; shrink it"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    why = str(error).rstrip(".") or kind
    return why if isinstance(error, OSError) else f"damaged, or not what its name says: {why}"


def named(skipped: Sequence[tuple[str, str]], limit: int = 5) -> str:
    """(file, reason) pairs as one phrase, cut after ``limit``.

    >>> named([("a.png", "truncated"), ("b.png", "empty")])
    '`a.png` (truncated); `b.png` (empty)'
    """
    more = f"; and {len(skipped) - limit} more" if len(skipped) > limit else ""
    return "; ".join(f"`{name}` ({why})" for name, why in skipped[:limit]) + more


def left_out(skipped: Sequence[tuple[str, str]], root: Path) -> str:
    """A sentence on the images below a folder that are left out, twenty of them with the reasons.

    >>> left_out([("a.png", "truncated")], Path("cells"))
    '1 image in `cells` is left out: `a.png` (truncated).'
    """
    count = "1 image" if len(skipped) == 1 else f"{len(skipped):,} images"
    return f"{count} in `{root}` {'is' if len(skipped) == 1 else 'are'} left out: {named(skipped, 20)}."
