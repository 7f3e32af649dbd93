"""A short look at the images that decides whether a run may use which way up they are, unless its user has said so.

The look takes a few per cent of a run's time. A small probe learns to tell training images from their turned copies
(see :mod:`~steerable.training.choosing.pose_probe`). If it cannot do so clearly, the network gives the same answer in
every pose: a slight up is often an accident of how images were taken, and plankton has one. If it can, two small
networks are tried on training images that are held out for this, one with the same answer in every pose and one that
may use the orientation. The second one is chosen if it was better beyond chance. What was found goes into the plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from steerable.data.images import Progress
from steerable.training.choosing.advice import CLEARLY, Alternative, Orientation, orientation
from steerable.training.choosing.looking import poses_told, tried
from steerable.training.choosing.quick_trials import Trial
from steerable.training.learning.preparing import TrainingData
from steerable.training.requests.config import RunConfig

__all__ = ["OPEN", "POSES", "SHORTEST", "look_for_an_up", "with_orientation"]

OPEN = "auto"
"""The orientation of a run that looks at its images."""
POSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "free": ({"head": "invariant"}, {}),
    "upright": ({"head": "mirror"}, {}),
    "fixed": ({"head": "linear"}, {"mirror": False}),
}
"""The options of the model and settings of the recipe for each orientation."""

SHORTEST = 2.0  # minutes; a shorter run does not look


def with_orientation(config: RunConfig, chosen: str) -> RunConfig:
    """The config with the head and the augmentation that suit an orientation."""
    model, changes = POSES[chosen]
    return replace(
        config, orientation=chosen, model={**config.model, **model}, recipe=replace(config.recipe, **changes)
    )


def look_for_an_up(config: RunConfig, data: TrainingData, progress: Progress | None = None) -> tuple[RunConfig, str]:
    """(the config with its orientation decided, a line about what was found); test images are not looked at.

    Args:
        config: a request whose orientation is open.
        data: its images.
        progress: called with (steps done, all steps) of the probe.
    """
    if config.minutes is not None and config.minutes < SHORTEST:
        return _not_looked(config, f"less than {SHORTEST:g} minutes are too few to find out whether images have an up")
    count = len(data.train) + (0 if data.validation is None else len(data.validation))
    if (poses := poses_told(data, config.seed, progress)) is None:
        return _not_looked(config, f"{count} images are too few to find out whether they have an up")
    found = orientation(poses, None)
    if found.kind != "upright" or found.strength < CLEARLY:
        return with_orientation(config, "free"), _free_in_words(found)
    other = "upright" if found.mirrored else "fixed"
    trial = tried(with_orientation(config, "free"), data, Alternative(*POSES[other]))
    if trial is None:
        return _not_looked(config, f"{count} images are too few to find out whether their orientation helps")
    helps = trial.difference.value > 0 and trial.difference.beyond_chance
    return with_orientation(config, other if helps else "free"), _tried_in_words(found, trial, other, taken=helps)


def _not_looked(config: RunConfig, why: str) -> tuple[RunConfig, str]:
    line = f"Orientation: {why}, so scores are the same in every pose. --orientation overrules it."
    return with_orientation(config, "free"), line


def _free_in_words(found: Orientation) -> str:
    up = "a slight up at most" if found.kind == "upright" else "no up"
    return (
        f"Orientation: the images have {up} (turns are noticed in {found.strength:.0%} of cases; chance is 50%), and "
        "scores are the same in every pose. --orientation upright overrules it."
    )


def _tried_in_words(found: Orientation, trial: Trial, other: str, *, taken: bool) -> str:
    seen = f"the images have an up (turns are noticed in {found.strength:.0%} of cases; chance is 50%)"
    shares = f"{trial.other.value:.1%} with it, {trial.usual.value:.1%} without, in a short trial"
    if taken:
        return f"Orientation: {seen}, and it is used ({shares}). If images may come turned, give --orientation free."
    return (
        f"Orientation: {seen}, but that did not clearly help ({shares}), and scores are the same in every pose. "
        f"--orientation {other} overrules it."
    )
