"""What operations on the pixel grid do to field types: pooling, enlarging, padding."""

from __future__ import annotations

from collections.abc import Sequence

from steerable.algebra.capsules import Nonlinearity
from steerable.checking.calls import Call, Refused, Result, Rule
from steerable.checking.value_rules import nonlinearity
from steerable.nn.sampling import axes_reversed, axes_swapped, pads_alike

__all__ = ["adaptive_pool", "check_windows", "interpolate", "pad", "pixel_pair", "window_pool"]


def window_pool(kind: Nonlinearity | None) -> Rule:
    def rule(call: Call) -> Result:
        if kind is not None:
            nonlinearity(kind)(call)
        kernel, padding = pixel_pair(call["kernel_size"]), pixel_pair(call["padding"])
        stride = kernel if call["stride"] in (None, [], ()) else pixel_pair(call["stride"])
        dilation = pixel_pair(call.arguments.get("dilation", 1))
        extent = (dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1)
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
        height, width = pooled.shape[-2:]
        _check_square(call, "output", (height, width))
        return _with_indices(call)

    return rule


def _with_indices(call: Call) -> Result:
    """The type of the result; the places of the maxima, where they are returned too, are not a field."""
    return (call.field_type, None) if isinstance(call.value, tuple) else call.field_type


def interpolate(call: Call) -> Result:
    before, after = call.field.shape[-2:], call.value.shape[-2:]
    factors = [a / b for b, a in zip(before, after, strict=True)]
    _check_square(call, "scale", (factors[0], factors[1]))
    if any(a % b for b, a in zip(before, after, strict=True)):
        raise Refused(
            f"`{call.name}` from {tuple(before)} to {tuple(after)} pixels, not by a whole factor, samples the grid "
            "unevenly. Use a whole factor, or adaptive_avg_pool2d."
        )
    given = call["scale_factor"]
    given = [given] if isinstance(given, int | float) else list(given or factors)
    if any(scale != factor for scale, factor in zip(given, factors, strict=False)):
        raise Refused(
            f"`{call.name}` by {call['scale_factor']} gives as many pixels as a factor {factors[0]:g}, but samples "
            f"between them. Use scale_factor={factors[0]:g}."
        )
    return call.field_type


def pad(call: Call) -> Result:
    widths = list(call["pad"])
    if len(widths) > 4 and any(widths[4:]):
        raise Refused("padding of channels changes the type. Use a layer of steerable.nn.")
    left, right, top, bottom = [*widths, 0, 0, 0, 0][:4]
    if not pads_alike(call.field_type.group, (left, right, top, bottom)):
        if left == right and top == bottom:
            raise Refused(
                f"{call.field_type.group.name} exchanges height and width, so that the padding has one width for both; "
                f"got {tuple(widths)}."
            )
        raise Refused(
            f"the padding {tuple(widths)} is not symmetric under {call.field_type.group.name}, which moves the image's "
            "centre. Pad all sides alike."
        )
    return nonlinearity("pointwise")(call) if call["mode"] == "constant" and call["value"] else call.field_type


def check_windows(call: Call, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> None:
    """Refuse windows that are not square where the group turns them, or that visit the pixels unevenly."""
    for what, value in (("kernel", kernel), ("stride", stride), ("padding", padding)):
        _check_square(call, what, value)
    for axis, is_reversed in enumerate(axes_reversed(call.field_type.group)):
        n = int(call.field.shape[2 + axis])
        if is_reversed and (n + 2 * padding[axis] - kernel[axis]) % stride[axis]:
            raise Refused(
                f"`{call.name}` with kernel {kernel[axis]}, stride {stride[axis]} and padding {padding[axis]} samples "
                f"{n} pixels unevenly, so that it is not exactly equivariant to {call.field_type.group.name}. Choose "
                f"a size n with (n + {2 * padding[axis] - kernel[axis]}) divisible by {stride[axis]}; typecheck(..., "
                "size=n) tries another one."
            )


def pixel_pair(value: int | Sequence[int]) -> tuple[int, int]:
    """(height, width) from one number, or from a sequence of one or two."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values[0], values[-1]


def _check_square(call: Call, what: str, pair: tuple[float, float]) -> None:
    if pair[0] != pair[1] and axes_swapped(call.field_type.group):
        raise Refused(
            f"{call.field_type.group.name} exchanges height and width, so that the {what} of `{call.name}` has one "
            f"extent for both; got {pair}."
        )
