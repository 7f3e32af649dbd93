"""Wide residual networks (Zagoruyko and Komodakis, 2016) on regular fields, with a group per stage."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack, get_args

from torch import Tensor

from steerable import nn as snn
from steerable.algebra.group_interface import Group
from steerable.errors import check_choice
from steerable.models.checks import check_counts, check_extent, check_known, check_text, check_whole_numbers
from steerable.models.levels import FeatureMaps, residual_features
from steerable.models.parts import parts_of
from steerable.models.residual_blocks import Downsampling, PreActivationBlock, nonlinearity
from steerable.models.restrictable import Restrictable, Steps
from steerable.models.saving import SavedModel
from steerable.types.field_types import FieldType
from steerable.types.network_plans import ResNetPlan
from steerable.types.wide_plans import Match, stage_groups, wide_plan

__all__ = ["WideResNet", "wide_resnet"]

WIDEST = 1_000


class WideOptions(TypedDict, total=False):
    """What is seldom changed; what is not given has a default."""

    match: Match
    dropout: float
    downsampling: Downsampling
    restricted_to: Steps


class WideResNet(SavedModel, Restrictable):
    """A wide residual network whose stages are equivariant to smaller and smaller groups, on regular fields.

    Large features of a scene often have fewer symmetries than its details: with ``groups=("D8", "D4", "D1")`` the
    first stage turns with rotations by 45° and mirror images, the second one by 90°, and the last one only mirrors.
    The scores are invariant under the last group.

    Shapes: (batch, in_channels, height, width) → (batch, num_classes), exact on multiples of 4.

    Args:
        depth: 6·blocks + 4, for three stages with ``blocks`` residual blocks of two convolutions each.
        width: the stages of the plain network have 16, 32 and 64 times as many channels; 10 in the network "28-10".
        groups: the group of each stage, by name, each a subgroup of the one before it; or one for all stages. As text
            they are separated by commas.
        num_classes: the number of scores.
        in_channels: scalar channels of the image.
        match: ``"parameters"`` gives each stage about as many parameters as the plain network has, ``"channels"`` as
            many channels, and so fewer parameters.
        dropout: the probability with which a capsule is dropped between the two convolutions of a block.
        downsampling: ``"pool"`` averages 2×2 pixels before a stage; ``"stride"`` is the strided convolution of the
            original, exact on 1, 5, 9, 13, ….
        restricted_to: subgroups to which the network is restricted when it has been built; :meth:`restrict` sets it.

    Filters have 3×3 taps, and 5×5 in stages whose group turns images by other angles than 90°.
    """

    def __init__(
        self,
        depth: int = 28,
        width: int = 10,
        groups: str | Sequence[str] = ("D8", "D4", "D1"),
        num_classes: int = 10,
        *,
        in_channels: int = 3,
        **options: Unpack[WideOptions],
    ) -> None:
        super().__init__()
        check_known("WideResNet", options, WideOptions, "wide_resnet")
        check_whole_numbers("WideResNet", depth=depth)
        check_counts("WideResNet", width=width, num_classes=num_classes, in_channels=in_channels)
        check_extent("wide residual network", depth, width, WIDEST)
        for name in (groups,) if isinstance(groups, str) else groups:
            check_text("WideResNet", "groups", name)
        downsampling = options.get("downsampling", "pool")
        check_choice("downsampling", downsampling, get_args(Downsampling))
        plan = wide_plan(
            depth, width, stage_groups(groups), in_channels=in_channels, match=options.get("match", "parameters")
        )
        self.num_classes = num_classes
        self.features: snn.EquivariantModule = snn.Sequential(_layers(plan, downsampling, options.get("dropout", 0.0)))
        last = self.features.out_type
        self.head: snn.EquivariantModule = snn.Linear(last, FieldType(last.group, [(num_classes, last.group.trivial)]))
        self._say_types()
        self.restrict_in_steps(options.get("restricted_to"))

    def _say_types(self) -> None:
        self.in_type, self.out_type = self.features.in_type, self.head.out_type
        self.group = self.in_type.group

    def restrict_parts(self, subgroup: Group) -> None:
        self.features = self.features.restrict(subgroup)
        self.head = self.head.restrict(self.features.out_type.group)
        self._say_types()

    def feature_maps(self) -> FeatureMaps:
        return residual_features(parts_of(self))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(x))
        return scores


def wide_resnet(
    depth: int = 28,
    width: int = 10,
    groups: str | Sequence[str] = ("D8", "D4", "D1"),
    num_classes: int = 10,
    **options: Any,
) -> WideResNet:
    """A wide residual network with a group per stage; see :class:`WideResNet` for the options.

    >>> net = wide_resnet(10, 1, groups=("D4", "C4", "C1"), match="channels")
    >>> net.in_type, net.out_type
    (FieldType(D4, '3*A1'), FieldType(C1, '10*A'))
    """
    return WideResNet(depth, width, groups, num_classes, **options)


def _layers(plan: ResNetPlan, downsampling: Downsampling, dropout: float) -> OrderedDict[str, snn.EquivariantModule]:
    first = plan.stem
    layers: OrderedDict[str, snn.EquivariantModule] = OrderedDict()
    padding = first.kernel_size // 2
    layers["stem"] = snn.Conv2d(first.in_type, first.out_type, first.kernel_size, padding=padding, bias=False)
    now = first.out_type
    for number, blocks in enumerate(plan.stages, start=1):
        group = blocks[0].in_type.group
        if group != now.group:
            layers[f"restrict{number}"] = snn.Restrict(now, group)
        for block in blocks:
            layers[block.name.replace(".", "_")] = PreActivationBlock(block, downsampling, dropout)
            now = block.out_type
    layers["norm"], layers["act"] = snn.BatchNorm2d(now), nonlinearity(now)
    layers["pool"] = snn.GlobalAvgPool(now)
    return layers
