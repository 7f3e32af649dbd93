"""Training, validation and test images from files with labels; unusable files are left out and named."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import torch

from steerable.data.copies import digest, trained_and_tested
from steerable.data.files import named, source_name
from steerable.data.images import Pixels, Progress, read_squares, told_apart, with_channels
from steerable.data.labelled_images import LabelledImages
from steerable.data.part_folders import Part
from steerable.data.pixel_formats import PixelFormat, Selection
from steerable.data.pixel_survey import common_channels, survey
from steerable.data.specimens import check_apart
from steerable.data.splits import TEST_FRACTION, Splits
from steerable.errors import listing

__all__ = ["FoundFiles", "LabelledFile", "Reading", "assemble", "read_labelled", "stacked"]


@dataclass(frozen=True)
class LabelledFile:
    """An image file, its name in messages, its class, and the part of the data that it belongs to.

    ``specimen`` is what the image shows a part of; empty if nothing is said about that.
    """

    path: Path
    name: str
    label: str
    part: Part = "train"
    specimen: str = ""


class FoundFiles(NamedTuple):
    """The files of a folder or table, (name, reason) of those that cannot be read, and other notes."""

    files: list[LabelledFile]
    skipped: list[tuple[str, str]]
    notes: list[str]


Read = tuple[LabelledFile, Pixels]


class Reading(TypedDict, total=False):
    """The way in which files become a data set.

    Args:
        image_size: height and width. By default the median of the images' shorter sides, at most 128, rounded to a
            multiple of 16, or of 8 or 4 where they are small, which networks reduce exactly.
        pixels: which pages and channels of the files to use, or all that is known about their pixels, such as the
            ``pixels`` of a trained model.
        test_fraction: the share of test images, where none are marked.
        seed: the seed by which test images are chosen.
        progress: called with (images read, all images) after each image.
    """

    image_size: int | None
    pixels: PixelFormat | Selection
    test_fraction: float
    seed: int
    progress: Progress | None


def assemble(
    found: FoundFiles,
    source: Path,
    *,
    image_size: int | None = None,
    pixels: PixelFormat | Selection = Selection(),  # noqa: B008 - a frozen value
    test_fraction: float = TEST_FRACTION,
    seed: int = 0,
    progress: Progress | None = None,
) -> Splits[LabelledImages]:
    """Read labelled files into one data set of squares (n, channels, image_size, image_size).

    A class none of whose files can be read is left out, as long as two classes remain. Where no file is marked as a
    test image, a share of each class is held out. Each thing that is left out or looks like a mistake gives a warning,
    and a note in the result.

    Args:
        found: what to read.
        source: the folder or table that they come from, for messages.
        others: see :class:`Reading`.
    """
    files, known_unreadable, noticed = found
    training = [file.path for file in files if file.part == "train"]
    looked_at = survey([file.path for file in files], training, source, image_size, pixels)
    size, known = looked_at.size, looked_at.pixels
    read, unreadable = read_labelled(files, size, progress, known)
    skipped, notes = [*known_unreadable, *unreadable], [*noticed, *looked_at.notes]
    if skipped:
        notes.append(
            f"{len(skipped)} of {len(files) + len(known_unreadable)} files in `{source}` cannot be read and "
            f"{'is' if len(skipped) == 1 else 'are'} left out: {named(skipped)}."
        )
    classes = _classes(files, read, source, notes)
    read = [item for item in read if item[0].label in classes]
    notes += _same_pixels_other_label(read, size)
    channels = common_channels([square for _, square in read], known, known=isinstance(pixels, PixelFormat))
    parts = {
        part: stacked([item for item in read if item[0].part == part], channels, classes)
        for part in ("train", "validation", "test")
    }
    check_apart({part: found.specimens for part, found in parts.items() if found is not None}, source)
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
    notes += trained_and_tested(train.images.numpy(), test.images.numpy(), test.files)
    for note in notes:
        warnings.warn(note, stacklevel=3)
    told = replace(known, channels=channels) if known.depth else None
    return Splits(train, test, source_name(source), tuple(skipped), parts["validation"], tuple(notes), told)


def read_labelled(
    files: Sequence[LabelledFile], size: int, progress: Progress | None, pixels: PixelFormat
) -> tuple[list[Read], list[tuple[str, str]]]:
    """Return (files with their pixels, [(name, why it cannot be read)])."""
    squares = read_squares([file.path for file in files], size, progress, pixels)
    return told_apart(files, [file.name for file in files], squares)


def stacked(read: Sequence[Read], channels: int, classes: tuple[str, ...]) -> LabelledImages | None:
    """One data set of these labels and pixels; grey images among coloured ones have their channel repeated."""
    if not read:
        return None
    number = {name: k for k, name in enumerate(classes)}
    pixels = np.stack([with_channels(pixels, channels) for _, pixels in read])
    labels = torch.tensor([number[file.label] for file, _ in read])
    names, specimens = tuple(file.name for file, _ in read), tuple(file.specimen for file, _ in read)
    return LabelledImages(torch.from_numpy(pixels), labels, classes, names, specimens if any(specimens) else ())


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
        notes.append(f"no training image of {listing(lost)} can be read; training continues without such images.")
    folded: defaultdict[str, list[str]] = defaultdict(list)
    for name in classes:
        folded[name.casefold().strip()].append(name)
    for alike in folded.values():
        if len(alike) > 1:
            notes.append(
                f"the classes {listing(alike)} differ only in capitals or spaces, and are treated as different classes."
            )
    return classes


def _same_pixels_other_label(read: Sequence[Read], size: int) -> list[str]:
    """A note that names pairs of files that show the same picture under two labels."""
    seen: dict[bytes, LabelledFile] = {}
    pairs = []
    for file, pixels in read:
        first = seen.setdefault(digest(pixels), file)
        if first.label != file.label:
            pairs.append(f"`{first.name}` ({first.label}) and `{file.name}` ({file.label})")
    if not pairs:
        return []
    more = f"; and {len(pairs) - 5} more" if len(pairs) > 5 else ""
    sides = "×".join([str(size)] * (read[0][1].ndim - 1))
    same = f"picture, at {sides} pixels" if read[0][1].ndim == 3 else f"volume, at {sides} voxels"
    return [
        f"the same {same}, has two labels: {'; '.join(pairs[:5])}{more}. No network can learn both; remove one of each "
        "pair."
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
        notes.append(
            f"{listing(single)} has only one image, which is used for training and never for testing. Add images."
        )
    return train.split(fraction, seed)
