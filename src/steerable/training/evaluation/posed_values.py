"""The results of a network on each single test image in every pose: the figures by which two networks are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steerable.data.images import Progress
from steerable.data.labelled_images import LabelledImages
from steerable.data.masked_images import MaskedImages
from steerable.training.evaluation.average_precision import average_precisions
from steerable.training.evaluation.overlaps import confusion_of, dice_of
from steerable.training.evaluation.pixel_answers import ClassScores, PixelAnswer
from steerable.training.evaluation.poses import posed_images, posed_scores, upright_scores
from steerable.training.evaluation.segmentation_poses import posed_segmentations

__all__ = ["PosedValues", "posed_values", "upright_values"]

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PosedValues:
    """Figures of single images, from 0 to 1.

    Args:
        upright: (n,), of all images as they are: 1 if an image is recognised; the mean Dice over the classes that
            occur where it is segmented.
        all_poses: (m,), the mean of the same over all poses, of the images that are tried in them.
        agreement: (m,), 1 if an image gets the same class in all poses; if it is segmented, the share of its
            pixels that are.
        tried: (m,), the numbers of these images.
        upright_precision: (n,), of images whose objects are numbered, the mean average precision; else None.
        posed_precision: (m,), the mean of the same over all poses.
    """

    upright: Values
    all_poses: Values
    agreement: Values
    tried: npt.NDArray[np.int64]
    upright_precision: Values | None = None
    posed_precision: Values | None = None


def posed_values(
    network: Callable[[Tensor], Tensor],
    data: LabelledImages | MaskedImages,
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
    answer: PixelAnswer | None = None,
) -> PosedValues:
    """The figures of each test image.

    Args:
        network: uint8 images (n, channels, height, width) → scores (n, classes) on ``device``; for images with masks
            one image (channels, height, width) of any size → (classes, height, width), on the CPU.
        data: the test images.
        device: where a classifier is.
        progress: called with (images tested, all images).
        answer: the meaning of outputs at each pixel of images with masks; by default the scores of the classes.
    """
    if isinstance(data, MaskedImages):
        return _of_pixels(network, answer or ClassScores(len(data.classes)), data, progress)
    upright = upright_scores(network, data, device=device)
    answers: dict[str, list[Tensor]] = {}
    for _, element, scores in posed_scores(network, data, upright, device=device, progress=progress):
        answers.setdefault(element, []).append(scores.argmax(1))
    tried = posed_images(data)
    by_pose = torch.stack([torch.cat(parts) for parts in answers.values()])
    labels = data.labels.cpu()
    return PosedValues(
        _numbers(upright.argmax(1) == labels),
        _numbers((by_pose == labels[tried]).double().mean(0)),
        _numbers((by_pose == by_pose[0]).all(0)),
        tried.numpy(),
    )


@torch.no_grad()
def upright_values(
    network: Callable[[Tensor], Tensor],
    data: LabelledImages | MaskedImages,
    *,
    device: torch.device | str = "cpu",
    answer: PixelAnswer | None = None,
) -> Values:
    """The same figures of the upright images only, (n,)."""
    if isinstance(data, MaskedImages):
        said = answer or ClassScores(len(data.classes))
        return np.array([_dice(said.class_map(network(image)), data, k) for k, image in enumerate(data.images)])
    return _numbers(upright_scores(network, data, device=device).argmax(1) == data.labels.cpu())


def _dice(said: Tensor, data: MaskedImages, number: int) -> float:
    """The mean Dice over the classes that occur in an image."""
    return float(dice_of(confusion_of(said, data.class_map(number), len(data.classes))).nanmean())


def _of_pixels(
    whole: Callable[[Tensor], Tensor], answer: PixelAnswer, data: MaskedImages, progress: Progress | None
) -> PosedValues:
    has_objects = answer.kind == "instances"
    upright: list[list[float]] = []
    tried: dict[int, list[list[float]]] = {}
    shares: dict[int, float] = {}
    for number, element, scores in posed_segmentations(whole, answer, data, progress=progress):
        said = answer.class_map(scores)
        figures = [_dice(said, data, number)]
        if has_objects:
            figures.append(float(average_precisions(answer.labels(scores), data.masks[number].numpy()).mean()))
        if element is None:
            upright.append(figures)
            first, same = said, torch.ones_like(said, dtype=torch.bool)
            continue
        tried.setdefault(number, []).append(figures)
        same &= said == first
        shares[number] = float(same.double().mean())
    dice, *precision = np.array(upright).T
    posed_dice, *posed_precision = np.array([np.mean(each, axis=0) for each in tried.values()]).T
    agreement, numbers = np.array(list(shares.values())), np.array(list(tried), np.int64)
    return PosedValues(dice, posed_dice, agreement, numbers, *precision, *posed_precision)


def _numbers(values: Tensor) -> Values:
    found: Values = values.double().cpu().numpy()
    return found
