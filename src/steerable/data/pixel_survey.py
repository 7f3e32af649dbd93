"""The common properties of the files of a data set: size, depth, channels, and the range of their counts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from steerable.data.files import named, printable
from steerable.data.images import image_headers, read_counts
from steerable.data.pixel_formats import PixelFormat, Selection
from steerable.data.squares import Counts, Pixels, with_channels
from steerable.data.stored_arrays import StoredImage
from steerable.data.volume_files import VOLUMES
from steerable.errors import listing

__all__ = ["Survey", "common_channels", "common_size", "scale", "survey"]

LARGEST_DEFAULT = {2: 128, 3: 32}  # by the number of axes
MEASURED = 2000  # files whose first bytes are looked at, at most
COUNTED = 1000  # training images whose counts are looked at, at most
FEWEST_COUNTED, COUNTED_PIXELS = 50, 1 << 24  # fewer of large ones, which have that many pixels in all
TAIL = 0.1  # per cent of the counts at both ends, in which what is left of hot and dead pixels may lie
MARGIN = 0.5  # how far counts may lie outside the rest, relative to its range, before they are cut

TINGE = 1  # grey level, by which rounding may set apart the colours of a grey image that was compressed with losses


class Survey(NamedTuple):
    """The size and the pixels of a data set's images, and notes."""

    size: int
    pixels: PixelFormat
    notes: list[str]


def survey(
    paths: Sequence[Path],
    training: Sequence[Path],
    source: Path,
    image_size: int | None,
    pixels: PixelFormat | Selection,
    *,
    whole: bool = False,
) -> Survey:
    """The common properties of the files, unless they are given.

    The depth and the channels are those of most files. Counts are scaled by those of the training images; see
    :func:`scale`.

    Args:
        paths: all files of the data set.
        training: those of them that are trained on.
        source: where they come from, for messages.
        image_size: height and width; by default :func:`common_size`.
        pixels: how the numbers in the files become bytes, or only which pages and channels to use.
        whole: whether the images are used as a whole, and not their middle squares.
    """
    if image_size is not None and isinstance(pixels, PixelFormat):
        return Survey(image_size, pixels, [])
    selection = pixels if isinstance(pixels, Selection) else pixels.selection
    some = paths[:: max(1, len(paths) // MEASURED)]
    found = image_headers(some, selection)
    headers = [header for header in found if not isinstance(header, str)]
    if not headers:
        raise _unreadable(some, found, source, selection.axes)
    size = common_size([header.side for header in headers], selection.axes) if image_size is None else image_size
    if isinstance(pixels, PixelFormat):
        return Survey(size, pixels, [])
    # Grey and coloured images go together, because one becomes the other.
    kinds = [(h.depth, 3 if h.channels == 1 and not selection else h.channels) for h in headers]
    (most, _), *_ = Counter(kinds).most_common()
    channels = max(header.channels for header, kind in zip(headers, kinds, strict=True) if kind == most)
    common = PixelFormat(most[0], channels, selection=selection)
    notes = [*_unused(headers), *([] if whole else _far_from_squares(headers))]
    if common.depth != "8-bit":
        common, gaps = _scaled(training, size, common, source)
        notes += gaps
    return Survey(size, common, notes)


def common_channels(images: Sequence[Pixels], pixels: PixelFormat, *, known: bool) -> int:
    """The number of channels that images have in common, as they were read, (channels, height, width) each.

    Grey ones among coloured ones count as coloured. But if the colours of every image differ by one grey level at most,
    all are grey: some formats, such as WebP, give grey images back with a tinge.

    Args:
        images: what was read.
        pixels: how the numbers in their files became bytes.
        known: whether ``pixels`` comes from an earlier run, whose number of channels is kept.
    """
    most = max(map(len, images))
    if known:
        return pixels.channels or most
    may_be_grey = most == 3 and pixels == PixelFormat("8-bit", pixels.channels)
    return 1 if may_be_grey and all(np.ptp(image, axis=0).max() <= TINGE for image in images) else most


def common_size(sides: Sequence[float], axes: int = 2) -> int:
    """The median of the images' shorter sides, at most 128, rounded to what networks reduce exactly.

    That is a multiple of 16 from 48 pixels on, of 8 from 24 on, and of 4 below. Volumes have at most 32 voxels a side.

    >>> [common_size([side]) for side in (3, 13, 28, 50, 100, 300)]
    [4, 12, 32, 48, 96, 128]
    """
    median = min(int(np.median(sides)), LARGEST_DEFAULT[axes])
    step = 16 if median >= 44 else 8 if median >= 22 else 4
    return max(4, (median + step // 2) // step * step)


def scale(counts: Sequence[Counts]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(low, high) for each channel: the counts that become 0 and 255.

    The range of all counts, unless some lie far outside the others: single pixels that stick out of their
    neighbourhood, and the lowest and highest 0.1 % of the others, may lie at most half the range of the rest beyond it,
    so that hot pixels do not take the grey levels from all others. Noise and bright details stay whole. A channel in
    which all counts are the same becomes 0.
    """
    low, high = [], []
    for channel in range(len(counts[0])):
        values = np.stack([image[channel] for image in counts])
        start, end = (float(value) for value in np.percentile(_without_spikes(values), (TAIL, 100 - TAIL)))
        room = MARGIN * (end - start) or np.inf  # nearly all counts are the same: the others are what there is to see
        low.append(max(float(values.min()), start - room))
        high.append(min(float(values.max()), end + room))
        if not low[-1] < high[-1]:
            high[-1] = low[-1] + max(1.0, abs(low[-1]))
    return tuple(low), tuple(high)


def _without_spikes(images: Counts) -> Counts:
    """Images or volumes (n, …) with each pixel clipped to the range of its neighbours; edges are mirrored."""
    sides = images.shape[1:]
    if min(sides) < 2:
        return images
    padded = np.pad(images, ((0, 0), *[(1, 1)] * len(sides)), mode="reflect")
    lowest, highest = np.full_like(images, np.inf), np.full_like(images, -np.inf)
    for steps in itertools.product(range(3), repeat=len(sides)):
        if set(steps) != {1}:
            neighbour = padded[:, *(slice(step, step + side) for step, side in zip(steps, sides, strict=True))]
            np.minimum(lowest, neighbour, out=lowest)
            np.maximum(highest, neighbour, out=highest)
    return images.clip(lowest, highest)


def _scaled(paths: Sequence[Path], size: int, common: PixelFormat, source: Path) -> tuple[PixelFormat, list[str]]:
    """The pixels with the scale of these training images, and a note on those that are not finite numbers."""
    most = max(FEWEST_COUNTED, min(COUNTED, COUNTED_PIXELS // size**common.selection.axes))
    some = paths[:: max(1, -(-len(paths) // most))]
    found = read_counts(some, size, common)
    counts = [image[0] for image in found if not isinstance(image, str)]
    if not counts:
        raise _unreadable(some, found, source, common.selection.axes)
    channels = max(map(len, counts))
    low, high = scale([with_channels(image, channels) for image in counts])
    with_gaps = [path for path, one in zip(some, found, strict=True) if not isinstance(one, str) and one[1]]
    gaps = _names(with_gaps, source)
    notes = [
        f"{len(gaps)} of {len(some)} files have values that are not finite numbers, which are replaced by the smallest "
        f"or largest one of their file: {listing(gaps, 5)}."
    ]
    return replace(common, channels=channels, low=low, high=high), notes if gaps else []


def _far_from_squares(headers: Sequence[StoredImage]) -> list[str]:
    """A note on images whose middle square is less than half of them, or on volumes and their middle cube."""
    whole = [math.prod(header.size) * math.prod(header.spacing or (1.0,)) for header in headers]
    middle = [(header.side * min(header.spacing or (1.0,))) ** len(header.size) for header in headers]
    far = sum(2 * inside < all_of_it for inside, all_of_it in zip(middle, whole, strict=True))
    things, shape = ("images", "square") if len(headers[0].size) == 2 else ("volumes", "cube")
    notes = [
        f"{far} of {len(headers)} {things} are far from {shape}s: less than half of each lies in its middle {shape}, "
        f"which is what the network sees. Cut or pad them to {shape}s if the rest matters."
    ]
    return notes if far else []


def _unreadable(paths: Sequence[Path], reasons: Sequence[object], source: Path, axes: int) -> ValueError:
    """The error if no file can be read."""
    expected = "images such as PNG, JPEG or TIFF" if axes == 2 else f"volumes, {VOLUMES}"
    each = [(name, str(why)) for name, why in zip(_names(paths, source), reasons, strict=True)]
    return ValueError(
        f"none of the {len(paths)} files in `{source}` can be read, expected {expected}: {named(each)}. Convert them "
        "to one of these, or choose other pages or channels."
    )


def _names(paths: Sequence[Path], source: Path) -> list[str]:
    """The names of files in messages: their place in the folder, or beside the table."""
    root = source if source.is_dir() else source.parent
    return [printable(path.relative_to(root) if path.is_relative_to(root) else path) for path in paths]


def _unused(headers: Sequence[StoredImage]) -> list[str]:
    """Notes on pages and channels that nobody has chosen or left out."""
    pages, extra = (sum(header.unused[k] for header in headers) for k in (0, 1))
    notes = []
    if pages:
        notes.append(
            f"{pages} of {len(headers)} files have several pages or frames, and only the first one is used. Choose "
            "another with `--page`, make all of them channels with `--page all`, or slices of a volume with "
            "`--volumes`."
        )
    if extra:
        notes.append(
            f"{extra} of {len(headers)} files have more channels than red, green and blue, which are not used. Choose "
            "channels with `--channels`, such as `--channels 0,1,2,3`."
        )
    return notes
