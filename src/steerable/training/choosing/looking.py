"""A look at training images: how well their poses are told, and whether another network does better in a short trial.

The look takes a fixed number of steps from a seed, so that the same images give the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steerable.data.images import Progress
from steerable.data.masked_images import MaskedImages
from steerable.training.choosing.advice import (
    CLEARLY,
    TURNS,
    Alternative,
    Recommendation,
    alternative,
    orientation,
    recommended,
)
from steerable.training.choosing.pose_probe import PoseEvidence, probe_poses, probe_tilt
from steerable.training.choosing.quick_trials import Trial, try_both
from steerable.training.choosing.sizing import sizes_to_try
from steerable.training.learning.preparing import Images, TrainingData
from steerable.training.phases import Phase
from steerable.training.requests.config import RunConfig

__all__ = ["Findings", "find_out", "images_to_probe", "poses_told", "tried", "with_changes"]

PROBED = 800  # images
PROBE_STEPS = 100  # of each of the two probes
FEWEST_TO_PROBE = 8  # images
SMALLEST_TO_TILT = 12  # pixels; in fewer the grid of pixels tells how far an image was turned
HELD_OUT_FOR_TRIAL = 0.25  # of the training images
FEWEST_TO_TRY_BY, MOST_TO_TRY_BY = 20, 1_000  # images that are held out
TRIAL_STEPS, TRIAL_BATCH = 120, 32  # of each of the two networks, which are the fastest ones of their kinds


@dataclass(frozen=True)
class Findings:
    """The findings about the images, and the recommendation for the network.

    Args:
        poses: how well turns by 90° and mirror images were told; None if there are too few images.
        tilt: how well tilts were told, if that matters.
        trial: the result of the alternative, if one was tried.
        recommendation: group, head and augmentation, with their reasons.
    """

    poses: PoseEvidence | None
    tilt: PoseEvidence | None
    trial: Trial | None
    recommendation: Recommendation

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        measured = {"poses": self.poses, "tilt": self.tilt, "trial": self.trial}
        return {
            **{name: None if found is None else asdict(found) for name, found in measured.items()},
            "model": dict(self.recommendation.model),
            "recipe": dict(self.recommendation.changes),
            "why": self.recommendation.group,
        }


def find_out(config: RunConfig, data: TrainingData, phase: Phase) -> Findings:
    """The group, head and augmentation that the images recommend; test images are not looked at."""
    with phase("looking for an up in the images") as progress:
        poses = poses_told(data, config.seed, progress)
    tilt, trial, found = None, None, None
    if poses is not None:
        if max(poses.told[move].value for move in TURNS) < CLEARLY and data.side >= SMALLEST_TO_TILT:
            with phase("looking for tilts") as progress:
                images, specimens = images_to_probe(data, config.seed)
                tilt = probe_tilt(images, specimens, steps=PROBE_STEPS, seed=config.seed, progress=progress)
        found = orientation(poses, tilt)
        if (other := alternative(found, config.task)) is not None:
            with phase(f"trying {other.what.partition(',')[0]}") as progress:
                trial = tried(config, data, other, progress)
    count = 0 if poses is None else poses.images
    return Findings(poses, tilt, trial, recommended(found, trial, config.task, count))


def poses_told(data: TrainingData, seed: int, progress: Progress | None = None) -> PoseEvidence | None:
    """How well turns by 90° and mirror images are told; None if there are too few images."""
    images, specimens = images_to_probe(data, seed)
    if len(images) < FEWEST_TO_PROBE:
        return None
    return probe_poses(images, specimens, steps=PROBE_STEPS, seed=seed, progress=progress)


def tried(config: RunConfig, data: TrainingData, other: Alternative, progress: Progress | None = None) -> Trial | None:
    """The result of another network against the config's, on held-out training images; None if they are too few."""
    held_out = min(MOST_TO_TRY_BY, int(HELD_OUT_FOR_TRIAL * len(data.train)))
    if held_out < FEWEST_TO_TRY_BY or len(data.train) - len(data.train.classes) < held_out:
        return None
    train, validation = data.train.split(held_out, seed=config.seed)
    if isinstance(train, MaskedImages) and isinstance(validation, MaskedImages):
        validation = validation.middles(float(train.samples_per_epoch))  # whole ones may take longer than the trial
    quick = replace(config.recipe, batch_size=min(TRIAL_BATCH, config.recipe.batch_size))
    config = replace(config, recipe=quick, parameters=None)
    both = config, with_changes(config, other.model, other.changes)
    usual, changed = (replace(each, model=sizes_to_try(each.model, data.side)[0]) for each in both)
    data = replace(data, train=train, validation=validation)
    return try_both(usual, changed, data, steps=TRIAL_STEPS, progress=progress)


def with_changes(config: RunConfig, model: Mapping[str, Any], changes: Mapping[str, Any]) -> RunConfig:
    """The request with other options of the model and other settings of the recipe, which decide what a pose means."""
    model = dict(model) if "name" in model else {**config.model, **model}  # another model has other options
    return replace(config, model=model, recipe=replace(config.recipe, **changes), orientation="model")


def images_to_probe(data: TrainingData, seed: int, most: int = PROBED) -> tuple[Tensor, Sequence[str]]:
    """Training and validation images, uint8 (n, channels, side, side), and specimens; with masks, the middles."""
    parts = [part for part in (data.train, data.validation) if part is not None]
    images = torch.cat([_squares(part) for part in parts])
    specimens = [name for part in parts for name in getattr(part, "specimens", ())]
    if len(images) <= most:
        return images, specimens
    chosen = np.sort(np.random.default_rng(seed).permutation(len(images))[:most])
    return images[torch.from_numpy(chosen)], [specimens[k] for k in chosen] if specimens else ()


def _squares(images: Images) -> Tensor:
    """The middle squares of images; if sizes differ, they are as large as the smallest image, or a tile."""
    if not isinstance(images, MaskedImages):
        return _middle(images.images, min(images.image_size))
    side = min(images.tile, *(min(image.shape[1:]) for image in images.images))
    return torch.stack([_middle(image, side) for image in images.images])


def _middle(images: Tensor, side: int) -> Tensor:
    top, left = ((length - side) // 2 for length in images.shape[-2:])
    return images[..., top : top + side, left : left + side]
