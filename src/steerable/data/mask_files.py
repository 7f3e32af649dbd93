"""Label images in files: one whole number for each pixel, from PNG, TIFF or npy of any depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steerable.data.files import Unusable, check_regular, files_below, printable, reason
from steerable.data.stored_images import DEEP, opened, stored_mode
from steerable.data.tiff_pages import is_tiff, tiff_pages

__all__ = ["Labels", "colours_shown", "label_name", "read_label_file"]

Labels = npt.NDArray[np.int64]

COLOUR = 1 << 32
"""What is added to the number of a colour, 65536 r + 256 g + b, so that it is not mistaken for a count."""
LARGEST = COLOUR - 1


def read_label_file(path: Path, *, by_colour: bool = False) -> Labels:
    """The numbers of a label image, (height, width); ``Unusable`` with the reason for any other file.

    A folder has a file for each object, in which this object is not 0 or black; objects are numbered in the order of
    names. A file with a palette gives the numbers of its colours, or with ``by_colour`` the colours. An image with
    three equal channels is grey, however it is stored. Different colours become numbers from ``COLOUR`` on.
    Transparency does not count.
    """
    if path.is_dir():
        return _of_objects(path)
    check_regular(path)
    planes = _planes(path, by_colour)
    if not planes.size:
        raise Unusable(f"it has the shape {planes.shape}, expected at least one pixel")
    if planes.dtype.kind == "f":
        _check_whole(planes)
    if planes.min() < 0:
        raise Unusable(f"it has the label {planes.min()}, expected numbers from 0 on")
    if planes.max() > LARGEST:
        raise Unusable(f"it has the label {planes.max()}, expected numbers up to {LARGEST:,}")
    labels: Labels = planes.astype(np.int64)
    first: Labels = labels[0]
    if (labels == first).all():
        return first
    if len(labels) == 3 and labels.max() <= 255:
        red, green, blue = labels
        colours: Labels = COLOUR + (red << 16) + (green << 8) + blue
        return colours
    raise Unusable(f"it has {len(labels)} channels, expected one, or colours of 8 bits")


def _of_objects(folder: Path) -> Labels:
    """The objects of a folder whose files show one object each; if they overlap, the last one counts."""
    found: Labels | None = None
    for number, path in enumerate(files_below(folder)[0], start=1):
        try:
            shown = read_label_file(path, by_colour=True)
        except Exception as error:
            raise Unusable(f"`{printable(path.name)}`: {reason(error)}") from error
        found = np.zeros_like(shown) if found is None else found
        if shown.shape != found.shape:
            (height, width), (h, w) = shown.shape, found.shape
            raise Unusable(f"`{printable(path.name)}` has {width}×{height} pixels, and those before it {w}×{h}")
        found[shown % COLOUR > 0] = number  # black is the background of colours, too
    if found is None:
        raise Unusable("its folder of masks is empty")
    return found


def label_name(value: int) -> str:
    """The name of the class with this number.

    >>> label_name(3), label_name(COLOUR + 0xFF8000)
    ('3', '#ff8000')
    """
    return str(value) if value < COLOUR else f"#{value - COLOUR:06x}"


def colours_shown(path: Path) -> dict[int, tuple[int, ...]]:
    """The colours of the numbers that a label image with a palette shows; nothing if it has no palette."""
    if path.is_dir() or path.suffix.lower() == ".npy":
        return {}
    with opened(path) as image:
        if image.mode not in ("P", "PA"):
            return {}
        numbers = np.unique(np.asarray(image.getchannel(0)))
        palette = image.getpalette() or []
    return {int(number): tuple(palette[3 * number : 3 * number + 3]) for number in numbers.tolist()}


def _planes(path: Path, by_colour: bool) -> npt.NDArray[Any]:
    """The planes of an image, (channels, height, width), without transparency."""
    if path.suffix.lower() == ".npy":
        return _of_array(np.load(path, mmap_mode="r", allow_pickle=False))
    if is_tiff(path):
        pages = tiff_pages(path, 2)
        if len(pages) > 1:
            raise Unusable("it has several pages, expected one; save the page with the labels by itself")
        if pages and pages[0].dtype is not None:
            page = pages[0]
            return page.read()[: page.shown]
    return _of_picture(path, by_colour)


def _of_array(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind not in "buif" or array.ndim not in (2, 3) or (array.ndim == 3 and 1 not in array.shape):
        raise Unusable(f"it holds {array.dtype} of shape {array.shape}, expected whole numbers (height, width)")
    if array.ndim == 3:
        array = array[0] if array.shape[0] == 1 else array.squeeze(array.shape.index(1))
    return np.array(array, np.uint8 if array.dtype.kind == "b" else None)[None]


def _of_picture(path: Path, by_colour: bool) -> npt.NDArray[Any]:
    from PIL import ImageOps

    with opened(path) as image:
        if image.format in ("JPEG", "MPO"):
            raise Unusable("it is a JPEG, which blurs labels into each other; save it as PNG or TIFF")
        if stored_mode(image).endswith(DEEP) and image.mode not in ("I;16", "I"):
            raise Unusable("its colours have 16 bits, of which only 8 could be read; save one number for each pixel")
        upright = ImageOps.exif_transpose(image)
        if upright.mode in ("CMYK", "YCbCr", "LAB", "HSV"):
            raise Unusable(f"its colours are {upright.mode}, expected one number for each pixel, or RGB")
        if upright.mode in ("RGBA", "RGBX") or (by_colour and upright.mode in ("P", "PA")):
            upright = upright.convert("RGB")
        elif upright.mode in ("PA", "LA"):
            upright = upright.getchannel(0)
        numbers = np.array(upright)
    if numbers.dtype.kind == "b":
        numbers = numbers.astype(np.uint8)
    return numbers.reshape(*numbers.shape[:2], -1).transpose(2, 0, 1)


def _check_whole(planes: npt.NDArray[Any]) -> None:
    """Refuse floating-point numbers that are not whole ones."""
    if not np.isfinite(planes).all():
        raise Unusable("it has pixels that are not finite numbers, expected whole numbers")
    broken = planes[np.rint(planes) != planes]
    if broken.size:
        raise Unusable(f"it has the label {float(broken.flat[0]):g}, expected whole numbers; are these probabilities?")
