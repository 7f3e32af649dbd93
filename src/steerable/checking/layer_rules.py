"""The effect on field types of torch's own layers: convolutions, linear maps, norms, dropout."""

from __future__ import annotations

from torch import Tensor

from steerable.checking.calls import Call, Refused, Result
from steerable.checking.grid_rules import check_windows, per_axis
from steerable.checking.value_rules import is_trivial, nonlinearity
from steerable.types.field_types import FieldType

__all__ = ["convolve", "dropout", "layer_norm", "linear", "plain_norm", "transposed_convolve"]


def _scalars(field_type: FieldType, channels: int) -> FieldType:
    return FieldType(field_type.group, [(int(channels), field_type.group.trivial)])


def convolve(call: Call) -> Result:
    field_type = call.field_type
    if field_type.group.is_trivial:
        return _scalars(field_type, call.value.shape[1])
    if any(n != 1 for n in call["weight"].shape[2:]) or not is_trivial(field_type):
        raise Refused(
            f"a plain convolution of `{field_type}` does not commute with {field_type.group.name}. Use "
            f"`snn.Conv{call.axes}d`."
        )
    padding = per_axis(call, 0 if isinstance(call["padding"], str) else call["padding"])
    check_windows(call, (1,) * call.axes, per_axis(call, call["stride"]), padding)
    return _scalars(field_type, call.value.shape[1])


def transposed_convolve(call: Call) -> Result:
    field_type = call.field_type
    if not field_type.group.is_trivial:
        raise Refused(
            f"a plain transposed convolution of `{field_type}` does not commute with {field_type.group.name}. Use "
            f"`snn.ConvTranspose{call.axes}d`."
        )
    return _scalars(field_type, call.value.shape[1])


def linear(call: Call) -> Result:
    if call.field.ndim != 2:
        raise Refused(
            f"a linear layer on a tensor of shape {tuple(call.field.shape)} mixes the last dimension, which is not "
            "the channels. Pool first, or use "
            f"`snn.Conv{call.axes}d` with kernel size 1."
        )
    if not is_trivial(call.field_type):
        raise Refused(
            f"a plain linear layer mixes the channels of `{call.field_type}`, which the group moves. Use "
            "`snn.Linear`, or make invariants first with `snn.GroupPool`."
        )
    return _scalars(call.field_type, call.value.shape[-1])


def plain_norm(call: Call) -> Result:
    """A norm of scalars; without weights and running means, also one of whole channels, or of all of them together."""
    if not any(isinstance(call.arguments.get(key), Tensor) for key in ("weight", "bias", "running_mean")):
        if call.name == "instance_norm":
            return nonlinearity("odd")(call)
        if call.arguments.get("num_groups") == 1:
            return nonlinearity("pointwise")(call)
    if not is_trivial(call.field_type):
        raise Refused(
            f"`{call.name}` scales and shifts the channels of `{call.field_type}` one by one, but the group moves "
            f"them. Use the norm of steerable.nn, for instance `snn.BatchNorm{call.axes}d`."
        )
    return call.field_type


def layer_norm(call: Call) -> Result:
    """A layer norm over the channels of pooled scalars; without weights, also over all channels and pixels."""
    if call["weight"] is None and call.arguments.get("bias") is None:
        if len(call["normalized_shape"]) == call.field.ndim - 1:
            return nonlinearity("pointwise")(call)
    elif call.field.ndim == 2:
        return plain_norm(call)
    raise Refused(
        f"`{call.name}` normalises the last dimensions, pixels among them, with a weight for each. Use `snn.LayerNorm`."
    )


def dropout(call: Call) -> Result:
    if call["training"] and call["p"] > 0:
        raise Refused("dropout of single channels does not commute with the group. Use `snn.Dropout`.")
    return call.field_type
