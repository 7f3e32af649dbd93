"""Wide residual networks (Zagoruyko and Komodakis, 2016) on regular fields, with a group per stage."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack, get_args

from steerable.errors import check_choice
from steerable.models.checks import check_counts, check_extent, check_known, check_text, check_whole_numbers
from steerable.models.residual_blocks import Downsampling, head_for
from steerable.models.residual_networks import ResidualNetwork, residual_layers
from steerable.models.restrictable import Steps
from steerable.types.field_types import FieldType
from steerable.types.wide_plans import Match, stage_groups, wide_plan

__all__ = ["WideResNet", "wide_resnet"]

WIDEST = 1_000


class WideOptions(TypedDict, total=False):
    """Options that are seldom changed; every one has a default."""

    match: Match
    dropout: float
    downsampling: Downsampling
    restricted_to: Steps


class WideResNet(ResidualNetwork):
    """A wide residual network whose stages are equivariant to smaller and smaller groups, on regular fields.

    Large features of a scene often have fewer symmetries than its details: with ``groups=("D8", "D4", "D1")`` the
    first stage is equivariant to rotations by 45° and mirror images, the second to those by 90°, and the last only to
    mirror images.
    The scores are invariant under the last group.

    Shapes: (batch, in_channels, height, width) → (batch, num_classes), exact on multiples of 4.

    Args:
        depth: 6·blocks + 4, for three stages with ``blocks`` residual blocks of two convolutions each.
        width: the stages of the plain network have 16, 32 and 64 times as many channels; 10 in the network "28-10".
        groups: the group of each stage, by name, each a subgroup of the one before it; or one for all stages. As text
            they are separated by commas.
        num_classes: the number of scores.
        in_channels: scalar channels of the image.
        match: ``"parameters"`` gives each stage about as many parameters as in the plain network, ``"channels"`` as
            many channels, and therefore fewer parameters.
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
        blocks = itertools.chain.from_iterable(plan.stages)
        self.features = residual_layers(plan.stem, blocks, downsampling, options.get("dropout", 0.0))
        self.head = head_for("invariant", self.features.out_type, num_classes)
        self.say_types()
        self.restrict_in_steps(options.get("restricted_to"))

    def say_types(self) -> None:
        super().say_types()
        last = self.features.out_type.group
        self.out_type = FieldType(last, [(self.num_classes, last.trivial)])


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
