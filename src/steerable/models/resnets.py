"""The paper's residual network, for any capsule mix and group."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Literal, TypedDict, Unpack, get_args

from torch import Tensor, nn

from steerable import nn as snn
from steerable.algebra.families import group_named
from steerable.errors import check_choice, did_you_mean
from steerable.models.checks import check_text, check_whole_numbers
from steerable.models.registry import MODELS
from steerable.models.saving import SavedModel
from steerable.types.field_types import FieldType
from steerable.types.network_plans import ResidualBlockPlan, network_nonlinearity, resnet_plan

__all__ = ["Downsampling", "Head", "ResNet", "resnet"]

Downsampling = Literal["pool", "stride"]
Head = Literal["linear", "mirror", "invariant", "max"]


class Layout(TypedDict, total=False):
    """The capsules that a residual network is made of, as text, and its stem; what is not given has a default."""

    stream: str | None
    inner: str | None
    stem: int


class ResNet(SavedModel, nn.Module):
    """A pre-activation residual network between field types: conv, blocks, norm, activation, global pooling, head.

    Shapes: (batch, in_channels, height, width) → (batch, num_classes).

    Args:
        depth: 6·blocks + 2, for three stages with ``blocks`` residual blocks of two 3×3 convolutions each.
        copies: how often each capsule of the mixes occurs in the first stage; twice and four times as often later.
        num_classes: the number of scores.
        group: by name, ``"D4"``.
        stream: the capsule mix between blocks; by default the paper's for D4, ``"regular"`` for other groups.
        inner: the capsule mix inside a block; by default the paper's for D4, ``"regular"`` for other groups.
        stem: by how many pixels per axis the first convolution reduces an image: 1 is the paper's network, for images
            of some 32 pixels; with 2, 4 or 8 the first stage sees one of 64, 128 or 256 pixels at that size. It is
            exact on multiples of 4 · ``stem``.
        in_channels: scalar channels of the image.
        downsampling: ``"pool"`` averages 2×2 pixels before a stage, exact on sizes that are multiples of 4;
            ``"stride"`` is the paper's strided convolution, exact on 1, 5, 9, 13, ….
        head: ``"linear"`` is the paper's, linear on all channels and not invariant; ``"invariant"`` is the equivariant
            map to scalars; ``"max"`` takes the largest channel of each capsule first; ``"mirror"`` is invariant under
            the element m alone, left and right, for pictures that stand upright.

    Attributes:
        out_type: the type of the scores, where they are invariant under the whole group; else there is none.
    """

    def __init__(
        self,
        depth: int = 14,
        copies: int = 14,
        num_classes: int = 10,
        *,
        group: str = "D4",
        in_channels: int = 3,
        downsampling: Downsampling = "pool",
        head: Head = "linear",
        **layout: Unpack[Layout],
    ) -> None:
        super().__init__()
        check_choice("downsampling", downsampling, get_args(Downsampling))
        check_whole_numbers("ResNet", depth=depth, copies=copies, num_classes=num_classes, in_channels=in_channels)
        if min(num_classes, in_channels) < 1:
            raise ValueError(f"`num_classes` and `in_channels` must be at least 1; got {num_classes}, {in_channels}.")
        for name in layout:
            if name not in Layout.__annotations__:
                raise TypeError(f"ResNet has no option `{name}`. {did_you_mean(name, MODELS['resnet'].all_options)}")
        check_whole_numbers("ResNet", stem=layout.get("stem", 1))
        for name, text in {"group": group, **layout}.items():
            if text is not None and name != "stem":
                check_text("ResNet", name, text)
        self.group = group_named(group)
        plan = resnet_plan(depth, copies, group=self.group, image_type=f"{in_channels}*A1", **layout)
        self.in_type = plan.stem.in_type
        first = plan.stem
        stem = snn.Conv2d(first.in_type, first.out_type, first.kernel_size, first.stride, padding=1, bias=False)
        last = plan.blocks[-1].out_type
        act = nonlinearity(last)
        self.features = snn.Sequential(
            OrderedDict(
                [
                    ("stem", stem),
                    *((b.name.replace(".", "_"), PreActivationBlock(b, downsampling)) for b in plan.blocks),
                    ("norm", snn.BatchNorm2d(last)),
                    ("act", act),
                    ("pool", snn.GlobalAvgPool(act.out_type)),
                ]
            )
        )
        self.num_classes = num_classes
        self.head = _head(head, self.features.out_type, num_classes)
        part = "m alone" if self.group.order > 2 else self.group.name  # D1 is e and m
        self.invariant_under = {"linear": "nothing", "mirror": part}.get(head, self.group.name)
        if self.invariant_under == self.group.name:
            self.out_type = FieldType(self.group, [(num_classes, self.group.trivial)])

    def __getattr__(self, name: str) -> Any:
        if name == "out_type":
            raise AttributeError(
                f"a network whose scores are invariant under {self.invariant_under} has no output type of "
                f"{self.group.name}. head='invariant' and head='max' have one."
            )
        return super().__getattr__(name)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.features(x))
        return scores


def resnet(depth: int = 14, copies: int = 14, num_classes: int = 10, **options: Any) -> ResNet:
    """The paper's network; see :class:`ResNet` for the options.

    >>> net = resnet(depth=14, copies=1, head="invariant")
    >>> net.out_type
    FieldType(D4, '10*A1')
    """
    return ResNet(depth, copies, num_classes, **options)


class PreActivationBlock(snn.EquivariantModule):
    """a = act(norm(x)); y = shortcut(a) + conv2(act(norm(conv1(a)))), with x in place of shortcut(a) where types agree.

    Shapes: (batch, in_type.channels, h, w) → (batch, out_type.channels, h / stride, w / stride).

    Args:
        plan: the types and the stride.
        downsampling: how the stride is carried out; see :class:`ResNet`.
    """

    def __init__(self, plan: ResidualBlockPlan, downsampling: Downsampling) -> None:
        super().__init__(plan.in_type, plan.out_type)
        stride = plan.stride if downsampling == "stride" else 1
        entry = [snn.BatchNorm2d(plan.in_type), nonlinearity(plan.in_type)]
        if plan.stride > 1 and downsampling == "pool":
            entry.append(snn.AvgPool2d(entry[-1].out_type, plan.stride))
        conv1, conv2, *shortcut = plan.convolutions
        self.entry = snn.Sequential(*entry)
        self.body = snn.Sequential(
            snn.Conv2d(conv1.in_type, conv1.out_type, 3, stride=stride, padding=1, bias=False),
            snn.BatchNorm2d(plan.inner),
            nonlinearity(plan.inner),
            snn.Conv2d(conv2.in_type, conv2.out_type, 3, padding=1, bias=False),
        )
        self.shortcut = (
            snn.Conv2d(shortcut[0].in_type, shortcut[0].out_type, 1, stride=stride, bias=False) if shortcut else None
        )

    def forward(self, x: Tensor) -> Tensor:
        a = self.entry(x)
        y: Tensor = (x if self.shortcut is None else self.shortcut(a)) + self.body(a)
        return y


def nonlinearity(field_type: FieldType) -> snn.EquivariantModule:
    """The layer for the nonlinearity that :func:`~steerable.types.network_plans.network_nonlinearity` names."""
    layers = {"ReLU": snn.ReLU, "CReLU": snn.CReLU, "mixed": snn.Activation}
    return layers[network_nonlinearity(field_type)](field_type)


def _head(kind: Head, field_type: FieldType, num_classes: int) -> nn.Module:
    check_choice("head", kind, get_args(Head))
    if kind == "linear":
        return nn.Linear(field_type.channels, num_classes)
    if kind == "invariant":
        return snn.Linear(field_type, FieldType(field_type.group, [(num_classes, field_type.group.trivial)]))
    if kind == "mirror":
        if "m" not in field_type.group.elements:
            raise ValueError(
                f"head='mirror' is for groups with the mirror image m; {field_type.group.name} has none. "
                "Use a dihedral group, or head='linear'."
            )
        upright = snn.Restrict(field_type, ["e", "m"])
        scores = FieldType(upright.out_type.group, [(num_classes, upright.out_type.group.trivial)])
        return snn.Sequential(upright, snn.Linear(upright.out_type, scores))
    pool = snn.GroupPool(field_type, "max")
    return nn.Sequential(pool, nn.Linear(pool.out_type.channels, num_classes))
