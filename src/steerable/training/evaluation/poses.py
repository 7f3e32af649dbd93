"""The effect of a pose on a classifier: accuracy on, and change of the scores under, each element of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.families import cyclic, dihedral
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.space_families import about_axis, octahedral
from steerable.data.images import Progress
from steerable.data.labelled_images import LabelledImages
from steerable.training.evaluation.turns import PoseTally, poses_of, turns, turns_off_the_grid
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = [
    "POSE_SAMPLE",
    "VOLUME_POSE_SAMPLE",
    "PoseReport",
    "all_poses",
    "pose_report",
    "posed_images",
    "posed_scores",
    "upright_scores",
]


POSE_SAMPLE = 1000
"""Of larger test sets, this many random images are tested in all poses; upright images are all tested."""
VOLUME_POSE_SAMPLE = 200
"""The same for volumes, which have 24 poses."""


@dataclass(frozen=True)
class PoseReport:
    """Accuracy and drift by element of the group, and the confusion matrix of the upright images.

    ``drift[g]`` is the mean of ‖f(gx) - f(x)‖ / ‖f(x)‖ over the images x, f being the class scores: 0 for an invariant
    network. ``confusion[i][j]`` counts images of class i that were predicted as class j, of all images. ``images`` says
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
    """The scores that a classifier gives each image as it is, (n, classes) in float32 on the CPU."""
    images = data.images.split(batch_size or data.comfortable_batch)
    return torch.cat([scores(part.to(device)).float().cpu() for part in images])


@torch.no_grad()
def pose_report(
    scores: Callable[[Tensor], Tensor],
    data: LabelledImages,
    *,
    own: Group | None = None,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    progress: Progress | None = None,
    upright: Tensor | None = None,
) -> PoseReport:
    """Run a classifier on every image, and on every pose of at most 1,000 of them, the same ones each time.

    Of volumes at most 200 are tried in all poses.

    Args:
        scores: uint8 images (n, channels, height, width), or volumes → (n, classes).
        data: the test images.
        own: the network's own group. If it turns images by other angles than the pixel grid does, so are square images.
        device: where to run.
        batch_size: images at a time; by default fewer of large images.
        progress: called with (images tested in all poses, all of them) after each batch.
        upright: what :func:`upright_scores` gives, where it is known already.
    """
    known = upright_scores(scores, data, device=device, batch_size=batch_size) if upright is None else upright
    confusion = torch.zeros(len(data.classes), len(data.classes), dtype=torch.long)
    confusion.index_put_((data.labels.cpu(), known.argmax(1)), torch.tensor(1), accumulate=True)
    tally, labels = PoseTally(), data.labels.cpu()
    moves = posed_scores(scores, data, known, device=device, batch_size=batch_size, progress=progress)
    for part, element, moved in moves:
        tally.add(element, moved, known[part], labels[part])
    n = len(posed_images(data))
    turned: tuple[dict[str, float], dict[str, float]] = ({}, {})
    sides = data.image_size
    if len(sides) == 2 and sides[0] == sides[1] and turns_off_the_grid(own):
        turned = turns(scores, data, posed_images(data), device=device, batch_size=batch_size)
    name, contained = ("" if own is None else own.name), poses_of(own, all_poses(sides))
    return PoseReport(*tally.means(n), confusion.tolist(), n, name, contained, *turned)


def all_poses(sides: Sequence[int]) -> FiniteGroup:
    """The turns and mirror images of an image, D4, or D2 if it is not square; the 24 turns of a cube, O.

    Volumes that are not cubes are turned about the axis of their depth alone.
    """
    across = 4 if sides[-1] == sides[-2] else 2
    if len(sides) == 2:
        return dihedral(across)
    return octahedral() if len(set(sides)) == 1 else about_axis(cyclic(across), "z")


@torch.no_grad()
def posed_scores(
    scores: Callable[[Tensor], Tensor],
    data: LabelledImages,
    upright: Tensor,
    *,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Tensor, str, Tensor]]:
    """(numbers of images, element, their scores in that pose), batch by batch and pose by pose, upright ones first.

    See :func:`pose_report` for the arguments.
    """
    batch_size = data.comfortable_batch if batch_size is None else batch_size
    group = all_poses(data.image_size)
    image_type = FieldType(group, [(data.images.shape[1], group.trivial)])
    chosen = posed_images(data)
    for number, part in enumerate(chosen.split(batch_size), start=1):
        images = data.images[part].to(device)
        yield part, group.identity, upright[part]
        for element in group.elements:
            if element != group.identity:
                yield part, element, scores(transform(images, element, image_type)).float().cpu()
        if progress is not None:
            progress(min(number * batch_size, len(chosen)), len(chosen))


def posed_images(data: LabelledImages) -> Tensor:
    """The sorted numbers of the images that are tested in all poses: all, or a random choice that never changes."""
    count, most = len(data), POSE_SAMPLE if len(data.image_size) == 2 else VOLUME_POSE_SAMPLE
    if count <= most:
        return torch.arange(count)
    return torch.from_numpy(np.sort(np.random.default_rng(0).permutation(count)[:most]))
