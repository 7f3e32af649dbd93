"""Convolutions between field types in place of plain ones."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from steerable import nn as snn
from steerable.conversion.fitted_pools import FittedAvgPool2d
from steerable.conversion.refusals import NoCounterpart
from steerable.conversion.windows import Downsampling, fitting_sizes, misfits, one_number
from steerable.nn.geometry import pair
from steerable.types.field_types import FieldType

__all__ = ["convolution", "transposed_convolution"]


def convolution(
    plain: nn.Conv2d, before: FieldType, after: FieldType, downsampling: Downsampling
) -> tuple[nn.Module, str]:
    groups = _groups(plain.groups, before, after)
    conv, note = _strided(plain, before, after, groups, downsampling)
    if groups != plain.groups:
        note = "; ".join(filter(None, [note, f"{plain.groups} groups became {groups}, of whole capsules"]))
    return conv, note


def transposed_convolution(plain: nn.ConvTranspose2d, before: FieldType, after: FieldType) -> tuple[nn.Module, str]:
    if plain.groups != 1:
        raise NoCounterpart(f"transposed convolutions have no groups here; it has {plain.groups}. Use groups=1.")
    extra, kernel = plain.output_padding, plain.kernel_size
    if any(extra) and any(d != 1 for d in plain.dilation):
        raise NoCounterpart(
            "an output_padding enlarges one side only, and a dilated kernel cannot grow instead. Use dilation 1."
        )
    # A kernel that is larger by the output padding gives as many pixels, and the same on both sides.
    grown = tuple(k + e for k, e in zip(kernel, extra, strict=True))
    conv = snn.ConvTranspose2d(
        before,
        after,
        grown,
        plain.stride,
        plain.padding,  # type: ignore[arg-type]
        bias=plain.bias is not None,
        dilation=plain.dilation,
    )
    if not any(extra):
        return conv, ""
    return conv, f"kernel {kernel[0]}×{kernel[1]} with output_padding became {grown[0]}×{grown[1]}, which is symmetric"


def _groups(wanted: int, before: FieldType, after: FieldType) -> int:
    """The largest number of groups, at most the plain one, that divides every kind of capsule into equal shares."""
    common = math.gcd(*(copies for field_type in (before, after) for _, copies in field_type.terms))
    return max(d for d in range(1, min(wanted, common) + 1) if common % d == 0)


def _strided(
    plain: nn.Conv2d, in_type: FieldType, out_type: FieldType, groups: int, downsampling: Downsampling
) -> tuple[snn.EquivariantModule, str]:
    """The convolution with the same kernel, and a note on its stride."""
    kernel, stride, dilation = (pair(v, "size", minimum=1) for v in (plain.kernel_size, plain.stride, plain.dilation))
    extent = (dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1)
    padding: str | tuple[int, int] = plain.padding if plain.padding == "same" else _numbers(plain.padding)
    apart = (False, False) if isinstance(padding, str) else misfits(extent, stride, padding)
    if downsampling == "stride":
        apart = (False, False)
    kept = (1 if apart[0] else stride[0], 1 if apart[1] else stride[1])
    conv = snn.Conv2d(
        in_type,
        out_type,
        kernel,
        kept,
        padding,
        dilation,
        groups,
        bias=plain.bias is not None,
        padding_mode=plain.padding_mode,
    )
    if not any(apart):
        return conv, "" if isinstance(padding, str) else fitting_sizes(extent, stride, padding)
    steps = (stride[0] if apart[0] else 1, stride[1] if apart[1] else 1)
    note = f"stride {one_number(stride)} is now a mean over {steps[0]}×{steps[1]} pixels on sizes that it divides"
    if extent == (1, 1) and not any(_numbers(plain.padding)):  # the mean commutes with it, and costs less in front
        pool = FittedAvgPool2d(in_type, 1, steps)
        return snn.Sequential(OrderedDict[str, snn.EquivariantModule](pool=pool, conv=conv)), note
    pool = FittedAvgPool2d(out_type, 1, steps)
    return snn.Sequential(OrderedDict[str, snn.EquivariantModule](conv=conv, pool=pool)), note


def _numbers(padding: str | int | Sequence[int]) -> tuple[int, int]:
    return (0, 0) if isinstance(padding, str) else pair(padding, "padding", minimum=0)
