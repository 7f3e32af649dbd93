"""The effect on field types of operations on the pixel grid: pooling, enlarging, padding."""

from __future__ import annotations

from collections.abc import Sequence

from steerable.algebra.capsules import Nonlinearity
from steerable.checking.calls import Call, Refused, Result, Rule, Unfit
from steerable.checking.value_rules import nonlinearity
from steerable.nn.geometry import spanned
from steerable.nn.sampling import axes_reversed, one_extent_missing, pads_alike

__all__ = ["adaptive_pool", "check_windows", "interpolate", "pad", "per_axis", "window_pool"]


def window_pool(kind: Nonlinearity | None) -> Rule:
    def rule(call: Call) -> Result:
        if kind is not None:
            nonlinearity(kind)(call)
        kernel, padding = per_axis(call, call["kernel_size"]), per_axis(call, call["padding"])
        stride = kernel if call["stride"] in (None, [], ()) else per_axis(call, call["stride"])
        extent = spanned(kernel, per_axis(call, call.arguments.get("dilation", 1)))
        check_windows(call, extent, stride, padding)
        if call["ceil_mode"]:
            raise Refused(f"`{call.name}` with ceil_mode lets windows hang over one side only. Leave it off.")
        return _with_indices(call)

    return rule


def adaptive_pool(kind: Nonlinearity | None) -> Rule:
    def rule(call: Call) -> Result:
        if kind is not None:
            nonlinearity(kind)(call)
        pooled = call.value[0] if isinstance(call.value, tuple) else call.value
        _check_alike(call, "output", tuple(pooled.shape[pooled.ndim - call.axes :]))
        return _with_indices(call)

    return rule


def _with_indices(call: Call) -> Result:
    """The type of the result; the places of the maxima, if they are returned too, are not a field."""
    return (call.field_type, None) if isinstance(call.value, tuple) else call.field_type


def interpolate(call: Call) -> Result:
    before, after = call.field.shape[2:], call.value.shape[2:]
    factors = [a / b for b, a in zip(before, after, strict=True)]
    _check_alike(call, "scale", factors)
    if call["mode"].startswith("nearest") and any(a % b for b, a in zip(before, after, strict=True)):
        raise Unfit(
            f"`{call.name}` from {tuple(before)} to {tuple(after)} pixels, not by a whole factor, samples the grid "
            f"unevenly. Use a whole factor, mode='bilinear', or adaptive_avg_pool{call.axes}d."
        )
    given = call["scale_factor"]
    given = [given] if isinstance(given, int | float) else list(given or factors)
    if any(scale != factor for scale, factor in zip(given, factors, strict=False)):
        raise Refused(
            f"`{call.name}` by {call['scale_factor']} gives as many pixels as a factor {factors[0]:g}, but samples "
            f"off the centre. Use size=... or a whole factor."
        )
    return call.field_type


def pad(call: Call) -> Result:
    widths = list(call["pad"])
    sides = 2 * call.axes
    if any(widths[sides:]):
        raise Refused("padding of channels changes the type. Use a layer of steerable.nn.")
    around = [*widths, *[0] * sides][:sides]
    if not pads_alike(call.field_type.group, around):
        if around[::2] == around[1::2]:
            _check_alike(call, "padding", around[::-2])
        raise Refused(
            f"the padding {tuple(widths)} is not symmetric under {call.field_type.group.name}, which moves the "
            f"{'image' if call.axes == 2 else 'volume'}'s centre. Pad all sides alike."
        )
    return nonlinearity("pointwise")(call) if call["mode"] == "constant" and call["value"] else call.field_type


def check_windows(call: Call, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> None:
    """Refuse windows that are not square although the group turns them, or that visit the pixels unevenly."""
    for what, value in (("kernel", kernel), ("stride", stride), ("padding", padding)):
        _check_alike(call, what, value)
    for axis, is_reversed in enumerate(axes_reversed(call.field_type.group, call.axes)):
        n = int(call.field.shape[2 + axis])
        if is_reversed and (n + 2 * padding[axis] - kernel[axis]) % stride[axis]:
            raise Unfit(
                f"`{call.name}` with kernel {kernel[axis]}, stride {stride[axis]} and padding {padding[axis]} samples "
                f"{n} pixels unevenly, so it is not exactly equivariant to {call.field_type.group.name}. Choose "
                f"a size n with (n + {2 * padding[axis] - kernel[axis]}) divisible by {stride[axis]}; typecheck(..., "
                "size=n) tries another one."
            )


def per_axis(call: Call, value: int | Sequence[int]) -> tuple[int, ...]:
    """One number per axis of the fields, from one number, or from a sequence of one or of as many."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * call.axes if len(values) == 1 else values


def _check_alike(call: Call, what: str, values: Sequence[float]) -> None:
    """Refuse different numbers along axes that the group exchanges."""
    if reason := one_extent_missing(call.field_type.group, f"{what} of `{call.name}`", values, mixed=what != "padding"):
        raise Refused(reason)
