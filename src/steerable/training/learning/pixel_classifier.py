"""The Lightning module for segmentation: a class or an object for each pixel, trained on tiles, tested on images."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics import Metric

from steerable.data.masked_images import MaskKind
from steerable.models.tiling import Tiling, predict_in_tiles
from steerable.training.evaluation.average_precision import OVERLAPS, average_precisions
from steerable.training.evaluation.overlaps import confusion_of, dice_of, iou_of
from steerable.training.evaluation.pixel_answers import PixelAnswer, answer_for
from steerable.training.learning.classifier import Batch, Classifier

__all__ = ["PixelClassifier"]


class _Figures(Metric):
    """Counts pixels by their true and their predicted class, and adds up how well the objects of images are found."""

    table: Tensor
    precisions: Tensor
    images: Tensor

    def __init__(self, answer: PixelAnswer) -> None:
        super().__init__(sync_on_compute=False)  # every process sees all images
        self.answer = answer
        classes = answer.classes
        self.add_state("table", torch.zeros(classes, classes, dtype=torch.long), dist_reduce_fx=None)
        self.add_state("precisions", torch.zeros(len(OVERLAPS), dtype=torch.float64), dist_reduce_fx=None)
        self.add_state("images", torch.zeros((), dtype=torch.long), dist_reduce_fx=None)

    def update(self, fields: Tensor, mask: Tensor) -> None:
        classes = mask.clamp_max(self.answer.classes - 1)  # of objects, there is one class
        found = confusion_of(self.answer.class_map(fields), classes, self.answer.classes)
        self.table = self.table + found.to(self.table.device)
        if self.answer.kind == "instances":
            right = torch.from_numpy(average_precisions(self.answer.labels(fields), np.asarray(mask)))
            self.precisions = self.precisions + right.to(self.precisions.device, self.precisions.dtype)
        self.images = self.images + 1

    def compute(self) -> dict[str, Tensor]:
        table = self.table
        found = {
            "accuracy": table.diagonal().sum() / table.sum(),
            "dice": dice_of(table).nanmean(),
            "iou": iou_of(table).nanmean(),
        }
        if self.answer.kind == "instances":
            found |= {
                "average_precision": self.precisions.mean() / self.images,
                "ap50": self.precisions[0] / self.images,
            }
        return found


class PixelClassifier(Classifier):
    """Trains a network on uint8 tiles with masks, and tests it on images of any size.

    The model maps (batch, channels, height, width) to (batch, outputs, height, width);
    :class:`~steerable.training.evaluation.pixel_answers.PixelAnswer` says what the outputs and the loss are. Of whole
    images it logs loss, accuracy of pixels, and the means of Dice and IoU over the classes that occur; of numbered
    objects also the mean average precision. See :class:`~steerable.training.learning.classifier.Classifier` for
    further arguments.

    Args:
        kind: what the numbers of the masks mean.
    """

    def __init__(self, *arguments: Any, num_classes: int, kind: MaskKind = "classes", **options: Any) -> None:
        self.answer = answer_for(kind, num_classes)
        super().__init__(*arguments, num_classes=num_classes, **options)

    def make_figures(self, num_classes: int) -> nn.ModuleDict:
        return nn.ModuleDict({stage: _Figures(self.answer) for stage in ("val", "test")})

    @property
    def chosen_by(self) -> str:
        """The figure that such networks are judged by; their loss may fall or rise for the same objects."""
        return "average_precision" if self.answer.kind == "instances" else "dice"

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.answer.loss(scores, labels, self.recipe.label_smoothing)

    def whole(self, image: Tensor) -> Tensor:
        """The outputs for an image of any size, uint8 (channels, height, width) → float32 (outputs, height, width)."""
        return predict_in_tiles(self, image, Tiling.for_network(self.best_model))

    def _score(self, batch: Batch, stage: str) -> None:
        images, masks = batch
        fields, truth = self.whole(images[0]), masks[0].cpu()
        self.figures[stage].update(fields, truth)  # type: ignore[operator]
        loss = self.answer.loss(fields[None], truth[None])
        self.log(f"{stage}_loss", loss, on_epoch=True, on_step=False, batch_size=1)

    def on_validation_epoch_end(self) -> None:
        self._log_figures("val")

    def on_test_epoch_end(self) -> None:
        self._log_figures("test")

    def _log_figures(self, stage: str) -> None:
        metric = self.figures[stage]
        for name, value in metric.compute().items():  # type: ignore[operator]
            self.log(f"{stage}_{name}", value.float())
        metric.reset()  # type: ignore[operator]
