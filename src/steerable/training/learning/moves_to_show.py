"""The turns and mirror images that a network has to be shown in training: those that it does not know by itself."""

from __future__ import annotations

import math
from typing import Any, NotRequired, TypedDict

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.families import group_on
from steerable.algebra.group_interface import Group
from steerable.models.registry import MODELS, described_model
from steerable.types.field_types import FieldType

__all__ = ["Moves", "covering_angle", "invariance", "moves_to_show"]

TRIED = 2000  # rotations, in each step of the search for the one that is furthest from a group


class Moves(TypedDict):
    """The largest turn to either side in degrees, and whether to mirror, as ``Augmentation`` takes them.

    ``upright`` means that volumes are turned about z only.
    """

    angle: float
    flip: bool
    upright: NotRequired[bool]


def moves_to_show(model: dict[str, Any]) -> Moves:
    """The moves to augment by, so that a network learns an image in every pose that means the same to its user.

    A network that is invariant under the n turns of a group gives a turned image the scores of the same image turned
    by 360°/n more. Every angle is thus at most 180°/n away from one that the network takes for no turn at all, and no
    larger ones have to be shown. Mirror images are in the group, or were left out of it because they mean something
    else. A steerable network with another head may use the orientation, and images are not turned for it. A plain
    network is shown everything.

    Volumes are turned about any axis, up to the angle between a rotation and the nearest one of the group; about z
    alone, where the group keeps z.

    Args:
        model: its name and options.
    """
    if not {"group", "groups"} & MODELS[model["name"]].options.keys():
        return {"angle": 180.0, "flip": True}
    # The answer at each pixel turns with the image, whatever its type.
    dense = MODELS[model["name"]].task == "dense"
    group = group_on(model.get("group"), model.get("axes", 2)) if dense else invariance(model)
    if group is None:
        return {"angle": 0.0, "flip": True}
    if isinstance(group, CompactGroup):  # every angle is among its turns
        return {"angle": 0.0, "flip": False}
    if group.action is None:
        return {"angle": 0.0, "flip": True}
    rotations = group.action[np.linalg.det(group.action) > 0]
    if group.axes == 2:
        return {"angle": 180.0 / len(rotations), "flip": False}
    if (rotations[:, 2, 2] > 1 - 1e-9).all():
        return {"angle": 180.0 / len(rotations), "flip": False, "upright": True}
    return {"angle": covering_angle(rotations), "flip": False}


def covering_angle(rotations: FloatArray) -> float:
    """How far a rotation of space lies at most from the nearest one of a group (n, 3, 3), in whole degrees.

    >>> from steerable import octahedral
    >>> covering_angle(octahedral().action)
    63.0
    """
    random = np.random.default_rng(0)
    furthest, reach = np.eye(3), 3.0
    while reach > 1e-6:  # ever closer around the furthest one
        others, signs = np.linalg.qr(furthest + reach * random.normal(size=(TRIED, 3, 3)))
        others = others * np.sign(np.diagonal(signs, axis1=1, axis2=2))[:, None]  # as near as the matrices were
        others = others * np.linalg.det(others)[:, None, None]  # rotations, not reflections
        others[0] = furthest
        nearest = np.einsum("kij,nij->kn", others, rotations).max(1)  # 1 + 2 cos θ
        furthest, reach = others[nearest.argmin()], reach / 2
    return float(math.ceil(np.degrees(np.arccos((nearest.min() - 1) / 2)) - 1e-3))


def invariance(model: dict[str, Any]) -> Group | None:
    """The group that the scores of a model are invariant under, by its output type; None if there is none.

    Args:
        model: its name and options.
    """
    network = described_model({**model, MODELS[model["name"]].width: 1})  # neither the width nor the weights matter
    kind = getattr(network, "out_type", None)
    if not isinstance(kind, FieldType):
        return None
    return kind.group if kind == FieldType(kind.group, [(kind.channels, kind.group.trivial)]) else None
