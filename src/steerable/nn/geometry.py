"""Numbers along the axes of a window: kernel sizes, strides and paddings, for images and volumes alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["axis_names", "numbers_per_axis", "resolved_padding", "spanned"]


def axis_names(axes: int) -> tuple[str, ...]:
    """The names of the last axes of an array."""
    return ("depth", "height", "width")[3 - axes :]


def numbers_per_axis(value: int | Sequence[int], what: str, axes: int, *, minimum: int) -> tuple[int, ...]:
    """One number per axis from one number or one per axis, checked."""
    values = tuple(value) if isinstance(value, Sequence) else (value,) * axes
    if len(values) != axes or any(isinstance(v, bool) or not isinstance(v, int | np.integer) for v in values):
        several = "a pair" if axes == 2 else f"{axes}"
        raise TypeError(f"{what} must be a whole number or {several} of them, got {value!r}.")
    if min(values) < minimum:
        raise ValueError(f"{what} must be at least {minimum}, got {value!r}.")
    return tuple(int(v) for v in values)


def spanned(kernel_size: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """The number of pixels that a dilated kernel spans."""
    return tuple(d * (k - 1) + 1 for k, d in zip(kernel_size, dilation, strict=True))


def resolved_padding(
    padding: int | Sequence[int] | str, extent: Sequence[int], stride: Sequence[int]
) -> tuple[int, ...]:
    """Pixels on both sides of each axis, from numbers, ``"same"`` or ``"valid"``."""
    if padding == "valid":
        return (0,) * len(extent)
    if padding != "same":
        if isinstance(padding, str):
            several = "a pair of" if len(extent) == 2 else f"{len(extent)}"
            raise ValueError(f"padding must be a number, {several} numbers, 'same' or 'valid'; got {padding!r}.")
        return numbers_per_axis(padding, "padding", len(extent), minimum=0)
    if any(s != 1 for s in stride):
        raise ValueError(f"padding='same' keeps the size and needs stride 1; got stride {tuple(stride)}.")
    for e, name in zip(extent, axis_names(len(extent)), strict=True):
        if e % 2 == 0:
            raise ValueError(
                f"padding='same' needs an odd kernel: one that spans {e} pixels in {name} would be padded more on one "
                "side than on the other, which is not equivariant. Use an odd kernel_size, or give the padding as a "
                "number."
            )
    return tuple((e - 1) // 2 for e in extent)
