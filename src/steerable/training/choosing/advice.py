"""From what was found in the images to a recommendation: group, head, augmentation, and why.

Nothing is computed here: the evidence comes from :mod:`~steerable.training.choosing.pose_probe` and
:mod:`~steerable.training.choosing.quick_trials`. The reasoning is this.

- Where the pose of an image cannot be told, test images will come in every pose too, and a network that knows the poses
  by itself loses nothing: D4. Where also a tilt cannot be told, orientation is free at every angle, and D8 may be
  better; whether it is after the same time is tried.
- Where turns cannot be told but mirror images can, things have a handedness: C4 knows turns alone.
- Where the pose can be told, it does not follow that the labels depend on it. But test images will stand upright as
  well, and an invariant network cannot use that. Whether this costs anything is tried: an invariant head beside one
  that may use the orientation, on validation images.
- An invariant network is right in every pose. It is given up where the other one was better beyond chance. A slight up
  (told in fewer than 85 % of cases) is often an accident of how images were taken, and no reason to try another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from steerable.training.choosing.pose_probe import PoseEvidence
from steerable.training.choosing.quick_trials import Trial
from steerable.training.evaluation.intervals import Estimate

__all__ = ["Alternative", "Orientation", "Recommendation", "alternative", "orientation", "recommended"]

TOLD = 0.55  # a move counts as told where the whole interval of its share is above this; a half is chance
CLEARLY = 0.85
TURNS, MIRRORS = ("r", "r2", "r3"), ("m", "mr", "mr2", "mr3")

USUAL_MOVES = "turns by the angles that the network does not know, small shifts, scales and grey levels"

Kind = Literal["free", "handed", "upright"]


@dataclass(frozen=True)
class Orientation:
    """What the images say about their poses.

    Args:
        kind: ``"free"``: no pose is preferred; ``"handed"``: turns are free, mirror images are told; ``"upright"``:
            turns are told as well.
        strength: the share by which the strongest of the told moves is told.
        mirrored: whether left and right can be exchanged.
        aligned: whether a tilt is told: things lie along the edges of the images; None where tilts were not looked for.
        doubtful: the highest share that the moves that are not told may have, by their intervals.
    """

    kind: Kind
    strength: float
    mirrored: bool
    aligned: bool | None
    doubtful: float


@dataclass(frozen=True)
class Alternative:
    """What to try beside the usual network: options of the model and settings of the recipe, and what they are for."""

    model: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    what: str = ""


@dataclass(frozen=True)
class Recommendation:
    """Options of the model, settings of the recipe, and a sentence on each of group, head and augmentation."""

    model: Mapping[str, Any]
    changes: Mapping[str, Any]
    group: str
    head: str
    augmentation: str


def orientation(poses: PoseEvidence, tilt: PoseEvidence | None) -> Orientation:
    """What follows from how well poses were told."""
    turns, mirrors = ([poses.told[move] for move in moves] for moves in (TURNS, MIRRORS))
    kind: Kind = "upright" if any(map(_is_told, turns)) else "handed" if any(map(_is_told, mirrors)) else "free"
    missed = [found.high for found in poses.told.values() if not _is_told(found)]
    return Orientation(
        kind,
        strength=max(found.value for found in (mirrors if kind == "handed" else turns)),
        mirrored=not _is_told(poses.told["m"]),
        aligned=None if tilt is None else _is_told(tilt.told["tilt"]),
        doubtful=max(missed, default=0.5),
    )


def _is_told(share: Estimate) -> bool:
    return share.low > TOLD


def alternative(found: Orientation, task: str) -> Alternative | None:
    """The network that is worth a trial beside an invariant one of D4; None where nothing speaks for another."""
    if found.kind == "free":
        if found.aligned is not False or task == "segment":
            return None
        return Alternative({"group": "D8", "kernel_size": 5}, what="D8, which knows turns by 45° as well")
    if found.kind == "handed":
        still = {"turn": False, "mirror": False} if found.aligned else {}
        return Alternative({"group": "C4"}, still, what="C4, which tells mirror images apart")
    if found.strength < CLEARLY:
        return None
    if task == "segment":
        shown = {"turn": False} if found.mirrored else {"turn": False, "mirror": False}
        return Alternative({"name": "plain_unet"}, shown, what="a plain network, which knows no pose by itself")
    if found.mirrored:
        return Alternative({"head": "mirror"}, what="a head that may use what is up, and treats left and right alike")
    return Alternative({"head": "linear"}, {"mirror": False}, what="a head that may use the orientation")


def recommended(found: Orientation | None, trial: Trial | None, task: str, count: int) -> Recommendation:
    """What to train.

    Args:
        found: what the images say; None where there were too few to look for an up.
        trial: how the alternative did, where it was tried.
        task: ``"classify"`` or ``"segment"``.
        count: how many images were looked at.
    """
    head = "scores are the same in every pose" if task == "classify" else "what is said of a pixel turns with the image"
    if found is None:
        few = "There are too few images to look for an up in them; with few labels, invariance helps most."
        return Recommendation({}, {}, few, head, USUAL_MOVES)
    other = alternative(found, task)
    takes = trial is not None and trial.difference.value > 0 and trial.difference.beyond_chance
    model = dict(other.model) if other is not None and takes else {}
    changes = dict(other.changes) if other is not None and takes else {}
    if found.aligned and found.kind == "free":
        changes["turn"] = False
    why = _found_in_words(found, count)
    tried = "" if other is None else f" {_tried_in_words(other, trial, taken=takes)}"
    if "head" in model:
        head = (
            "it may use the orientation, since that helped; images in other poses are then misread, so keep the "
            "invariant head if yours may come turned"
        )
    elif model.get("name"):
        head = "a plain network has no poses to agree on"
    return Recommendation(model, changes, f"{why}{tried}", head, _augmentation_in_words(found, model, changes))


def _found_in_words(found: Orientation, count: int) -> str:
    doubt = ""
    if found.kind != "upright" and found.doubtful >= 0.65:
        doubt = f" {count} images leave room for doubt: up to {found.doubtful:.0%} could be told."
    if found.kind == "free":
        tilts = {True: ", but tilts can: things lie along the edges", False: ", nor can tilts", None: ""}[found.aligned]
        return f"The images have no preferred pose: turns and mirror images cannot be told{tilts}.{doubt}"
    if found.kind == "handed":
        return f"Turns cannot be told, but mirror images can ({found.strength:.0%}): things have a handedness.{doubt}"
    told = f"(turns are told in {found.strength:.0%} of cases)"
    if found.strength < CLEARLY:
        return f"The images have a slight up {told}, which may be an accident; invariance is kept.{doubt}"
    sides = "left and right can be exchanged" if found.mirrored else "left and right differ"
    return f"The images have a clear up {told}, and {sides}.{doubt}"


def _tried_in_words(other: Alternative, trial: Trial | None, *, taken: bool) -> str:
    if trial is None:
        return f"There are too few images for a trial of {other.what}; invariance is kept."
    apart, sure = trial.difference, "beyond chance" if trial.difference.beyond_chance else "within chance"
    numbers = (
        f"{_share(trial.other)} against {_share(trial.usual)} on {trial.images:,} validation images after "
        f"{trial.steps} steps each, {sure} (p = {apart.p:.2g})"
    )
    if taken:
        return f"A trial preferred {other.what}: {numbers}."
    return f"A trial gave no reason to take {other.what}: {numbers}."


def _augmentation_in_words(found: Orientation, model: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    if "turn" in changes:
        mirror = "" if changes.get("mirror", True) else ", nor are mirror images"
        return f"small shifts, scales and grey levels; angles between do not occur and are not shown{mirror}"
    if changes.get("mirror") is False:
        return "small shifts, scales and grey levels; no turns and no mirror images, which do not occur"
    if model.get("head"):
        return "mirror images, small shifts, scales and grey levels; no turns, which do not occur"
    return USUAL_MOVES


def _share(found: Estimate) -> str:
    return f"{found.value:.1%}"
