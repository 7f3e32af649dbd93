"""What a pose does to a segmentation: overlap with the truth, and drift of the scores, under each element of D4."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from steerable.algebra.families import dihedral
from steerable.data.images import Progress
from steerable.data.masked_images import MaskedImages
from steerable.training.overlaps import confusion_of, dice_of, iou_of
from steerable.training.poses import PoseReport
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["POSED", "SegmentationPoses", "segmentation_poses"]

POSED = 64  # images that are turned; of more, every second, third … is


@dataclass(frozen=True, kw_only=True)
class SegmentationPoses(PoseReport):
    """Accuracy of pixels, overlap and drift by element of the group, and how the pixels of upright images were taken.

    The scores of a turned image are turned back first: ``drift[g]`` is the mean of ‖g⁻¹f(gx) - f(x)‖ / ‖f(x)‖, which
    is 0 for an equivariant network. ``dice`` and ``iou`` are means over the classes that occur; ``class_dice`` and
    ``class_iou`` are those of each class in the upright images, None for one that does not occur.
    """

    dice: dict[str, float]
    iou: dict[str, float]
    class_dice: dict[str, float | None]
    class_iou: dict[str, float | None]


@torch.no_grad()
def segmentation_poses(
    whole: Callable[[Tensor], Tensor], data: MaskedImages, *, progress: Progress | None = None
) -> SegmentationPoses:
    """Segment every pose of at most 64 images, and all images as they are.

    Args:
        whole: uint8 (channels, height, width) of any size → scores (classes, height, width), on the CPU.
        data: the test images.
        progress: called with (images tested, all images) after each image.
    """
    group, classes = dihedral(4), len(data.classes)
    kinds = FieldType(group, [(data.channels, group.trivial)]), FieldType(group, [(classes, group.trivial)])
    turned = range(0, len(data), -(-len(data) // POSED))
    tables = {element: torch.zeros(classes, classes, dtype=torch.long) for element in group.elements}
    every = torch.zeros(classes, classes, dtype=torch.long)
    drift = dict.fromkeys(group.elements, 0.0)
    for number, image in enumerate(data.images):
        truth, upright = data.class_map(number), whole(image)
        every += confusion_of(upright.argmax(0), truth, classes)
        for element in group.elements if number in turned else ():
            said = upright
            if element != group.identity:
                said = transform(whole(transform(image, element, kinds[0])), group.inverse(element), kinds[1])
            tables[element] += confusion_of(said.argmax(0), truth, classes)
            drift[element] += float((said - upright).norm() / upright.norm().clamp_min(1e-12)) / len(turned)
        if progress is not None:
            progress(number + 1, len(data))
    return SegmentationPoses(
        accuracy={g: float(table.diagonal().sum() / table.sum()) for g, table in tables.items()},
        drift=drift,
        confusion=every.tolist(),
        dice={g: float(dice_of(table).nanmean()) for g, table in tables.items()},
        iou={g: float(iou_of(table).nanmean()) for g, table in tables.items()},
        class_dice=_by_class(data.classes, dice_of(every)),
        class_iou=_by_class(data.classes, iou_of(every)),
    )


def _by_class(classes: tuple[str, ...], values: Tensor) -> dict[str, float | None]:
    return {name: None if value != value else value for name, value in zip(classes, values.tolist(), strict=True)}
