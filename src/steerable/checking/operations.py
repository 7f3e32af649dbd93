"""The one table of what torch's operations do to field types, for ``typecheck`` and ``convert`` alike.

A row names operations, each with the modules of torch that do the same (``relu:ReLU``), the rule that ``typecheck``
follows, all their arguments, which of these may be tensors, and what ``convert`` makes of them. What is not in the
table is refused by both. Operations are found by the function itself, not by its name alone: other functions of the
same name are not known.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.checking import channel_rules as channels
from steerable.checking import grid_rules as grid
from steerable.checking import layer_rules as layers
from steerable.checking import value_rules as values
from steerable.checking.calls import Operation
from steerable.checking.value_rules import nonlinearity

__all__ = [
    "OPERATIONS",
    "QUESTIONS",
    "ROWS",
    "SHAPE_QUESTIONS",
    "OperationTable",
    "known_layer",
    "known_operation",
    "operation_name",
]

_row = Operation.described

ROWS: tuple[tuple[str, Operation], ...] = (
    # copies
    ("clone:Identity contiguous", _row(values.keep, "input, memory_format=None", becomes="same")),
    ("cpu float double half bfloat16", _row(values.keep, "input, memory_format=None")),
    ("neg negative", _row(values.keep, "input, *, out=None", becomes="negative")),
    ("detach positive", _row(values.keep, "input, *, out=None")),
    ("requires_grad", _row(values.keep, "input, requires_grad=True")),
    ("pin_memory", _row(values.keep, "input, device=None")),
    ("cuda", _row(values.keep, "input, device=None, non_blocking=False, memory_format=None")),
    (
        "zeros_like",
        _row(
            values.keep,
            "input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None",
        ),
    ),
    ("to type", _row(values.cast, "input, *target, **options", models="target options")),
    ("type_as", _row(values.keep, "input, other", models="other")),
    ("new_zeros new_ones new_empty", _row(values.untyped, "input, *size, **options", becomes="new tensor")),
    ("new_full", _row(values.untyped, "input, size, fill_value, **options", becomes="new tensor")),
    ("new_tensor", _row(values.untyped, "input, data, **options")),
    # arithmetic
    (
        "add sub subtract",
        _row(values.add, "input, other, *, alpha=1, out=None", fields="input other", becomes="sum"),
    ),
    ("rsub", _row(values.add, "input, other, *, alpha=1, out=None", fields="input other")),
    ("mul multiply", _row(values.multiply, "input, other, *, out=None", fields="input other", becomes="product")),
    (
        "div divide true_divide truediv",
        _row(
            values.divide,
            "input, other, *, rounding_mode=None, out=None",
            fields="input other",
            becomes="quotient",
        ),
    ),
    ("maximum minimum fmax fmin", _row(values.extremum, "input, other, *, out=None", fields="input other")),
    ("pow", _row(values.power, "input, exponent, *, out=None", becomes="activation")),
    # functions of single values
    (
        "relu:ReLU relu6:ReLU6 selu:SELU silu:SiLU mish:Mish sigmoid:Sigmoid logsigmoid:LogSigmoid hardswish:Hardswish "
        "hardsigmoid:Hardsigmoid",
        _row(nonlinearity("pointwise"), "input, inplace=False, *, out=None", becomes="activation"),
    ),
    (
        "exp expm1 log log1p sqrt square abs cos cosh",
        _row(nonlinearity("pointwise"), "input, *, out=None", becomes="activation"),
    ),
    # A pole makes any rounding large, so that nothing could be measured behind it.
    ("reciprocal rsqrt", _row(nonlinearity("pointwise"), "input, *, out=None")),
    ("tan", _row(nonlinearity("odd"), "input, *, out=None")),
    (
        "leaky_relu:LeakyReLU",
        _row(nonlinearity("pointwise"), "input, negative_slope=0.01, inplace=False", becomes="activation"),
    ),
    ("elu:ELU celu:CELU", _row(nonlinearity("pointwise"), "input, alpha=1.0, inplace=False", becomes="activation")),
    ("gelu:GELU", _row(nonlinearity("pointwise"), "input, *, approximate='none'", becomes="activation")),
    ("softplus:Softplus", _row(nonlinearity("pointwise"), "input, beta=1, threshold=20", becomes="activation")),
    (
        "threshold:Threshold",
        _row(nonlinearity("pointwise"), "input, threshold, value, inplace=False", becomes="activation"),
    ),
    ("clamp_min", _row(nonlinearity("pointwise"), "input, min, *, out=None", becomes="activation")),
    ("clamp_max", _row(nonlinearity("pointwise"), "input, max, *, out=None", becomes="activation")),
    ("clamp clip", _row(values.clamp, "input, min=None, max=None, *, out=None", becomes="activation")),
    ("prelu:PReLU", _row(values.prelu, "input, weight", weights="weight", becomes="activation")),
    (
        "rrelu",
        _row(values.rrelu, "input, lower=0.125, upper=0.3333333333333333, training=False, inplace=False"),
    ),
    (
        "tanh:Tanh softsign:Softsign tanhshrink:Tanhshrink sin sinh asinh atan erf sign",
        _row(nonlinearity("odd"), "input, *, out=None", becomes="activation"),
    ),
    (
        "hardshrink:Hardshrink softshrink:Softshrink",
        _row(nonlinearity("odd"), "input, lambd=0.5, *, out=None", becomes="activation"),
    ),
    (
        "hardtanh:Hardtanh",
        _row(values.hardtanh, "input, min_val=-1.0, max_val=1.0, inplace=False", becomes="activation"),
    ),
    # pixels
    (
        "avg_pool2d:AvgPool2d",
        _row(
            grid.window_pool(None),
            "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, "
            "divisor_override=None",
            becomes="average pooling",
        ),
    ),
    (
        "max_pool2d:MaxPool2d",
        _row(
            grid.window_pool("pointwise"),
            "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False",
            becomes="maximum pooling",
        ),
    ),
    (
        "max_pool2d_with_indices",
        _row(
            grid.window_pool("pointwise"),
            "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False",
        ),
    ),
    (
        "adaptive_avg_pool2d:AdaptiveAvgPool2d",
        _row(grid.adaptive_pool(None), "input, output_size", becomes="adaptive pooling"),
    ),
    (
        "adaptive_max_pool2d:AdaptiveMaxPool2d",
        _row(grid.adaptive_pool("pointwise"), "input, output_size, return_indices=False", becomes="adaptive pooling"),
    ),
    (
        "adaptive_max_pool2d_with_indices",
        _row(grid.adaptive_pool("pointwise"), "input, output_size, return_indices=False"),
    ),
    (
        "interpolate:Upsample,UpsamplingNearest2d,UpsamplingBilinear2d upsample",
        _row(
            grid.interpolate,
            "input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, "
            "antialias=False",
            becomes="upsampling",
        ),
    ),
    (
        "pad:ConstantPad2d,ZeroPad2d,ReflectionPad2d,ReplicationPad2d,CircularPad2d",
        _row(grid.pad, "input, pad, mode='constant', value=None", becomes="padding"),
    ),
    # channels
    (
        "cat concat concatenate",
        _row(channels.concatenate, "tensors, dim=0, *, out=None", fields="tensors", becomes="concatenation"),
    ),
    ("getitem", _row(channels.index, "input, index", becomes="index")),
    ("chunk", _row(channels.split, "input, chunks, dim=0")),
    ("split", _row(channels.split, "input, split_size_or_sections, dim=0")),
    ("split_with_sizes", _row(channels.split, "input, split_sizes, dim=0")),
    ("tensor_split", _row(channels.split, "input, indices_or_sections, dim=0")),
    ("flatten:Flatten", _row(channels.reshape, "input, start_dim=0, end_dim=-1", becomes="flattening")),
    ("view reshape", _row(channels.reshape, "input, *shape, **options", becomes="reshape")),
    ("squeeze", _row(channels.reshape, "input, dim=None", becomes="reshape")),
    ("view_as reshape_as", _row(channels.reshape, "input, other", models="other")),
    ("unsqueeze", _row(channels.reshape, "input, dim")),
    ("permute", _row(channels.permute, "input, *dims", becomes="permutation")),
    ("transpose swapdims", _row(channels.permute, "input, dim0, dim1", becomes="permutation")),
    ("swapaxes", _row(channels.permute, "input, axis0, axis1", becomes="permutation")),
    ("movedim moveaxis", _row(channels.permute, "input, source, destination", becomes="permutation")),
    ("expand broadcast_to", _row(channels.expand, "input, *sizes, **options")),
    ("expand_as", _row(channels.expand, "input, other", models="other")),
    (
        "mean",
        _row(
            channels.reduce(None), "input, dim=None, keepdim=False, *, dtype=None, out=None", becomes="mean over pixels"
        ),
    ),
    ("sum", _row(channels.reduce(None), "input, dim=None, keepdim=False, *, dtype=None, out=None")),
    (
        "amax",
        _row(channels.reduce("pointwise"), "input, dim=(), keepdim=False, *, out=None", becomes="maximum over pixels"),
    ),
    ("amin", _row(channels.reduce("pointwise"), "input, dim=(), keepdim=False, *, out=None")),
    (
        "softmax:Softmax log_softmax:LogSoftmax softmin:Softmin",
        _row(channels.softmax, "input, dim=None, _stacklevel=3, dtype=None, *, out=None", becomes="softmax"),
    ),
    # torch's own layers
    (
        "linear:Linear",
        _row(layers.linear, "input, weight, bias=None", weights="weight bias", becomes="linear map"),
    ),
    (
        "conv2d:Conv2d",
        _row(
            layers.convolve,
            "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
            weights="weight bias",
            becomes="convolution",
        ),
    ),
    (
        "conv_transpose2d:ConvTranspose2d",
        _row(
            layers.transposed_convolve,
            "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1",
            weights="weight bias",
            becomes="convolution",
        ),
    ),
    (
        "batch_norm:BatchNorm2d,BatchNorm1d,SyncBatchNorm",
        _row(
            layers.plain_norm,
            "input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05",
            weights="running_mean running_var weight bias",
            becomes="batch norm",
        ),
    ),
    (
        "instance_norm:InstanceNorm2d",
        _row(
            layers.plain_norm,
            "input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, "
            "eps=1e-05",
            weights="running_mean running_var weight bias",
            becomes="instance norm",
        ),
    ),
    (
        "group_norm:GroupNorm",
        _row(
            layers.plain_norm,
            "input, num_groups, weight=None, bias=None, eps=1e-05",
            weights="weight bias",
            becomes="group norm",
        ),
    ),
    (
        "layer_norm:LayerNorm",
        _row(
            layers.layer_norm,
            "input, normalized_shape, weight=None, bias=None, eps=1e-05, *, cudnn_enable=True",
            weights="weight bias",
            becomes="layer norm",
        ),
    ),
    ("rms_norm", _row(layers.layer_norm, "input, normalized_shape, weight=None, eps=None", weights="weight")),
    (
        "dropout:Dropout dropout2d:Dropout2d",
        _row(layers.dropout, "input, p=0.5, training=True, inplace=False", becomes="dropout"),
    ),
    (
        "feature_dropout alpha_dropout feature_alpha_dropout",
        _row(layers.dropout, "input, p=0.5, training=True, inplace=False"),
    ),
)

# What may be asked of a field without a look at its values; ``convert`` follows numbers that come from a shape.
SHAPE_QUESTIONS = frozenset("dim ndimension size".split())
QUESTIONS = SHAPE_QUESTIONS | frozenset(
    (
        "element_size format get_device has_names hash is_complex is_contiguous is_floating_point is_inference "
        "is_pinned is_same_size is_shared is_signed len nelement numel repr storage_offset stride"
    ).split()
)


class OperationTable:
    """The rows, found by an operation's name, by a function of torch, or by a module's class.

    Attributes:
        by_name: the operations by their bare names.
    """

    def __init__(self, rows: Sequence[tuple[str, Operation]]) -> None:
        words = [(word.partition(":"), operation) for names, operation in rows for word in names.split()]
        self.by_name: dict[str, Operation] = {
            name: dataclasses.replace(operation, name=name, layers=_classes(modules))
            for (name, _, modules), operation in words
        }
        known = self.by_name.values()
        self._by_function = {function: operation for operation in known for function in _functions(operation.name)}
        self._by_layer = {layer: operation for operation in known for layer in operation.layers}

    def of_function(self, function: Callable[..., Any]) -> Operation | None:
        """The row of a function of torch, of a method of its tensors or of a Python operator; None without one."""
        try:
            return self._by_function.get(function)
        except TypeError:  # not hashable
            return None

    def of_layer(self, layer: type[nn.Module]) -> Operation | None:
        """The row of a module's class; None without one."""
        return self._by_layer.get(layer)


def operation_name(function: Callable[..., Any]) -> str:
    """The bare name: ``add`` for torch.add, Tensor.add_, Tensor.__add__."""
    return getattr(function, "__name__", str(function)).strip("_")


def _classes(modules: str) -> tuple[type[nn.Module], ...]:
    return tuple(getattr(nn, module) for module in modules.split(",") if module)


def _functions(name: str) -> Iterator[Callable[..., Any]]:
    """Every function of torch that goes by this name, in place or not, and the Python operator that calls it."""
    for home in (torch, Tensor, F, torch._C._nn):
        for spelling in (name, f"{name}_", f"_{name}", f"__{name}__", f"__i{name}__"):
            function = getattr(home, spelling, None)
            if function is not None and function is not Tensor.__float__:  # which reads a value
                yield function
    if hasattr(Tensor, f"__{name}__"):
        yield from (getattr(operator, spelling) for spelling in (name, f"i{name}") if hasattr(operator, spelling))


_TABLE = OperationTable(ROWS)
OPERATIONS = _TABLE.by_name


def known_operation(function: Callable[..., Any]) -> Operation | None:
    """What is known of a function of torch; None where nothing is."""
    return _TABLE.of_function(function)


def known_layer(layer: type[nn.Module]) -> Operation | None:
    """The operation that a module of torch carries out; None where it is not known."""
    return _TABLE.of_layer(layer)
