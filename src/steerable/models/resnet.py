"""The paper's residual network, for any capsule mix and group."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Literal, get_args

from torch import Tensor, nn

from steerable import nn as snn
from steerable.algebra.families import group_named
from steerable.algebra.groups import FiniteGroup
from steerable.models.image_sizes import check_whole_numbers
from steerable.models.saving import SavedModel
from steerable.types.field_types import FieldType
from steerable.types.network_plans import ResidualBlockPlan, network_nonlinearity, resnet_plan

__all__ = ["Downsampling", "Head", "ResNet", "resnet"]

Downsampling = Literal["pool", "stride"]
Head = Literal["linear", "mirror", "invariant", "max"]


class ResNet(SavedModel, nn.Module):
    """A pre-activation residual network between field types: conv, blocks, norm, activation, global pooling, head.

    Shapes: (batch, in_channels, height, width) → (batch, num_classes).

    Args:
        depth: 6·blocks + 2, for three stages with ``blocks`` residual blocks of two 3×3 convolutions each.
        copies: how often each capsule of the mixes occurs in the first stage; twice and four times as often later.
        num_classes: the number of scores.
        group: by name, ``"D4"``.
        stream: the capsule mix between blocks; by default the paper's for D4, ``"regular"`` for other groups.
        inner: the capsule mix inside a block, likewise.
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
        stream: str | None = None,
        inner: str | None = None,
        in_channels: int = 3,
        downsampling: Downsampling = "pool",
        head: Head = "linear",
    ) -> None:
        super().__init__()
        if downsampling not in get_args(Downsampling):
            raise ValueError(f"downsampling is one of {', '.join(get_args(Downsampling))}; got {downsampling!r}.")
        check_whole_numbers("ResNet", depth=depth, copies=copies, num_classes=num_classes, in_channels=in_channels)
        if min(num_classes, in_channels) < 1:
            raise ValueError(f"num_classes and in_channels are at least 1; got {num_classes}, {in_channels}.")
        for name, text in (("group", group), ("stream", stream), ("inner", inner)):
            if text is not None:
                _check_text(name, text)
        self.group = group_named(group)
        plan = resnet_plan(depth, copies, group=self.group, image_type=f"{in_channels}*A1", stream=stream, inner=inner)
        self.in_type = plan.stem.in_type
        stem = snn.Conv2d(plan.stem.in_type, plan.stem.out_type, 3, padding=1, bias=False)
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


def _check_text(name: str, value: object) -> None:
    """A saved network's config is text and numbers."""
    if isinstance(value, str):
        return
    if isinstance(value, FiniteGroup) and not _has_name(value):
        raise TypeError(
            f"ResNet: {name} is the name of a group, C1, C2, C3 …, D1, D2, D3 …, since a saved network's config is "
            f"text; got the group {value.name}, which is none of them. Choose one of them, or build the network from "
            "the layers of steerable.nn, which take any group that moves the pixel grid onto itself."
        )
    raise TypeError(
        f"ResNet: {name} is given as text, {getattr(value, 'name', str(value))!r} for instance; got {value!r}."
    )


def _has_name(group: FiniteGroup) -> bool:
    try:
        return group_named(group.name) == group
    except ValueError:
        return False


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
    """The layer that ``plans.network_nonlinearity`` chooses."""
    layers = {"ReLU": snn.ReLU, "CReLU": snn.CReLU, "mixed": snn.Activation}
    return layers[network_nonlinearity(field_type)](field_type)


def _head(kind: Head, field_type: FieldType, num_classes: int) -> nn.Module:
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
    if kind == "max":
        pool = snn.GroupPool(field_type, "max")
        return nn.Sequential(pool, nn.Linear(pool.out_type.channels, num_classes))
    raise ValueError(f"head is one of {', '.join(get_args(Head))}; got {kind!r}.")
