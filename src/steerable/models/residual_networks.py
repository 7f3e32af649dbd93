"""The common part of residual networks: layers from a plan, a head, feature maps and restriction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from torch import Tensor, nn

from steerable import nn as snn
from steerable.algebra.group_interface import Group
from steerable.models.layers_by_axes import layers_of
from steerable.models.levels import FeatureMaps, residual_features
from steerable.models.parts import parts_of
from steerable.models.residual_blocks import Downsampling, PreActivationBlock, nonlinearity, restricted_head
from steerable.models.restrictable import Restrictable
from steerable.models.saving import SavedModel
from steerable.types.network_plans import ConvolutionPlan, ResidualBlockPlan

__all__ = ["ResidualNetwork", "residual_layers"]


class ResidualNetwork(SavedModel, Restrictable):
    """``features``, an image → a pooled field, and a ``head`` that makes scores of it."""

    features: snn.EquivariantModule
    head: nn.Module

    def say_types(self) -> None:
        """Set the group and the types, which follow from the layers."""
        self.in_type = self.features.in_type
        self.group = self.in_type.group

    def restrict_parts(self, subgroup: Group) -> None:
        before = self.features.out_type
        self.features = self.features.restrict(subgroup)
        self.head = restricted_head(self.head, before, self.features.out_type.group)
        self.say_types()

    def feature_maps(self) -> FeatureMaps:
        return residual_features(parts_of(self))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(x))
        return scores


def residual_layers(
    stem: ConvolutionPlan, blocks: Iterable[ResidualBlockPlan], downsampling: Downsampling, dropout: float = 0.0
) -> snn.Sequential:
    """Convolution, blocks, norm, nonlinearity and pooling; what a block of a smaller group sees is restricted to it."""
    kinds = layers_of(stem.in_type)
    padding = (stem.kernel_size - stem.stride) // 2
    layers: OrderedDict[str, snn.EquivariantModule] = OrderedDict(
        stem=kinds.convolution(stem.in_type, stem.out_type, stem.kernel_size, stem.stride, padding=padding, bias=False)
    )
    now = stem.out_type
    for block in blocks:
        group = block.in_type.group
        if group != now.group:
            layers[block.name.partition(".")[0].replace("stage", "restrict")] = snn.Restrict(now, group)
        layers[block.name.replace(".", "_")] = PreActivationBlock(block, downsampling, dropout)
        now = block.out_type
    layers["norm"], layers["act"] = kinds.norm(now), nonlinearity(now)
    layers["pool"] = snn.GlobalAvgPool(layers["act"].out_type)
    return snn.Sequential(layers)
