"""Layers of steerable.nn in place of plain ones that keep their channels: norms, activations, pooling and the like."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from steerable import nn as snn
from steerable.conversion.refusals import NoCounterpart
from steerable.conversion.windows import Downsampling, window_pool
from steerable.nn.activations import require
from steerable.nn.norms import CapsuleNorm
from steerable.nn.sampling import pads_alike
from steerable.types.field_types import FieldType

__all__ = ["ACTIVATIONS", "KEEPING", "Replacement", "Setting", "keeping"]

# A layer, and a note on what differs from the plain one; "" where nothing does.
Replacement = tuple[nn.Module, str]

ACTIVATIONS: tuple[type[nn.Module], ...] = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish,
    nn.Hardsigmoid, nn.Hardtanh, nn.Hardshrink, nn.Softshrink, nn.Tanhshrink, nn.Sigmoid, nn.LogSigmoid, nn.Tanh,
    nn.Softplus, nn.Softsign, nn.Threshold,
)  # fmt: skip

_NAMED: dict[type[nn.Module], Callable[[FieldType], snn.EquivariantModule]] = {
    nn.ReLU: snn.ReLU,
    nn.SiLU: snn.SiLU,
    nn.Sigmoid: snn.Sigmoid,
    nn.Tanh: snn.Tanh,
    nn.Softsign: snn.Softsign,
}


@dataclass(frozen=True)
class Setting:
    """What a layer that keeps its fibre meets.

    Attributes:
        field_type: the type that comes in and goes out.
        vector: whether it is a pooled field, (batch, channels).
        last: whether the plain layer meets a map with its channels last.
        downsampling: see :func:`steerable.convert`.
    """

    field_type: FieldType
    vector: bool
    last: bool
    downsampling: Downsampling


def keeping(plain: nn.Module, setting: Setting) -> Replacement:
    """The counterpart of a layer that leaves the channels' meaning alone."""
    made = KEEPING[type(plain)](plain, setting)
    return made if isinstance(made, tuple) else (made, "")


def _activation(plain: Any, setting: Setting) -> nn.Module:
    if type(plain) in _NAMED:
        return _NAMED[type(plain)](setting.field_type)
    if isinstance(plain, nn.LeakyReLU):
        return snn.LeakyReLU(setting.field_type, plain.negative_slope)
    if isinstance(plain, nn.ELU):
        return snn.ELU(setting.field_type, plain.alpha)
    if isinstance(plain, nn.PReLU) and plain.num_parameters > 1:
        raise NoCounterpart("one slope per channel would tear capsules apart. Use nn.PReLU() with a single slope.")
    function = copy.deepcopy(plain)
    if hasattr(function, "inplace"):
        function.inplace = False
    if isinstance(function, nn.PReLU):
        function.reset_parameters()
    others = [capsule for capsule, _ in setting.field_type.blocks if not capsule.admits("pointwise")]
    if others and isinstance(plain, nn.PReLU):
        raise NoCounterpart(
            f"capsule `{others[0]}` takes odd functions only, and nn.PReLU() is odd at slope 1 alone, where it does "
            "nothing. Use nn.Tanh() or nn.Softsign(), or a mix of permutations such as mix='regular'."
        )
    return (snn.Odd if others else snn.Pointwise)(setting.field_type, function)


def _batch_norm(plain: Any, setting: Setting) -> nn.Module:
    sync = isinstance(plain, nn.SyncBatchNorm)
    options = (plain.eps, plain.momentum, plain.affine, plain.track_running_stats)
    return _without_bias(plain, snn.BatchNorm2d(setting.field_type, *options, sync=sync))


def _instance_norm(plain: Any, setting: Setting) -> nn.Module:
    options = (plain.eps, plain.momentum, plain.affine, plain.track_running_stats)
    return _without_bias(plain, snn.InstanceNorm2d(setting.field_type, *options))


def _without_bias(plain: Any, norm: CapsuleNorm) -> nn.Module:
    """The norm without a bias where the plain one has none, as with affine=True and bias=False."""
    if plain.bias is None and norm.bias is not None:
        norm.bias = None
        if isinstance(norm, snn.BatchNorm2d):  # its tables say which capsules have one
            norm.register_index("bias_index", np.full(len(norm.in_type), -1))
            norm.register_index("biased_capsules", np.zeros(0, dtype=np.intp))
    return norm


def _group_norm(plain: Any, setting: Setting) -> Replacement:
    if setting.vector:
        raise NoCounterpart("a group norm of a pooled field has no counterpart. Use nn.LayerNorm or nn.BatchNorm1d.")
    capsules = len(setting.field_type)
    groups = max(d for d in range(1, min(plain.num_groups, capsules) + 1) if capsules % d == 0)
    note = "" if groups == plain.num_groups else f"{plain.num_groups} groups became {groups}, of whole capsules"
    return _without_bias(plain, snn.GroupNorm(groups, setting.field_type, plain.eps, plain.affine)), note


def _layer_norm(plain: Any, setting: Setting) -> nn.Module:
    if not (setting.vector or setting.last):
        raise NoCounterpart(
            "on a map it normalises pixels, with a weight for each, and the group moves them. Use nn.GroupNorm(1, "
            "channels), nn.BatchNorm2d, or x.permute(0, 2, 3, 1) before it and x.permute(0, 3, 1, 2) behind it."
        )
    return _without_bias(plain, snn.LayerNorm(setting.field_type, plain.eps, plain.elementwise_affine))


def _max_pool(plain: Any, setting: Setting) -> Replacement:
    if plain.return_indices or plain.dilation not in (1, (1, 1)):
        raise NoCounterpart("only pooling without indices and with dilation 1 has a counterpart.")
    return window_pool(snn.MaxPool2d, plain, setting.field_type, setting.downsampling)


def _avg_pool(plain: Any, setting: Setting) -> Replacement:
    if plain.divisor_override is not None or (plain.padding not in (0, (0, 0)) and not plain.count_include_pad):
        raise NoCounterpart("only the mean over whole windows has a counterpart. Use count_include_pad=True.")
    return window_pool(snn.AvgPool2d, plain, setting.field_type, setting.downsampling)


def _adaptive_pool(plain: Any, setting: Setting) -> nn.Module:
    kind = snn.AdaptiveAvgPool2d if isinstance(plain, nn.AdaptiveAvgPool2d) else snn.AdaptiveMaxPool2d
    if getattr(plain, "return_indices", False):
        raise NoCounterpart("only pooling without indices has a counterpart.")
    return kind(setting.field_type, plain.output_size)


def _dropout(plain: Any, setting: Setting) -> nn.Module:
    kind = snn.Dropout2d if isinstance(plain, nn.Dropout2d) else snn.Dropout
    return kind(setting.field_type, plain.p)


def _upsample(plain: Any, setting: Setting) -> nn.Module:
    factors = plain.scale_factor if isinstance(plain.scale_factor, tuple) else (plain.scale_factor,)
    if plain.size is not None or len(set(factors)) != 1 or factors[0] != int(factors[0]):
        raise NoCounterpart(
            "only enlarging by a whole factor, the same for height and width, samples the grid evenly. Use "
            "scale_factor=2 in place of a size."
        )
    return snn.Upsample(setting.field_type, int(factors[0]), plain.mode, plain.align_corners)


def _pad(plain: Any, setting: Setting) -> nn.Module:
    kept: nn.Module = copy.deepcopy(plain)
    if not pads_alike(setting.field_type.group, plain.padding):
        raise NoCounterpart(
            f"the padding {tuple(plain.padding)} moves the image's centre. Pad all sides alike, for instance in the "
            "convolution."
        )
    if getattr(plain, "value", 0):
        require(f"a padding with {plain.value}", setting.field_type, "pointwise")
    return kept


def _softmax(plain: Any, setting: Setting) -> nn.Module:
    kept: nn.Module = copy.deepcopy(plain)
    if plain.dim not in ((1, -1) if setting.vector else (3, -1) if setting.last else (1, -3)):
        raise NoCounterpart(f"only a softmax over the channels, dim=1, has a counterpart; it has dim={plain.dim}.")
    kept.dim = 1  # type: ignore[assignment]
    return kept


def _identity(plain: Any, setting: Setting) -> nn.Module:
    return snn.Identity(setting.field_type)


_FAMILIES: tuple[tuple[Callable[[Any, Setting], nn.Module | Replacement], tuple[type[nn.Module], ...]], ...] = (
    (_activation, ACTIVATIONS),
    (_batch_norm, (nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm)),
    (_instance_norm, (nn.InstanceNorm2d,)),
    (_group_norm, (nn.GroupNorm,)),
    (_layer_norm, (nn.LayerNorm,)),
    (_max_pool, (nn.MaxPool2d,)),
    (_avg_pool, (nn.AvgPool2d,)),
    (_adaptive_pool, (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)),
    (_dropout, (nn.Dropout, nn.Dropout2d)),
    (_upsample, (nn.Upsample, nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d)),
    (_pad, (nn.ZeroPad2d, nn.ConstantPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d, nn.CircularPad2d)),
    (_softmax, (nn.Softmax, nn.LogSoftmax)),
    (_identity, (nn.Identity,)),
)
KEEPING: dict[type[nn.Module], Callable[[Any, Setting], nn.Module | Replacement]] = {
    kind: rule for rule, kinds in _FAMILIES for kind in kinds
}
