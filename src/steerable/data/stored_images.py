"""The contents of image files: pages and channels of any depth, read by Pillow, numpy or the TIFF reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from steerable.data.files import Unusable, check_regular
from steerable.data.pixel_formats import Selection
from steerable.data.stored_arrays import Numbers, StoredImage, depth_of
from steerable.data.tiff_pages import TiffPage, is_tiff, tiff_pages
from steerable.data.volume_files import stored_npy, stored_volume

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["DEEP", "in_grey_or_colour", "joined", "opened", "stored_image", "stored_mode"]

# Formats that are pixels and nothing else: EPS, for one, would start another program.
FORMATS = ("PNG", "JPEG", "MPO", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000", "AVIF")
FILMS = ("GIF", "PNG", "WEBP")  # whose frames are pages; further pictures in a photograph are previews
DEEP = (";16B", ";16L", ";16N")
"""How Pillow calls colours with 16 bits ends, of which it reads 8."""
DEEP_PNG = {"RGB;16B": 3, "RGBA;16B": 4, "LA;16B": 2}
"""The channels of PNG files with 16 bits, by what Pillow calls them when it drops the lower 8."""

T = TypeVar("T")


@contextmanager
def stored_image(path: Path, selection: Selection) -> Iterator[StoredImage]:
    """The image or volume that is chosen from a file; ``Unusable`` if the file has no such page or channel."""
    check_regular(path)
    if selection.axes == 3:
        yield joined([stored_volume(path)], selection)
        return
    whole = bool(selection.channels)
    if path.suffix.lower() == ".npy":
        _wanted([path], selection)
        yield joined([stored_npy(path, axes=2)], selection)
        return
    pages = tiff_pages(path, 2 if selection.page is None else None) if is_tiff(path) else []
    wanted = _wanted(pages, selection) if pages else []
    besides = len(pages) > 1 and selection.page is None, not whole and any(page.extra for page in wanted)
    if not all(page.is_ordinary and not (whole and page.extra) for page in wanted):
        yield replace(joined([_of_tiff(page, whole) for page in wanted], selection), unused=besides)
        return
    with opened(path) as image:
        numbers = [0] if selection.page is None else _wanted(range(getattr(image, "n_frames", 1)), selection)
        is_film = selection.page is None and image.format in FILMS and getattr(image, "is_animated", False)
        found = [_of_pillow(path, image, number, whole) for number in numbers]
        yield replace(joined(found, selection), unused=(besides[0] or is_film, besides[1]))


def opened(path: Path) -> Image.Image:
    """An image as Pillow opens it."""
    from PIL import Image

    check_regular(path)
    return Image.open(path, formats=[name for name in FORMATS if name in Image.OPEN])


def in_grey_or_colour(image: Image.Image) -> Image.Image:
    """An image of 8 bits in mode L or RGB; transparent parts are laid over white."""
    from PIL import Image

    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _wanted(pages: Sequence[T], selection: Selection) -> Sequence[T]:
    """The pages that are chosen."""
    if selection.page == "all":
        return pages
    number = int(selection.page or 0)
    if number >= len(pages):
        have = "1 page" if len(pages) == 1 else f"{len(pages)} pages"
        raise Unusable(f"it has {have}, counted from 0, and no page {number}")
    return [pages[number]]


def joined(pages: Sequence[StoredImage], selection: Selection) -> StoredImage:
    """One image whose channels are those of the pages, or the chosen ones among these."""
    first, *others = pages
    if any((page.size, page.depth) != (first.size, first.depth) for page in others):
        raise Unusable("its pages differ in size or depth, so they cannot be channels of one image; choose one page")
    channels = sum(page.channels for page in pages)
    if beyond := [number for number in selection.channels if number >= channels]:
        have = "1 channel" if channels == 1 else f"{channels} channels"
        raise Unusable(f"it has {have}, counted from 0, and no channel {beyond[0]}")
    if not others and not selection.channels:
        return first

    def numbers() -> Numbers:
        found = np.concatenate([page.numbers() for page in pages])
        return found[list(selection.channels)] if selection.channels else found

    return replace(first, channels=len(selection.channels) or channels, numbers=numbers, picture=None)


def _of_tiff(page: TiffPage, whole: bool) -> StoredImage:
    channels = page.samples if whole else page.shown
    depth = depth_of(page.dtype) if page.dtype is not None else ""
    return StoredImage(page.size, depth, channels, lambda: page.read()[:channels])


def _of_pillow(path: Path, image: Image.Image, number: int, whole: bool) -> StoredImage:
    """A page or frame as Pillow sees it, with all bands including transparency, or with the visible ones."""
    if number:
        image.seek(number)
    if image.mode.startswith("I") or image.mode == "F":
        depth = "floating-point" if image.mode == "F" else "16-bit"
        return StoredImage(image.size, depth, 1, lambda: _bands(image, number, image.mode))
    raw = stored_mode(image)
    if image.format == "PNG" and raw in DEEP_PNG:
        channels = DEEP_PNG[raw] if whole or raw == "RGB;16B" else DEEP_PNG[raw] - 1
        return StoredImage(image.size, "16-bit", channels, lambda: _sixteen_bits(path, raw)[:channels])
    if raw.endswith(DEEP):
        raise Unusable("its colours have 16 bits, of which only 8 could be read; save it as RGB, in TIFF or PNG")
    if not whole:
        mode = "L" if image.mode in ("1", "L") else "RGB"
        return StoredImage(image.size, "8-bit", len(mode), lambda: _bands(image, number, ""), image)
    mode = {"1": "L"}.get(image.mode, image.mode)
    if mode not in ("L", "LA", "RGB", "RGBA"):
        mode = "RGBA" if image.has_transparency_data else "RGB"
    return StoredImage(image.size, "8-bit", len(mode), lambda: _bands(image, number, mode))


def stored_mode(image: Image.Image) -> str:
    """Pillow's name for the pixels as they are in the file, before it makes bytes of them."""
    tiles = getattr(image, "tile", None)
    mode = tiles[0][3] if tiles else ""
    mode = mode[0] if isinstance(mode, tuple) and mode else mode
    return mode if isinstance(mode, str) else ""


def _bands(image: Image.Image, number: int, mode: str) -> Numbers:
    """(channels, height, width) of a frame in this mode, upright; without a mode, as it is seen."""
    from PIL import ImageOps

    if number != image.tell():
        image.seek(number)
    frame = ImageOps.exif_transpose(image)
    frame = in_grey_or_colour(frame) if not mode else frame if frame.mode == mode else frame.convert(mode)
    return np.array(frame).reshape(frame.height, frame.width, -1).transpose(2, 0, 1)


def _sixteen_bits(path: Path, raw: str) -> Numbers:
    """All channels of a PNG file with 16 bits, from the higher and the lower byte of each number."""
    halves = {"LA;16B": ("RGBA",)}.get(raw, (raw, f"{raw[:-1]}L"))
    read = []
    for half in halves:
        with opened(path) as image:
            codec, extents, offset, _ = image.tile[0]  # type: ignore[attr-defined]
            image.tile = [(codec, extents, offset, half)]  # type: ignore[attr-defined]
            read.append(_bands(image, 0, image.mode).astype(np.uint16))
    if len(read) == 2:
        return read[0] * np.uint16(256) + read[1]
    return read[0][0::2] * np.uint16(256) + read[0][1::2]  # grey and transparency, two bytes each, seen as RGBA
