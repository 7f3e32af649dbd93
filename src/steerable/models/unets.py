"""A U-Net between field types, for segmentation and dense regression: one typed output fibre per pixel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, Unpack, cast

from torch import Tensor, nn

from steerable import nn as snn
from steerable.algebra.families import group_on, is_named
from steerable.algebra.group_interface import Group
from steerable.errors import expect
from steerable.models.checks import check_depth, check_known, check_size
from steerable.models.first_weights import make_quiet
from steerable.models.layers_by_axes import layers_of
from steerable.models.levels import FeatureMaps, down_and_up, unet_features
from steerable.models.residual_blocks import nonlinearity
from steerable.models.restrictable import Restrictable, Steps
from steerable.models.saving import SavedModel
from steerable.models.tiling import TiledAsUNet
from steerable.types.costs import parameter_cost
from steerable.types.field_types import FieldType
from steerable.types.network_plans import activated, default_mix

__all__ = ["UNet", "unet"]


class UNetLayout(TypedDict, total=False):
    """The capsules inside a U-Net, as text, and the subgroup that it is restricted to; every entry has a default."""

    axes: int
    stream: str
    inner: str | None
    restricted_to: Steps


class UNet(SavedModel, Restrictable, TiledAsUNet):
    """f(π_in(g) x) = π_out(g) f(x) for every g: scalars (``A1``) stay as they are, vectors (``E``) turn with the image.

    Down: two 3×3 convolutions, each with norm and nonlinearity, then the mean over 2×2 pixels, ``depth`` times, with
    twice the copies on each level. Up: a transposed 2×2 convolution of stride 2, joined with the skip connection, and
    two convolutions. All of this is exact when height and width are multiples of 2^depth; other sizes are refused.
    Groups with angles off the grid, such as D8, have a 1×1 convolution and an interpolation in place of the transposed
    one, whose gaps between taps do not turn well.

    Shapes: (batch, in_type.channels, height, width) → (batch, out_type.channels, height, width), with a depth before
    the height for volumes.

    Args:
        depth: how often the image is halved.
        copies: how often each capsule of the mixes occurs at full size; twice as often on each level below.
        out_type: the type of each pixel of the output, as text: ``"2*A1"`` for the scores of two classes, ``"E"`` for a
            vector, ``"A1 + E"`` for a scalar and a vector.
        group: by name, ``"D4"`` by default, and ``"O"`` for volumes; groups of the plane move volumes about z.
        axes: 2 for images, 3 for volumes.
        stream: the capsule mix that a level hands on; by default ``"regular"``, and the first four irreps for SO(2) and
            the like.
        inner: the capsule mix between the two convolutions of a level, by default ``stream``.
        in_type: the type of the input, as text.
        in_channels: in place of ``in_type``, the number of scalar channels; 3 if neither is given.
        restricted_to: subgroups to which the network is restricted when it has been built; :meth:`restrict` sets it.
    """

    def __init__(
        self,
        depth: int = 3,
        copies: int = 4,
        out_type: str = "2*A1",
        *,
        group: str | None = None,
        in_type: str | None = None,
        in_channels: int | None = None,
        **layout: Unpack[UNetLayout],
    ) -> None:
        super().__init__()
        check_known("UNet", layout, UNetLayout, "unet")
        check_depth("UNet", depth)
        if isinstance(copies, bool) or not isinstance(copies, int) or copies < 1:
            raise ValueError(f"UNet: the number of copies of each capsule must be a whole number ≥ 1, got {copies!r}.")
        self.group = group_on(group, layout.get("axes", 2))
        self.in_type = _type(self.group, _input_text(in_type, in_channels), "in_type")
        self.out_type = _type(self.group, out_type, "out_type")
        unit_stream = _type(self.group, layout.get("stream", default_mix(self.group)), "stream")
        inner = layout.get("inner")
        unit_inner = unit_stream if inner is None else _type(self.group, inner, "inner")
        self.depth, self.interpolates = depth, not self.group.keeps_grid
        levels = [(copies * 2**k * unit_inner, copies * 2**k * unit_stream) for k in range(depth + 1)]
        handed_on = [activated(out) for _, out in levels]
        inputs = [self.in_type, *handed_on[:-1]]
        self.encoders = nn.ModuleList(
            _level(start, *types, halves=k > 0) for k, (start, types) in enumerate(zip(inputs, levels, strict=True))
        )
        kinds = layers_of(self.in_type)
        self.upsamplers, self.joins, self.decoders = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for k in reversed(range(depth)):
            self.upsamplers.append(_enlarging(handed_on[k + 1], levels[k][1]))
            self.joins.append(snn.Concat([levels[k][1], handed_on[k]]))
            self.decoders.append(_level(levels[k][1] + handed_on[k], *levels[k]))
        _check_reachable(handed_on[0], self.out_type)
        self.head: snn.EquivariantModule = kinds.convolution(handed_on[0], self.out_type, 3, padding=1)
        make_quiet(self.head)
        self.restrict_in_steps(layout.get("restricted_to"))

    def restrict_parts(self, subgroup: Group) -> None:
        for parts in (self.encoders, self.upsamplers, self.joins, self.decoders):
            for k, part in enumerate(cast(Iterable[snn.EquivariantModule], parts)):
                parts[k] = part.restrict(subgroup)
        self.head = self.head.restrict(subgroup)
        self.group, self.out_type = subgroup, self.head.out_type
        self.in_type = cast(snn.EquivariantModule, self.encoders[0]).in_type

    def forward(self, x: Tensor) -> Tensor:
        check_size("UNet", x, self.depth, self.in_type.channels, self.group.axes or 2)
        y: Tensor = self.head(down_and_up(x, self.encoders, self.upsamplers, self.joins, self.decoders)[0])
        return y

    def feature_maps(self) -> FeatureMaps:
        return unet_features(self.encoders, self.upsamplers, self.joins, self.decoders)

    def extra_repr(self) -> str:
        return f"{self.in_type} → {self.out_type}, depth={self.depth}"


def unet(
    depth: int = 3,
    copies: int = 4,
    out_type: FieldType | str = "2*A1",
    *,
    in_type: FieldType | str | None = None,
    group: Group | str | None = None,
    **options: Any,
) -> UNet:
    """A U-Net from types given as text or as ``FieldType``; see :class:`UNet` for the options.

    The group is that of the field types, else ``"D4"``, or ``"O"`` with ``axes=3``.

    >>> net = unet(depth=2, copies=1, out_type="A1 + E")
    >>> net.in_type, net.out_type
    (FieldType(D4, '3*A1'), FieldType(D4, 'A1 + E'))
    """
    groups = [t.group for t in (in_type, out_type) if isinstance(t, FieldType)]
    if group is not None:
        named = group_on(group, options.get("axes", 2)) if isinstance(group, str) else group
        expect(named, Group, "a group or its name, such as 'D4'")
        groups.append(named)
    for other in groups[1:]:
        if other != groups[0]:
            raise TypeError(
                f"unet: the types belong to {groups[0].name} and {other.name}, but a network is equivariant to one "
                "group. Take both types of one group, and leave out group=..."
            )
    name = groups[0].name if groups else None
    if groups and not is_named(groups[0]):
        raise TypeError(
            f"unet: this group is called {name} but is not the library's own {name}, so a config could not name "
            "it. Use a group of steerable.algebra.families, such as dihedral(4)."
        )
    if groups and groups[0].axes == 3:
        options = {"axes": 3, **options}
    return UNet(
        depth,
        copies,
        _text(out_type, "out_type"),
        group=name,
        in_type=None if in_type is None else _text(in_type, "in_type"),
        **options,
    )


def _level(start: FieldType, inner: FieldType, out: FieldType, *, halves: bool = False) -> snn.Sequential:
    """The mean over 2×2 pixels on all but the first level; then convolution, norm and nonlinearity, twice."""
    kinds = layers_of(start)
    return snn.Sequential(
        *([kinds.mean(start, 2)] if halves else []),
        kinds.convolution(start, inner, 3, padding=1, bias=False),
        kinds.norm(inner),
        nonlinearity(inner),
        kinds.convolution(activated(inner), out, 3, padding=1, bias=False),
        kinds.norm(out),
        nonlinearity(out),
    )


def _enlarging(start: FieldType, out: FieldType) -> snn.EquivariantModule:
    """The layers from a level to the next finer one."""
    kinds = layers_of(start)
    if start.group.keeps_grid:
        transposed: snn.EquivariantModule = kinds.transposed(start, out, 2, stride=2)
        return transposed
    return snn.Sequential(
        kinds.convolution(start, out, 1), snn.Upsample(out, 2, "trilinear" if start.group.axes == 3 else "bilinear")
    )


def _input_text(in_type: str | None, in_channels: int | None) -> str:
    if in_type is None:
        return f"{3 if in_channels is None else in_channels}*A1"
    if in_channels is not None:
        raise ValueError(
            f"UNet takes in_type or in_channels, got both, {in_type!r} and {in_channels}; in_channels=n is short for "
            "in_type='n*A1'."
        )
    return in_type


def _type(group: Group, text: str, role: str) -> FieldType:
    if not isinstance(text, str):
        raise TypeError(
            f"UNet takes {role} as text such as '2*A1 + E', because it is saved in a config; got "
            f"{type(text).__name__}. The function unet(...) also takes a FieldType for in_type and out_type."
        )
    field_type = FieldType(group, text)
    if field_type.channels == 0:
        raise ValueError(f"UNet: {role} is `{text}`, which has no channels. Write capsules such as '2*A1 + E'.")
    return field_type


def _text(field_type: FieldType | str, role: str) -> str:
    """A field type as text that gives the same type when it is read again."""
    if not isinstance(field_type, FieldType):
        return field_type
    try:
        again = FieldType(field_type.group, str(field_type))
    except ValueError:
        again = None
    if again != field_type:
        raise TypeError(
            f"unet: {role} `{field_type}` of {field_type.group.name} cannot be read back from text, so a network "
            "with it could not be saved. Use capsules of the group's catalogue, and a group with a name, such as D4."
        )
    return str(field_type)


def _check_reachable(last: FieldType, out_type: FieldType) -> None:
    for capsule, _ in out_type.terms:
        if parameter_cost(last, FieldType(out_type.group, capsule), 3) == 0:
            raise ValueError(
                f"UNet: out_type has the capsule `{capsule}`, but there is no equivariant 3×3 filter to it from the "
                f"last level, `{last}`: it would always be zero. Choose a stream that shares an irrep with it, such as "
                f"one with `{capsule}` itself."
            )
