"""``steerable advise``: look at a folder of images, and say which group, head, size and time suit them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

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
from steerable.training.choosing.fitting import ENOUGH
from steerable.training.choosing.pose_probe import PoseEvidence, probe_poses, probe_tilt
from steerable.training.choosing.quick_trials import Trial, changed_model, try_both
from steerable.training.choosing.sizing import count_parameters, sizes_to_try
from steerable.training.choosing.speed import this_machine, with_speed
from steerable.training.choosing.timing import epochs_within, steps_per_epoch
from steerable.training.learning.preparing import Images, TrainingData, from_data, prepare_data
from steerable.training.phases import Phase, unseen
from steerable.training.requests.config import RECIPES_OF_OWN_IMAGES, RunConfig

__all__ = [
    "FEWEST_TO_PROBE",
    "FEWEST_TO_TRY_BY",
    "HELD_OUT_FOR_TRIAL",
    "Advice",
    "Findings",
    "SizeAndTime",
    "advise",
    "images_to_probe",
    "look_at_images",
    "with_options",
]

HELD_OUT_FOR_TRIAL = 0.25  # of the training images, for the trial
FEWEST_TO_PROBE = 8
FEWEST_TO_TRY_BY = 20  # validation images
MOST_TO_PROBE = 2_000
PROBED_IN_A_SECOND = 80  # images at most, so that a short look is short also where there are many
SMALLEST_TO_TILT = 12  # pixels; in fewer the grid of pixels tells how far an image was turned
FEW_A_CLASS = 20
ASSUMED = 10.0  # minutes for which epochs are counted
LONGEST = 30.0  # minutes that are recommended at most, unless even the quickest network needs more
UNEVEN = 5.0  # times the images of the smallest class
TO_TIME_SIZES = 0.2  # of the seconds; of the rest, half is for the probes and half for the two networks of the trial
MINUTES = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120)


@dataclass(frozen=True)
class SizeAndTime:
    """A size of the network, and the minutes in which it has enough epochs on this machine."""

    parameters: int
    minutes: float


@dataclass(frozen=True)
class Findings:
    """What was found in the images, and what follows for the network.

    Args:
        data: names of the classes, counts, sizes and what was noticed.
        poses: how well turns by 90° and mirror images were told.
        tilt: how well tilts were told, where that matters.
        trial: how the alternative did, where there was one.
        recommendation: group, head and augmentation, with their reasons.
    """

    data: Mapping[str, Any]
    poses: PoseEvidence | None
    tilt: PoseEvidence | None
    trial: Trial | None
    recommendation: Recommendation

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        measured = {"poses": self.poses, "tilt": self.tilt, "trial": self.trial}
        return {
            "data": dict(self.data),
            **{name: None if found is None else asdict(found) for name, found in measured.items()},
            "model": dict(self.recommendation.model),
            "recipe": dict(self.recommendation.changes),
            "why": self.recommendation.group,
        }


@dataclass(frozen=True)
class Advice:
    """Findings, and how large a network to train for how long.

    Args:
        findings: about the images.
        sizes: the sizes of the recommended network, from small to large.
        minutes: how long to train.
        sentences: (choice, why) for each thing that can be chosen.
        command: the command line that follows from it.
    """

    findings: Findings
    sizes: tuple[SizeAndTime, ...]
    minutes: float
    sentences: Mapping[str, tuple[str, str]]
    command: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            **self.findings.to_dict(),
            "sizes": [vars(size) for size in self.sizes],
            "minutes": self.minutes,
            "advice": {name: {"choice": choice, "why": why} for name, (choice, why) in self.sentences.items()},
            "command": self.command,
        }


def advise(config: RunConfig, *, seconds: float = 60.0, phase: Phase = unseen, shown_as: str | None = None) -> Advice:
    """Look at the images of a request and recommend how to train on them; test images are not looked at.

    Args:
        config: the request with everything that is usual, as ``configured`` gives it.
        seconds: how long to look, besides reading images. What is begun then is still ended, so that a slow machine
            takes some seconds more; it also tries fewer sizes.
        phase: shows what is being done.
        shown_as: the folder as the user wrote it, for the command line.
    """
    data = _read(config, phase)
    end = time.monotonic() + seconds
    findings = _found(config, data, end - TO_TIME_SIZES * seconds, phase)
    chosen = with_options(config, findings.recommendation.model, findings.recommendation.changes)
    with phase("timing sizes of the network"):
        sizes = _sizes(chosen, data, end)
    minutes = _minutes(sizes)
    sentences = _sentences(chosen, findings, sizes, minutes, len(sizes_to_try(chosen.model, data.side)))
    command = _command(shown_as or config.dataset, findings.recommendation, minutes)
    return Advice(findings, sizes, minutes, sentences, command)


def look_at_images(config: RunConfig, *, seconds: float, phase: Phase = unseen) -> Findings:
    """The part of :func:`advise` that is about the network alone: group, head and augmentation."""
    data = _read(config, phase)
    return _found(config, data, time.monotonic() + seconds, phase)


def with_options(config: RunConfig, model: Mapping[str, Any], changes: Mapping[str, Any]) -> RunConfig:
    """The request with other options of the model and other settings of the recipe, which say what a pose means."""
    recipe = replace(config.recipe, **changes)
    return replace(config, model=changed_model(config.model, model), recipe=recipe, orientation="model")


def _read(config: RunConfig, phase: Phase) -> TrainingData:
    if config.volumes:
        raise ValueError(
            f"`{config.dataset}` holds volumes, and advice is about images, which it turns in the plane. Train with "
            "the defaults; --compare plain says whether they help."
        )
    with phase("reading images") as reading:
        return prepare_data(
            replace(config, validation=max(config.validation or 0.0, HELD_OUT_FOR_TRIAL)), progress=reading
        )


def _found(config: RunConfig, data: TrainingData, end: float, phase: Phase) -> Findings:
    """What was found until ``end``, by ``time.monotonic``."""
    half = (end - time.monotonic()) / 2
    poses, tilt = _probed(data, config, half, phase)
    found = None if poses is None else orientation(poses, tilt)
    each = min(half, end - time.monotonic()) / 2
    trial = None if found is None else _tried(config, data, alternative(found, config.task), each, phase)
    count = 0 if poses is None else poses.images
    return Findings(_about(data), poses, tilt, trial, recommended(found, trial, config.task, count))


def _probed(
    data: TrainingData, config: RunConfig, seconds: float, phase: Phase
) -> tuple[PoseEvidence | None, PoseEvidence | None]:
    """What the probes found: (turns and mirror images, tilts where quarter turns are not clearly told)."""
    images, specimens = images_to_probe(data, config.seed, min(MOST_TO_PROBE, round(PROBED_IN_A_SECOND * seconds)))
    if len(images) < FEWEST_TO_PROBE:
        return None, None
    begun = time.monotonic()
    with phase("looking for an up in the images") as progress:
        poses = probe_poses(images, specimens, until=begun + seconds / 2, seed=config.seed, progress=progress)
    if max(poses.told[move].value for move in TURNS) >= CLEARLY or images.shape[-1] < SMALLEST_TO_TILT:
        return poses, None
    with phase("looking for tilts") as progress:
        return poses, probe_tilt(images, specimens, until=begun + seconds, seed=config.seed, progress=progress)


def _tried(
    config: RunConfig, data: TrainingData, other: Alternative | None, seconds: float, phase: Phase
) -> Trial | None:
    """How the alternative did; None where there is none, or too few validation images or no time to tell."""
    if other is None or seconds <= 0 or data.validation is None or len(data.validation) < FEWEST_TO_TRY_BY:
        return None
    with phase(f"trying {other.what.partition(',')[0]}") as progress:
        return try_both(config, data, other.model, other.changes, seconds=seconds, progress=progress)


def images_to_probe(data: TrainingData, seed: int, most: int = MOST_TO_PROBE) -> tuple[Tensor, Sequence[str]]:
    """uint8 (n, channels, side, side), and their specimens: training and validation images, of masks the middle."""
    parts = [part for part in (data.train, data.validation) if part is not None]
    images = torch.cat([_squares(part) for part in parts])
    specimens = [name for part in parts for name in getattr(part, "specimens", ())]
    if len(images) <= most:
        return images, specimens
    chosen = np.sort(np.random.default_rng(seed).permutation(len(images))[:most])
    return images[torch.from_numpy(chosen)], [specimens[k] for k in chosen] if specimens else ()


def _squares(images: Images) -> Tensor:
    if not isinstance(images, MaskedImages):
        side = min(images.image_size)
        top, left = ((length - side) // 2 for length in images.image_size)
        return images.images[:, :, top : top + side, left : left + side]
    side = min(min(image.shape[1:]) for image in images.images)
    side = min(side, images.tile)
    middles = []
    for image in images.images:
        top, left = ((length - side) // 2 for length in image.shape[1:])
        middles.append(image[:, top : top + side, left : left + side])
    return torch.stack(middles)


def _sizes(config: RunConfig, data: TrainingData, end: float) -> tuple[SizeAndTime, ...]:
    """The minutes in which each size has enough epochs, from a few timed steps, up to the first that takes long.

    A size is timed where there is time until ``end``, by ``time.monotonic``, for one that is twice as slow as the last.
    """
    steps = steps_per_epoch(config, data)
    needed = min(max(epochs, least / steps) for epochs, least in ENOUGH)
    settings = with_speed(config, this_machine(config), config.recipe.epochs * steps)
    found: list[SizeAndTime] = []
    for model in sizes_to_try(config.model, data.side):
        sized = replace(settings, model=model, parameters=None)
        begun = time.monotonic()
        epochs = epochs_within(time.perf_counter() + 60 * ASSUMED, sized, data, settle=False)
        minutes = ASSUMED * needed / max(epochs, 1e-3)
        found.append(SizeAndTime(count_parameters({**model, **from_data(model, data)}), round(minutes, 2)))
        now = time.monotonic()
        if minutes > 2 * LONGEST or now + 2 * (now - begun) > end:
            break
    return tuple(found)


def _minutes(sizes: Sequence[SizeAndTime]) -> float:
    """Enough for the largest size that takes half an hour at most, else for the quickest; in round numbers."""
    within = [size.minutes for size in sizes if size.minutes <= LONGEST] or [sizes[0].minutes]
    return float(next((number for number in MINUTES if number >= max(within)), round(max(within))))


def _about(data: TrainingData) -> dict[str, Any]:
    """What is known of the images; those that were held out for the trial count as training images."""
    rest = (0,) * len(data.train.counts) if data.validation is None else data.validation.counts
    counts = [a + b for a, b in zip(data.train.counts, rest, strict=True)]
    known = data.summary()
    training = known["images"]["train"] + known["images"]["validation"]
    return {**known, "images": {"training": training, "test": known["images"]["test"]}, "counts": counts}


def _sentences(
    config: RunConfig, findings: Findings, sizes: Sequence[SizeAndTime], minutes: float, known: int
) -> dict[str, tuple[str, str]]:
    """What to choose, and why, for each thing that can be chosen; of ``known`` sizes, some may not have been timed."""
    model, recommendation = config.model, findings.recommendation
    fitting = [size for size in sizes if size.minutes <= minutes] or [sizes[0]]
    largest = f"{fitting[-1].parameters:,} parameters"
    more = [size for size in sizes if size.minutes > minutes]
    if more:
        beyond = f"; {more[0].minutes:.0f} would be enough for {more[0].parameters:,}"
    else:
        beyond = ", the largest there is" if len(sizes) == known else "; more --seconds would time larger ones"
    epochs = ENOUGH[0][0]
    return {
        "group": (str(model.get("group", "D4" if "plain" not in model["name"] else "none")), recommendation.group),
        "head": (str(model.get("head", "equivariant")), recommendation.head),
        "augmentation": (_flags(recommendation.changes) or "as usual", recommendation.augmentation),
        "size": (largest, f"the largest timed with some {epochs} epochs in that time; `train` chooses by itself"),
        "minutes": (f"{minutes:g}", f"on this machine that is enough for {largest}{beyond}"),
        "recipe": (RECIPES_OF_OWN_IMAGES[config.task], _images_in_words(findings.data)),
    }


def _images_in_words(about: Mapping[str, Any]) -> str:
    """What the number of images and their classes mean for the training."""
    counts = [count for count in about["counts"] if count]
    parts = [f"made for {sum(about['images'].values()):,} images such as these: small batches, averaged weights"]
    if len(counts) > 1 and max(counts) > UNEVEN * min(counts):
        parts.append(
            f"classes have {min(counts):,} to {max(counts):,} images, so look at balanced accuracy and F1 as well"
        )
    if counts and min(counts) < FEW_A_CLASS:
        parts.append("some classes have few images, and every figure is uncertain: see its interval (--compare plain)")
    return "; ".join(parts)


def _command(folder: str, recommendation: Recommendation, minutes: float) -> str:
    model = dict(recommendation.model)
    words = ["steerable", "train", folder, "--minutes", f"{minutes:g}"]
    for option in ("name", "group"):
        if option in model:
            words += [{"name": "--model"}.get(option, f"--{option}"), str(model.pop(option))]
    words += [text for key, value in model.items() for text in ("-m", f"{key}={value}")]
    return " ".join([shlex.join(words), *_flags(recommendation.changes).split()])


def _flags(changes: Mapping[str, Any]) -> str:
    """Settings of a recipe as the command line has them."""
    return " ".join(f"--{'' if value else 'no-'}{key}" for key, value in changes.items())
