"""The paper's residual network, for any capsule mix and group."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack, get_args

from steerable import nn as snn
from steerable.algebra.families import group_on, trivial
from steerable.algebra.group_interface import Group
from steerable.errors import check_choice
from steerable.models.checks import check_counts, check_known, check_text, check_whole_numbers
from steerable.models.residual_blocks import Downsampling, Head, head_for
from steerable.models.residual_networks import ResidualNetwork, residual_layers
from steerable.models.restrictable import Steps
from steerable.types.field_types import FieldType
from steerable.types.network_plans import resnet_plan

__all__ = ["ResNet", "resnet"]


class Layout(TypedDict, total=False):
    """The capsules of a residual network, as text, and its stem; every entry has a default."""

    axes: int
    stream: str | None
    inner: str | None
    stem: int
    kernel_size: int
    restricted_to: Steps


class ResNet(ResidualNetwork):
    """A pre-activation residual network between field types: conv, blocks, norm, activation, global pooling, head.

    Shapes: (batch, in_channels, height, width), or (batch, in_channels, depth, height, width) for volumes → (batch,
    num_classes).

    Args:
        depth: 6·blocks + 2, for three stages with ``blocks`` residual blocks of two 3×3 convolutions each.
        copies: how often each capsule of the mixes occurs in the first stage; twice and four times as often later.
        num_classes: the number of scores.
        group: by name, ``"D4"`` by default, and ``"O"`` for volumes; groups of the plane move volumes about z.
        axes: 2 for images, 3 for volumes.
        stream: the capsule mix between blocks; by default the paper's for D4, ``"regular"`` for other finite groups,
            and the first four irreps for SO(2) and the like.
        inner: the capsule mix inside a block, with the same defaults for other groups than D4.
        stem: the factor by which the first convolution reduces each axis of an image: 1 is the paper's network, for
            images of about 32 pixels; with 2, 4 or 8 the first stage sees an image of 64, 128 or 256 pixels at that
            size. The network is exact on multiples of 4 · ``stem``.
        kernel_size: the odd size of the blocks' filters, 3 by default; 5 carries more frequencies for groups such as
            D8, which turn images by other angles than 90°.
        restricted_to: subgroups to which the network is restricted when it has been built; :meth:`restrict` sets it.
        in_channels: scalar channels of the image.
        downsampling: ``"pool"`` averages 2×2 pixels before a stage, exact on sizes that are multiples of 4;
            ``"stride"`` is the paper's strided convolution, exact on 1, 5, 9, 13, ….
        head: ``"linear"`` is the paper's, linear on all channels and not invariant; ``"invariant"`` is the equivariant
            map to scalars; ``"max"`` takes the largest channel of each capsule first; ``"mirror"`` is invariant under
            the element m only, left and right, for upright pictures.

    Attributes:
        out_type: the type of the scores, if they are invariant under the whole group; otherwise there is none.
    """

    def __init__(
        self,
        depth: int = 14,
        copies: int = 14,
        num_classes: int = 10,
        *,
        group: str | None = None,
        in_channels: int = 3,
        downsampling: Downsampling = "pool",
        head: Head = "linear",
        **layout: Unpack[Layout],
    ) -> None:
        super().__init__()
        check_choice("downsampling", downsampling, get_args(Downsampling))
        check_whole_numbers("ResNet", depth=depth, copies=copies)
        check_counts("ResNet", num_classes=num_classes, in_channels=in_channels)
        check_known("ResNet", layout, Layout, "resnet")
        numbers = {
            "stem": layout.get("stem", 1),
            "kernel_size": layout.get("kernel_size", 3),
            "axes": layout.get("axes", 2),
        }
        check_whole_numbers("ResNet", **numbers)
        for name, text in (("group", group), ("stream", layout.get("stream")), ("inner", layout.get("inner"))):
            if text is not None:
                check_text("ResNet", name, text)
        self.group = group_on(group, numbers["axes"])
        plan = resnet_plan(
            depth,
            copies,
            group=self.group,
            image_type=f"{in_channels}*A1",
            stream=layout.get("stream"),
            inner=layout.get("inner"),
            stem=numbers["stem"],
        ).with_kernel_size(numbers["kernel_size"])
        self.features = residual_layers(plan.stem, plan.blocks, downsampling)
        self.num_classes = num_classes
        self.head = head_for(head, self.features.out_type, num_classes)
        self.kind_of_head = head
        self.say_types()
        self.restrict_in_steps(layout.get("restricted_to"))

    def say_types(self) -> None:
        """Set ``invariant_under`` to the name of a group as well, and ``out_type`` if it is the network's own."""
        super().say_types()
        under: Group | None = self.group
        if self.kind_of_head == "linear":
            under = None
        elif isinstance(self.head, snn.EquivariantModule):
            under = self.head.out_type.group
        whole = under == self.group
        self.invariant_under = self.group.name if whole else "nothing" if under in (None, trivial()) else "m alone"
        if whole:
            self.out_type = FieldType(self.group, [(self.num_classes, self.group.trivial)])

    def __getattr__(self, name: str) -> Any:
        if name == "out_type":
            raise AttributeError(
                f"a network whose scores are invariant under {self.invariant_under} has no output type of "
                f"{self.group.name}. head='invariant' and head='max' have one."
            )
        return super().__getattr__(name)


def resnet(depth: int = 14, copies: int = 14, num_classes: int = 10, **options: Any) -> ResNet:
    """The paper's network; see :class:`ResNet` for the options.

    >>> net = resnet(depth=14, copies=1, head="invariant")
    >>> net.out_type
    FieldType(D4, '10*A1')
    >>> resnet(depth=8, copies=1, axes=3, head="invariant").out_type
    FieldType(O, '10*A1')
    """
    return ResNet(depth, copies, num_classes, **options)
