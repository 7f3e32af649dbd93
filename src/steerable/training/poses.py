"""What a pose does to a classifier: accuracy on, and change of the scores under, each element of a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.families import dihedral
from steerable.algebra.group_interface import Group
from steerable.data.images import Progress
from steerable.data.labelled_images import LabelledImages
from steerable.training.turns import poses_of, turns, turns_off_the_grid
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["POSE_SAMPLE", "PoseReport", "pose_report", "upright_scores"]


POSE_SAMPLE = 2000
"""Of larger test sets so many images are tried in all poses, chosen at random; upright ones are all tested."""


@dataclass(frozen=True)
class PoseReport:
    """Accuracy and drift by element of the group, and the confusion matrix of the upright images.

    ``drift[g]`` is the mean of ‖f(gx) - f(x)‖ / ‖f(x)‖ over the images x, f being the class scores: 0 for an invariant
    network. ``confusion[i][j]`` counts images of class i that were taken for class j, of all images. ``images`` says
    how many of them were tried in all poses; 0 stands for all.

    ``group`` is the name of the network's own group, empty for a plain one, and ``own_poses`` are the elements that it
    contains. Where it also turns images by angles that the pixel grid does not carry, ``turned_accuracy`` and
    ``turned_drift`` have the figures of images inside a disc by angle, such as ``"15"`` for 15° counter-clockwise.
    """

    accuracy: dict[str, float]
    drift: dict[str, float]
    confusion: list[list[int]]
    images: int = 0
    group: str = ""
    own_poses: list[str] = field(default_factory=list)
    turned_accuracy: dict[str, float] = field(default_factory=dict)
    turned_drift: dict[str, float] = field(default_factory=dict)

    @property
    def upright(self) -> float:
        """Accuracy on all images as they are."""
        count = sum(map(sum, self.confusion))
        return sum(row[c] for c, row in enumerate(self.confusion)) / count if count else 0.0

    @property
    def all_poses(self) -> float:
        """Mean accuracy over all elements."""
        return sum(self.accuracy.values()) / len(self.accuracy)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "upright": self.upright, "all_poses": self.all_poses}


@torch.no_grad()
def upright_scores(
    scores: Callable[[Tensor], Tensor],
    data: LabelledImages,
    *,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
) -> Tensor:
    """(n, classes) in float32 on the CPU: what a classifier says of each image as it is."""
    images = data.images.split(batch_size or data.comfortable_batch)
    return torch.cat([scores(part.to(device)).float().cpu() for part in images])


@torch.no_grad()
def pose_report(
    scores: Callable[[Tensor], Tensor],
    data: LabelledImages,
    *,
    group: Group | None = None,
    own: Group | None = None,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    progress: Progress | None = None,
    upright: Tensor | None = None,
) -> PoseReport:
    """Run a classifier on every image, and on every pose of at most 2,000 of them, the same ones each time.

    Args:
        scores: uint8 images (n, channels, height, width) → (n, classes).
        data: the test images.
        group: whose elements to try; D4 by default, C2 or D2 … for images that are not square.
        own: the network's own group. If it turns images by other angles than the pixel grid does, so are square images.
        device: where to run.
        batch_size: images at a time; by default fewer of large images.
        progress: called with (images tested in all poses, all of them) after each batch.
        upright: what :func:`upright_scores` gives, where it is known already.
    """
    batch_size = data.comfortable_batch if batch_size is None else batch_size
    known = upright_scores(scores, data, device=device, batch_size=batch_size) if upright is None else upright
    confusion = torch.zeros(len(data.classes), len(data.classes), dtype=torch.long)
    confusion.index_put_((data.labels.cpu(), known.argmax(1)), torch.tensor(1), accumulate=True)
    square = data.images.shape[-1] == data.images.shape[-2]
    group = group if group is not None else dihedral(4 if square else 2)
    image_type = FieldType(group, [(data.images.shape[1], group.trivial)])
    chosen = _sample(len(data))
    correct = dict.fromkeys(group.elements, 0)
    drift = dict.fromkeys(group.elements, 0.0)
    for number, part in enumerate(chosen.split(batch_size), start=1):
        images, labels, before = data.images[part].to(device), data.labels.cpu()[part], known[part]
        for element in group.elements:
            moved = before
            if element != group.identity:
                moved = scores(transform(images, element, image_type)).float().cpu()
            correct[element] += int((moved.argmax(1) == labels).sum())
            change = (moved - before).norm(dim=1) / before.norm(dim=1).clamp_min(1e-12)
            drift[element] += float(change.sum())
        if progress is not None:
            progress(min(number * batch_size, len(chosen)), len(chosen))
    n = len(chosen)
    by_element = {g: c / n for g, c in correct.items()}, {g: d / n for g, d in drift.items()}
    turned: tuple[dict[str, float], dict[str, float]] = ({}, {})
    if square and turns_off_the_grid(own):
        turned = turns(scores, data, chosen, device=device, batch_size=batch_size)
    name, contained = ("" if own is None else own.name), poses_of(own, group)
    return PoseReport(*by_element, confusion.tolist(), n, name, contained, *turned)


def _sample(count: int) -> Tensor:
    """The sorted numbers of the images that are tried in all poses: all, or a random choice that never changes."""
    if count <= POSE_SAMPLE:
        return torch.arange(count)
    return torch.from_numpy(np.sort(np.random.default_rng(0).permutation(count)[:POSE_SAMPLE]))
