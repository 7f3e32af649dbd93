"""Wide residual networks with a group per stage, as plans: their numbers of regular fields, and their costs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Literal, get_args

from steerable.algebra.families import group_named
from steerable.algebra.groups import FiniteGroup
from steerable.errors import check_choice
from steerable.filters.space_arguments import default_space
from steerable.types.field_types import FieldType
from steerable.types.network_plans import ConvolutionPlan, ResNetPlan, stage_plan
from steerable.types.restriction import restriction

__all__ = ["Match", "stage_groups", "wide_blocks", "wide_plan"]

Match = Literal["parameters", "channels"]
WIDTHS = (16, 32, 64)
"""Channels of the plain network's stages, times its width."""
TAPS, TAPS_OFF_GRID = 3, 5  # 3×3 pixels carry too few frequencies for rotations by 45°


def wide_blocks(depth: int) -> int:
    """The number of blocks per stage of a wide residual network: (depth - 4) / 6."""
    blocks, rest = divmod(depth - 4, 6)
    if rest or blocks < 1:
        raise ValueError(
            f"a wide residual network has a depth of 6·blocks + 4, that is 10, 16, 22, 28, …; got {depth}."
        )
    return blocks


def stage_groups(groups: str | Sequence[str]) -> list[FiniteGroup]:
    """The groups of the three stages of a wide residual network, each a subgroup of the one before it, by name."""
    names = re.split(r"[\s,]+", groups.strip()) if isinstance(groups, str) else list(groups)
    names = 3 * names if len(names) == 1 else names
    if len(names) != 3:
        raise ValueError(
            f"WideResNet: groups are three names, one per stage, such as ('D8', 'D4', 'D1'), or one for all stages; "
            f"got {len(names)}: {', '.join(map(str, names))}."
        )
    found = [group_named(name) for name in names]
    for larger, smaller in itertools.pairwise(found):
        if not isinstance(larger, FiniteGroup) or not isinstance(smaller, FiniteGroup) or larger.axes != 2:
            raise ValueError(
                f"WideResNet has regular fields of finite groups of the plane, C1, C2 … and D1, D2 …; got "
                f"{', '.join(names)}."
            )
        try:
            larger.trivial.restrict(smaller)
        except ValueError as error:
            raise ValueError(
                f"WideResNet: the group of a stage is a subgroup of the one before it; got {', '.join(names)}, and "
                f"{smaller.name} is not a subgroup of {larger.name}. Choose ('D8', 'D4', 'D1') for instance."
            ) from error
    return [group for group in found if isinstance(group, FiniteGroup)]


def wide_plan(
    depth: int, width: int, groups: Sequence[FiniteGroup], *, in_channels: int = 3, match: Match = "parameters"
) -> ResNetPlan:
    """The plan of a wide residual network on regular fields, one group per stage.

    Args:
        depth: 6·blocks + 4.
        width: the plain network's stages have 16, 32 and 64 times as many channels.
        groups: one group per stage, each a subgroup of the one before it.
        in_channels: scalar channels of the image.
        match: whether each stage has about the parameters of the plain one, or as many channels.

    >>> from steerable import cyclic, dihedral
    >>> wide_plan(28, 10, [cyclic(1)] * 3).parameters  # the plain network's 3×3 and 1×1 convolutions
    36454832
    """
    check_choice("match", match, get_args(Match))
    blocks, planned = wide_blocks(depth), []
    first = groups[0]
    fields = _fields(first, 1, WIDTHS[0] * width, blocks, None, match)
    now = FieldType(first, [(max(1, round(fields / width)), first.regular)])
    taps = _taps(first)
    stem = ConvolutionPlan("stem", FieldType(first, [(in_channels, first.trivial)]), now, taps)
    for s, (group, channels) in enumerate(zip(groups, WIDTHS, strict=True), start=1):
        now = restriction(now, group)[0]
        before = WIDTHS[0] if s == 1 else WIDTHS[s - 2] * width
        fields = _fields(group, before, channels * width, blocks, now, match)
        after = FieldType(group, [(fields, group.regular)])
        planned.append(stage_plan(s, blocks, now, after, after, _taps(group)))
        now = after
    return ResNetPlan(stem, tuple(planned))


def _taps(group: FiniteGroup) -> int:
    return TAPS if default_space(group, TAPS).is_pixel_patch else TAPS_OFF_GRID


def _fields(group: FiniteGroup, before: int, channels: int, blocks: int, now: FieldType | None, match: Match) -> int:
    """The number of regular fields of a stage.

    A convolution between f and f' regular fields has f f' |G| dim V parameters, and the plain one 9 c c'.
    """
    if match == "channels":
        return max(1, round(channels / group.order))
    coefficients = group.order * default_space(group, _taps(group)).dim
    incoming = 0.0 if now is None else now.channels / group.order
    # a f² + b f parameters, of the convolutions between equal fields, and of those from the stage before it
    a, b = (2 * blocks - 1) * coefficients, incoming * (coefficients + group.order)
    plain = (2 * blocks - 1) * 9 * channels**2 + (0 if now is None else before * channels * 10)
    return max(1, round((math.sqrt(b * b + 4 * a * plain) - b) / (2 * a)))
