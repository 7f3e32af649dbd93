"""Strides and windows of the plain network in a form that is exactly equivariant.

A window of extent k that moves in steps of s over n + 2p pixels is symmetric where s divides n + 2p - k. For s = 2 that
asks for even n where k is even, and for odd n where k is odd: the usual 3×3 convolution of stride 2 is not exact on 32
pixels. So pooling windows grow by what the stride leaves over, and such a convolution becomes one of stride 1 followed
by a mean over as many pixels; see :mod:`steerable.conversion.fitted_pools`. Both are exact on every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import nn

from steerable import nn as snn
from steerable.conversion import fitted_pools
from steerable.conversion.refusals import NoCounterpart
from steerable.filters.pixel_grids import size_text
from steerable.nn.geometry import numbers_per_axis
from steerable.nn.sampling import axes_reversed
from steerable.types.field_types import FieldType

__all__ = ["Downsampling", "fitting_sizes", "misfits", "namesake", "one_number", "window_pool"]

Downsampling = Literal["pool", "stride"]


def namesake(plain: nn.Module) -> Any:
    """The layer of steerable.nn that is called as one of torch's, such as ``snn.Conv3d`` for an ``nn.Conv3d``."""
    return getattr(snn, type(plain).__name__)


def misfits(extent: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> tuple[bool, ...]:
    """For each axis: whether the window is off centre on sizes that the stride divides, and one of k + s - 1 is not."""
    return tuple(
        (2 * p - k) % s != 0 and (2 * p - k + 1) % s == 0 for k, s, p in zip(extent, stride, padding, strict=True)
    )


def window_pool(plain: Any, field_type: FieldType, downsampling: Downsampling) -> tuple[snn.EquivariantModule, str]:
    """The pooling over the same windows as a layer of torch, or over windows that grow where those are off centre."""
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
        return usual(field_type, kernel, stride, padding), fitting_sizes(kernel, stride, padding)
    pool = fitted(field_type, kernel, stride, padding)
    off = misfits(kernel, stride, padding)
    if not any(off):
        return pool, ""
    window = [k + grows * (s - 1) for k, s, grows in zip(kernel, stride, off, strict=True)]
    return pool, (
        f"windows of {size_text(kernel)} pixels are {size_text(window)} on sizes that the stride "
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
    """All numbers as text: one where they are the same."""
    return str(values[0]) if len({*values}) == 1 else str(tuple(values))
