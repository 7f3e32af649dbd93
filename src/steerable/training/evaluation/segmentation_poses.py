"""The effect of a pose on a segmentation: overlap with the truth, and drift of the outputs, for each element of D4."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steerable.algebra.families import dihedral
from steerable.data.images import Progress
from steerable.data.masked_images import MaskedImages
from steerable.training.evaluation.average_precision import OVERLAPS, average_precisions
from steerable.training.evaluation.overlaps import confusion_of, dice_of, iou_of
from steerable.training.evaluation.pixel_answers import PixelAnswer
from steerable.training.evaluation.poses import PoseReport
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["POSED", "SegmentationPoses", "posed_segmentations", "segmentation_poses"]

Precisions = npt.NDArray[np.float64]

POSED = 64  # images that are turned; of more, every second, third … is


@dataclass(frozen=True, kw_only=True)
class SegmentationPoses(PoseReport):
    """Accuracy of pixels, overlap and drift by element of the group, and the confusion matrix of upright pixels.

    The outputs for a turned image are turned back first: ``drift[g]`` is the mean of ‖g⁻¹f(gx) - f(x)‖ / ‖f(x)‖, which
    is 0 for an equivariant network. ``dice`` and ``iou`` are means over the classes that occur; ``class_dice`` and
    ``class_iou`` are those of each class in the upright images, None for one that does not occur. Where masks hold
    objects, ``average_precision`` is the mean over images and overlaps of
    :func:`~steerable.training.evaluation.average_precision.average_precisions`, and ``precisions`` has the mean over
    the upright images for each overlap.
    """

    dice: dict[str, float]
    iou: dict[str, float]
    class_dice: dict[str, float | None]
    class_iou: dict[str, float | None]
    average_precision: dict[str, float] = field(default_factory=dict)
    precisions: dict[str, float] = field(default_factory=dict)


@torch.no_grad()
def segmentation_poses(
    whole: Callable[[Tensor], Tensor], answer: PixelAnswer, data: MaskedImages, *, progress: Progress | None = None
) -> SegmentationPoses:
    """Segment every pose of at most 64 images, and all images as they are.

    Args:
        whole: uint8 (channels, height, width) of any size → outputs (outputs, height, width), on the CPU.
        answer: what the outputs stand for.
        data: the test images.
        progress: called with (images tested, all images) after each image.
    """
    classes = len(data.classes)
    every = torch.zeros(classes, classes, dtype=torch.long)
    tables: dict[str, Tensor] = {}
    drift: dict[str, float] = {}
    found: dict[str, Precisions] = {}
    precisions: Precisions = np.zeros(len(OVERLAPS))
    has_objects = answer.kind == "instances"
    turned = len(range(0, len(data), _every(len(data))))
    for number, element, said in posed_segmentations(whole, answer, data, progress=progress):
        table = confusion_of(answer.class_map(said), data.class_map(number), classes)
        right = average_precisions(answer.labels(said), data.masks[number].numpy()) if has_objects else precisions
        if element is None:
            every, upright = every + table, said
            precisions = precisions + right / len(data)
            continue
        tables[element] = tables.get(element, 0) + table
        found[element] = found.get(element, 0.0) + right / turned
        change = float((said - upright).norm() / upright.norm().clamp_min(1e-12))
        drift[element] = drift.get(element, 0.0) + change / turned
    return SegmentationPoses(
        accuracy={g: float(table.diagonal().sum() / table.sum()) for g, table in tables.items()},
        drift=drift,
        confusion=every.tolist(),
        dice={g: float(dice_of(table).nanmean()) for g, table in tables.items()},
        iou={g: float(iou_of(table).nanmean()) for g, table in tables.items()},
        class_dice=_by_class(data.classes, dice_of(every)),
        class_iou=_by_class(data.classes, iou_of(every)),
        average_precision={g: float(values.mean()) for g, values in found.items()} if has_objects else {},
        precisions=dict(zip(map(str, OVERLAPS), precisions.tolist(), strict=True)) if has_objects else {},
    )


@torch.no_grad()
def posed_segmentations(
    whole: Callable[[Tensor], Tensor], answer: PixelAnswer, data: MaskedImages, *, progress: Progress | None = None
) -> Iterator[tuple[int, str | None, Tensor]]:
    """(number of an image, element, the answer in that pose, turned back), image by image.

    Each image comes upright first, with None for the element, and some of them then under each element, ``e`` included.
    See :func:`segmentation_poses` for the arguments.
    """
    group = dihedral(4)
    kinds = FieldType(group, [(data.channels, group.trivial)]), answer.out_type(group)
    for number, image in enumerate(data.images):
        upright = whole(image)
        yield number, None, upright
        for element in group.elements if number % _every(len(data)) == 0 else ():
            said = upright
            if element != group.identity:
                said = transform(whole(transform(image, element, kinds[0])), group.inverse(element), kinds[1])
            yield number, element, said
        if progress is not None:
            progress(number + 1, len(data))


def _every(count: int) -> int:
    """The images that are turned: the first, and then one in every few."""
    return -(-count // POSED)


def _by_class(classes: tuple[str, ...], values: Tensor) -> dict[str, float | None]:
    return {name: None if value != value else value for name, value in zip(classes, values.tolist(), strict=True)}
