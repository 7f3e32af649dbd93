"""The effect on field types of arithmetic and functions of single values."""

from __future__ import annotations

import torch
from torch import Tensor

from steerable.algebra.capsules import Nonlinearity
from steerable.checking.calls import Call, Refused, Result, Rule, is_number
from steerable.nn.admissibility import require
from steerable.nn.type_errors import mismatch
from steerable.types.field_types import FieldType

__all__ = [
    "add", "admitted", "cast", "clamp", "divide", "extremum", "hardtanh", "is_trivial", "keep", "multiply",
    "nonlinearity", "power", "prelu", "rrelu", "untyped",
]  # fmt: skip


def is_trivial(field_type: FieldType) -> bool:
    """Whether the group leaves every channel alone."""
    return all(capsule.representation.is_trivial for capsule, _ in field_type.terms)


def keep(call: Call) -> Result:
    """The type stays for operations that treat every value in the same linear way: copies, signs, zeros."""
    return call.field_type


def untyped(call: Call) -> Result:
    """No type for tensors that contain none of the field's values, such as ``x.new_zeros(3)``."""
    return None


def nonlinearity(kind: Nonlinearity) -> Rule:
    """The rule for functions of single values: every capsule must admit this kind of nonlinearity."""
    return lambda call: admitted(f"`{call.name}`", call.field_type, kind)


def admitted(name: str, field_type: FieldType, kind: Nonlinearity) -> FieldType:
    """The type itself; Refused if one of its capsules does not admit this kind of nonlinearity."""
    try:
        require(name, field_type, kind)
    except TypeError as error:
        raise Refused(str(error)) from None
    return field_type


def cast(call: Call) -> Result:
    """The type stays for a change of dtype, device or memory format; ``x.type()`` without an argument is a string."""
    return call.field_type if isinstance(call.value, Tensor) else None


def add(call: Call) -> Result:
    a, b = call["input"], call["other"]
    type_a, type_b = call.type_of(a), call.type_of(b)
    if type_a is not None and type_b is not None:
        if type_a == type_b:
            return type_a
        for one, other in ((type_a, type_b), (type_b, type_a)):
            if _is_invariant_channel(one, other) and all(c.admits("pointwise") for c, _ in other.terms):
                return other  # the same number is added to every channel
        raise Refused(mismatch(type_a, type_b))
    known, other = (type_a, b) if type_a is not None else (type_b, a)
    if known is None or not _is_factor(call, other, known):
        raise Refused(
            f"`{call.name}` of a field of type `{known}` and an untyped tensor: nothing says how the other one "
            "transforms. Give it a type with typed(x, type), or use a layer of steerable.nn."
        )
    if isinstance(other, int | float) and other == 0:  # as in sum([x, y]), which begins with 0 + x
        return known
    for capsule, _ in known.terms:
        if not capsule.admits("pointwise"):
            raise Refused(
                f"a constant was added to capsule `{capsule}`, which has channels that change sign or mix under the "
                "group. Add it along invariants only, as the bias of `snn.Conv2d` does."
            )
    return known


def multiply(call: Call) -> Result:
    a, b = call["input"], call["other"]
    type_a, type_b = call.type_of(a), call.type_of(b)
    if type_a is not None and type_b is not None:
        for one, other in ((type_a, type_b), (type_b, type_a)):
            if _is_invariant_channel(one, other):
                return other
        if type_a == type_b and all(c.admits("pointwise") for c, _ in type_a.terms):
            return type_a
        raise Refused(
            f"`{call.name}` of fields of types `{type_a}` and `{type_b}` is not equivariant channel by channel. "
            "Multiply by an invariant (one `A1` channel), use `snn.Gated`, or multiply equal permutation capsules."
        )
    known, other = (type_a, b) if type_a is not None else (type_b, a)
    if known is None or not _is_factor(call, other, known):
        raise Refused(
            f"`{call.name}` of a field of type `{known}` and an untyped tensor: different factors on the channels of "
            "one capsule break equivariance. Multiply by a number, or use `snn.BatchNorm2d` for learned scales."
        )
    return known


def divide(call: Call) -> Result:
    mode, divisor = call["rounding_mode"], call.type_of(call["other"])
    if divisor is not None:  # a product with what 1/y makes of every single value
        admitted(f"`{call.name}` by a field", divisor, "pointwise")
    if mode is not None:  # cutting off the fraction is odd, rounding down is not
        nonlinearity("odd" if mode == "trunc" else "pointwise")(call)
    return multiply(call)


def extremum(call: Call) -> Result:
    """The larger or smaller of two fields, channel by channel, needs one type of permutation capsules."""
    types = [call.type_of(call[name]) for name in ("input", "other")]
    if types[0] is None or types[0] != types[1]:
        raise Refused(f"`{call.name}` takes two fields of one type, got `{types[0]}` and `{types[1]}`.")
    return nonlinearity("pointwise")(call)


def hardtanh(call: Call) -> Result:
    return _clipped(call, call["min_val"], call["max_val"])


def clamp(call: Call) -> Result:
    return _clipped(call, call["min"], call["max"])


def _clipped(call: Call, low: object, high: object) -> Result:
    symmetric = isinstance(low, int | float) and isinstance(high, int | float) and low == -high
    return nonlinearity("odd" if symmetric else "pointwise")(call)


def power(call: Call) -> Result:
    exponent = call["exponent"]
    odd = isinstance(exponent, int | float) and exponent % 2 == 1
    return nonlinearity("odd" if odd else "pointwise")(call)


def prelu(call: Call) -> Result:
    if call["weight"].numel() > 1 and not is_trivial(call.field_type):
        raise Refused(
            f"`prelu` with {call['weight'].numel()} slopes, one per channel, but the group moves channels. Use "
            "nn.PReLU() with a single slope."
        )
    return nonlinearity("pointwise")(call)


def rrelu(call: Call) -> Result:
    if call["training"]:
        raise Refused("`rrelu` in training draws a slope for every value, which does not commute with the group.")
    return nonlinearity("pointwise")(call)


def _is_invariant_channel(one: FieldType, other: FieldType) -> bool:
    return one.group == other.group and one.channels == 1 and is_trivial(one)


def _is_factor(call: Call, other: object, known: FieldType) -> bool:
    """Whether a factor is one number, one per sample, as in stochastic depth, or one per scalar channel."""
    if is_number(other):
        return True
    if not isinstance(other, Tensor) or other.dtype == torch.bool or other.ndim > call.value.ndim:
        return False
    _, channels, *pixels = (1,) * (call.value.ndim - other.ndim) + tuple(other.shape)
    return all(n == 1 for n in pixels) and (channels == 1 or is_trivial(known))
