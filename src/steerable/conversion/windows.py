"""Convolutions, strides and windows of the plain network in a form that is exactly equivariant.

A window of extent k that moves in steps of s over n + 2p pixels is symmetric if s divides n + 2p - k. For s = 2 that
requires an even n if k is even, and an odd n if k is odd: the usual 3×3 convolution of stride 2 is not exact on 32
pixels. So pooling windows grow by what the stride leaves over, and such a convolution becomes one of stride 1 followed
by a mean over as many pixels; see :mod:`steerable.conversion.fitted_pools`. Both are exact on every size.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

from torch import nn

from steerable import nn as snn
from steerable.conversion import fitted_pools
from steerable.conversion.refusals import NoCounterpart
from steerable.filters.pixel_grids import size_text
from steerable.nn.geometry import numbers_per_axis, spanned
from steerable.nn.sampling import axes_reversed
from steerable.types.field_types import FieldType

__all__ = ["Downsampling", "convolution", "namesake", "transposed_convolution", "window_pool"]

Downsampling = Literal["pool", "stride"]


def namesake(plain: nn.Module) -> Any:
    """The layer of steerable.nn with the name of one of torch's, such as ``snn.Conv3d`` for an ``nn.Conv3d``."""
    return getattr(snn, type(plain).__name__)


def _misfits(extent: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> tuple[bool, ...]:
    """For each axis: whether the window is off centre on sizes that the stride divides, and one of k + s - 1 is not."""
    return tuple(
        (2 * p - k) % s != 0 and (2 * p - k + 1) % s == 0 for k, s, p in zip(extent, stride, padding, strict=True)
    )


def window_pool(plain: Any, field_type: FieldType, downsampling: Downsampling) -> tuple[snn.EquivariantModule, str]:
    """The pooling over the same windows as a layer of torch, or over growing windows if those are off centre."""
    axes = field_type.group.axes or 2
    kernel = numbers_per_axis(plain.kernel_size, "kernel_size", axes, minimum=1)
    stride = numbers_per_axis(plain.stride, "stride", axes, minimum=1)
    padding = numbers_per_axis(plain.padding, "padding", axes, minimum=0)
    usual, fitted = namesake(plain), getattr(fitted_pools, f"Fitted{type(plain).__name__}")
    if plain.ceil_mode and any(step > 1 for step in stride):
        if any(s > k - p for k, s, p in zip(kernel, stride, padding, strict=True)):
            raise NoCounterpart("ceil_mode=True with a stride greater than the window leaves gaps. Leave it off.")
        note = "where windows hang over the border, they do so on both sides alike"
        return fitted(field_type, kernel, stride, padding, ceil_mode=True), note
    if downsampling == "stride" or {*stride} == {1} or not any(axes_reversed(field_type.group, axes)):
        return usual(field_type, kernel, stride, padding), _fitting_sizes(kernel, stride, padding)
    pool = fitted(field_type, kernel, stride, padding)
    off = _misfits(kernel, stride, padding)
    if not any(off):
        return pool, ""
    window = [k + grows * (s - 1) for k, s, grows in zip(kernel, stride, off, strict=True)]
    return pool, (
        f"windows of {size_text(kernel)} pixels are {size_text(window)} on sizes that the stride "
        f"{_one_number(stride)} divides"
    )


def _fitting_sizes(extent: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> str:
    """The sizes that fit, if those that the stride divides do not."""
    for k, s, p in zip(extent, stride, padding, strict=True):
        if (2 * p - k) % s:
            shift = 2 * p - k
            term = f"n {'+' if shift > 0 else '-'} {abs(shift)}"
            return f"exact on sizes n with {term} divisible by {s} only"
    return ""


def _one_number(values: Sequence[int]) -> str:
    """All numbers as text; a single one if they are equal."""
    return str(values[0]) if len({*values}) == 1 else str(tuple(values))


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
    apart = _misfits(extent, stride, padding)
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
        return conv, "" if plain.padding == "same" else _fitting_sizes(extent, stride, padding)
    steps = [s if off else 1 for off, s in zip(apart, stride, strict=True)]
    note = f"stride {_one_number(stride)} is now a mean over {size_text(steps)} pixels on sizes that it divides"
    mean = fitted_pools.FittedAvgPool2d if len(kernel) == 2 else fitted_pools.FittedAvgPool3d
    if {*extent} == {1} and not any(padding):  # the mean commutes with it, and costs less in front
        return snn.Sequential(OrderedDict[str, snn.EquivariantModule](pool=mean(in_type, 1, steps), conv=conv)), note
    return snn.Sequential(OrderedDict[str, snn.EquivariantModule](conv=conv, pool=mean(out_type, 1, steps))), note


def _numbers(padding: str | Sequence[int], axes: int) -> tuple[int, ...]:
    return (0,) * axes if isinstance(padding, str) else tuple(padding)
