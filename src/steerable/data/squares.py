"""The middle of an image or a volume, brought to one size, or all of it: bytes by Pillow, other numbers as floats."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from steerable.data.cubes import middle_cube
from steerable.data.files import Unusable
from steerable.data.stored_images import in_grey_or_colour

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Counts", "Pixels", "eight_bits", "reduced", "square_of_numbers", "square_of_picture", "with_channels"]

GREY = np.array([0.299, 0.587, 0.114])  # brightness of red, green, blue by ITU-R 601

Pixels = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.float32]


def with_channels(pixels: npt.NDArray[Any], channels: int) -> npt.NDArray[Any]:
    """(1 or 3, …) → (channels, …): brightness for one channel, repeated grey for three."""
    if len(pixels) > channels:
        brightness = (pixels * GREY.reshape(3, *[1] * (pixels.ndim - 1))).sum(0, keepdims=True)
        grey: npt.NDArray[Any] = np.rint(brightness).astype(np.uint8) if pixels.dtype == np.uint8 else brightness
        return grey
    return np.broadcast_to(pixels, (channels, *pixels.shape[1:]))


def square_of_picture(image: Image.Image, size: int | None) -> Pixels:
    """(1 or 3, size, size) of an image with 8 bits; one channel if it has no colours, however it is stored.

    Without a size it is the whole image as it is, (1 or 3, height, width).
    """
    from PIL import ImageOps

    picture = _resized(in_grey_or_colour(ImageOps.exif_transpose(image)), size)
    return _grey_if_equal(np.asarray(picture, np.uint8).reshape(*picture.size[::-1], -1).transpose(2, 0, 1))


def square_of_numbers(
    numbers: npt.NDArray[Any], size: int | None, *, colours: bool, spacing: Sequence[float] = ()
) -> Counts:
    """(channels, size, size) of any numbers (channels, height, width); without a size, all of them.

    Those of a volume (channels, depth, height, width) become its :func:`~steerable.data.cubes.middle_cube`. What is not
    a number becomes the smallest one of the image, and infinities its ends. ``colours`` says that three equal channels
    are one, and ``spacing`` how far apart the voxels of each axis are.
    """
    from PIL import Image

    with np.errstate(over="ignore"):  # what is too large for 32 bits counts as infinite
        values = numbers.astype(np.float32)
    finite = np.isfinite(values)
    if not finite.any():
        raise Unusable("none of its pixels is a finite number")
    if not finite.all():
        low, high = values[finite].min(), values[finite].max()
        values = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
    if values.ndim == 4 and size is not None:
        squares = middle_cube(values, size, spacing)
    else:
        squares = np.stack([np.asarray(_resized(Image.fromarray(plane), size)) for plane in values])
    return _grey_if_equal(squares) if colours else squares


def reduced(pixels: Pixels, factor: int) -> Pixels:
    """Images (…, height, width) whose sides are ``factor`` times smaller, each pixel the mean of a block of them.

    Turning an image and reducing it commute exactly. The factor divides both sides.

    >>> reduced(np.array([[0, 1, 7, 8], [1, 1, 7, 8]], np.uint8), 2)
    array([[1, 8]], dtype=uint8)
    """
    if factor == 1:
        return pixels
    *more, height, width = pixels.shape
    total = np.zeros((*more, height // factor, width // factor), np.uint16)
    for i, j in itertools.product(range(factor), repeat=2):
        total += pixels[..., i::factor, j::factor]
    found: Pixels = ((total + factor**2 // 2) // factor**2).astype(np.uint8)  # halves are rounded up
    return found


def eight_bits(image: Image.Image) -> Image.Image:
    """The image with 8 bits, upright, scaled by its own depth: integers from 65,535, floats from 1 or from 255."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if not image.mode.startswith("I") and image.mode != "F":
        return image
    values = np.asarray(image).astype(np.float64)
    low, high = float(values.min()), float(values.max())
    # Integers have 16 bits, whatever range they use; floats go to 1 or to 255.
    top = 65535 if image.mode != "F" else 1 if high <= 1 else 255
    if not (low >= 0 and high <= top):
        raise Unusable(f"pixels from {low:g} to {high:g}, expected 0 to {top}; save the image with 8 or 16 bits")
    return Image.fromarray(np.rint(values * (255 / top)).astype(np.uint8))


def _resized(image: Image.Image, size: int | None) -> Image.Image:
    """The middle square, shrunk by averaging or enlarged by bilinear interpolation; the image itself without a size."""
    from PIL import Image

    if size is None or image.size == (size, size):
        return image
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    method = Image.Resampling.BOX if side >= size else Image.Resampling.BILINEAR
    return image.resize((size, size), method, box=(left, top, left + side, top + side))


def _grey_if_equal(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return pixels[:1] if (pixels == pixels[:1]).all() else pixels  # grey scans are often saved as RGB
