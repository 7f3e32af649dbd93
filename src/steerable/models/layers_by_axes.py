"""The layers of networks of images and of volumes: a table of steerable ones, and one of plain ones."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from steerable import nn as snn
from steerable.types.field_types import FieldType

__all__ = ["PLAIN", "LayerKinds", "layers_of"]


class LayerKinds(NamedTuple):
    """Layers with the same signature for images and for volumes."""

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
    """The steerable layers for whatever the group of a type moves: images, or volumes."""
    return _STEERABLE[field_type.group.axes or 2]
