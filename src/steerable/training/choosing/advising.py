"""``steerable advise``: look at a folder of images, and say which group, head, size and time suit them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steerable.training.choosing.advice import Recommendation
from steerable.training.choosing.fitting import ENOUGH
from steerable.training.choosing.looking import Findings, find_out, with_changes
from steerable.training.choosing.sizing import count_parameters, sizes_to_try
from steerable.training.choosing.speed import this_machine, with_speed
from steerable.training.choosing.timing import epochs_within, steps_per_epoch
from steerable.training.learning.preparing import TrainingData, from_data, prepare_data
from steerable.training.phases import Phase, unseen
from steerable.training.requests.config import RECIPES_OF_OWN_IMAGES, RunConfig

__all__ = ["Advice", "SizeAndTime", "advise", "look_at_images"]

FEW_A_CLASS = 20
ASSUMED = 10.0  # minutes; steps are timed for a hundredth of them at most
LONGEST = 30.0  # the most minutes that are recommended, unless even the fastest network needs more
UNEVEN = 5.0  # times the images of the smallest class
MINUTES = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120)


@dataclass(frozen=True)
class SizeAndTime:
    """A size of the network, and the minutes in which it has enough epochs on this machine."""

    parameters: int
    minutes: float


@dataclass(frozen=True)
class Advice:
    """The findings, and how large a network to train for how long.

    Args:
        data: names of the classes, counts, sizes and what was noticed.
        findings: about the images.
        sizes: the sizes of the recommended network, from small to large.
        minutes: how long to train.
        sentences: (choice, why) for each thing that can be chosen.
        command: the command line that follows from it.
    """

    data: Mapping[str, Any]
    findings: Findings
    sizes: tuple[SizeAndTime, ...]
    minutes: float
    sentences: Mapping[str, tuple[str, str]]
    command: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "data": dict(self.data),
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
        seconds: how long to look, not counting reading. The look at the images has a fixed number of steps, and
            the seconds that it leaves are for timing sizes of the network.
        phase: shows what is being done.
        shown_as: the folder as the user wrote it, for the command line.
    """
    data = _read(config, phase)
    end = time.monotonic() + seconds
    findings = find_out(config, data, phase)
    chosen = with_changes(config, findings.recommendation.model, findings.recommendation.changes)
    with phase("timing sizes of the network"):
        sizes = _sizes(chosen, data, end)
    minutes, about = _minutes(sizes), _about(data)
    known = len(sizes_to_try(chosen.model, data.side))
    sentences = {
        **_about_network(chosen, findings.recommendation),
        **_about_time(sizes, minutes, known),
        "recipe": (RECIPES_OF_OWN_IMAGES[config.task], _images_in_words(about)),
    }
    command = _command(shown_as or config.dataset, findings.recommendation, minutes)
    return Advice(about, findings, sizes, minutes, sentences, command)


def look_at_images(config: RunConfig, *, phase: Phase = unseen) -> Findings:
    """The part of :func:`advise` that is about the network only: group, head and augmentation."""
    return find_out(config, _read(config, phase), phase)


def _read(config: RunConfig, phase: Phase) -> TrainingData:
    if config.volumes:
        raise ValueError(
            f"`{config.dataset}` holds volumes, and advice is about images, which it turns in the plane. Train with "
            "the defaults; --compare plain says whether they help."
        )
    with phase("reading images") as reading:
        return prepare_data(config, progress=reading)


def _sizes(config: RunConfig, data: TrainingData, end: float) -> tuple[SizeAndTime, ...]:
    """The minutes that each size needs for enough epochs, from a few timed steps, up to the first that needs many.

    A size is timed where there is time until ``end``, by ``time.monotonic``, for one that is twice as slow as the last.
    """
    steps = steps_per_epoch(config, data)
    needed = min(max(epochs, least / steps) for epochs, least in ENOUGH)
    settings = with_speed(config, this_machine(config), config.recipe.epochs * steps)
    found: list[SizeAndTime] = []
    for model in sizes_to_try(config.model, data.side):
        sized = replace(settings, model=model, parameters=None)
        begun = time.monotonic()
        minutes = epochs_within(time.perf_counter() + 60 * ASSUMED, sized, data, settle=False).minutes_for(needed)
        found.append(SizeAndTime(count_parameters({**model, **from_data(model, data)}), round(minutes, 2)))
        now = time.monotonic()
        if minutes > 2 * LONGEST or now + 2 * (now - begun) > end:
            break
    return tuple(found)


def _minutes(sizes: Sequence[SizeAndTime]) -> float:
    """Enough minutes for the largest size that needs at most half an hour, else for the fastest; in round numbers."""
    within = [size.minutes for size in sizes if size.minutes <= LONGEST] or [sizes[0].minutes]
    return float(next((number for number in MINUTES if number >= max(within)), round(max(within))))


def _about(data: TrainingData) -> dict[str, Any]:
    """Facts about the images; those that are held out for validation count as training images."""
    rest = (0,) * len(data.train.counts) if data.validation is None else data.validation.counts
    counts = [a + b for a, b in zip(data.train.counts, rest, strict=True)]
    known = data.summary()
    training = known["images"]["train"] + known["images"]["validation"]
    return {**known, "images": {"training": training, "test": known["images"]["test"]}, "counts": counts}


def _about_network(config: RunConfig, recommendation: Recommendation) -> dict[str, tuple[str, str]]:
    """(choice, why) for group, head and augmentation."""
    model = config.model
    group = model.get("group", "D4" if "plain" not in model["name"] else "none")
    return {
        "group": (str(group), recommendation.group),
        "head": (str(model.get("head", "equivariant")), recommendation.head),
        "augmentation": (_flags(recommendation.changes) or "as usual", recommendation.augmentation),
    }


def _about_time(sizes: Sequence[SizeAndTime], minutes: float, known: int) -> dict[str, tuple[str, str]]:
    """(choice, why) for size and minutes; some of the ``known`` sizes may not have been timed."""
    fitting = [size for size in sizes if size.minutes <= minutes] or [sizes[0]]
    largest = f"{fitting[-1].parameters:,} parameters"
    more = [size for size in sizes if size.minutes > minutes]
    if more:
        beyond = f"; {more[0].minutes:.0f} would be enough for {more[0].parameters:,}"
    else:
        beyond = ", the largest there is" if len(sizes) == known else "; more --seconds would time larger ones"
    epochs = ENOUGH[0][0]
    return {
        "size": (
            largest,
            f"the largest one timed that has about {epochs} epochs in that time; `train` chooses by itself",
        ),
        "minutes": (f"{minutes:g}", f"on this machine that is enough for {largest}{beyond}"),
    }


def _images_in_words(about: Mapping[str, Any]) -> str:
    """The consequences of the number of images and their classes for the training."""
    counts = [count for count in about["counts"] if count]
    parts = [f"suited to {sum(about['images'].values()):,} images like these: small batches, averaged weights"]
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
    """Settings of a recipe as options of the command line."""
    return " ".join(f"--{'' if value else 'no-'}{key}" for key, value in changes.items())
