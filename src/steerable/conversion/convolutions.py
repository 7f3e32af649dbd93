"""Convolutions between field types in place of plain ones."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from steerable import nn as snn
from steerable.conversion.fitted_pools import FittedAvgPool2d, FittedAvgPool3d
from steerable.conversion.refusals import NoCounterpart
from steerable.conversion.windows import Downsampling, fitting_sizes, misfits, namesake, one_number
from steerable.filters.pixel_grids import size_text
from steerable.nn.geometry import spanned
from steerable.types.field_types import FieldType

__all__ = ["convolution", "transposed_convolution"]


def convolution(
    plain: nn.Conv2d | nn.Conv3d, before: FieldType, after: FieldType, downsampling: Downsampling
) -> tuple[nn.Module, str]:
    groups = _groups(plain.groups, before, after)
    conv, note = _strided(plain, before, after, groups, downsampling)
    if groups != plain.groups:
        note = "; ".join(filter(None, [note, f"{plain.groups} groups became {groups}, of whole capsules"]))
    return conv, note


def transposed_convolution(
    plain: nn.ConvTranspose2d | nn.ConvTranspose3d, before: FieldType, after: FieldType
) -> tuple[nn.Module, str]:
    if plain.groups != 1:
        raise NoCounterpart(f"transposed convolutions have no groups here; it has {plain.groups}. Use groups=1.")
    extra, kernel = plain.output_padding, plain.kernel_size
    if any(extra) and any(d != 1 for d in plain.dilation):
        raise NoCounterpart(
            "an output_padding enlarges one side only, and a dilated kernel cannot grow instead. Use dilation 1."
        )
    # A kernel that is larger by the output padding gives as many pixels, and the same on both sides.
    grown = tuple(k + e for k, e in zip(kernel, extra, strict=True))
    conv = namesake(plain)(
        before,
        after,
        grown,
        plain.stride,
        plain.padding,
        bias=plain.bias is not None,
        dilation=plain.dilation,
    )
    if not any(extra):
        return conv, ""
    return conv, f"kernel {size_text(kernel)} with output_padding became {size_text(grown)}, which is symmetric"


def _groups(wanted: int, before: FieldType, after: FieldType) -> int:
    """The largest number of groups, at most the plain one, that divides every kind of capsule into equal shares."""
    common = math.gcd(*(copies for field_type in (before, after) for _, copies in field_type.terms))
    return max(d for d in range(1, min(wanted, common) + 1) if common % d == 0)


def _strided(
    plain: nn.Conv2d | nn.Conv3d, in_type: FieldType, out_type: FieldType, groups: int, downsampling: Downsampling
) -> tuple[snn.EquivariantModule, str]:
    """The convolution with the same kernel, and a note on its stride."""
    kernel, stride, padding = plain.kernel_size, plain.stride, _numbers(plain.padding, len(plain.kernel_size))
    extent = spanned(kernel, plain.dilation)
    apart = misfits(extent, stride, padding)
    if downsampling == "stride" or plain.padding == "same":
        apart = (False,) * len(kernel)
    conv = namesake(plain)(
        in_type,
        out_type,
        kernel,
        [1 if off else s for off, s in zip(apart, stride, strict=True)],
        "same" if plain.padding == "same" else padding,
        plain.dilation,
        groups,
        bias=plain.bias is not None,
        padding_mode=plain.padding_mode,
    )
    if not any(apart):
        return conv, "" if plain.padding == "same" else fitting_sizes(extent, stride, padding)
    steps = [s if off else 1 for off, s in zip(apart, stride, strict=True)]
    note = f"stride {one_number(stride)} is now a mean over {size_text(steps)} pixels on sizes that it divides"
    mean = FittedAvgPool2d if len(kernel) == 2 else FittedAvgPool3d
    if {*extent} == {1} and not any(padding):  # the mean commutes with it, and costs less in front
        return snn.Sequential(OrderedDict[str, snn.EquivariantModule](pool=mean(in_type, 1, steps), conv=conv)), note
    return snn.Sequential(OrderedDict[str, snn.EquivariantModule](conv=conv, pool=mean(out_type, 1, steps))), note


def _numbers(padding: str | Sequence[int], axes: int) -> tuple[int, ...]:
    return (0,) * axes if isinstance(padding, str) else tuple(padding)
