"""The layers that networks of images and of volumes are made of: a table of steerable ones, and one of plain ones."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from steerable import nn as snn
from steerable.algebra.families import group_named
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.space_families import about_axis
from steerable.errors import check_choice
from steerable.types.field_types import FieldType

__all__ = ["DEFAULT_GROUPS", "PLAIN", "LayerKinds", "group_on", "layers_of"]

DEFAULT_GROUPS = {2: "D4", 3: "O"}
"""The group of a network where none is named, by the number of axes."""


class LayerKinds(NamedTuple):
    """Layers with one signature for images and for volumes."""

    convolution: Any
    transposed: Any
    norm: Any
    mean: Any


_STEERABLE = {
    2: LayerKinds(snn.Conv2d, snn.ConvTranspose2d, snn.BatchNorm2d, snn.AvgPool2d),
    3: LayerKinds(snn.Conv3d, snn.ConvTranspose3d, snn.BatchNorm3d, snn.AvgPool3d),
}
PLAIN = {
    2: LayerKinds(nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d, nn.AvgPool2d),
    3: LayerKinds(nn.Conv3d, nn.ConvTranspose3d, nn.BatchNorm3d, nn.AvgPool3d),
}
"""Torch's own layers, by the number of axes."""


def layers_of(field_type: FieldType) -> LayerKinds:
    """The steerable layers for what the group of a type moves: images, or volumes."""
    return _STEERABLE[field_type.group.axes or 2]


def group_on(name: str | None, axes: int) -> Group:
    """The group of that name on images or volumes; those of the plane move volumes about z.

    >>> group_on("C4", 3).name, group_on(None, 3).name
    ('C4 about z', 'O')
    """
    check_choice("axes", axes, tuple(DEFAULT_GROUPS))
    group = group_named(DEFAULT_GROUPS[axes] if name is None else name)
    if group.axes == axes:
        return group
    if axes == 2:
        raise ValueError(
            f"{group.name} moves volumes, and this network sees images. Give axes=3, or a group such as D4."
        )
    if not isinstance(group, FiniteGroup):
        raise ValueError(
            f"{group.name} moves images, and this network sees volumes. Use O, O_h, C4 or D4, for instance."
        )
    return about_axis(group, "z")
