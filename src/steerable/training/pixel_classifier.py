"""The Lightning module for segmentation: a class for each pixel, trained on tiles and tested on whole images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import Metric

from steerable.models.tiling import Tiling, predict_in_tiles
from steerable.training.classifier import Batch, Classifier
from steerable.training.overlaps import confusion_of, dice_of, iou_of, soft_dice_loss

__all__ = ["PixelClassifier"]


class _Confusion(Metric):
    """Counts pixels by their true and their predicted class."""

    table: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__(sync_on_compute=False)  # every process sees all images
        self.classes = classes
        self.add_state("table", torch.zeros(classes, classes, dtype=torch.long), dist_reduce_fx=None)

    def update(self, predicted: Tensor, true: Tensor) -> None:
        self.table = self.table + confusion_of(predicted, true, self.classes).to(self.table.device)

    def compute(self) -> Tensor:
        return self.table


class PixelClassifier(Classifier):
    """Trains a network on uint8 tiles by cross-entropy and Dice, and tests it on images of any size.

    The model maps (batch, channels, height, width) to (batch, classes, height, width). The loss is the sum of the
    pixels' mean cross-entropy, which is smooth, and of the Dice loss, which sees small classes as well as large ones.
    Of whole images it logs loss, accuracy of pixels, and the means of Dice and IoU over the classes that occur. See
    :class:`~steerable.training.classifier.Classifier` for the arguments.
    """

    def make_figures(self, num_classes: int) -> nn.ModuleDict:
        return nn.ModuleDict({stage: _Confusion(num_classes) for stage in ("val", "test")})

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        entropy = F.cross_entropy(scores, labels, label_smoothing=self.recipe.label_smoothing)
        return entropy + soft_dice_loss(scores, labels)

    def whole(self, image: Tensor) -> Tensor:
        """The scores of an image of any size, uint8 (channels, height, width) → float32 (classes, height, width)."""
        return predict_in_tiles(self, image, Tiling.for_network(self.best_model))

    def _score(self, batch: Batch, stage: str) -> None:
        images, labels = batch
        scores, truth = self.whole(images[0])[None], labels.cpu()
        self.figures[stage].update(scores.argmax(1), truth)  # type: ignore[operator]
        loss = F.cross_entropy(scores, truth) + soft_dice_loss(scores, truth)
        self.log(f"{stage}_loss", loss, on_epoch=True, on_step=False, batch_size=1)

    def on_validation_epoch_end(self) -> None:
        self._log_overlaps("val")

    def on_test_epoch_end(self) -> None:
        self._log_overlaps("test")

    def _log_overlaps(self, stage: str) -> None:
        metric = self.figures[stage]
        table: Tensor = metric.compute()  # type: ignore[operator]
        metric.reset()  # type: ignore[operator]
        found = {
            "accuracy": table.diagonal().sum() / table.sum(),
            "dice": dice_of(table).nanmean(),
            "iou": iou_of(table).nanmean(),
        }
        for name, value in found.items():
            self.log(f"{stage}_{name}", value.float())
