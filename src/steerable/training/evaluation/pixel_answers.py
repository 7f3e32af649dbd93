"""The meaning of a network's outputs at each pixel: the scores of classes, or the fields of numbered objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.algebra.families import group_named
from steerable.algebra.group_interface import Group
from steerable.data.instance_growing import courses, grown_instances
from steerable.data.masked_images import MaskKind
from steerable.data.object_fields import BACKGROUND, INSIDE, PARTS, RADIUS, instance_fields, instance_type
from steerable.training.evaluation.overlaps import soft_dice_loss
from steerable.types.field_types import FieldType

__all__ = ["ClassScores", "ObjectFields", "PixelAnswer", "answer_for"]

Band = tuple[int, Tensor]
"""The first row, and a network's outputs for the rows from there on, (outputs, rows, width)."""


@dataclass(frozen=True)
class PixelAnswer(ABC):
    """The meaning of a network's outputs at a pixel.

    Args:
        classes: how many classes accuracy, Dice and IoU tell apart; objects are one, and the background another.
    """

    classes: int
    kind: ClassVar[MaskKind]

    @abstractmethod
    def out_type(self, group: Group | str) -> FieldType:
        """The type of the outputs; a plain network has the same number of channels."""

    @abstractmethod
    def loss(self, fields: Tensor, masks: Tensor, smoothing: float = 0.0) -> Tensor:
        """The loss that training minimises.

        Args:
            fields: what the network says, (batch, outputs, height, width).
            masks: the truth, int64 (batch, height, width).
            smoothing: the share of a label that all classes get.
        """

    @abstractmethod
    def class_map(self, fields: Tensor) -> Tensor:
        """The class of each pixel, int64 (height, width), from outputs (outputs, height, width)."""

    @abstractmethod
    def label_image(self, bands: Iterable[Band], size: tuple[int, int]) -> npt.NDArray[Any]:
        """The numbers of classes or objects, (height, width), from the bands of an image of this size."""

    def labels(self, fields: Tensor) -> npt.NDArray[Any]:
        """The same from the outputs for a whole image, (outputs, height, width)."""
        return self.label_image([(0, fields)], (fields.shape[1], fields.shape[2]))


@dataclass(frozen=True)
class ClassScores(PixelAnswer):
    """One score for each class. The loss is cross-entropy plus Dice, so that small classes count as well."""

    kind: ClassVar[MaskKind] = "classes"

    def out_type(self, group: Group | str) -> FieldType:
        group = group_named(group) if isinstance(group, str) else group
        return FieldType(group, [(self.classes, group.trivial)])

    def loss(self, fields: Tensor, masks: Tensor, smoothing: float = 0.0) -> Tensor:
        return F.cross_entropy(fields, masks, label_smoothing=smoothing) + soft_dice_loss(fields, masks)

    def class_map(self, fields: Tensor) -> Tensor:
        return fields.argmax(0)

    def label_image(self, bands: Iterable[Band], size: tuple[int, int]) -> npt.NDArray[Any]:
        found = np.empty(size, np.uint8)
        for first, band in bands:
            found[first : first + band.shape[1]] = band.argmax(0).numpy()
        return found


@dataclass(frozen=True)
class ObjectFields(PixelAnswer):
    """Scores of background, inside and boundary, and a vector to the centre of the pixel's object.

    See :func:`~steerable.data.object_fields.instance_fields`. The loss is the mean of two: that of two classes,
    background and object; and for the pixels of objects, however many there are, the mean of the cross-entropy of
    inside and boundary plus the squared error of the vectors in radii, |v - v*|². A sum would have steeper slopes than
    the loss of classes, and need a learning rate of its own.
    """

    classes: int = 2
    kind: ClassVar[MaskKind] = "instances"

    def out_type(self, group: Group | str) -> FieldType:
        return instance_type(group)

    def loss(self, fields: Tensor, masks: Tensor, smoothing: float = 0.0) -> Tensor:
        parts, vectors = instance_fields(masks)
        scores, said = fields.split([len(PARTS), 2], dim=1)
        inside = scores[:, INSIDE:]
        two = torch.stack([scores[:, BACKGROUND], inside.logsumexp(1)], dim=1)
        found = (parts != BACKGROUND).long()
        which = (parts - INSIDE).clamp_min(0)
        entropy = F.cross_entropy(inside, which, reduction="none", label_smoothing=smoothing)
        error = (said - vectors).square().sum(1) / RADIUS**2
        of_objects: Tensor = ((entropy + error) * found).sum() / found.sum().clamp_min(1)
        return (ClassScores(self.classes).loss(two, found, smoothing) + of_objects) / 2

    def class_map(self, fields: Tensor) -> Tensor:
        return torch.from_numpy(courses(fields)[0] > 0).long()

    def label_image(self, bands: Iterable[Band], size: tuple[int, int]) -> npt.NDArray[Any]:
        course = np.empty((3, *size), np.int8)  # objects may reach over any number of bands
        for first, band in bands:
            course[:, first : first + band.shape[1]] = courses(band)
        return grown_instances(course)[0]


def answer_for(kind: MaskKind, classes: int) -> PixelAnswer:
    """The answer of a network that learns from masks of this kind."""
    return ObjectFields() if kind == "instances" else ClassScores(classes)
