"""Image files as tensors of bytes: any size and common format, colour or grey; what cannot be read is named."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steerable.data.files import files_below, printable, reason
from steerable.extras import require

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "Pixels",
    "Progress",
    "image_chunks",
    "image_sizes",
    "read_images",
    "read_squares",
    "with_channels",
]

# Formats that are pixels and nothing else: EPS, for one, would start another program.
FORMATS = ("PNG", "JPEG", "MPO", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000", "AVIF")
GREY = np.array([0.299, 0.587, 0.114]).reshape(3, 1, 1)  # brightness of red, green, blue by ITU-R 601

T = TypeVar("T")
Pixels = npt.NDArray[np.uint8]
Progress = Callable[[int, int], None]


def read_images(
    path: str | Path, image_size: int, channels: int, progress: Progress | None = None
) -> tuple[list[str], Tensor, list[tuple[str, str]]]:
    """Read an image file, or all of those below a folder, for prediction.

    Returns:
        The files that were read; their pixels, uint8 (n, channels, image_size, image_size), see :func:`read_squares`;
        and (file, reason) of those that cannot be read.

    Args:
        path: a file or a folder.
        image_size: height and width.
        channels: 1 turns colours into grey, 3 repeats grey.
        progress: called with (images read, all images) after each image.
    """
    names: list[str] = []
    pixels, skipped = [torch.empty(0, channels, image_size, image_size, dtype=torch.uint8)], []
    for more, images, unreadable in image_chunks(path, image_size, channels, progress):
        names += more
        pixels.append(images)
        skipped += unreadable
    return names, torch.cat(pixels), skipped


def image_chunks(
    path: str | Path, image_size: int, channels: int, progress: Progress | None = None, *, chunk: int = 256
) -> Iterator[tuple[list[str], Tensor, list[tuple[str, str]]]]:
    """What :func:`read_images` reads, ``chunk`` files at a time, so that a large folder need not fit into memory."""
    path = Path(path).expanduser()
    if channels not in (1, 3):
        raise ValueError(f"an image file has 1 channel (grey) or 3 (RGB), got channels={channels}.")
    if not path.exists():
        raise FileNotFoundError(f"`{path}` does not exist. Give an image file or a folder of images.")
    files, closed = files_below(path) if path.is_dir() else ([path], [])
    if closed:
        yield [], torch.empty(0, channels, image_size, image_size, dtype=torch.uint8), closed
    for start in range(0, len(files), chunk):
        part = files[start : start + chunk]

        def count(done: int, _: int, before: int = start) -> None:
            if progress is not None:
                progress(before + done, len(files))

        names, pixels, skipped = [], [], []
        for file, square in zip(part, read_squares(part, image_size, count), strict=True):
            if isinstance(square, str):
                skipped.append((printable(file), square))
            else:
                names.append(str(file))
                pixels.append(with_channels(square, channels))
        images = np.stack(pixels) if pixels else np.empty((0, channels, image_size, image_size), np.uint8)
        yield names, torch.from_numpy(images), skipped


def with_channels(pixels: Pixels, channels: int) -> Pixels:
    """(1 or 3, h, w) → (channels, h, w): brightness for one channel, repeated grey for three."""
    if len(pixels) > channels:
        grey: Pixels = np.rint((pixels * GREY).sum(0, keepdims=True)).astype(np.uint8)
        return grey
    return np.broadcast_to(pixels, (channels, *pixels.shape[1:]))


def read_squares(paths: Sequence[Path], image_size: int, progress: Progress | None = None) -> list[Pixels | str]:
    """For each file its pixels, (1 or 3, image_size, image_size), or the reason why it cannot be read.

    The middle square is shrunk by averaging, or enlarged by bilinear interpolation; a photograph's orientation tag is
    followed. 16 bits are cut to 8, palettes looked up, transparent parts laid over white. An image without colours has
    one channel, however it is stored.
    """
    if image_size < 1:
        raise ValueError(f"`image_size` must be at least 1, got {image_size}.")
    with _strict_about_bombs():
        return _for_each(lambda path: _read(path, image_size), paths, progress)


def image_sizes(paths: Sequence[Path]) -> list[tuple[int, int]]:
    """(width, height) of the images among these files, from their first bytes."""
    with _strict_about_bombs():
        return [size for size in _for_each(_measure, paths, None) if size is not None]


@contextmanager
def _strict_about_bombs() -> Iterator[None]:
    """Images beyond Pillow's limit are errors; its other warnings, about odd metadata, help nobody here."""
    require("PIL", purpose="reading image files")
    from PIL import Image

    Image.init()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _for_each(function: Callable[[Path], T], paths: Sequence[Path], progress: Progress | None) -> list[T]:
    """``function`` of each path, in order, by several threads: Pillow decodes outside the interpreter's lock."""
    results = []
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for result in pool.map(function, paths):
            results.append(result)
            if progress is not None:
                progress(len(results), len(paths))
    return results


def _measure(path: Path) -> tuple[int, int] | None:
    try:
        with _open(path) as image:
            return image.size
    except Exception:  # what is wrong with it is reported when its pixels are read
        return None


def _read(path: Path, size: int) -> Pixels | str:
    try:
        with _open(path) as image:
            return _square(image, size)
    # Pillow meets damaged files with a dozen kinds of exceptions, and none of them should end a run of hours.
    except Exception as error:
        return reason(error)


def _open(path: Path) -> Image.Image:
    from PIL import Image

    if path.exists() and not path.is_file():  # reading from a pipe would wait forever
        raise OSError("it is not a regular file")
    return Image.open(path, formats=[name for name in FORMATS if name in Image.OPEN])


def _square(image: Image.Image, size: int) -> Pixels:
    from PIL import Image, ImageOps

    image = _eight_bits(ImageOps.exif_transpose(image))
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    if image.size != (size, size):
        method = Image.Resampling.BOX if side >= size else Image.Resampling.BILINEAR
        image = image.resize((size, size), method, box=(left, top, left + side, top + side))
    pixels = np.asarray(image, np.uint8).reshape(size, size, -1).transpose(2, 0, 1)
    return pixels[:1] if (pixels == pixels[:1]).all() else pixels  # grey scans are often saved as RGB


def _eight_bits(image: Image.Image) -> Image.Image:
    """The image in mode L or RGB."""
    from PIL import Image

    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image).astype(np.float64)
        low, high = float(values.min()), float(values.max())
        # Integers have 16 bits, whatever range they use; floats go to 1 or to 255.
        top = 65535 if image.mode != "F" else 1 if high <= 1 else 255
        if not (low >= 0 and high <= top):
            raise ValueError(f"pixels from {low:g} to {high:g}, expected 0 to {top}; save the image with 8 or 16 bits")
        return Image.fromarray(np.rint(values * (255 / top)).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")
