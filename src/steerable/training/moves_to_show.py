"""Which turns and mirror images a network has to be shown in training: those that it does not know by itself."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
import torch

from steerable.algebra.groups import FiniteGroup
from steerable.models.registry import MODELS, build_model
from steerable.types.field_types import FieldType

__all__ = ["Moves", "invariance", "moves_to_show"]


class Moves(TypedDict):
    """The largest turn to either side in degrees, and whether to mirror, as ``Augmentation`` takes them."""

    angle: float
    flip: bool


def moves_to_show(group: FiniteGroup | None) -> Moves:
    """The moves to augment by, so that a network learns an image in every pose.

    A network that is invariant under the n turns of a group gives a turned image the scores of the same image turned
    by 360°/n more. Every angle is thus at most 180°/n away from one that the network takes for no turn at all, and no
    larger ones have to be shown; nor do mirror images, where the group has them.

    Args:
        group: what the network's scores are invariant under; None where they are invariant under nothing.
    """
    if group is None or group.action is None:
        return {"angle": 180.0, "flip": True}
    turns = int((np.linalg.det(group.action) > 0).sum())
    return {"angle": 180.0 / turns, "flip": turns == group.order}


def invariance(model: dict[str, Any]) -> FiniteGroup | None:
    """The group that the scores of a model are invariant under, as its output type says; None where there is none.

    Args:
        model: its name and options.
    """
    options = {key: value for key, value in model.items() if key != "name"}
    with torch.device("meta"):  # neither the width nor the weights matter
        network = build_model(model["name"], **{**options, MODELS[model["name"]].width: 1})
    kind = getattr(network, "out_type", None)
    if not isinstance(kind, FieldType):
        return None
    return kind.group if kind == FieldType(kind.group, [(kind.channels, kind.group.trivial)]) else None
