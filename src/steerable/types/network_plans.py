"""The paper's residual networks as plans without tensors: their convolutions, with types and costs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from steerable.algebra.capsules import Capsule
from steerable.algebra.families import dihedral
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.types.costs import parameter_cost
from steerable.types.field_types import FieldType

__all__ = [
    "DEEPEST",
    "HALVINGS",
    "STEMS",
    "ConvolutionPlan",
    "ResNetPlan",
    "ResidualBlockPlan",
    "activated",
    "check_stem",
    "default_mix",
    "default_mixes",
    "network_nonlinearity",
    "resnet_plan",
    "stage_plan",
]

DEEPEST, MOST_COPIES = 2_000, 5_000  # larger networks fit no machine
HALVINGS = 4  # the product of the strides behind the stem, which divides the side that the stem leaves
STEMS = (1, 2, 4, 8)
"""By how much the first convolution of a residual network may reduce an image."""
PAPER_MIXES = ("regular + qm + qmr2 + qmr3", "A1 + A2 + B1 + B2 + 2*E")
"""The capsules of D4 in the residual stream of the paper's network, and inside its residual blocks."""


def default_mix(group: Group) -> str:
    """The capsules of networks over a group: ``regular``, or for infinite groups the first four irreps.

    >>> from steerable import o2
    >>> default_mix(dihedral(8)), default_mix(o2())
    ('regular', 'A1 + A2 + E1 + E2')
    """
    return "regular" if isinstance(group, FiniteGroup) else " + ".join(map(str, group.irreps_of((1,) * 4)))


def default_mixes(group: Group) -> tuple[str, str]:
    """The capsules of residual networks, in the stream and inside the blocks: over D4 they are the paper's."""
    return PAPER_MIXES if group == dihedral(4) else (default_mix(group),) * 2


@dataclass(frozen=True)
class ConvolutionPlan:
    """One convolution of a network."""

    name: str
    in_type: FieldType
    out_type: FieldType
    kernel_size: int
    stride: int = 1

    @property
    def parameters(self) -> int:
        """The number of free parameters of its filter bank."""
        return parameter_cost(self.in_type, self.out_type, self.kernel_size)


def network_nonlinearity(field_type: FieldType) -> Literal["ReLU", "CReLU", "mixed"]:
    """The nonlinearity after a type: ReLU for permutations, CReLU for monomial capsules, else one for each capsule."""
    kinds = [capsule for capsule, _ in field_type.terms]
    if all(capsule.admits("pointwise") for capsule in kinds):
        return "ReLU"
    return "CReLU" if all(capsule.admits("scale-free concatenated") for capsule in kinds) else "mixed"


def activated(field_type: FieldType) -> FieldType:
    """The type after :func:`network_nonlinearity`; a mixed one doubles monomial capsules and leaves the others."""
    chosen = network_nonlinearity(field_type)
    if chosen == "ReLU":
        return field_type
    stack: list[tuple[int, Capsule]] = []
    for capsule, n in field_type.terms:
        doubled = capsule.admits("scale-free concatenated") and (chosen == "CReLU" or not capsule.admits("pointwise"))
        stack += [(n, after) for after in (capsule.after_concatenation() if doubled else (capsule,))]
    return FieldType(field_type.group, stack)


@dataclass(frozen=True)
class ResidualBlockPlan:
    """One pre-activation residual block: from ``in_type`` through ``inner`` to ``out_type``."""

    name: str
    in_type: FieldType
    inner: FieldType
    out_type: FieldType
    stride: int = 1
    kernel_size: int = 3

    @property
    def convolutions(self) -> tuple[ConvolutionPlan, ...]:
        """conv1, conv2 and, if the type changes, the shortcut."""
        start = activated(self.in_type)
        both = (
            ConvolutionPlan(f"{self.name}.conv1", start, self.inner, self.kernel_size, self.stride),
            ConvolutionPlan(f"{self.name}.conv2", activated(self.inner), self.out_type, self.kernel_size),
        )
        if self.in_type == self.out_type:
            return both
        return (*both, ConvolutionPlan(f"{self.name}.shortcut", start, self.out_type, 1, self.stride))


@dataclass(frozen=True)
class ResNetPlan:
    """A stem, and the residual blocks of each stage after it; a stage may see the previous one as a subgroup does."""

    stem: ConvolutionPlan
    stages: tuple[tuple[ResidualBlockPlan, ...], ...]

    @property
    def blocks(self) -> tuple[ResidualBlockPlan, ...]:
        """The blocks of all stages."""
        return tuple(itertools.chain.from_iterable(self.stages))

    @property
    def convolutions(self) -> tuple[ConvolutionPlan, ...]:
        """All convolutions, in the order in which they are computed."""
        return (self.stem, *(conv for block in self.blocks for conv in block.convolutions))

    @property
    def parameters(self) -> int:
        """The number of parameters of all convolutions."""
        return sum(conv.parameters for conv in self.convolutions)

    def with_kernel_size(self, size: int) -> ResNetPlan:
        """The same network with filters of another odd size inside its blocks."""
        if size < 1 or size % 2 == 0:
            raise ValueError(f"`kernel_size` must be odd, so that the image keeps its size: 3, 5, 7, …; got {size}.")
        resized = (tuple(replace(block, kernel_size=size) for block in blocks) for blocks in self.stages)
        return replace(self, stages=tuple(resized))


def check_stem(stem: int, side: int | None = None) -> None:
    """Raise a ValueError unless a first convolution can reduce images with this side by this number of pixels."""
    if stem not in STEMS:
        raise ValueError(
            "`stem` is how many pixels per axis the first convolution turns into one: it must be one of "
            f"{', '.join(map(str, STEMS))}; got {stem!r}."
        )
    if side is not None and side < HALVINGS * stem:
        smaller = max((fitting for fitting in STEMS if HALVINGS * fitting <= side), default=1)
        raise ValueError(
            f"got `stem={stem}` for images of {side}×{side} pixels, expected at least {HALVINGS * stem}×"
            f"{HALVINGS * stem}: the first convolution makes one pixel of {stem}×{stem}, and what it leaves is halved "
            f"twice. Use `stem={smaller}`, or larger images."
        )


def resnet_plan(
    depth: int,
    copies: int,
    *,
    group: Group | None = None,
    image_type: str = "3*A1",
    stream: str | None = None,
    inner: str | None = None,
    stages: Sequence[int] = (1, 2, 4),
    stem: int = 1,
) -> ResNetPlan:
    """The paper's network: depth = 6·blocks + 2, three stages of 1, 2 and 4 times ``copies`` of the mixes.

    A block is a nonlinearity, a 3×3 convolution from the residual stream to the inner type, a nonlinearity (CReLU for
    irreps), and a 3×3 convolution back; where the stream's type changes, a 1×1 convolution maps the old type to the
    new one. The default mixes are those of :func:`default_mixes`. The first convolution has 3×3 taps; with a ``stem`` s
    above 1 it has (s + 2)×(s + 2) and steps of s pixels, which is exact on multiples of s.

    >>> resnet_plan(depth=14, copies=14).parameters
    4448374
    """
    blocks, rest = divmod(depth - 2, 2 * len(stages))
    if rest or blocks < 1:
        raise ValueError(
            f"a residual network of {len(stages)} stages has a depth of {2 * len(stages)}·blocks + 2, that is "
            f"{2 * len(stages) + 2}, {4 * len(stages) + 2}, …; got {depth}."
        )
    if copies < 1:
        raise ValueError(f"the number of copies of each capsule must be at least 1, got {copies}.")
    if copies > MOST_COPIES or depth > DEEPEST:
        raise ValueError(
            f"a residual network with a depth of {depth:,} and {copies:,} copies of each capsule fits no machine; the "
            f"depth is at most {DEEPEST:,} and the number of copies at most {MOST_COPIES:,}."
        )
    check_stem(stem)
    group = group or dihedral(4)
    default_stream, default_inner = default_mixes(group)
    unit_stream = FieldType(group, default_stream if stream is None else stream)
    unit_inner = FieldType(group, default_inner if inner is None else inner)
    now = copies * stages[0] * unit_stream
    first = ConvolutionPlan("stem", FieldType(group, image_type), now, 3 if stem == 1 else stem + 2, stem)
    planned = []
    for s, factor in enumerate(stages, start=1):
        after, within = copies * factor * unit_stream, copies * factor * unit_inner
        planned.append(stage_plan(s, blocks, now, within, after))
        now = after
    return ResNetPlan(first, tuple(planned))


def stage_plan(
    number: int, blocks: int, before: FieldType, inner: FieldType, after: FieldType, kernel_size: int = 3
) -> tuple[ResidualBlockPlan, ...]:
    """The blocks of one stage; the first block of the second stage and of later ones halves the maps."""
    ends = [(before, 2 if number > 1 else 1), *[(after, 1)] * (blocks - 1)]
    return tuple(
        ResidualBlockPlan(f"stage{number}.block{b}", start, inner, after, stride, kernel_size)
        for b, (start, stride) in enumerate(ends, start=1)
    )
