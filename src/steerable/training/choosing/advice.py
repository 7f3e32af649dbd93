"""The recommendation that follows from what was found in the images: group, head, augmentation, and why.

Nothing is computed here: the evidence comes from :mod:`~steerable.training.choosing.pose_probe` and
:mod:`~steerable.training.choosing.quick_trials`. The reasoning is this.

- If a move of an image is not noticed, test images will come in every pose too, and a network that knows the poses by
  itself loses nothing: D4. If a tilt is not noticed either, orientation is free at every angle, and D8 may be better; a
  trial shows whether it is, after the same time.
- If turns are not noticed but mirror images are, things have a handedness: C4 knows turns alone.
- If turns are noticed, it does not follow that the labels depend on them. But test images will stand upright as well,
  and an invariant network cannot use that. A trial shows whether this costs anything: an invariant head against one
  that may use the orientation, on validation images.
- An invariant network is right in every pose. It is given up only if the other one was better beyond chance. A slight
  up (noticed in fewer than 85 % of cases) is often an accident of how images were taken, and not tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from steerable.training.choosing.pose_probe import PoseEvidence
from steerable.training.choosing.quick_trials import Trial
from steerable.training.evaluation.intervals import Estimate

__all__ = ["Alternative", "Orientation", "Recommendation", "alternative", "orientation", "recommended"]

NOTICED = 0.55  # a move counts as noticed if the whole interval of its share is above this; a half is chance
CLEARLY = 0.85
TURNS, MIRRORS = ("r", "r2", "r3"), ("m", "mr", "mr2", "mr3")

USUAL_MOVES = "turns by the angles that the network does not know, small shifts, scales and grey levels"

Kind = Literal["free", "handed", "upright"]


@dataclass(frozen=True)
class Orientation:
    """The orientation of the images, from their poses.

    Args:
        kind: ``"free"``: no pose is preferred; ``"handed"``: turns are free, mirror images are noticed; ``"upright"``:
            turns are noticed as well.
        strength: the share of cases in which the most noticeable move is noticed.
        mirrored: whether left and right can be exchanged.
        aligned: whether a tilt is noticed, because things lie along the edges of the images; None if tilts were not
            looked for.
        doubtful: the highest share that the other moves may have, by their intervals.
    """

    kind: Kind
    strength: float
    mirrored: bool
    aligned: bool | None
    doubtful: float


@dataclass(frozen=True)
class Alternative:
    """An alternative to the usual network: options of the model, settings of the recipe, and what they are for."""

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
    """The orientation of images, from how well their poses were told."""
    turns, mirrors = ([poses.told[move] for move in moves] for moves in (TURNS, MIRRORS))
    kind: Kind = "upright" if any(map(_is_noticed, turns)) else "handed" if any(map(_is_noticed, mirrors)) else "free"
    missed = [found.high for found in poses.told.values() if not _is_noticed(found)]
    return Orientation(
        kind,
        strength=max(found.value for found in (mirrors if kind == "handed" else turns)),
        mirrored=not _is_noticed(poses.told["m"]),
        aligned=None if tilt is None else _is_noticed(tilt.told["tilt"]),
        doubtful=max(missed, default=0.5),
    )


def _is_noticed(share: Estimate) -> bool:
    return share.low > NOTICED


def alternative(found: Orientation, task: str) -> Alternative | None:
    """The network that is worth a trial against an invariant one of D4; None if nothing speaks for another."""
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
    """The recommended network and training.

    Args:
        found: what the images say; None if there were too few to look for an up.
        trial: the result of the alternative, if it was tried.
        task: ``"classify"`` or ``"segment"``.
        count: how many images were looked at.
    """
    head = (
        "scores are the same in every pose" if task == "classify" else "the answer at each pixel turns with the image"
    )
    if found is None:
        few = "There are too few images to find out whether they have an up; with few labels, invariance helps most."
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
            "it may use the orientation, since that helped; but images in other poses are then misread, so keep the "
            "invariant head if yours may come turned"
        )
    elif model.get("name"):
        head = "a plain network may answer differently in each pose"
    return Recommendation(model, changes, f"{why}{tried}", head, _augmentation_in_words(found, model, changes))


def _found_in_words(found: Orientation, count: int) -> str:
    doubt = ""
    if found.kind != "upright" and found.doubtful >= 0.65:
        doubt = f" {count} images leave room for doubt: moves might be noticed in up to {found.doubtful:.0%} of cases."
    if found.kind == "free":
        tilts = {True: ", but tilts are: things lie along the edges", False: ", nor are tilts", None: ""}[found.aligned]
        return f"The images have no preferred pose: turns and mirror images are not noticed{tilts}.{doubt}"
    if found.kind == "handed":
        noticed = f"mirror images are (in {found.strength:.0%} of cases)"
        return f"Turns are not noticed, but {noticed}: things have a handedness.{doubt}"
    told = f"(turns are noticed in {found.strength:.0%} of cases)"
    if found.strength < CLEARLY:
        return f"The images have a slight up {told}, which may be an accident; invariance is kept.{doubt}"
    sides = "left and right can be exchanged" if found.mirrored else "left and right differ"
    return f"The images have a clear up {told}, and {sides}.{doubt}"


def _tried_in_words(other: Alternative, trial: Trial | None, *, taken: bool) -> str:
    if trial is None:
        return f"There are too few images for a trial of {other.what}; invariance is kept."
    apart, sure = trial.difference, "beyond chance" if trial.difference.beyond_chance else "which may be chance"
    numbers = (
        f"{_share(trial.other)} against {_share(trial.usual)} on {trial.images:,} validation images after "
        f"{trial.steps} steps each, {sure} (p = {apart.p:.2g})"
    )
    if taken:
        return f"A trial preferred {other.what}: {numbers}."
    return f"A trial gave no reason to choose {other.what}: {numbers}."


def _augmentation_in_words(found: Orientation, model: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    if "turn" in changes:
        mirror = "" if changes.get("mirror", True) else ", nor are mirror images"
        return f"small shifts, scales and grey levels; angles in between do not occur and are not shown{mirror}"
    if changes.get("mirror") is False:
        return "small shifts, scales and grey levels; no turns and no mirror images, which do not occur"
    if model.get("head"):
        return "mirror images, small shifts, scales and grey levels; no turns, which do not occur"
    return USUAL_MOVES


def _share(found: Estimate) -> str:
    return f"{found.value:.1%}"
