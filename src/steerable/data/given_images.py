"""Images that a program has in memory, as the bytes that reading them from files would give."""

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
from steerable.data.stored_images import joined
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


def _stored(image: Any, selection: Selection) -> StoredImage:
    from PIL import Image

    axes = selection.axes
    if axes == 2 and isinstance(image, Image.Image):
        if not image.mode.startswith("I") and image.mode != "F":
            channels = 1 if image.mode in ("1", "L") else 3
            return StoredImage(image.size, "8-bit", channels, lambda: np.asarray(image), image)
        image = np.asarray(image).astype(np.float32 if image.mode == "F" else np.uint16)
    if not isinstance(image, Tensor | np.ndarray):
        kind, sides = ("a volume", "depth, height, width") if axes == 3 else ("an image", "height, width")
        ours = " or one of Pillow's" if axes == 2 else ""
        raise TypeError(
            f"{kind} is an array ({sides}, channels), a tensor (channels, {sides}){ours}; got {type(image).__name__}."
        )
    is_last = isinstance(image, np.ndarray)
    array = image if isinstance(image, np.ndarray) else _array_of(image)
    stored = stored_array(array.shape, array.dtype, lambda: array, axes, channels_last=is_last)
    if axes == 2 and array.dtype == np.uint8 and stored.channels in PICTURES and not selection:
        planes = np.ascontiguousarray(stored.numbers().transpose(1, 2, 0))
        picture = Image.fromarray(planes if stored.channels > 1 else planes[..., 0])
        return StoredImage(picture.size, "8-bit", min(3, stored.channels), stored.numbers, picture)
    return joined([stored], selection)


def _array_of(image: Tensor) -> Numbers:
    found: Numbers = image.detach().cpu().to(torch.float32 if image.dtype == torch.bfloat16 else image.dtype).numpy()
    return found
