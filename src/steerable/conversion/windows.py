"""Strides and windows of the plain network in a form that is exactly equivariant.

A window of extent k that moves in steps of s over n + 2p pixels is symmetric where s divides n + 2p - k. For s = 2 that
asks for even n where k is even, and for odd n where k is odd: the usual 3×3 convolution of stride 2 is not exact on 32
pixels. So pooling windows grow by what the stride leaves over, and such a convolution becomes one of stride 1 followed
by a mean over as many pixels; see :mod:`steerable.conversion.fitted_pools`. Both are exact on every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import nn

from steerable import nn as snn
from steerable.conversion.fitted_pools import FittedAvgPool2d, FittedMaxPool2d
from steerable.conversion.refusals import NoCounterpart
from steerable.nn.geometry import pair
from steerable.nn.sampling import axes_reversed
from steerable.types.field_types import FieldType

__all__ = ["Downsampling", "fitting_sizes", "misfits", "one_number", "window_pool"]

Downsampling = Literal["pool", "stride"]


def misfits(extent: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> tuple[bool, bool]:
    """For each axis: whether the window is off centre on sizes that the stride divides, and one of k + s - 1 is not."""
    off = [(2 * p - k) % s != 0 and (2 * p - k + 1) % s == 0 for k, s, p in zip(extent, stride, padding, strict=True)]
    return off[0], off[1]


def window_pool(
    kind: type[snn.AvgPool2d] | type[snn.MaxPool2d],
    plain: nn.AvgPool2d | nn.MaxPool2d,
    field_type: FieldType,
    downsampling: Downsampling,
) -> tuple[snn.EquivariantModule, str]:
    """The pooling over the same windows, or over windows that grow where those would be off centre."""
    kernel = pair(plain.kernel_size, "kernel_size", minimum=1)
    stride = pair(plain.stride, "stride", minimum=1)
    padding = pair(plain.padding, "padding", minimum=0)
    if plain.ceil_mode and any(step > 1 for step in stride):
        if any(s > k - p for k, s, p in zip(kernel, stride, padding, strict=True)):
            raise NoCounterpart("ceil_mode=True with a stride greater than the window leaves gaps. Leave it off.")
        fitted = FittedAvgPool2d if kind is snn.AvgPool2d else FittedMaxPool2d
        note = "where windows hang over the border, they do so on both sides alike"
        return fitted(field_type, kernel, stride, padding, ceil_mode=True), note
    if downsampling == "stride" or stride == (1, 1) or not any(axes_reversed(field_type.group)):
        return kind(field_type, kernel, stride, padding), fitting_sizes(kernel, stride, padding)
    pool = (FittedAvgPool2d if kind is snn.AvgPool2d else FittedMaxPool2d)(field_type, kernel, stride, padding)
    off = misfits(kernel, stride, padding)
    if not any(off):
        return pool, ""
    window = (kernel[0] + off[0] * (stride[0] - 1), kernel[1] + off[1] * (stride[1] - 1))
    return pool, (
        f"windows of {kernel[0]}×{kernel[1]} pixels are {window[0]}×{window[1]} on sizes that the stride "
        f"{one_number(stride)} divides"
    )


def fitting_sizes(extent: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> str:
    """Which sizes fit, where those that the stride divides do not."""
    for k, s, p in zip(extent, stride, padding, strict=True):
        if (2 * p - k) % s:
            shift = 2 * p - k
            term = f"n {'+' if shift > 0 else '-'} {abs(shift)}"
            return f"exact on sizes n with {term} divisible by {s} only"
    return ""


def one_number(values: Sequence[int]) -> str:
    return str(values[0]) if values[0] == values[1] else str(tuple(values))
