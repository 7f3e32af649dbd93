"""The overlap of predicted and true regions: Dice and IoU of each class, from a table of pixels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["confusion_of", "dice_of", "iou_of", "soft_dice_loss"]


def confusion_of(predicted: Tensor, true: Tensor, classes: int) -> Tensor:
    """int64 (classes, classes): how many pixels of class i were predicted as class j."""
    pairs = true.flatten() * classes + predicted.flatten()
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


def dice_of(confusion: Tensor) -> Tensor:
    """2 |A ∩ B| / (|A| + |B|) of each class, float64 (classes,); not a number for a class that is in neither.

    >>> dice_of(torch.tensor([[3, 1], [0, 2]]))
    tensor([0.8571, 0.8000], dtype=torch.float64)
    """
    both, sides = _counts(confusion)
    return 2 * both / sides


def iou_of(confusion: Tensor) -> Tensor:
    """|A ∩ B| / |A ∪ B| of each class, float64 (classes,); not a number for a class that is in neither."""
    both, sides = _counts(confusion)
    return both / (sides - both)


def soft_dice_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """1 - the mean over classes of 2 Σ p t / (Σ p + Σ t), with probabilities p and the truth t over all pixels.

    Unlike cross-entropy it does not matter how many pixels a class has. A class that occurs in no mask of the batch
    does not count: its best value would be reached only if nothing at all is predicted.

    Args:
        scores: (batch, classes, height, width).
        labels: int64, (batch, height, width).
    """
    probabilities = scores.softmax(1).transpose(0, 1).flatten(1)
    truth = F.one_hot(labels.flatten(), scores.shape[1]).T.to(probabilities.dtype)
    size = truth.sum(1)
    dice = 2 * (probabilities * truth).sum(1) / (probabilities.sum(1) + size).clamp_min(1e-6)
    shown = (size > 0).to(dice.dtype)
    return 1 - (dice * shown).sum() / shown.sum()


def _counts(confusion: Tensor) -> tuple[Tensor, Tensor]:
    table = confusion.double()
    return table.diagonal(), table.sum(0) + table.sum(1)
