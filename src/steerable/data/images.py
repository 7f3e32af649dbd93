"""Image files as tensors of bytes: any size, depth and number of channels; unusable files are named."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from steerable.data.files import files_below, printable, reason
from steerable.data.pixel_formats import EARLIER, PixelFormat, Selection
from steerable.data.squares import (
    Counts,
    Pixels,
    eight_bits,
    reduced,
    square_of_numbers,
    square_of_picture,
    with_channels,
)
from steerable.data.stored_arrays import StoredImage
from steerable.data.stored_images import opened, stored_image
from steerable.data.volume_files import require_readers
from steerable.extras import require

__all__ = [
    "Pixels",
    "Progress",
    "each_file",
    "image_chunks",
    "image_headers",
    "image_sizes",
    "pixels_of",
    "read_counts",
    "read_images",
    "read_squares",
    "told_apart",
    "whole_image",
    "with_channels",
]

CHUNK = 256  # files that are read at a time

T = TypeVar("T")
Item = TypeVar("Item")
Progress = Callable[[int, int], None]


def read_images(
    path: str | Path,
    image_size: int,
    channels: int,
    progress: Progress | None = None,
    *,
    pixels: PixelFormat = EARLIER,
) -> tuple[list[str], Tensor, list[tuple[str, str]]]:
    """Read an image file, or all of those below a folder, for prediction.

    Returns:
        The files that were read; their pixels, uint8 (n, channels, image_size, image_size), or with one side more for
        volumes, see :func:`read_squares`; and (file, reason) of those that cannot be read.

    Args:
        path: a file or a folder.
        image_size: height and width.
        channels: 1 turns colours into grey, 3 repeats grey.
        progress: called with (images read, all images) after each image.
        pixels: how the numbers in the files become bytes, such as the ``pixels`` of a
            :class:`~steerable.training.trained_networks.trained_model.TrainedModel`.
    """
    names: list[str] = []
    found, skipped = [torch.empty(0, channels, *[image_size] * pixels.selection.axes, dtype=torch.uint8)], []
    for more, images, unreadable in image_chunks(path, image_size, channels, progress, pixels=pixels):
        names += more
        found.append(images)
        skipped += unreadable
    return names, torch.cat(found), skipped


def image_chunks(
    path: str | Path,
    image_size: int,
    channels: int,
    progress: Progress | None = None,
    *,
    pixels: PixelFormat = EARLIER,
) -> Iterator[tuple[list[str], Tensor, list[tuple[str, str]]]]:
    """The images of :func:`read_images`, some files at a time, so that a large folder need not fit into memory."""
    path = Path(path).expanduser()
    if channels not in (1, 3) and channels != pixels.channels:
        raise ValueError(f"an image file has 1 channel (grey) or 3 (RGB), got channels={channels}.")
    if not path.exists():
        raise FileNotFoundError(f"`{path}` does not exist. Give an image file or a folder of images.")
    files, closed = files_below(path) if path.is_dir() else ([path], [])
    nothing = np.empty((0, channels, *[image_size] * pixels.selection.axes), np.uint8)
    if closed:
        yield [], torch.from_numpy(nothing), closed
    for start in range(0, len(files), CHUNK):
        part = files[start : start + CHUNK]

        def count(done: int, _: int, before: int = start) -> None:
            if progress is not None:
                progress(before + done, len(files))

        read, skipped = told_apart(part, part, read_squares(part, image_size, count, pixels))
        found = [with_channels(square, channels) for _, square in read]
        yield [str(file) for file, _ in read], torch.from_numpy(np.stack(found) if found else nothing), skipped


def read_squares(
    paths: Sequence[Path], image_size: int, progress: Progress | None = None, pixels: PixelFormat = EARLIER
) -> list[Pixels | str]:
    """The pixels of each file, (channels, image_size, image_size), or the reason why it cannot be used.

    Where ``pixels`` is about volumes, these are voxels, (channels, image_size, image_size, image_size).

    The middle square is shrunk by averaging, or enlarged by bilinear interpolation; a photograph's orientation tag is
    followed. Palettes are looked up, transparent parts laid over white. An image without colours has one channel,
    however it is stored. ``pixels`` says how numbers of more than 8 bits become bytes; by default, 16 bits are divided
    by 257. Where it says so, squares are read larger and reduced after that.
    """
    if image_size < 1:
        raise ValueError(f"`image_size` must be at least 1, got {image_size}.")
    if pixels.selection.axes == 3:
        require_readers(paths)
    side = image_size * pixels.reduction
    return each_file(lambda path: reduced(_read(path, side, pixels), pixels.reduction), paths, progress)


def whole_image(path: Path, pixels: PixelFormat) -> Pixels:
    """A whole image in its own size, (channels, height, width); :func:`read_squares` reads its middle."""
    return _read(path, None, pixels)


def each_file(function: Callable[[Path], T], paths: Sequence[Path], progress: Progress | None = None) -> list[T | str]:
    """The value of ``function`` for each path, or the reason why a file cannot be used.

    Several threads work on it: Pillow decodes outside the interpreter's lock. Images beyond Pillow's limit cannot be
    used; its other warnings, about odd metadata, help nobody here.
    """
    require("PIL", purpose="reading image files")
    from PIL import Image

    def careful(path: Path) -> T | str:
        try:
            return function(path)
        # Pillow meets damaged files with a dozen kinds of exceptions, and none of them should end a run of hours.
        except Exception as error:
            return reason(error)

    Image.init()
    found: list[T | str] = []
    with warnings.catch_warnings(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        for one in pool.map(careful, paths):
            found.append(one)
            if progress is not None:
                progress(len(found), len(paths))
    return found


def told_apart(
    items: Iterable[Item], names: Iterable[object], found: Iterable[T | str]
) -> tuple[list[tuple[Item, T]], list[tuple[str, str]]]:
    """Return ([(item, its contents)], [(its name, why it cannot be used)])."""
    read, unusable = [], []
    for item, name, one in zip(items, names, found, strict=True):
        if isinstance(one, str):
            unusable.append((printable(name), one))
        else:
            read.append((item, one))
    return read, unusable


def read_counts(
    paths: Sequence[Path], image_size: int | None, pixels: PixelFormat
) -> list[tuple[Counts | Pixels, bool] | str]:
    """The images of :func:`read_squares` before counts become bytes, and whether some are not finite numbers.

    Without a size they are those of whole images, (channels, height, width).
    """

    def counts(path: Path) -> tuple[Counts | Pixels, bool]:
        with stored_image(path, pixels.selection) as stored:
            pixels.check(stored.depth, stored.channels)
            if stored.picture is not None:
                return square_of_picture(stored.picture, image_size), False
            numbers = stored.numbers()
            has_gaps = numbers.dtype.kind == "f" and not np.isfinite(numbers).all()
            return _counts(replace(stored, numbers=lambda: numbers), image_size, pixels), has_gaps

    return each_file(counts, paths)


def image_sizes(paths: Sequence[Path]) -> list[tuple[int, ...]]:
    """(width, height) of the images among these files, from their first bytes."""
    return [found.size for found in image_headers(paths, Selection()) if not isinstance(found, str)]


def image_headers(paths: Sequence[Path], selection: Selection) -> list[StoredImage | str]:
    """The header of the chosen image in each file, or the reason why it cannot be used."""

    def header(path: Path) -> StoredImage:
        with stored_image(path, selection) as found:
            return replace(found, picture=None)

    if selection.axes == 3:
        require_readers(paths)
    return each_file(header, paths)


def _read(path: Path, size: int | None, pixels: PixelFormat) -> Pixels:
    if not pixels.depth:
        with opened(path) as image:
            return square_of_picture(eight_bits(image), size)
    with stored_image(path, pixels.selection) as stored:
        return pixels_of(stored, size, pixels)


def pixels_of(stored: StoredImage, size: int | None, pixels: PixelFormat) -> Pixels:
    """The bytes of an image, (channels, size, size), or in its own size; ``Unusable`` if it is of another kind."""
    if not pixels.depth and stored.picture is not None:
        return square_of_picture(eight_bits(stored.picture), size)
    pixels.check(stored.depth, stored.channels)
    if stored.picture is not None:
        found = square_of_picture(stored.picture, size)
        return pixels.to_bytes(found) if pixels.stretch else found
    counts = _counts(stored, size, pixels)
    return pixels.to_bytes(with_channels(counts, pixels.channels))


def _counts(stored: StoredImage, size: int | None, pixels: PixelFormat) -> Counts:
    colours = stored.channels == 3 and not pixels.selection
    return square_of_numbers(stored.numbers(), size, colours=colours, spacing=stored.spacing[::-1])
