"""The effect of turning an image by any angle on a classifier: accuracy, and change of the scores, over a circle."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from steerable.algebra.families import so2
from steerable.algebra.group_interface import Group
from steerable.data.labelled_images import LabelledImages
from steerable.transforms import elements_on_the_grid, transform
from steerable.types.field_types import FieldType

__all__ = ["TURNED", "TURNS", "PoseTally", "group_of", "poses_of", "turns", "turns_off_the_grid"]

TURNS = range(0, 360, 15)
"""The angles that are tried, in degrees, counter-clockwise."""

TURNED = 250
"""At most this many images are turned by all of these angles."""


class PoseTally:
    """Accuracy, and mean of ‖f(gx) - f(x)‖ / ‖f(x)‖, by pose g, of scores f that come batch by batch."""

    def __init__(self) -> None:
        self.correct: Counter[str] = Counter()
        self.drift: defaultdict[str, float] = defaultdict(float)

    def add(self, pose: str, said: Tensor, before: Tensor, labels: Tensor) -> None:
        """Add scores in a pose, those of the same images before they were moved, and the true classes."""
        self.correct[pose] += int((said.argmax(1) == labels).sum())
        self.drift[pose] += float(((said - before).norm(dim=1) / before.norm(dim=1).clamp_min(1e-12)).sum())

    def means(self, count: int) -> tuple[dict[str, float], dict[str, float]]:
        """(accuracy, drift) of this many images."""
        return {g: n / count for g, n in self.correct.items()}, {g: d / count for g, d in self.drift.items()}


def group_of(model: object) -> Group | None:
    """The group of a network whose input has a type; None for plain networks."""
    group = getattr(getattr(model, "in_type", None), "group", None)
    return group if isinstance(group, Group) else None


def turns_off_the_grid(group: Group | None) -> bool:
    """Whether a group turns the plane by angles that the pixel grid does not carry."""
    return group is not None and group.axes == 2 and not set(group.generators) <= set(elements_on_the_grid(group))


def poses_of(group: Group | None, poses: Group) -> list[str]:
    """The elements of a group of poses, such as D4, that move images as an element of another group does."""
    found = []
    for pose in poses.grid_elements:
        matrix = poses.motion(pose)
        with suppress(ValueError):
            if group is not None and group.axes == poses.axes and matrix is not None:
                group.element(matrix)
                found.append(str(pose))
    return found


@torch.no_grad()
def turns(
    scores: Callable[[Tensor], Tensor],
    data: LabelledImages,
    chosen: Tensor,
    *,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
) -> tuple[dict[str, float], dict[str, float]]:
    """(accuracy, drift) by angle in degrees, such as ``"15"``, of the first images of a sample; they have to be square.

    What leaves the square as an image turns cannot count, so all images are confined to the disc inside it first.
    """
    chosen = chosen[:TURNED]
    group = so2()
    image_type = FieldType(group, [(data.images.shape[1], group.trivial)])
    tally = PoseTally()
    for part in chosen.split(batch_size or data.comfortable_batch):
        images, labels = data.images[part].to(device).float(), data.labels.cpu()[part]
        around = _outside(images)
        confined = torch.where(_inside(images), images, around)
        before = scores(_as_bytes(confined)).float().cpu()
        for angle in TURNS:
            said = before
            if angle:
                turned = transform(confined - around, group.rotation(angle), image_type)
                said = scores(_as_bytes(turned + around)).float().cpu()
            tally.add(str(angle), said, before, labels)
    return tally.means(len(chosen))


def _inside(images: Tensor) -> Tensor:
    size = images.shape[-1]
    place = torch.arange(size, device=images.device) - (size - 1) / 2
    return torch.hypot(place[:, None], place) <= size / 2


def _outside(images: Tensor) -> Tensor:
    """(n, channels, 1, 1): the mean of the pixels outside the disc, or of all pixels if none are outside."""
    outside = ~_inside(images)
    values = images[..., outside] if outside.any() else images.flatten(2)
    return values.mean(dim=-1)[..., None, None]


def _as_bytes(images: Tensor) -> Tensor:
    return images.round().clamp(0, 255).byte()
