"""What a pose does to a classifier: accuracy on, and change of the scores under, each element of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from steerable.algebra.families import dihedral
from steerable.algebra.group_interface import Group
from steerable.data.images import Progress
from steerable.data.labelled_images import LabelledImages
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["PoseReport", "pose_report"]


@dataclass(frozen=True)
class PoseReport:
    """Accuracy and drift by element of the group, and the confusion matrix of the upright images.

    ``drift[g]`` is the mean of ‖f(gx) - f(x)‖ / ‖f(x)‖ over the images x, f being the class scores: 0 for an invariant
    network. ``confusion[i][j]`` counts images of class i that were taken for class j.
    """

    accuracy: dict[str, float]
    drift: dict[str, float]
    confusion: list[list[int]]

    @property
    def upright(self) -> float:
        """Accuracy on the images as they are."""
        return next(iter(self.accuracy.values()))

    @property
    def all_poses(self) -> float:
        """Mean accuracy over all elements."""
        return sum(self.accuracy.values()) / len(self.accuracy)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "upright": self.upright, "all_poses": self.all_poses}


@torch.no_grad()
def pose_report(
    scores: Callable[[Tensor], Tensor],
    data: LabelledImages,
    *,
    group: Group | None = None,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> PoseReport:
    """Run a classifier on every pose of every image.

    Args:
        scores: uint8 images (n, channels, height, width) → (n, classes).
        data: the test images.
        group: whose elements to try; D4 by default, C2 or D2 … for images that are not square.
        device: where to run.
        batch_size: images at a time; by default fewer of large images.
        progress: called with (images tested, all images) after each batch.
    """
    batch_size = data.comfortable_batch if batch_size is None else batch_size
    square = data.images.shape[-1] == data.images.shape[-2]
    group = group if group is not None else dihedral(4 if square else 2)
    image_type = FieldType(group, [(data.images.shape[1], group.trivial)])
    correct = dict.fromkeys(group.elements, 0)
    drift = dict.fromkeys(group.elements, 0.0)
    confusion = torch.zeros(len(data.classes), len(data.classes), dtype=torch.long)
    for start in range(0, len(data), batch_size):
        images = data.images[start : start + batch_size].to(device)
        labels = data.labels[start : start + batch_size].to(device)
        upright = scores(images).float()
        confusion.index_put_((labels.cpu(), upright.argmax(1).cpu()), torch.tensor(1), accumulate=True)
        for element in group.elements:
            is_upright = element == group.identity
            moved = upright if is_upright else scores(transform(images, element, image_type)).float()
            correct[element] += int((moved.argmax(1) == labels).sum())
            change = (moved - upright).norm(dim=1) / upright.norm(dim=1).clamp_min(1e-12)
            drift[element] += float(change.sum())
        if progress is not None:
            progress(min(start + batch_size, len(data)), len(data))
    n = len(data)
    return PoseReport({g: c / n for g, c in correct.items()}, {g: d / n for g, d in drift.items()}, confusion.tolist())
