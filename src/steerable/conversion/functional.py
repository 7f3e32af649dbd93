"""Functions that a ``forward`` calls, as modules that do the same: ``F.max_pool2d(x, 2)`` is ``nn.MaxPool2d(2)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from steerable.conversion.refusals import NoCounterpart

__all__ = ["as_module"]

# The arguments behind the tensor, in order. What is in _IGNORED says nothing about the function itself.
_MODULES: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "relu": (nn.ReLU, "inplace"),
    "relu6": (nn.ReLU6, "inplace"),
    "leaky_relu": (nn.LeakyReLU, "negative_slope inplace"),
    "elu": (nn.ELU, "alpha inplace"),
    "selu": (nn.SELU, "inplace"),
    "celu": (nn.CELU, "alpha inplace"),
    "gelu": (nn.GELU, "approximate"),
    "silu": (nn.SiLU, "inplace"),
    "mish": (nn.Mish, "inplace"),
    "hardswish": (nn.Hardswish, "inplace"),
    "hardsigmoid": (nn.Hardsigmoid, "inplace"),
    "hardtanh": (nn.Hardtanh, "min_val max_val inplace"),
    "sigmoid": (nn.Sigmoid, ""),
    "logsigmoid": (nn.LogSigmoid, ""),
    "tanh": (nn.Tanh, ""),
    "softplus": (nn.Softplus, "beta threshold"),
    "softsign": (nn.Softsign, ""),
    "softmax": (nn.Softmax, "dim _stacklevel"),
    "log_softmax": (nn.LogSoftmax, "dim _stacklevel"),
    "dropout": (nn.Dropout, "p training inplace"),
    "dropout2d": (nn.Dropout2d, "p training inplace"),
    "max_pool2d": (nn.MaxPool2d, "kernel_size stride padding dilation ceil_mode return_indices"),
    "avg_pool2d": (nn.AvgPool2d, "kernel_size stride padding ceil_mode count_include_pad divisor_override"),
    "adaptive_avg_pool2d": (nn.AdaptiveAvgPool2d, "output_size"),
    "adaptive_max_pool2d": (nn.AdaptiveMaxPool2d, "output_size return_indices"),
    "interpolate": (nn.Upsample, "size scale_factor mode align_corners"),
    "flatten": (nn.Flatten, "start_dim end_dim"),
}
_IGNORED = ("inplace", "training", "_stacklevel", "input", "self")
_DEFAULTS: dict[str, dict[str, Any]] = {"flatten": {"start_dim": 0}}  # nn.Flatten begins at 1
_WITH_WEIGHTS = {
    "conv2d": "Conv2d",
    "conv_transpose2d": "ConvTranspose2d",
    "linear": "Linear",
    "batch_norm": "BatchNorm2d",
    "instance_norm": "InstanceNorm2d",
    "group_norm": "GroupNorm",
    "layer_norm": "LayerNorm",
    "prelu": "PReLU",
}
_PADS: dict[str, Callable[..., nn.Module]] = {
    "reflect": nn.ReflectionPad2d,
    "replicate": nn.ReplicationPad2d,
    "circular": nn.CircularPad2d,
}


def as_module(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> nn.Module | None:
    """The module that does what the function of that name does, None where there is none.

    Args:
        name: the bare name, such as ``"relu"``.
        args: what is passed behind the tensor.
        kwargs: and by name.

    >>> as_module("leaky_relu", (0.2,), {"inplace": True})
    LeakyReLU(negative_slope=0.2)
    """
    if name in _WITH_WEIGHTS:
        raise NoCounterpart(
            f"a function that is handed its weights hides whose they are. Use the module nn.{_WITH_WEIGHTS[name]}."
        )
    if name == "pad":
        return _padding(*args, **kwargs)
    if name not in _MODULES:
        return None
    make, names = _MODULES[name]
    given = {**_DEFAULTS.get(name, {}), **dict(zip(names.split(), args, strict=False)), **kwargs}
    options = {}
    for key, value in given.items():
        if key in _IGNORED:
            continue
        if key in names.split():
            options[key] = value
        elif value not in (None, False):
            raise NoCounterpart(f"its argument {key}={value!r} has no counterpart. Leave it out.")
    return make(**options)


def _padding(pad: Sequence[int], mode: str = "constant", value: float | None = None) -> nn.Module:
    if len(pad) != 4:
        raise NoCounterpart(f"it pads {tuple(pad)}, but only height and width of a map can be padded: give 4 numbers.")
    left, right, top, bottom = pad
    if mode == "constant":
        return nn.ConstantPad2d((left, right, top, bottom), value or 0.0)
    return _PADS[mode]((left, right, top, bottom))
