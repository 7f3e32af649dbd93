"""Functions that a ``forward`` calls, as modules that do the same: ``F.max_pool2d(x, 2)`` is ``nn.MaxPool2d(2)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from torch import fx, nn

from steerable.conversion.binding import bound
from steerable.conversion.refusals import NoCounterpart, function_name

__all__ = ["as_module", "changes_its_input"]

# All arguments behind the tensor, in order; torch's functions and methods of these names have no others.
_MODULES: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "relu": (nn.ReLU, "inplace"),
    "relu6": (nn.ReLU6, "inplace"),
    "leaky_relu": (nn.LeakyReLU, "negative_slope inplace"),
    "elu": (nn.ELU, "alpha inplace"),
    "selu": (nn.SELU, "inplace"),
    "celu": (nn.CELU, "alpha inplace"),
    "gelu": (nn.GELU, "* approximate"),
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
    "softmax": (nn.Softmax, "dim _stacklevel dtype"),
    "log_softmax": (nn.LogSoftmax, "dim _stacklevel dtype"),
    "dropout": (nn.Dropout, "p training inplace"),
    "dropout2d": (nn.Dropout2d, "p training inplace"),
    "max_pool2d": (nn.MaxPool2d, "kernel_size stride padding dilation ceil_mode return_indices"),
    "avg_pool2d": (nn.AvgPool2d, "kernel_size stride padding ceil_mode count_include_pad divisor_override"),
    "adaptive_avg_pool2d": (nn.AdaptiveAvgPool2d, "output_size"),
    "adaptive_max_pool2d": (nn.AdaptiveMaxPool2d, "output_size return_indices"),
    "interpolate": (nn.Upsample, "size scale_factor mode align_corners recompute_scale_factor antialias"),
    "flatten": (nn.Flatten, "start_dim end_dim"),
}
_NOT_OF_F = {"softmax": "dim dtype", "log_softmax": "dim dtype"}  # torch.softmax and x.softmax, where F's differ
_DEFAULTS: dict[str, dict[str, Any]] = {"flatten": {"start_dim": 0}}  # nn.Flatten begins at 1
_WITHOUT_EFFECT = ("inplace", "_stacklevel")  # a result in place is read as a new tensor; a level is about warnings
_ONLY: dict[str, tuple[Any, ...]] = {
    "dtype": (None,),
    "antialias": (False,),
    "recompute_scale_factor": (None, False, True),  # whole factors stay what they are
}
_WITH_WEIGHTS = {
    "conv2d": "Conv2d",
    "conv_transpose2d": "ConvTranspose2d",
    "linear": "Linear",
    "batch_norm": "BatchNorm2d",
    "instance_norm": "InstanceNorm2d",
    "group_norm": "GroupNorm",
    "prelu": "PReLU",
}
_PADS: dict[str, Callable[..., nn.Module]] = {
    "reflect": nn.ReflectionPad2d,
    "replicate": nn.ReplicationPad2d,
    "circular": nn.CircularPad2d,
}


def as_module(node: fx.Node) -> nn.Module | None:
    """The module that does what a function or method does, None where there is none."""
    name = function_name(node)
    if name in _WITH_WEIGHTS:
        raise NoCounterpart(
            f"a function that is handed its weights hides whose they are. Use the module nn.{_WITH_WEIGHTS[name]}."
        )
    if name == "pad":
        return _padding(**_options(node, "pad mode value"))
    if name not in _MODULES:
        return None
    make, names = _MODULES[name]
    if not isinstance(node.target, FunctionType):
        names = _NOT_OF_F.get(name, names)
    options = {**_DEFAULTS.get(name, {}), **_options(node, names)}
    for key in _WITHOUT_EFFECT:
        options.pop(key, None)
    for key, allowed in _ONLY.items():
        if options.pop(key, allowed[0]) not in allowed:
            raise NoCounterpart(f"its argument {key} has no counterpart. Leave it out.")
    if name in ("dropout", "dropout2d") and not _drops(node, options.pop("training", True)):
        return nn.Identity()
    return make(**options)


def changes_its_input(node: fx.Node) -> bool:
    """Whether a function or method writes its result into its first argument."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name in ("iadd", "isub", "imul", "itruediv") or (name.endswith("_") and not name.endswith("__")):
        return True
    known = function_name(node) in _MODULES and "inplace" in _MODULES[function_name(node)][1]
    return known and bool(_options(node, _MODULES[function_name(node)][1]).get("inplace"))


def _options(node: fx.Node, names: str) -> dict[str, Any]:
    options = bound(node, f"input {names}")
    options.pop("input", None)
    return options


def _drops(node: fx.Node, training: object) -> bool:
    """Whether a dropout drops in training, and then only; NoCounterpart for one that also drops in evaluation."""
    if training is False:
        return False
    if "only_in_training" in node.meta or node.meta.get("by_mode"):
        return True
    raise NoCounterpart(
        "it drops in evaluation too, since nothing makes it follow the mode of the network. Give it "
        "training=self.training, or use nn.Dropout."
    )


def _padding(pad: Sequence[int], mode: str = "constant", value: float | None = None) -> nn.Module:
    if len(pad) != 4:
        raise NoCounterpart(f"it pads {tuple(pad)}, but only height and width of a map can be padded: give 4 numbers.")
    left, right, top, bottom = pad
    if mode == "constant":
        return nn.ConstantPad2d((left, right, top, bottom), value or 0.0)
    if mode not in _PADS:
        raise NoCounterpart(f"its argument mode={mode!r} is not known here. Use one of constant, {', '.join(_PADS)}.")
    return _PADS[mode]((left, right, top, bottom))
