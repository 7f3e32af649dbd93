"""Files as cameras and microscopes write them, byte by byte: TIFF of any type and layout, and PNG with 16 bits."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RGB, BLACK_IS_ZERO = 2, 1


@dataclass(frozen=True)
class Layout:
    """How numbers lie in a TIFF file; ``extra`` says what further channels are: 0 for unknown, 2 for transparency."""

    order: str = "<"
    deflate: bool = False
    predictor: int = 1
    planes: bool = False
    tile: int = 0
    photometric: int = BLACK_IS_ZERO
    extra: tuple[int, ...] | None = None
    orientation: int = 1


def write_tiff(path: Path, pages: Sequence[np.ndarray], layout: Layout = Layout()) -> Path:  # noqa: B008
    """Write pages (height, width, channels)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    order = layout.order
    content = (b"II*\0" if order == "<" else b"MM\0*") + bytes(4)
    link = 4  # where the place of the next directory is written
    for page in pages:
        pieces = [zlib.compress(piece) if layout.deflate else piece for piece in _pieces(page, layout)]
        places = []
        for piece in pieces:
            places.append(len(content))
            content += piece
        content += bytes(len(content) % 2)
        content = content[:link] + struct.pack(f"{order}I", len(content)) + content[link + 4 :]
        tags = _tags(page, layout, places, [len(piece) for piece in pieces])
        link = len(content) + 2 + 12 * len(tags)
        content += _directory(tags, len(content), order)
    path.write_bytes(content)
    return path


def write_png(path: Path, pixels: np.ndarray) -> Path:
    """Write uint16 (height, width, 2 to 4 channels): grey with alpha, RGB or RGBA. Filters are used on some rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width, channels = pixels.shape
    rows = pixels.astype(">u2").view(np.uint8).reshape(height, -1)
    lines = [b"\0" + rows[0].tobytes()]
    lines += [b"\2" + (rows[i] - rows[i - 1]).tobytes() for i in range(1, height)]  # "up"
    head = struct.pack(">IIBBBBB", width, height, 16, {2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return path


def _pieces(page: np.ndarray, layout: Layout) -> list[bytes]:
    """The bytes of strips of two rows, or of square tiles."""
    numbers = page.astype(page.dtype.newbyteorder(layout.order))
    planes = [numbers[:, :, k : k + 1] for k in range(page.shape[2])] if layout.planes else [numbers]
    pieces = []
    for plane in planes:
        if not layout.tile:
            pieces += [plane[i : i + 2] for i in range(0, len(plane), 2)]
            continue
        side = layout.tile
        padded = np.pad(plane, (*((0, -n % side) for n in plane.shape[:2]), (0, 0)))
        pieces += [
            padded[i : i + side, j : j + side]
            for i in range(0, padded.shape[0], side)
            for j in range(0, padded.shape[1], side)
        ]
    return [_predicted(piece, layout.predictor) for piece in pieces]


def _predicted(piece: np.ndarray, predictor: int) -> bytes:
    """The bytes of a strip or tile, as differences of neighbours where that is wanted."""
    rows, _, samples = piece.shape
    if predictor == 2:
        native = piece.astype(piece.dtype.newbyteorder("="))
        return np.diff(native, axis=1, prepend=native.dtype.type(0)).astype(piece.dtype).tobytes()
    if predictor == 3:
        size = piece.dtype.itemsize
        by_byte = piece.astype(piece.dtype.newbyteorder(">")).reshape(rows, -1, 1).view(np.uint8)
        shuffled = by_byte.reshape(rows, -1, size).transpose(0, 2, 1).reshape(rows, -1, samples)
        return np.diff(shuffled, axis=1, prepend=np.uint8(0)).tobytes()
    return piece.tobytes()


def _tags(page: np.ndarray, layout: Layout, places: list[int], lengths: list[int]) -> dict[int, Sequence[int]]:
    height, width, channels = page.shape
    kind = {"u": 1, "i": 2, "f": 3}[page.dtype.kind]
    extra = layout.extra if layout.extra is not None else (0,) * (channels - (3 if layout.photometric == RGB else 1))
    tags: dict[int, Any] = {
        256: [width],
        257: [height],
        258: [8 * page.dtype.itemsize] * channels,
        259: [8 if layout.deflate else 1],
        262: [layout.photometric],
        274: [layout.orientation],
        277: [channels],
        284: [2 if layout.planes else 1],
        317: [layout.predictor],
        338: extra,
        339: [kind] * channels,
    }
    if layout.tile:
        tags |= {322: [layout.tile], 323: [layout.tile], 324: places, 325: lengths}
    else:
        tags |= {273: places, 278: [2], 279: lengths}
    return {tag: values for tag, values in sorted(tags.items()) if len(values)}


def _directory(tags: dict[int, Sequence[int]], at: int, order: str) -> bytes:
    beyond, entries, lists = at + 2 + 12 * len(tags) + 4, b"", b""
    for tag, values in tags.items():
        packed = struct.pack(f"{order}{len(values)}I", *values)
        if len(values) > 1:
            packed, lists = struct.pack(f"{order}I", beyond + len(lists)), lists + packed
        entries += struct.pack(f"{order}HHI", tag, 4, len(values)) + packed
    return struct.pack(f"{order}H", len(tags)) + entries + bytes(4) + lists
