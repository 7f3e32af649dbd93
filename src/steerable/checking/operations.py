"""The one table of the effects of torch's operations on field types, for ``typecheck`` and ``convert`` alike.

A row names operations, each with the modules of torch that do the same (``relu:ReLU``), the rule that ``typecheck``
follows, all their arguments, which of these may be tensors, and what ``convert`` makes of them. Both refuse what is not
in the table. Operations are found by the function itself, not by its name alone: other functions of the same name are
not known.

To add an operation, add a row, and a rule if none fits. ``FUNCTION_READERS``, ``LAYER_READERS`` and ``COUNTERPARTS`` of
:mod:`steerable.conversion` list what it can become.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from steerable.checking import channel_rules as channels
from steerable.checking import grid_rules as grid
from steerable.checking import layer_rules as layers
from steerable.checking import value_rules as values
from steerable.checking.calls import Operation
from steerable.checking.operation_lookup import OperationTable, Row, row
from steerable.checking.value_rules import nonlinearity

__all__ = ["OPERATIONS", "QUESTIONS", "REMEDIES", "ROWS", "SHAPE_QUESTIONS", "known_layer", "known_operation"]

_POINTWISE, _ODD = nonlinearity("pointwise"), nonlinearity("odd")
_MAX_POOL = "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False"
_MEAN = "input, dim=None, keepdim=False, *, dtype=None, out=None"

ROWS: tuple[Row, ...] = (
    # copies
    row("clone:Identity contiguous", values.keep, "input, memory_format=None", becomes="same"),
    row("cpu float double half bfloat16", values.keep, "input, memory_format=None"),
    row("neg negative", values.keep, "input, *, out=None", becomes="negative"),
    row("detach positive", values.keep, "input, *, out=None"),
    row("requires_grad", values.keep, "input, requires_grad=True"),
    row("pin_memory", values.keep, "input, device=None"),
    row("cuda", values.keep, "input, device=None, non_blocking=False, memory_format=None"),
    row(
        "zeros_like",
        values.keep,
        "input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None",
    ),
    row("to type", values.cast, "input, *target, **options", models="target options"),
    row("type_as", values.keep, "input, other", models="other"),
    row("new_zeros new_ones new_empty", values.untyped, "input, *size, **options", becomes="new tensor"),
    row("new_full", values.untyped, "input, size, fill_value, **options", becomes="new tensor"),
    row("new_tensor", values.untyped, "input, data, **options"),
    # arithmetic
    row("add sub subtract", values.add, "input, other, *, alpha=1, out=None", fields="input other", becomes="sum"),
    row("rsub", values.add, "input, other, *, alpha=1, out=None", fields="input other"),
    row("mul multiply", values.multiply, "input, other, *, out=None", fields="input other", becomes="product"),
    row(
        "div divide true_divide truediv",
        values.divide,
        "input, other, *, rounding_mode=None, out=None",
        fields="input other",
        becomes="quotient",
    ),
    row("maximum minimum fmax fmin", values.extremum, "input, other, *, out=None", fields="input other"),
    row("pow", values.power, "input, exponent, *, out=None", becomes="activation"),
    # functions of single values
    row(
        "relu:ReLU relu6:ReLU6 selu:SELU silu:SiLU mish:Mish sigmoid:Sigmoid logsigmoid:LogSigmoid hardswish:Hardswish "
        "hardsigmoid:Hardsigmoid",
        _POINTWISE,
        "input, inplace=False, *, out=None",
        becomes="activation",
    ),
    row("exp expm1 log log1p sqrt square abs cos cosh", _POINTWISE, "input, *, out=None", becomes="activation"),
    # Near a pole any rounding becomes large, so that ``convert`` could not measure what follows.
    row("reciprocal rsqrt", _POINTWISE, "input, *, out=None"),
    row("tan", _ODD, "input, *, out=None"),
    row("leaky_relu:LeakyReLU", _POINTWISE, "input, negative_slope=0.01, inplace=False", becomes="activation"),
    row("elu:ELU celu:CELU", _POINTWISE, "input, alpha=1.0, inplace=False", becomes="activation"),
    row("gelu:GELU", _POINTWISE, "input, *, approximate='none'", becomes="activation"),
    row("softplus:Softplus", _POINTWISE, "input, beta=1, threshold=20", becomes="activation"),
    row("threshold:Threshold", _POINTWISE, "input, threshold, value, inplace=False", becomes="activation"),
    row("clamp_min", _POINTWISE, "input, min, *, out=None", becomes="activation"),
    row("clamp_max", _POINTWISE, "input, max, *, out=None", becomes="activation"),
    row("clamp clip", values.clamp, "input, min=None, max=None, *, out=None", becomes="activation"),
    row("prelu:PReLU", values.prelu, "input, weight", weights="weight", becomes="activation"),
    row("rrelu", values.rrelu, "input, lower=0.125, upper=0.3333333333333333, training=False, inplace=False"),
    row(
        "tanh:Tanh softsign:Softsign tanhshrink:Tanhshrink sin sinh asinh atan erf sign",
        _ODD,
        "input, *, out=None",
        becomes="activation",
    ),
    row("hardshrink:Hardshrink softshrink:Softshrink", _ODD, "input, lambd=0.5, *, out=None", becomes="activation"),
    row("hardtanh:Hardtanh", values.hardtanh, "input, min_val=-1.0, max_val=1.0, inplace=False", becomes="activation"),
    # pixels
    row(
        "avg_pool2d:AvgPool2d avg_pool3d:AvgPool3d",
        grid.window_pool(None),
        "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None",
        becomes="average pooling",
    ),
    row(
        "max_pool2d:MaxPool2d max_pool3d:MaxPool3d",
        grid.window_pool("pointwise"),
        _MAX_POOL,
        becomes="maximum pooling",
    ),
    row("max_pool2d_with_indices max_pool3d_with_indices", grid.window_pool("pointwise"), _MAX_POOL),
    row(
        "adaptive_avg_pool2d:AdaptiveAvgPool2d adaptive_avg_pool3d:AdaptiveAvgPool3d",
        grid.adaptive_pool(None),
        "input, output_size",
        becomes="adaptive pooling",
    ),
    row(
        "adaptive_max_pool2d:AdaptiveMaxPool2d adaptive_max_pool3d:AdaptiveMaxPool3d",
        grid.adaptive_pool("pointwise"),
        "input, output_size, return_indices=False",
        becomes="adaptive pooling",
    ),
    row(
        "adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices",
        grid.adaptive_pool("pointwise"),
        "input, output_size, return_indices=False",
    ),
    row(
        "interpolate:Upsample,UpsamplingNearest2d,UpsamplingBilinear2d upsample",
        grid.interpolate,
        "input, size=None, scale_factor=None, mode='nearest', align_corners=None, recompute_scale_factor=None, "
        "antialias=False",
        becomes="upsampling",
    ),
    row(
        "pad:ConstantPad2d,ZeroPad2d,ReflectionPad2d,ReplicationPad2d,CircularPad2d,"
        "ConstantPad3d,ZeroPad3d,ReflectionPad3d,ReplicationPad3d,CircularPad3d",
        grid.pad,
        "input, pad, mode='constant', value=None",
        becomes="padding",
    ),
    # channels
    row(
        "cat concat concatenate",
        channels.concatenate,
        "tensors, dim=0, *, out=None",
        fields="tensors",
        becomes="concatenation",
    ),
    row("stack", channels.stack, "tensors, dim=0, *, out=None", fields="tensors"),
    row("getitem", channels.index, "input, index", becomes="index"),
    row("chunk", channels.split, "input, chunks, dim=0"),
    row("split", channels.split, "input, split_size_or_sections, dim=0"),
    row("split_with_sizes", channels.split, "input, split_sizes, dim=0"),
    row("tensor_split", channels.split, "input, indices_or_sections, dim=0"),
    row("flatten:Flatten", channels.reshape, "input, start_dim=0, end_dim=-1", becomes="flattening"),
    row("view reshape", channels.reshape, "input, *shape, **options", becomes="reshape"),
    row("unflatten", channels.reshape, "input, dim, sizes"),
    row("squeeze", channels.reshape, "input, dim=None", becomes="reshape"),
    row("view_as reshape_as", channels.reshape, "input, other", models="other"),
    row("unsqueeze", channels.reshape, "input, dim", becomes="reshape"),
    row("permute", channels.permute, "input, *dims", becomes="permutation"),
    row("transpose swapdims", channels.permute, "input, dim0, dim1", becomes="permutation"),
    row("swapaxes", channels.permute, "input, axis0, axis1", becomes="permutation"),
    row("movedim moveaxis", channels.permute, "input, source, destination", becomes="permutation"),
    row("expand", channels.expand, "input, *sizes, **options", becomes="expansion"),
    row("broadcast_to", channels.expand, "input, *sizes, **options"),
    row("expand_as", channels.expand, "input, other", models="other", becomes="expansion"),
    row("mean", channels.reduce(None), _MEAN, becomes="mean over pixels"),
    row("sum", channels.reduce(None), _MEAN),
    row(
        "max",
        channels.reduce("pointwise"),
        "input, dim=None, keepdim=False, *, out=None",
        becomes="maximum over pixels",
    ),
    row("min", channels.reduce("pointwise"), "input, dim=None, keepdim=False, *, out=None"),
    row("logsumexp", channels.reduce("pointwise"), "input, dim, keepdim=False, *, out=None"),
    row(
        "var std",
        channels.reduce("pointwise"),
        "input, dim=None, unbiased=True, keepdim=False, *, correction=1, out=None",
    ),
    row("norm", channels.norm, "input, p='fro', dim=None, keepdim=False, out=None, dtype=None"),
    row("linalg_vector_norm", channels.norm, "input, p=2, dim=None, keepdim=False, *, dtype=None, out=None"),
    row("normalize", channels.normalise, "input, p=2.0, dim=1, eps=1e-12, out=None"),
    row(
        "amax", channels.reduce("pointwise"), "input, dim=(), keepdim=False, *, out=None", becomes="maximum over pixels"
    ),
    row("amin", channels.reduce("pointwise"), "input, dim=(), keepdim=False, *, out=None"),
    row(
        "softmax:Softmax log_softmax:LogSoftmax softmin:Softmin",
        channels.softmax,
        "input, dim=None, _stacklevel=3, dtype=None, *, out=None",
        becomes="softmax",
    ),
    # attention between pixels
    row("bmm", channels.between_pixels, "input, mat2, *, out=None", fields="input mat2"),
    row("einsum", channels.between_pixels, "equation, *operands", fields="operands"),
    row(
        "scaled_dot_product_attention",
        channels.between_pixels,
        "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False",
        fields="query key value",
    ),
    row(
        "multi_head_attention_forward",
        channels.between_pixels,
        "query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, "
        "add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, "
        "need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None, "
        "v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True, is_causal=False",
        fields="query key value",
        weights="in_proj_weight in_proj_bias bias_k bias_v out_proj_weight out_proj_bias q_proj_weight k_proj_weight "
        "v_proj_weight",
    ),
    # torch's own layers
    row("matmul mm", layers.linear, "input, other, *, out=None", weights="other"),
    row("linear:Linear", layers.linear, "input, weight, bias=None", weights="weight bias", becomes="linear map"),
    row(
        "conv2d:Conv2d conv3d:Conv3d",
        layers.convolve,
        "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",
        weights="weight bias",
        becomes="convolution",
    ),
    row(
        "conv_transpose2d:ConvTranspose2d conv_transpose3d:ConvTranspose3d",
        layers.transposed_convolve,
        "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1",
        weights="weight bias",
        becomes="convolution",
    ),
    row(
        "batch_norm:BatchNorm2d,BatchNorm1d,BatchNorm3d,SyncBatchNorm",
        layers.plain_norm,
        "input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05",
        weights="running_mean running_var weight bias",
        becomes="batch norm",
    ),
    row(
        "instance_norm:InstanceNorm2d,InstanceNorm3d",
        layers.plain_norm,
        "input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, "
        "eps=1e-05",
        weights="running_mean running_var weight bias",
        becomes="instance norm",
    ),
    row(
        "group_norm:GroupNorm",
        layers.plain_norm,
        "input, num_groups, weight=None, bias=None, eps=1e-05",
        weights="weight bias",
        becomes="group norm",
    ),
    row(
        "layer_norm:LayerNorm",
        layers.layer_norm,
        "input, normalized_shape, weight=None, bias=None, eps=1e-05, *, cudnn_enable=True",
        weights="weight bias",
        becomes="layer norm",
    ),
    row("rms_norm", layers.layer_norm, "input, normalized_shape, weight=None, eps=None", weights="weight"),
    row(
        "dropout:Dropout dropout2d:Dropout2d dropout3d:Dropout3d",
        layers.dropout,
        "input, p=0.5, training=True, inplace=False",
        becomes="dropout",
    ),
    row(
        "feature_dropout alpha_dropout feature_alpha_dropout",
        layers.dropout,
        "input, p=0.5, training=True, inplace=False",
    ),
)

# Methods that do not look at a field's values; ``convert`` follows the numbers that come from a shape.
SHAPE_QUESTIONS = frozenset("dim ndimension size".split())
QUESTIONS = SHAPE_QUESTIONS | frozenset(
    (
        "element_size format get_device has_names hash is_complex is_contiguous is_floating_point is_inference "
        "is_pinned is_same_size is_shared is_signed len nelement numel repr storage_offset stride"
    ).split()
)

# What to do in place of operations that have no row.
_REMEDIES = {
    "flip roll rot90 grid_sample cumsum sort as_strided narrow select unbind gather index_select": (
        "It moves or picks pixels or channels. Use a layer of steerable.nn."
    ),
    "gt ge lt le eq ne where masked_fill": (
        "Write what depends on single values as one function of them, `snn.Pointwise(type, function)`."
    ),
    "item tolist numpy array float int bool": (
        "What is computed from values outside of tensors cannot be followed. Keep to operations on fields."
    ),
    "rand_like randn_like bernoulli": "Chance does not move with the image. Draw one number per sample, in training.",
    "argmax argmin topk": "Apply it to what the model returns.",
    "tensordot baddbmm": "Use `snn.Conv2d` with kernel size 1, `snn.Linear` or `snn.TensorProduct`.",
    "glu": "Use x.chunk(2, 1) and a product, or `snn.Gated`.",
}
REMEDIES = {name: remedy for names, remedy in _REMEDIES.items() for name in names.split()}

_TABLE = OperationTable(ROWS)
OPERATIONS = _TABLE.by_name


def known_operation(function: Callable[..., Any]) -> Operation | None:
    """The operation of a function of torch; None if it is unknown."""
    return _TABLE.of_function(function)


def known_layer(layer: type[nn.Module]) -> Operation | None:
    """The operation that a module of torch computes; None if it is unknown."""
    return _TABLE.of_layer(layer)
