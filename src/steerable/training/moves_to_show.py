"""Which turns and mirror images a network has to be shown in training: those that it does not know by itself."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np

from steerable.algebra.families import group_named
from steerable.algebra.group_interface import Group
from steerable.models.registry import MODELS, described_model
from steerable.types.field_types import FieldType

__all__ = ["Moves", "invariance", "moves_to_show"]


class Moves(TypedDict):
    """The largest turn to either side in degrees, and whether to mirror, as ``Augmentation`` takes them."""

    angle: float
    flip: bool


def moves_to_show(model: dict[str, Any]) -> Moves:
    """The moves to augment by, so that a network learns an image in every pose that its user takes for the same.

    A network that is invariant under the n turns of a group gives a turned image the scores of the same image turned
    by 360°/n more. Every angle is thus at most 180°/n away from one that the network takes for no turn at all, and no
    larger ones have to be shown. Mirror images are in the group, or were left out of it because they mean something
    else. A steerable network with another head may use the orientation, and images are not turned for it. A plain
    network is shown everything.

    Args:
        model: its name and options.
    """
    if not {"group", "groups"} & MODELS[model["name"]].options.keys():
        return {"angle": 180.0, "flip": True}
    # What is said of each pixel turns with the image, whatever its type.
    group = group_named(model.get("group", "D4")) if MODELS[model["name"]].task == "dense" else invariance(model)
    if group is None or group.action is None:
        return {"angle": 0.0, "flip": True}
    return {"angle": 180.0 / int((np.linalg.det(group.action) > 0).sum()), "flip": False}


def invariance(model: dict[str, Any]) -> Group | None:
    """The group that the scores of a model are invariant under, as its output type says; None where there is none.

    Args:
        model: its name and options.
    """
    network = described_model({**model, MODELS[model["name"]].width: 1})  # neither the width nor the weights matter
    kind = getattr(network, "out_type", None)
    if not isinstance(kind, FieldType):
        return None
    return kind.group if kind == FieldType(kind.group, [(kind.channels, kind.group.trivial)]) else None
