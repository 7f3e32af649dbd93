"""Pictures of what a network makes of images: image, truth, prediction and error, in several poses."""

from __future__ import annotations

import base64
import colorsys
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steerable.algebra.families import dihedral
from steerable.data.masked_images import MaskedImages
from steerable.training.mistakes import thumbnail
from steerable.training.overlaps import confusion_of, dice_of
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["class_colours", "example_pictures"]

EXAMPLES = 5
LOOKED_AT = 64  # images among which the examples are chosen
POSES = ("e", "r", "m")
LARGEST_SIDE = 160
RED, GREY = (220, 40, 40), 0.45


@torch.no_grad()
def example_pictures(whole: Callable[[Tensor], Tensor], data: MaskedImages) -> dict[str, Any]:
    """Five test images from the worst to the best, each upright, turned and mirrored.

    Args:
        whole: uint8 (channels, height, width) of any size → scores (classes, height, width), on the CPU.
        data: the test images.

    Returns:
        Plain values for JSON: the ``colours`` of the classes, and ``examples`` with the file, the mean Dice over the
        classes that occur, and for each pose base64 of the PNGs ``image``, ``truth``, ``prediction`` and ``error``.
    """
    classes, colours = len(data.classes), class_colours(len(data.classes))
    scored = []
    for number in range(0, len(data), -(-len(data) // LOOKED_AT)):
        table = confusion_of(whole(data.images[number]).argmax(0), data.class_map(number), classes)
        scored.append((float(dice_of(table).nanmean()), number))
    scored.sort()
    places = np.linspace(0, len(scored) - 1, min(EXAMPLES, len(scored))).round().astype(int)
    group = dihedral(4)
    kinds = FieldType(group, [(data.channels, group.trivial)]), FieldType(group, "A1")
    examples = []
    for dice, number in (scored[place] for place in places):
        poses = []
        for pose in POSES:
            image = transform(data.images[number], pose, kinds[0])
            truth = transform(data.class_map(number)[None], pose, kinds[1])[0]
            poses.append({"pose": pose, **_pictures(image, truth, whole(image).argmax(0), colours)})
        examples.append({"file": data.files[number] if data.files else None, "dice": dice, "poses": poses})
    return {
        "colours": {name: f"#{bytes(colour).hex()}" for name, colour in zip(data.classes, colours, strict=True)},
        "examples": examples,
    }


def class_colours(classes: int) -> npt.NDArray[np.uint8]:
    """A colour for each class, uint8 (classes, 3): dark for the first, which is the background, bright for the others.

    >>> class_colours(2).tolist()
    [[24, 24, 32], [255, 188, 77]]
    """
    found = [(24, 24, 32)]
    for number in range(classes - 1):
        hue = (0.104 + number * 0.618034) % 1  # the golden section keeps neighbours apart
        found.append(tuple(round(255 * part) for part in colorsys.hsv_to_rgb(hue, 0.7, 1.0)))  # type: ignore[arg-type]
    return np.array(found[:classes], np.uint8)


def _pictures(image: Tensor, truth: Tensor, said: Tensor, colours: npt.NDArray[np.uint8]) -> dict[str, str]:
    wrong = (said != truth).numpy()
    grey = (GREY * image[:3].float().mean(0).numpy()).astype(np.uint8)
    error = np.repeat(grey[..., None], 3, axis=2)
    error[wrong] = RED
    return {
        "image": thumbnail(image, LARGEST_SIDE),
        "truth": _png(colours[truth.numpy()]),
        "prediction": _png(colours[said.numpy()]),
        "error": _png(error),
    }


def _png(pixels: npt.NDArray[np.uint8]) -> str:
    """(height, width, 3) as base64 of a PNG whose sides are at most 160 pixels; labels keep their colours."""
    from PIL import Image

    picture = Image.fromarray(pixels)
    if (longest := max(picture.size)) > LARGEST_SIDE:
        size = tuple(max(1, round(side * LARGEST_SIDE / longest)) for side in picture.size)
        picture = picture.resize(size, Image.Resampling.NEAREST)  # type: ignore[arg-type]
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()
