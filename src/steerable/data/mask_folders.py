"""Image folders with masks: people's own data for segmentation, read, checked and split."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import torch

from steerable.data.copies import trained_and_tested
from steerable.data.files import Unusable, left_out, named, reason, source_name
from steerable.data.images import Pixels, Progress, each_file, told_apart, whole_image, with_channels
from steerable.data.mask_files import Labels, label_name, read_label_file
from steerable.data.mask_pairs import FoundPairs, ImageAndMask, paired_folder
from steerable.data.mask_survey import class_values, kind_of_masks, object_numbers, palettes_differ, tile_for
from steerable.data.masked_images import MaskedImages, MaskKind
from steerable.data.pixel_formats import PixelFormat, Selection
from steerable.data.pixel_survey import Survey, common_channels, survey
from steerable.data.splits import TEST_FRACTION, Splits
from steerable.data.stretching import Stretching, with_stretching
from steerable.errors import check_choice, listing

__all__ = ["MaskedPair", "load_mask_folder", "read_masked", "stacked_masks", "with_numbered_objects"]

SURVEYED = 256  # the side at which the counts of deep images are looked at


class MaskedPair(NamedTuple):
    """An image and its mask as they were read: pixels (channels, height, width), labels (height, width)."""

    pair: ImageAndMask
    pixels: Pixels
    labels: Labels


def load_mask_folder(
    root: str | Path,
    *,
    tile: int | None = None,
    kind: MaskKind | None = None,
    test_fraction: float = TEST_FRACTION,
    seed: int = 0,
    progress: Progress | None = None,
    pixels: PixelFormat | Selection = Selection(),  # noqa: B008 - a frozen value
    stretch: Stretching = "auto",
) -> Splits[MaskedImages]:
    """All images under ``root`` with their masks, each in its own size.

    How files are laid out and named is said at :func:`~steerable.data.mask_pairs.paired_folder`.

    The different numbers in the masks of all files are the classes, in order, so that numbers may be left out. Files
    that cannot be used are left out, named in one warning and listed in ``skipped``: masks of another size than their
    image, images without a mask, masks with fractions or thousands of values.

    Args:
        root: the folder.
        tile: the side of the squares to train on; by default :func:`~steerable.data.mask_survey.tile_for` the images.
        kind: whether masks hold classes or objects; by default found out: objects are connected, and their numbers
            go up to another one in each mask.
        test_fraction: the share of test images, where there is no test folder.
        seed: the seed by which test images are chosen.
        progress: called with (images read, all images) after each image.
        pixels: which pages and channels of the image files to use, or all that is known about their pixels.
        stretch: whether each image is stretched to its own range, unless ``pixels`` says it; by default found out, see
            :func:`~steerable.data.stretching.with_stretching`.
    """
    check_choice("kind", kind, (None, *get_args(MaskKind)))
    root = Path(root).expanduser()
    found = paired_folder(root)
    looked_at = _surveyed(found, root, pixels, stretch)
    notes = [*found.notes, *looked_at.notes]
    by_colour = palettes_differ([pair.mask for pair in found.pairs], notes)
    read, unusable = read_masked(found.pairs, looked_at.pixels, progress, by_colour=by_colour)
    if skipped := [*found.skipped, *unusable]:
        notes.append(left_out(skipped, root))
    if not any(item.pair.part == "train" for item in read):
        raise ValueError(f"none of the training images in `{root}` can be used: {named(skipped)}.")
    read, values = _classes_or_objects(read, kind, root, notes)
    side = tile_for([item.labels.shape for item in read]) if tile is None else tile
    known = isinstance(pixels, PixelFormat)
    channels = common_channels([item.pixels for item in read], looked_at.pixels, known=known)
    parts = _parts(read, found, values, notes, root, tile=side, channels=channels)
    train, test = parts["train"], parts.get("test")
    if test is None:
        train, test = _held_out(train, test_fraction, seed, root, skipped)
    notes += trained_and_tested(map(np.asarray, train.images), map(np.asarray, test.images), test.files)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    told = tuple(notes), replace(looked_at.pixels, channels=channels), values
    return Splits(train, test, source_name(root), tuple(skipped), parts.get("validation"), *told)


def _classes_or_objects(
    read: list[MaskedPair], kind: MaskKind | None, root: Path, notes: list[str]
) -> tuple[list[MaskedPair], tuple[int, ...]]:
    """The pairs with the numbers of objects, or with the values that stand for classes."""
    by_object = any(item.pair.mask.is_dir() for item in read)
    chosen = kind or ("instances" if by_object else kind_of_masks([item.labels for item in read]))
    if chosen == "instances":
        return with_numbered_objects(read, root, notes), ()
    read = _with_one_foreground(read, notes)
    return read, class_values([item.labels for item in read if item.pair.part == "train"], root, notes)


def _held_out(
    train: MaskedImages, fraction: float, seed: int, root: Path, skipped: Sequence[tuple[str, str]]
) -> tuple[MaskedImages, MaskedImages]:
    """Return (training images, test images); a single image cannot be divided."""
    if len(train) < 2:
        others = f" Left out: {named(skipped)}." if skipped else ""
        raise ValueError(
            f"`{root}` has one image with a mask, expected two or more: none can be held out to test.{others}"
        )
    return train.split(fraction, seed)


def _surveyed(found: FoundPairs, root: Path, pixels: PixelFormat | Selection, stretch: Stretching) -> Survey:
    """The common properties of the image files."""
    training = [pair.image for pair in found.pairs if pair.part == "train"]
    looked_at = survey([pair.image for pair in found.pairs], training, root, SURVEYED, pixels, whole=True)
    if isinstance(pixels, PixelFormat):
        return looked_at
    return looked_at._replace(pixels=with_stretching(looked_at.pixels, training, stretch))


def read_masked(
    pairs: Sequence[ImageAndMask], pixels: PixelFormat, progress: Progress | None = None, *, by_colour: bool = False
) -> tuple[list[MaskedPair], list[tuple[str, str]]]:
    """Return (pairs with their pixels and labels, [(name, why it cannot be used)]).

    With ``by_colour`` the colours in palettes are the labels, not their numbers.
    """
    by_image = {pair.image: pair for pair in pairs}

    def both(path: Path) -> tuple[Pixels, Labels]:
        found = whole_image(path, pixels)
        mask = by_image[path].mask
        try:
            labels = read_label_file(mask, by_colour=by_colour)
        except Exception as error:  # whatever decoders raise
            raise Unusable(f"its mask cannot be used: {reason(error)}") from error
        if labels.shape != found.shape[1:]:
            (height, width), (h, w) = labels.shape, found.shape[1:]
            raise Unusable(f"its mask has {width}×{height} pixels, expected {w}×{h} like its image")
        return found, labels

    found = each_file(both, [pair.image for pair in pairs], progress)
    read, unusable = told_apart(pairs, [pair.name for pair in pairs], found)
    return [MaskedPair(pair, *one) for pair, one in read], unusable


def with_numbered_objects(read: Sequence[MaskedPair], root: Path, notes: list[str]) -> list[MaskedPair]:
    """The same pairs with one number for each object, as :func:`~steerable.data.mask_survey.object_numbers` says."""
    numbers = object_numbers([item.labels for item in read], root, notes)
    return [item._replace(labels=labels) for item, labels in zip(read, numbers, strict=True)]


def _with_one_foreground(read: list[MaskedPair], notes: list[str]) -> list[MaskedPair]:
    """The same pairs with 255 for the foreground, if some masks have 0 and 1 and all others 0 and 255.

    Programs write a mask of two values in either way; of three classes some image would show both 1 and 255.
    """
    shown = [{*np.unique(item.labels).tolist()} for item in read]
    small = [number for number, values in enumerate(shown) if 1 in values]
    if not small or set().union(*shown) != {0, 1, 255} or any({1, 255} <= values for values in shown):
        return read
    names = listing([read[number].pair.name for number in small], 5)
    notes.append(
        f"the foreground is 1 in some masks and 255 in others, and is treated as one class; it is 1 in {names}."
    )
    return [item._replace(labels=np.where(item.labels == 1, 255, item.labels)) for item in read]


def _parts(
    read: Sequence[MaskedPair],
    found: FoundPairs,
    values: tuple[int, ...],
    notes: list[str],
    root: Path,
    *,
    tile: int,
    channels: int,
) -> dict[str, MaskedImages]:
    """The images of each part that has some; an image that shows a class without training images is left out."""
    if values:
        names = tuple(map(label_name, values)) if len(values) > 2 else ("background", "foreground")
        strange = {item.pair.name for item in read if not np.isin(item.labels, values).all()}
        if strange:
            notes.append(f"{listing(sorted(strange), 5)} show classes that no training image shows, and are left out.")
        read = [item for item in read if item.pair.name not in strange]
    else:
        names = ("background", "object")
    empty = [item.pair.name for item in read if not (item.labels != (values[0] if values else 0)).any()]
    if empty:
        those = "1 mask is empty and counts" if len(empty) == 1 else f"{len(empty)} masks are empty and count"
        notes.append(f"{those} as background: {listing(empty, 5)}.")
    if small := sum(min(item.labels.shape) < tile for item in read):
        those, they = ("1 image is", "it is") if small == 1 else (f"{small} images are", "they are")
        notes.append(f"{those} smaller than a tile of {tile}×{tile} pixels; {they} continued as in a mirror.")
    parts = {}
    for part in ("train", "validation", "test"):
        items = [item for item in read if item.pair.part == part]
        if items:
            parts[part] = stacked_masks(items, channels, names, values, tile)
        elif part == "test" and any(pair.part == part for pair in found.pairs):
            raise ValueError(
                f"none of the test images in `{root}` can be used. Replace them, or remove the test folder and let "
                "training images be held out."
            )
    return parts


def stacked_masks(
    items: Sequence[MaskedPair], channels: int, names: tuple[str, ...], values: tuple[int, ...], tile: int
) -> MaskedImages:
    """One data set of images that were read.

    Args:
        items: with their masks.
        channels: of the images; grey ones among coloured ones have their channel repeated.
        names: of the classes.
        values: the numbers in the masks that stand for them; empty if masks hold objects.
        tile: the side of the tiles.
    """
    masks = []
    for item in items:
        # Objects are numbered from 1 on: numbers may be as large as a file likes.
        known = np.array(values) if values else np.unique(np.append(item.labels, 0))
        masks.append(torch.from_numpy(np.searchsorted(known, item.labels).astype(np.int32)))
    images = [torch.from_numpy(np.array(with_channels(item.pixels, channels))) for item in items]
    files = tuple(item.pair.name for item in items)
    kind: MaskKind = "classes" if values else "instances"
    return MaskedImages(tuple(images), tuple(masks), names, tile, kind, files)
