"""The layers of steerable.nn that replace torch's own and keep the type: norms, activations, pooling and others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from steerable import nn as snn
from steerable.algebra.sampled_functions import is_sampled
from steerable.conversion.functions_as_layers import FunctionLayer
from steerable.conversion.plan import Replacement
from steerable.conversion.refusals import NoCounterpart
from steerable.conversion.windows import Downsampling, namesake, window_pool
from steerable.nn.admissibility import require
from steerable.nn.geometry import numbers_per_axis
from steerable.nn.sampling import pads_alike
from steerable.types.field_types import FieldType

__all__ = ["COUNTERPARTS", "Counterpart", "Surroundings"]

_WITHOUT_OPTIONS = (nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softsign)


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of a layer that keeps its type.

    Attributes:
        field_type: the type that comes in and goes out.
        vector: whether it is a pooled field, (batch, channels).
        last: whether the plain layer gets a map with its channels last.
        downsampling: see :func:`steerable.convert`.
    """

    field_type: FieldType
    vector: bool
    last: bool
    downsampling: Downsampling

    @property
    def axes(self) -> int:
        """2 for images, 3 for volumes."""
        return self.field_type.group.axes or 2


@dataclass(frozen=True)
class Counterpart:
    """The way in which layers of one sort are replaced.

    Attributes:
        make: the layer in place of a plain one, with a note where there is something to say.
        channels_last: whether the plain layer may get a map with its channels last.
        resizes: whether it changes height and width, and so takes maps only.
        rests: whether it does nothing in evaluation.
    """

    make: Callable[[Any, Surroundings], nn.Module | Replacement]
    channels_last: bool = False
    resizes: bool = False
    rests: bool = False


def _activation(plain: Any, around: Surroundings) -> nn.Module:
    try:
        return _on_channels(plain, around)
    except (NoCounterpart, TypeError):
        if not all(capsule.admits("pointwise") or is_sampled(capsule) for capsule, _ in around.field_type.terms):
            raise
        return snn.Fourier(around.field_type, _function(plain))


def _on_channels(plain: Any, around: Surroundings) -> nn.Module:
    if type(plain) in _WITHOUT_OPTIONS:
        return namesake(plain)(around.field_type)  # type: ignore[no-any-return]
    if isinstance(plain, nn.LeakyReLU):
        return snn.LeakyReLU(around.field_type, plain.negative_slope)
    if isinstance(plain, nn.ELU):
        return snn.ELU(around.field_type, plain.alpha)
    function = _function(plain)
    others = [capsule for capsule, _ in around.field_type.terms if not capsule.admits("pointwise")]
    if others and isinstance(plain, nn.PReLU):
        raise NoCounterpart(
            f"capsule `{others[0]}` takes only odd functions, and nn.PReLU() is odd only at slope 1, where it does "
            "nothing. Use nn.Tanh() or nn.Softsign(), or a mix of permutations such as mix='regular'."
        )
    return (snn.Odd if others else snn.Pointwise)(around.field_type, function)


def _function(plain: Any) -> Any:
    """The function of single values that a plain activation is, with fresh parameters."""
    if isinstance(plain, nn.PReLU) and plain.num_parameters > 1:
        raise NoCounterpart("one slope per channel would tear capsules apart. Use nn.PReLU() with a single slope.")
    function = plain.function if isinstance(plain, FunctionLayer) else copy.deepcopy(plain)
    if hasattr(function, "inplace"):
        function.inplace = False
    if isinstance(function, nn.PReLU):
        function.reset_parameters()
    return function


def _batch_norm(plain: Any, around: Surroundings) -> nn.Module:
    sync = isinstance(plain, nn.SyncBatchNorm)
    options = (plain.eps, plain.momentum, plain.affine, plain.track_running_stats)
    norm = snn.BatchNorm2d if around.axes == 2 else snn.BatchNorm3d
    return norm(around.field_type, *options, bias=plain.bias is not None, sync=sync)


def _instance_norm(plain: Any, around: Surroundings) -> nn.Module:
    options = (plain.eps, plain.momentum, plain.affine, plain.track_running_stats)
    made: nn.Module = namesake(plain)(around.field_type, *options, bias=plain.bias is not None)
    return made


def _group_norm(plain: Any, around: Surroundings) -> Replacement:
    if around.vector:
        raise NoCounterpart("a group norm of a pooled field has no counterpart. Use nn.LayerNorm or nn.BatchNorm1d.")
    capsules = len(around.field_type)
    groups = max(d for d in range(1, min(plain.num_groups, capsules) + 1) if capsules % d == 0)
    note = "" if groups == plain.num_groups else f"{plain.num_groups} groups became {groups}, of whole capsules"
    return snn.GroupNorm(groups, around.field_type, plain.eps, plain.affine, bias=plain.bias is not None), note


def _layer_norm(plain: Any, around: Surroundings) -> nn.Module:
    if not (around.vector or around.last):
        pixels = range(2, 2 + around.axes)
        last, back = (0, *pixels, 1), (0, 1 + around.axes, *(axis - 1 for axis in pixels))
        raise NoCounterpart(
            "on a map it normalises pixels, with a weight for each, and the group moves them. Use nn.GroupNorm(1, "
            f"channels), nn.BatchNorm{around.axes}d, or x.permute{last} before it and x.permute{back} after it."
        )
    return snn.LayerNorm(around.field_type, plain.eps, plain.elementwise_affine, bias=plain.bias is not None)


def _max_pool(plain: Any, around: Surroundings) -> Replacement:
    if plain.return_indices or {*numbers_per_axis(plain.dilation, "dilation", around.axes, minimum=1)} != {1}:
        raise NoCounterpart("only pooling without indices and with dilation 1 has a counterpart.")
    return window_pool(plain, around.field_type, around.downsampling)


def _avg_pool(plain: Any, around: Surroundings) -> Replacement:
    padded = any(numbers_per_axis(plain.padding, "padding", around.axes, minimum=0))
    if plain.divisor_override is not None or (padded and not plain.count_include_pad):
        raise NoCounterpart("only the mean over whole windows has a counterpart. Use count_include_pad=True.")
    return window_pool(plain, around.field_type, around.downsampling)


def _adaptive_pool(plain: Any, around: Surroundings) -> nn.Module:
    if getattr(plain, "return_indices", False):
        raise NoCounterpart("only pooling without indices has a counterpart.")
    made: nn.Module = namesake(plain)(around.field_type, plain.output_size)
    return made


def _upsample(plain: Any, around: Surroundings) -> nn.Module:
    factors = plain.scale_factor if isinstance(plain.scale_factor, tuple) else (plain.scale_factor,)
    if plain.size is not None or len(set(factors)) != 1 or factors[0] != int(factors[0]):
        raise NoCounterpart(
            "only enlarging by a whole factor, the same for all axes, samples the grid evenly. Use "
            "scale_factor=2 in place of a size."
        )
    return snn.Upsample(around.field_type, int(factors[0]), plain.mode, plain.align_corners)


def _pad(plain: Any, around: Surroundings) -> nn.Module:
    kept: nn.Module = copy.deepcopy(plain)
    if not pads_alike(around.field_type.group, plain.padding):
        raise NoCounterpart(
            f"the padding {tuple(plain.padding)} moves the {'image' if around.axes == 2 else 'volume'}'s centre. "
            "Pad all sides alike, for instance in the convolution."
        )
    if getattr(plain, "value", 0):
        require(f"a padding with {plain.value}", around.field_type, "pointwise")
    return kept


def _softmax(plain: Any, around: Surroundings) -> nn.Module:
    kept: nn.Module = copy.deepcopy(plain)
    last = 1 + around.axes
    if plain.dim not in ((1, -1) if around.vector else (last, -1) if around.last else (1, -last)):
        raise NoCounterpart(f"only a softmax over the channels, dim=1, has a counterpart; it has dim={plain.dim}.")
    kept.dim = 1  # type: ignore[assignment]
    return kept


# By what a layer becomes in the table of operations.
COUNTERPARTS: dict[str, Counterpart] = {
    "activation": Counterpart(_activation, channels_last=True),
    "batch norm": Counterpart(_batch_norm),
    "instance norm": Counterpart(_instance_norm),
    "group norm": Counterpart(_group_norm),
    "layer norm": Counterpart(_layer_norm, channels_last=True),
    "maximum pooling": Counterpart(_max_pool, resizes=True),
    "average pooling": Counterpart(_avg_pool, resizes=True),
    "adaptive pooling": Counterpart(_adaptive_pool, resizes=True),
    "dropout": Counterpart(
        lambda plain, around: namesake(plain)(around.field_type, plain.p), channels_last=True, rests=True
    ),
    "upsampling": Counterpart(_upsample, resizes=True),
    "padding": Counterpart(_pad, resizes=True),
    "softmax": Counterpart(_softmax, channels_last=True),
    "same": Counterpart(lambda plain, around: snn.Identity(around.field_type), channels_last=True, rests=True),
}
