"""The one table of what torch's operations do to field types. What is not in it is refused.

A row names the rule, the operations, all their arguments, and which of these may be tensors. Operations are found by
the function itself, not by its name alone: other functions of the same name are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.checking import channel_rules as channels
from steerable.checking import grid_rules as grid
from steerable.checking import layer_rules as layers
from steerable.checking import value_rules as values
from steerable.checking.calls import Operation
from steerable.checking.value_rules import nonlinearity

__all__ = ["OPERATIONS", "known_operation", "operation_name"]

_TABLE: tuple[tuple[str, Operation], ...] = (
    # copies
    (
        "clone contiguous cpu float double half bfloat16",
        Operation.described(values.keep, "input, memory_format=None"),
    ),
    ("detach neg negative positive", Operation.described(values.keep, "input, *, out=None")),
    ("requires_grad", Operation.described(values.keep, "input, requires_grad=True")),
    ("pin_memory", Operation.described(values.keep, "input, device=None")),
    ("cuda", Operation.described(values.keep, "input, device=None, non_blocking=False, memory_format=None")),
    (
        "zeros_like",
        Operation.described(
            values.keep,
            "input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None",
        ),
    ),
    ("to type", Operation.described(values.cast, "input, *target, **options", models="target options")),
    ("type_as", Operation.described(values.keep, "input, other", models="other")),
    ("new_zeros new_ones new_empty", Operation.described(values.untyped, "input, *size, **options")),
    ("new_full", Operation.described(values.untyped, "input, size, fill_value, **options")),
    ("new_tensor", Operation.described(values.untyped, "input, data, **options")),
    # arithmetic
    (
        "add sub subtract rsub",
        Operation.described(values.add, "input, other, *, alpha=1, out=None", fields="input other"),
    ),
    ("mul multiply", Operation.described(values.multiply, "input, other, *, out=None", fields="input other")),
    (
        "div divide true_divide",
        Operation.described(values.divide, "input, other, *, rounding_mode=None, out=None", fields="input other"),
    ),
    (
        "maximum minimum fmax fmin",
        Operation.described(values.extremum, "input, other, *, out=None", fields="input other"),
    ),
    ("pow", Operation.described(values.power, "input, exponent, *, out=None")),
    # functions of single values
    (
        "relu relu6 selu silu mish sigmoid logsigmoid hardswish hardsigmoid",
        Operation.described(nonlinearity("pointwise"), "input, inplace=False, *, out=None"),
    ),
    (
        "exp expm1 log log1p sqrt rsqrt square abs reciprocal cos cosh",
        Operation.described(nonlinearity("pointwise"), "input, *, out=None"),
    ),
    ("leaky_relu", Operation.described(nonlinearity("pointwise"), "input, negative_slope=0.01, inplace=False")),
    ("elu celu", Operation.described(nonlinearity("pointwise"), "input, alpha=1.0, inplace=False")),
    ("gelu", Operation.described(nonlinearity("pointwise"), "input, approximate='none'")),
    ("softplus", Operation.described(nonlinearity("pointwise"), "input, beta=1, threshold=20")),
    ("threshold", Operation.described(nonlinearity("pointwise"), "input, threshold, value, inplace=False")),
    ("clamp_min", Operation.described(nonlinearity("pointwise"), "input, min, *, out=None")),
    ("clamp_max", Operation.described(nonlinearity("pointwise"), "input, max, *, out=None")),
    ("clamp clip", Operation.described(values.clamp, "input, min=None, max=None, *, out=None")),
    ("prelu", Operation.described(values.prelu, "input, weight", weights="weight")),
    (
        "rrelu",
        Operation.described(
            values.rrelu, "input, lower=0.125, upper=0.3333333333333333, training=False, inplace=False"
        ),
    ),
    (
        "tanh softsign sin sinh tan asinh atan erf sign tanhshrink",
        Operation.described(nonlinearity("odd"), "input, *, out=None"),
    ),
    ("hardshrink softshrink", Operation.described(nonlinearity("odd"), "input, lambd=0.5, *, out=None")),
    ("hardtanh", Operation.described(values.hardtanh, "input, min_val=-1.0, max_val=1.0, inplace=False")),
    # pixels
    (
        "avg_pool2d",
        Operation.described(
            grid.window_pool(None),
            "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, "
            "divisor_override=None",
        ),
    ),
    (
        "max_pool2d max_pool2d_with_indices",
        Operation.described(
            grid.window_pool("pointwise"),
            "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False",
        ),
    ),
    ("adaptive_avg_pool2d", Operation.described(grid.adaptive_pool(None), "input, output_size")),
    (
        "adaptive_max_pool2d adaptive_max_pool2d_with_indices",
        Operation.described(grid.adaptive_pool("pointwise"), "input, output_size, return_indices=False"),
    ),
    (
        "interpolate upsample",
        Operation.described(
            grid.interpolate,
            "input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, "
            "antialias=False",
        ),
    ),
    ("pad", Operation.described(grid.pad, "input, pad, mode='constant', value=None")),
    # channels
    (
        "cat concat concatenate",
        Operation.described(channels.concatenate, "tensors, dim=0, *, out=None", fields="tensors"),
    ),
    ("getitem", Operation.described(channels.index, "input, index")),
    ("chunk", Operation.described(channels.split, "input, chunks, dim=0")),
    ("split", Operation.described(channels.split, "input, split_size_or_sections, dim=0")),
    ("split_with_sizes", Operation.described(channels.split, "input, split_sizes, dim=0")),
    ("tensor_split", Operation.described(channels.split, "input, indices_or_sections, dim=0")),
    ("flatten", Operation.described(channels.reshape, "input, start_dim=0, end_dim=-1")),
    ("view reshape", Operation.described(channels.reshape, "input, *shape, **options")),
    ("view_as reshape_as", Operation.described(channels.reshape, "input, other", models="other")),
    ("squeeze", Operation.described(channels.reshape, "input, dim=None")),
    ("unsqueeze", Operation.described(channels.reshape, "input, dim")),
    ("expand broadcast_to", Operation.described(channels.expand, "input, *sizes, **options")),
    ("expand_as", Operation.described(channels.expand, "input, other", models="other")),
    ("mean sum", Operation.described(channels.reduce(None), "input, dim=None, keepdim=False, *, dtype=None, out=None")),
    ("amax amin", Operation.described(channels.reduce("pointwise"), "input, dim=(), keepdim=False, *, out=None")),
    (
        "softmax log_softmax softmin",
        Operation.described(channels.softmax, "input, dim=None, _stacklevel=3, dtype=None, *, out=None"),
    ),
    # torch's own layers
    ("linear", Operation.described(layers.linear, "input, weight, bias=None", weights="weight bias")),
    (
        "conv2d",
        Operation.described(
            layers.convolve,
            "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
            weights="weight bias",
        ),
    ),
    (
        "batch_norm",
        Operation.described(
            layers.plain_norm,
            "input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05",
            weights="running_mean running_var weight bias",
        ),
    ),
    (
        "instance_norm",
        Operation.described(
            layers.plain_norm,
            "input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, "
            "eps=1e-05",
            weights="running_mean running_var weight bias",
        ),
    ),
    (
        "group_norm",
        Operation.described(
            layers.plain_norm, "input, num_groups, weight=None, bias=None, eps=1e-05", weights="weight bias"
        ),
    ),
    (
        "layer_norm",
        Operation.described(
            layers.layer_norm, "input, normalized_shape, weight=None, bias=None, eps=1e-05", weights="weight bias"
        ),
    ),
    (
        "rms_norm",
        Operation.described(layers.layer_norm, "input, normalized_shape, weight=None, eps=None", weights="weight"),
    ),
    (
        "dropout dropout2d feature_dropout alpha_dropout feature_alpha_dropout",
        Operation.described(layers.dropout, "input, p=0.5, training=True, inplace=False"),
    ),
)

OPERATIONS: dict[str, Operation] = {name: operation for names, operation in _TABLE for name in names.split()}


def operation_name(function: Callable[..., Any]) -> str:
    """The bare name: ``add`` for torch.add, Tensor.add_, Tensor.__add__."""
    return getattr(function, "__name__", str(function)).strip("_")


def _functions(name: str) -> Iterator[Callable[..., Any]]:
    """Every function of torch that goes by this name, in place or not."""
    for home in (torch, Tensor, F, torch._C._nn):
        for spelling in (name, f"{name}_", f"_{name}", f"__{name}__", f"__i{name}__"):
            function = getattr(home, spelling, None)
            if function is not None and function is not Tensor.__float__:  # which reads a value
                yield function


_BY_FUNCTION: dict[Callable[..., Any], Operation] = {
    function: operation for name, operation in OPERATIONS.items() for function in _functions(name)
}


def known_operation(function: Callable[..., Any]) -> Operation | None:
    """What is known of a function of torch; None where nothing is."""
    try:
        return _BY_FUNCTION.get(function)
    except TypeError:  # not hashable
        return None
