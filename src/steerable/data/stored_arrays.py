"""The contents of a file by its header: an image or a volume, with channels of any depth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from steerable.data.files import Unusable

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["Numbers", "StoredImage", "depth_of", "stored_array"]

Numbers = npt.NDArray[Any]
SIDES = {2: "height, width", 3: "depth, height, width"}


@dataclass(frozen=True)
class StoredImage:
    """An image or a volume in a file, by its header; the numbers are read when they are needed.

    Args:
        size: (width, height), or (width, height, depth) of a volume.
        depth: what its numbers are, as :class:`~steerable.data.pixel_formats.PixelFormat` calls it.
        channels: how many channels are used.
        numbers: reads them, (channels, height, width) or (channels, depth, height, width).
        picture: the image as Pillow opened it, where it is an ordinary one, 8-bit and grey or with colours.
        unused: whether the file has further pages, and channels besides red, green and blue, that nobody has chosen.
        spacing: how far apart voxels are, in the order of ``size``; empty if all are equally far.
    """

    size: tuple[int, ...]
    depth: str
    channels: int
    numbers: Callable[[], Numbers]
    picture: Image.Image | None = None
    unused: tuple[bool, bool] = (False, False)
    spacing: tuple[float, ...] = ()

    @property
    def side(self) -> float:
        """The side of the largest square or cube inside, counted in pixels or in the finest voxels."""
        spacing = self.spacing or (1.0,) * len(self.size)
        return min(n * s for n, s in zip(self.size, spacing, strict=True)) / min(spacing)


def stored_array(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    load: Callable[[], Numbers],
    axes: int,
    *,
    channels_last: bool | None = None,
    spacing: tuple[float, ...] = (),
) -> StoredImage:
    """The kind of an array of this shape and type: an image or a volume, possibly with channels first or last.

    With one axis more than an image or a volume has, the channels are the first axis, unless the last one is shorter or
    ``channels_last`` says otherwise. ``Unusable`` if it is neither.
    """
    if len(shape) not in (axes, axes + 1) or not math.prod(shape) or dtype.kind not in "buif":
        either = SIDES[axes]
        with_channels = f"{either}, channels" if channels_last else f"channels, {either}"
        raise Unusable(f"it holds {dtype} of shape {shape}, expected numbers ({either}) or ({with_channels})")
    has_channels = len(shape) > axes
    fewer = shape[-1] < shape[0] if channels_last is None else channels_last  # channels are fewer than pixels
    are_last = has_channels and fewer
    sides = shape[:-1] if are_last else shape[-axes:]
    channels = (shape[-1] if are_last else shape[0]) if has_channels else 1
    # Negative numbers are counts, which eight bits without a sign cannot hold.
    kept = np.dtype(np.int16) if dtype == np.int8 else np.dtype(np.uint8) if dtype.kind == "b" else dtype

    def numbers() -> Numbers:
        array = load()
        planes = np.moveaxis(array, -1, 0) if are_last else array if has_channels else array[None]
        return np.array(planes * np.uint8(255) if dtype.kind == "b" else planes, kept)

    return StoredImage(sides[::-1], depth_of(kept), channels, numbers, spacing=spacing)


def depth_of(dtype: np.dtype[Any]) -> str:
    """The name of a type of numbers.

    >>> depth_of(np.dtype(np.uint16)), depth_of(np.dtype(np.float32))
    ('16-bit', 'floating-point')
    """
    return "floating-point" if dtype.kind == "f" else f"{8 * dtype.itemsize}-bit"
