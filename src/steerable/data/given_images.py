"""Images that a program has in memory, as the bytes that they would be if they were read from files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steerable.data.files import Unusable
from steerable.data.images import pixels_of
from steerable.data.pixel_formats import PixelFormat, Selection
from steerable.data.squares import Pixels, reduced
from steerable.data.stored_arrays import Numbers, StoredImage, stored_array
from steerable.data.stored_images import array_image, joined
from steerable.extras import require

__all__ = ["given_pixels"]

PICTURES = {1: "L", 3: "RGB", 4: "RGBA"}
"""What Pillow calls pictures of 8 bits, by their number of channels."""


def given_pixels(images: Iterable[Any], size: int | None, pixels: PixelFormat) -> list[Pixels]:
    """The bytes of each image, (channels, size, size), cut to its middle square and resized as files are.

    Of volumes it is the middle cube, (channels, size, size, size).

    Args:
        images: arrays (height, width) or (height, width, channels), tensors (channels, height, width), or Pillow's
            images; one array (n, height, width, channels) or one tensor (n, channels, height, width) is n of them.
            Arrays and tensors of volumes have a depth before the height.
        size: height and width; None for the images' own.
        pixels: how their numbers become bytes.
    """
    require("PIL", purpose="reading images")
    if isinstance(images, str | bytes) or not hasattr(images, "__iter__") or _is_one(images, pixels.selection):
        raise TypeError(
            f"expected several images, got one {type(images).__name__}. Give a list, [image], or an array with the "
            "axes (n, height, width, channels); files and folders are read by predict_files."
        )
    found: list[Pixels] = []
    for number, image in enumerate(images):
        try:
            whole = None if size is None else size * pixels.reduction
            found.append(reduced(pixels_of(_stored(image, pixels.selection), whole, pixels), pixels.reduction))
        except Unusable as error:
            raise ValueError(f"image {number} cannot be used: {error}.") from error
    return found


def _is_one(images: Any, selection: Selection) -> bool:
    return isinstance(images, np.ndarray | Tensor) and images.ndim < 2 + selection.axes


def _array_of(image: Tensor) -> Numbers:
    found: Numbers = image.detach().cpu().to(torch.float32 if image.dtype == torch.bfloat16 else image.dtype).numpy()
    return found


def _stored_volume(volume: Any, selection: Selection) -> StoredImage:
    if not isinstance(volume, Tensor | np.ndarray):
        raise TypeError(
            "a volume is an array (depth, height, width, channels) or a tensor (channels, depth, height, width); got "
            f"{type(volume).__name__}."
        )
    array = _array_of(volume) if isinstance(volume, Tensor) else volume
    is_last = isinstance(volume, np.ndarray)
    return joined([stored_array(array.shape, array.dtype, lambda: array, axes=3, channels_last=is_last)], selection)


def _stored(image: Any, selection: Selection) -> StoredImage:
    from PIL import Image

    if selection.axes == 3:
        return _stored_volume(image, selection)
    if isinstance(image, Tensor):
        array = _array_of(image)
        array = array.transpose(1, 2, 0) if array.ndim == 3 else array
    elif isinstance(image, Image.Image):
        if not image.mode.startswith("I") and image.mode != "F":
            kinds = ("L",) if image.mode in ("1", "L") else ("R", "G", "B")
            return StoredImage(image.size, "8-bit", len(kinds), lambda: np.asarray(image), image)
        array = np.asarray(image)
        array = array.astype(np.uint16) if image.mode.startswith("I") else array
    elif isinstance(image, np.ndarray):
        array = image
    else:
        raise TypeError(
            "an image is an array (height, width, channels), a tensor (channels, height, width) or one of Pillow's; "
            f"got {type(image).__name__}."
        )
    if array.ndim not in (2, 3) or not array.size:
        raise Unusable(f"it has the shape {array.shape}, expected (height, width) or (height, width, channels)")
    planes = array[..., None] if array.ndim == 2 else array
    if array.dtype == np.uint8 and planes.shape[2] in PICTURES and not selection:
        picture = Image.fromarray(planes if planes.shape[2] > 1 else planes[..., 0])
        return StoredImage(picture.size, "8-bit", min(3, planes.shape[2]), lambda: array, picture)
    return joined([array_image(np.ascontiguousarray(planes.transpose(2, 0, 1)))], selection)
