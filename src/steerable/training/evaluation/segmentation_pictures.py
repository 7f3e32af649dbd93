"""Pictures of a segmentation: image, truth, prediction and error, in several poses."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steerable.algebra.families import dihedral
from steerable.data.masked_images import MaskedImages
from steerable.training.evaluation.average_precision import average_precisions
from steerable.training.evaluation.mistakes import as_png, thumbnail
from steerable.training.evaluation.overlaps import confusion_of, dice_of
from steerable.training.evaluation.pixel_answers import PixelAnswer
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["class_colours", "example_pictures"]

EXAMPLES = 5
LOOKED_AT = 64  # images among which the examples are chosen
POSES = ("e", "r", "m")
LARGEST_SIDE = 160
RED, ORANGE, GREY = (220, 40, 40), (240, 150, 30), 0.45

Numbers = npt.NDArray[Any]


@torch.no_grad()
def example_pictures(whole: Callable[[Tensor], Tensor], answer: PixelAnswer, data: MaskedImages) -> dict[str, Any]:
    """Five test images from the worst to the best, each upright, turned and mirrored.

    Args:
        whole: uint8 (channels, height, width) of any size → outputs (outputs, height, width), on the CPU.
        answer: what the outputs stand for.
        data: the test images.

    Returns:
        Plain values for JSON: the ``colours`` of the classes, and ``examples`` with the file, the mean Dice over the
        classes that occur, for numbered objects the mean average precision, and for each pose base64 of the PNGs
        ``image``, ``truth``, ``prediction`` and ``error``.
    """
    classes = len(data.classes)
    scored = []
    for number in range(0, len(data), -(-len(data) // LOOKED_AT)):
        said = whole(data.images[number])
        table = confusion_of(answer.class_map(said), data.class_map(number), classes)
        figures = {"dice": float(dice_of(table).nanmean())}
        if answer.kind == "instances":
            right = average_precisions(answer.labels(said), data.masks[number].numpy())
            figures["average_precision"] = float(right.mean())
        scored.append((figures, number))
    scored.sort(key=lambda pair: (pair[0].get("average_precision", 0.0), pair[0]["dice"]))
    places = np.linspace(0, len(scored) - 1, min(EXAMPLES, len(scored))).round().astype(int)
    group = dihedral(4)
    kinds = FieldType(group, [(data.channels, group.trivial)]), FieldType(group, "A1")
    examples = []
    for figures, number in (scored[place] for place in places):
        poses = []
        for pose in POSES:
            image = transform(data.images[number], pose, kinds[0])
            truth = transform(data.masks[number][None], pose, kinds[1])[0].numpy()
            labels = answer.labels(whole(image))
            if answer.kind == "instances":
                wrong = _badly_found(labels, truth)
                poses.append({"pose": pose, **_pictures(image, truth, _renumbered(labels, truth), wrong)})
            else:
                poses.append({"pose": pose, **_pictures(image, truth, labels)})
        examples.append({"file": data.files[number] if data.files else None, **figures, "poses": poses})
    colours = [f"#{bytes(colour).hex()}" for colour in (*class_colours(classes), ORANGE)]
    if answer.kind == "instances":
        names = [data.classes[0], "each object has a colour", "belongs to an object that overlaps with none by half"]
        return {"colours": dict(zip(names, colours, strict=True)), "examples": examples}
    return {"colours": dict(zip(data.classes, colours, strict=False)), "examples": examples}


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


def _pictures(image: Tensor, truth: Numbers, said: Numbers, badly_found: Numbers | None = None) -> dict[str, str]:
    """The four pictures; for objects, a pixel is wrong if it is background in one and not in the other."""
    wrong = said != truth if badly_found is None else (said > 0) != (truth > 0)
    colours = class_colours(int(max(truth.max(), said.max())) + 1)
    grey = (GREY * image[:3].float().mean(0).numpy()).astype(np.uint8)
    error = np.repeat(grey[..., None], 3, axis=2)
    if badly_found is not None:
        error[badly_found] = ORANGE
    error[wrong] = RED
    return {
        "image": thumbnail(image, LARGEST_SIDE),
        "truth": _png(colours[truth]),
        "prediction": _png(colours[said]),
        "error": _png(error),
    }


def _renumbered(said: Numbers, truth: Numbers) -> Numbers:
    """Predicted objects with the number of the true one that they cover most of, so that both have the same colour."""
    others = int(truth.max()) + 1
    number = np.arange(said.max() + 1) + others
    number[0] = 0
    for which in range(1, len(number)):
        covered = np.bincount(truth[said == which], minlength=2)
        if covered[1:].any():
            number[which] = covered[1:].argmax() + 1
    # Of several predicted objects in one true object, one only has its colour.
    taken: set[int] = set()
    for which in range(1, len(number)):
        number[which] = others + which if int(number[which]) in taken else number[which]
        taken.add(int(number[which]))
    return number[said]


def _badly_found(said: Numbers, truth: Numbers) -> Numbers:
    """Whether a pixel belongs to a true object that no predicted one overlaps by more than half of both."""
    size, found = np.bincount(said.ravel()), np.zeros(truth.shape, bool)
    for which in range(1, int(truth.max()) + 1):
        here = truth == which
        shared = np.bincount(said[here], minlength=len(size))
        shared[0] = 0
        found |= here & ~(shared / (size + here.sum() - shared) > 0.5).any()
    return found


def _png(pixels: npt.NDArray[np.uint8]) -> str:
    """(height, width, 3) as base64 of a PNG whose sides are at most 160 pixels; labels keep their colours."""
    from PIL import Image

    picture = Image.fromarray(pixels)
    if (longest := max(picture.size)) > LARGEST_SIDE:
        size = tuple(max(1, round(side * LARGEST_SIDE / longest)) for side in picture.size)
        picture = picture.resize(size, Image.Resampling.NEAREST)  # type: ignore[arg-type]
    return as_png(picture)
