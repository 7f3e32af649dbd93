"""Pages of TIFF files with any number of channels of any type; Pillow refuses most of them or reduces them to 8 bits.

Pillow's libtiff decompresses them nevertheless: a small file is made in memory, with the strips or tiles of the page
and a directory that calls them rows of bytes, grey and 8-bit. The result is viewed as the numbers that it holds.
"""

from __future__ import annotations

import io
import itertools
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from steerable.data.files import Unusable

__all__ = ["TiffPage", "is_tiff", "tiff_pages"]

MAGIC = (b"II*\0", b"MM\0*")
LARGE = b"II+\0"  # files that may have more than 4 GB
WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, FILL_ORDER = 256, 257, 258, 259, 262, 266
STRIPS, ORIENTATION, SAMPLES, ROWS_PER_STRIP, STRIP_BYTES, PLANES, PREDICTOR = 273, 274, 277, 278, 279, 284, 317
TILE_WIDTH, TILE_HEIGHT, TILES, TILE_BYTES, EXTRA_SAMPLES, SAMPLE_FORMAT = 322, 323, 324, 325, 338, 339
PLACES = {False: (STRIPS, STRIP_BYTES), True: (TILES, TILE_BYTES)}
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB = 0, 1, 2
JPEG = (6, 7, 33003, 33005, 34712)  # these know what colours are, and are not bytes in a row
ALPHA = (1, 2)
HORIZONTAL, FLOATING = 2, 3
MOST_SAMPLES = 4096


@dataclass(frozen=True)
class TiffPage:
    """One page of a file.

    Args:
        path: the file.
        order: ``"<"`` or ``">"``, the order of the bytes in a number.
        tags: the numbers of the page's directory.
    """

    path: Path
    order: str
    tags: Mapping[int, tuple[int, ...]]

    def _tag(self, number: int) -> int:
        return self.tags.get(number, (1,))[0]

    @property
    def samples(self) -> int:
        """How many channels are stored, including transparency."""
        return self._tag(SAMPLES)

    @property
    def extra(self) -> int:
        """How many channels are stored in addition to red, green and blue, not counting transparency."""
        return sum(kind not in ALPHA for kind in self.tags.get(EXTRA_SAMPLES, ())) if self._is_rgb else 0

    @property
    def shown(self) -> int:
        """How many of the first channels make the picture."""
        alpha = sum(kind in ALPHA for kind in self.tags.get(EXTRA_SAMPLES, ()))
        return 3 if self._is_rgb else self.samples - alpha

    @property
    def _is_rgb(self) -> bool:
        return self._tag(PHOTOMETRIC) == RGB and self.samples >= 3

    @property
    def size(self) -> tuple[int, int]:
        """(width, height), upright."""
        size = self._tag(WIDTH), self._tag(HEIGHT)
        return size[::-1] if self._tag(ORIENTATION) >= 5 else size

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The type of the numbers; None for palettes, JPEG and other data that are not plain numbers."""
        bits, formats = {*self.tags.get(BITS, (1,))}, {*self.tags.get(SAMPLE_FORMAT, (1,))}
        kind = {1: "u", 2: "i", 3: "f", 4: "u"}.get(min(formats), "")
        plain = self._tag(PHOTOMETRIC) in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB) and self._tag(COMPRESSION) not in JPEG
        types = {"u": (8, 16, 32, 64), "i": (16, 32, 64), "f": (16, 32, 64)}
        if len(bits) > 1 or len(formats) > 1 or not plain or min(bits) not in types.get(kind, ()):
            return None
        return np.dtype(f"{self.order}{kind}{min(bits) // 8}")

    @property
    def is_ordinary(self) -> bool:
        """Whether Pillow shows the page correctly: bytes, grey or with colours."""
        return self.dtype is None or (self.dtype.itemsize == 1 and (self._is_rgb or self.shown == 1))

    def read(self) -> npt.NDArray[Any]:
        """The numbers, (samples, height, width), upright."""
        from PIL import Image

        if not 1 <= self.samples <= MOST_SAMPLES:
            raise Unusable(f"it has {self.samples} channels, expected 1 to {MOST_SAMPLES}")
        width, height, most = self._tag(WIDTH), self._tag(HEIGHT), Image.MAX_IMAGE_PIXELS
        pixels = math.prod(self._across) * height
        if most is not None and (pixels > most or pixels * self.samples > 4 * most):
            raise Image.DecompressionBombError(f"{width}×{height}×{self.samples}")
        planes = self.samples if self._tag(PLANES) == 2 else 1
        with self.path.open("rb") as file:
            found = [self._plane(file, k, planes) for k in range(planes)]
        return _upright(np.concatenate(found, axis=2)[:, :width].transpose(2, 0, 1), self._tag(ORIENTATION))

    @property
    def _across(self) -> tuple[int, int]:
        """The width of the strips or tiles, and how many lie side by side."""
        width = self._tag(WIDTH)
        piece = max(1, self._tag(TILE_WIDTH)) if TILES in self.tags else width
        return piece, -(-width // piece)

    def _plane(self, file: BinaryIO, number: int, planes: int) -> npt.NDArray[Any]:
        """(height, padded width, samples): the contents of the strips or tiles of this plane."""
        from PIL.TiffImagePlugin import TiffImageFile

        dtype, samples, tiled = self.dtype, self.samples // planes, TILES in self.tags
        if dtype is None:
            raise Unusable("its pixels are not plain numbers")
        across, tiles = self._across
        row = across * samples * dtype.itemsize
        kept = (HEIGHT, COMPRESSION, FILL_ORDER, ROWS_PER_STRIP, TILE_HEIGHT)
        tags = {tag: self.tags[tag] for tag in kept if tag in self.tags}
        tags |= {WIDTH: (tiles * row,), BITS: (8,), PHOTOMETRIC: (BLACK_IS_ZERO,), SAMPLES: (1,)}
        if tiled:
            tags[TILE_WIDTH] = (row,)
        each = len(self.tags[PLACES[tiled][0]]) // planes
        starts, lengths = (self.tags[tag][number * each : (number + 1) * each] for tag in PLACES[tiled])
        pieces = []
        for start, length in zip(starts, lengths, strict=True):
            file.seek(start)
            pieces.append(file.read(length))
        rewritten = _small_tiff(self.order, tags, pieces, PLACES[tiled])
        with TiffImageFile(io.BytesIO(rewritten)) as rows:
            raw = np.asarray(rows).reshape(-1, row)
        return _undone(raw, dtype, samples, self._tag(PREDICTOR)).reshape(-1, tiles * across, samples)


def is_tiff(path: Path) -> bool:
    """Whether the first bytes are those of a TIFF file."""
    with path.open("rb") as file:
        return file.read(4) in (*MAGIC, LARGE)


def tiff_pages(path: Path, most: int | None) -> list[TiffPage]:
    """The pages of a file, in order, or the first ones up to ``most``."""
    from PIL.TiffImagePlugin import ImageFileDirectory_v2

    with path.open("rb") as file:
        head = file.read(8)
        head += file.read(8) if head[:4] == LARGE else b""
        directory, order = ImageFileDirectory_v2(head), "<" if head[:2] == b"II" else ">"
        seen: set[int] = {0}
        pages: list[TiffPage] = []
        while (start := directory.next) not in seen and len(pages) != most:  # a damaged file may lead in circles
            seen.add(start)
            file.seek(start)
            directory.load(file)
            found = {tag: value if isinstance(value, tuple) else (value,) for tag, value in directory.items()}
            tags = {tag: value for tag, value in found.items() if value and all(isinstance(v, int) for v in value)}
            pages.append(TiffPage(path, order, tags))
    return pages


def _small_tiff(
    order: str, tags: dict[int, tuple[int, ...]], pieces: Sequence[bytes], places: tuple[int, int]
) -> bytes:
    """A TIFF file of these strips or tiles; ``places`` are the tags for the place and length of each."""
    ends = list(itertools.accumulate(map(len, pieces), initial=8))
    at = ends[-1] + ends[-1] % 2
    tags = {**tags, places[0]: tuple(ends[:-1]), places[1]: tuple(map(len, pieces))}
    beyond = at + 2 + 12 * len(tags) + 4
    entries, lists = b"", b""
    for tag, values in sorted(tags.items()):
        packed = struct.pack(f"{order}{len(values)}I", *values)
        if len(values) > 1:
            packed, lists = struct.pack(f"{order}I", beyond + len(lists)), lists + packed
        entries += struct.pack(f"{order}HHI", tag, 4, len(values)) + packed
    head = MAGIC["<>".index(order)] + struct.pack(f"{order}I", at)
    directory = struct.pack(f"{order}H", len(tags)) + entries + bytes(4) + lists
    return b"".join((head, *pieces, bytes(at - ends[-1]), directory))


def _undone(raw: npt.NDArray[np.uint8], dtype: np.dtype[Any], samples: int, predictor: int) -> npt.NDArray[Any]:
    """Rows of bytes as numbers (rows, width, samples), with the differences that compress better undone."""
    rows = len(raw)
    if predictor == FLOATING:  # first the highest byte of all numbers, then the next, as differences of bytes
        summed = np.cumsum(raw.reshape(rows, -1, samples), axis=1, dtype=np.uint8).reshape(rows, dtype.itemsize, -1)
        numbers = np.ascontiguousarray(summed.transpose(0, 2, 1)).view(dtype.newbyteorder(">"))
        return numbers.reshape(rows, -1, samples)
    numbers = np.ascontiguousarray(raw).view(dtype).reshape(rows, -1, samples)
    if predictor == HORIZONTAL:
        whole = np.dtype(f"u{dtype.itemsize}")  # differences of floating-point numbers are those of their bits
        summed = np.cumsum(numbers.astype(dtype.newbyteorder("=")).view(whole), axis=1, dtype=whole)
        return summed.view(dtype.newbyteorder("="))
    return numbers


def _upright(numbers: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """(channels, height, width), turned as the tag says."""
    if orientation in (5, 6, 7, 8):
        numbers = numbers.swapaxes(1, 2)
    if orientation in (2, 3, 6, 7):
        numbers = numbers[:, :, ::-1]
    return numbers[:, ::-1] if orientation in (3, 4, 7, 8) else numbers
