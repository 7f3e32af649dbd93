"""Training, validation and test images from files with labels; unusable files are left out and named."""

from __future__ import annotations

import hashlib
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from steerable.data.files import named, source_name
from steerable.data.images import Pixels, Progress, image_sizes, read_squares, with_channels
from steerable.data.labelled_images import LabelledImages
from steerable.data.splits import Splits
from steerable.errors import listing

__all__ = ["FoundFiles", "LabelledFile", "assemble", "common_size", "read_labelled", "stacked"]

LARGEST_DEFAULT = 128
MEASURED = 2000  # images whose size is looked at, at most
Part = Literal["train", "validation", "test"]


@dataclass(frozen=True)
class LabelledFile:
    """An image file, the name by which messages call it, its class, and the part of the data it belongs to."""

    path: Path
    name: str
    label: str
    part: Part = "train"


class FoundFiles(NamedTuple):
    """The files of a folder or table, (name, reason) of what cannot be read, and what else was noticed."""

    files: list[LabelledFile]
    skipped: list[tuple[str, str]]
    notes: list[str]


Read = tuple[LabelledFile, Pixels]


def assemble(
    found: FoundFiles,
    source: Path,
    *,
    image_size: int | None,
    test_fraction: float,
    seed: int,
    progress: Progress | None,
) -> Splits:
    """Read labelled files into one data set of squares (n, channels, image_size, image_size).

    A class none of whose files can be read is left out, as long as two classes remain. Where no file is marked as a
    test image, a share of each class is held out. Each thing that is left out or looks like a mistake gives a warning,
    and a note in the result.

    Args:
        found: what to read.
        source: the folder or table that they come from, for messages.
        image_size: height and width; by default :func:`common_size`.
        test_fraction: the share of test images, where none are marked.
        seed: the seed by which test images are chosen.
        progress: called with (images read, all images) after each image.
    """
    files, known_unreadable, noticed = found
    size = common_size([file.path for file in files], source) if image_size is None else image_size
    read, unreadable = read_labelled(files, size, progress)
    skipped, notes = [*known_unreadable, *unreadable], list(noticed)
    if skipped:
        notes.append(
            f"{len(skipped)} of {len(files) + len(known_unreadable)} files in `{source}` cannot be read and "
            f"are left out: {named(skipped)}."
        )
    classes = _classes(files, read, source, notes)
    read = [(file, pixels) for file, pixels in read if file.label in classes]
    notes += _same_pixels_other_label(read, size)
    channels = max(len(pixels) for _, pixels in read)
    parts = {
        part: stacked([item for item in read if item[0].part == part], channels, classes)
        for part in ("train", "validation", "test")
    }
    train, test = parts["train"], parts["test"]
    if train is None:
        raise ValueError(f"no training image in `{source}` can be read.")
    if test is None:
        if any(file.part == "test" for file in files):
            raise ValueError(
                f"none of the test images in `{source}` can be read: {named(skipped)}. Replace them, or remove the "
                "test folder and let training images be held out."
            )
        train, test = _held_out(train, test_fraction, seed, source, notes)
    for note in notes:
        warnings.warn(note, stacklevel=3)
    return Splits(train, test, source_name(source), tuple(skipped), parts["validation"], tuple(notes))


def read_labelled(
    files: Sequence[LabelledFile], size: int, progress: Progress | None = None
) -> tuple[list[Read], list[tuple[str, str]]]:
    """Return (files with their pixels, [(name, why it cannot be read)])."""
    read: list[Read] = []
    unreadable = []
    for file, pixels in zip(files, read_squares([file.path for file in files], size, progress), strict=True):
        if isinstance(pixels, str):
            unreadable.append((file.name, pixels))
        else:
            read.append((file, pixels))
    return read, unreadable


def common_size(paths: Sequence[Path], source: Path) -> int:
    """The median of the images' shorter sides, from 4 to 128, rounded down to a multiple of 4, which halves twice."""
    sizes = image_sizes(paths[:: max(1, len(paths) // MEASURED)])
    if not sizes:
        raise ValueError(
            f"none of the {len(paths)} files in `{source}` can be read, expected images such as PNG, JPEG or TIFF. "
            "Convert them to one of these."
        )
    median = int(np.median([min(size) for size in sizes]))
    return max(4, min(median, LARGEST_DEFAULT) // 4 * 4)


def stacked(read: Sequence[Read], channels: int, classes: tuple[str, ...]) -> LabelledImages | None:
    """One data set of these labels and pixels; grey images among coloured ones have their channel repeated."""
    if not read:
        return None
    number = {name: k for k, name in enumerate(classes)}
    pixels = np.stack([with_channels(pixels, channels) for _, pixels in read])
    labels = torch.tensor([number[file.label] for file, _ in read])
    return LabelledImages(torch.from_numpy(pixels), labels, classes, tuple(file.name for file, _ in read))


def _classes(files: Sequence[LabelledFile], read: Sequence[Read], source: Path, notes: list[str]) -> tuple[str, ...]:
    """The classes with training images, sorted; the others are noted."""
    wanted = {file.label for file in files}
    classes = tuple(sorted({file.label for file, _ in read if file.part == "train"}))
    lost = sorted(wanted - set(classes))
    if len(classes) < 2:
        only = f"only the class {listing(classes)}" if classes else "no class"
        raise ValueError(
            f"`{source}` has {only} with training images that can be read, expected at least two: with "
            f"fewer there is nothing to tell apart. {' '.join(notes) or 'Add images of other classes.'}"
        )
    if lost:
        notes.append(f"no training image of {listing(lost)} can be read; training goes on without such images.")
    folded: defaultdict[str, list[str]] = defaultdict(list)
    for name in classes:
        folded[name.casefold().strip()].append(name)
    for alike in folded.values():
        if len(alike) > 1:
            notes.append(f"the classes {listing(alike)} differ in capitals or spaces only, and are kept apart.")
    return classes


def _same_pixels_other_label(read: Sequence[Read], size: int) -> list[str]:
    """A note that names pairs of files that are the same picture under two labels."""
    seen: dict[bytes, LabelledFile] = {}
    pairs = []
    for file, pixels in read:
        digest = hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).digest()
        first = seen.setdefault(digest, file)
        if first.label != file.label:
            pairs.append(f"`{first.name}` ({first.label}) and `{file.name}` ({file.label})")
    if not pairs:
        return []
    more = f"; and {len(pairs) - 5} more" if len(pairs) > 5 else ""
    return [
        f"the same picture, at {size}×{size} pixels, has two labels: {'; '.join(pairs[:5])}{more}. Nothing can "
        "learn both; remove one of each pair."
    ]


def _held_out(
    train: LabelledImages, fraction: float, seed: int, source: Path, notes: list[str]
) -> tuple[LabelledImages, LabelledImages]:
    """Return (training images, test images)."""
    single = [name for name, count in zip(train.classes, train.counts, strict=True) if count == 1]
    if len(single) == len(train.classes):
        raise ValueError(
            f"each class in `{source}` has one image, expected two or more in at least one class: nothing can be held "
            "out to test on. Add images."
        )
    if single:
        notes.append(f"{listing(single)} has only one image, which is trained on and never tested. Add images.")
    return train.split(fraction, seed)
