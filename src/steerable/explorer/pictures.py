"""Pictures to look at: drawn by code, taken from scikit-learn's digits, or uploaded, within limits."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steerable.data.pixel_formats import EARLIER, PixelFormat
from steerable.errors import did_you_mean
from steerable.explorer.uploads import LARGEST_UPLOAD, Uploads, too_large
from steerable.figures.pictures import letter_picture, sailing_boat

__all__ = ["MOST_PIXELS", "PICTURES", "bundled_picture", "chosen_picture", "uploaded_picture"]

FloatArray = NDArray[np.float64]
MOST_PIXELS = 20_000_000
"""Of an uploaded image: a small file can hold a huge one."""
PICTURES = ("sailing boat", "letter F", *(f"digit {n}" for n in range(10)))


def bundled_picture(name: str, size: int) -> FloatArray:
    """The picture of this name as (size, size, 3), from 0 to 1."""
    if name == "sailing boat":
        return sailing_boat(size)
    if name == "letter F":
        return _colours(letter_picture(size))
    if name in PICTURES:
        return _colours(_digits(size)[int(name.removeprefix("digit "))])
    raise ValueError(f"there is no picture `{name}`. {did_you_mean(str(name), PICTURES)}")


def chosen_picture(name: str, upload: object, uploads: Uploads, size: int, pixels: PixelFormat = EARLIER) -> FloatArray:
    """The upload if there is one, else the bundled picture of this name; (size, size, 3), from 0 to 1.

    Args:
        name: one of ``PICTURES``.
        upload: what the browser sent for the file control: None, or a dictionary with the path.
        uploads: the only files that are read.
        size: height and width.
        pixels: how the numbers in the upload become bytes.
    """
    if not upload:
        return bundled_picture(name, size)
    path = uploads.file(upload.get("path") if isinstance(upload, dict) else upload)
    if not path.is_file():
        raise ValueError("the uploaded file was deleted in the meantime. Upload the image again.")
    return uploaded_picture(path, size, pixels)


def uploaded_picture(path: Path, size: int, pixels: PixelFormat = EARLIER) -> FloatArray:
    """The middle square of an image file as (size, size, 3), from 0 to 1; no other file is read."""
    from steerable.data.images import image_sizes, read_squares, with_channels

    if (length := path.stat().st_size) > LARGEST_UPLOAD:
        raise ValueError(too_large(length))
    for width, height in image_sizes([path]):
        if width * height > MOST_PIXELS:
            raise ValueError(
                f"the image has {width}×{height} pixels; at most {MOST_PIXELS // 10**6} million are taken. Shrink it."
            )
    (square,) = read_squares([path], size, pixels=pixels)
    if isinstance(square, str):
        raise ValueError(
            f"the file cannot be read as an image: {square}. Give a PNG, JPEG, TIFF, BMP, GIF or WebP file."
        )
    return with_channels(square, 3).transpose(1, 2, 0) / 255.0


def _colours(grey: FloatArray) -> FloatArray:
    """Ink on white, as on paper."""
    return np.repeat(1 - grey[..., None], 3, axis=2)


@lru_cache(maxsize=8)
def _digits(size: int) -> FloatArray:
    """(10, size, size): the first test image of each digit, ink from 0 to 1."""
    from steerable.data.digits import load_digits

    test = load_digits(size).test
    first = [int((test.labels == digit).nonzero()[0, 0]) for digit in range(10)]
    return np.asarray(test.images[first, 0].numpy() / 255.0, dtype=np.float64)
