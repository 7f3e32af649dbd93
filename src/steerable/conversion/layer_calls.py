"""The layers of the plain network: their inputs, their outputs, and their counterparts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils.parametrize import is_parametrized

from steerable.conversion.counterparts import COUNTERPARTS, Surroundings
from steerable.conversion.graph_analysis import Form, GraphAnalysis, Signal
from steerable.conversion.layouts import read_layout
from steerable.conversion.plain_calls import PlainCall
from steerable.conversion.plan import Replacement
from steerable.conversion.refusals import NoCounterpart, refusal
from steerable.conversion.type_variables import TypeVariable
from steerable.conversion.windows import convolution, transposed_convolution
from steerable.nn import Conv2d, Conv3d, EquivariantModule, Linear

__all__ = ["LAYER_READERS", "read_layer"]

_REASONS: dict[str, str] = {
    "PixelShuffle": "it turns channels into pixels, which the group moves differently. Use nn.ConvTranspose2d, or "
    "nn.Upsample and a convolution.",
    "PixelUnshuffle": "it turns pixels into channels, which the group moves differently. Use a strided convolution.",
    "MultiheadAttention": "attention between pixels is not there yet. Use convolutions.",
    "LocalResponseNorm": "it looks at neighbouring channels, which have no order here. Use nn.BatchNorm2d.",
    "Embedding": "its input is not a field. Convert the part of the network that works on images.",
    "Conv1d": "it works on sequences, not on images. Convert the part of the network that works on images.",
    "DataParallel": "it only calls another network. Convert that one, its .module.",
    "DistributedDataParallel": "it only calls another network. Convert that one, its .module.",
}


def read_layer(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record the counterpart of one layer, ``call.plain``; NoCounterpart if it has none."""
    plain: Any = call.plain
    if isinstance(plain, EquivariantModule):
        raise NoCounterpart("it is steerable already. Convert a network of torch's own layers.")
    if call.becomes in ("convolution", "linear map") and not isinstance(plain.weight, nn.Parameter):
        raise NoCounterpart(  # weight_norm, spectral_norm and pruning of torch.nn.utils
            "its weights are computed from others, by a hook. Remove the hook first, for instance with "
            "torch.nn.utils.remove_weight_norm."
        )
    if not call.becomes:
        raise NoCounterpart(_reason(plain))
    made_for = re.search(r"([23])d$", type(plain).__name__)
    if made_for and int(made_for[1]) != analysis.axes:
        kind, groups = ("images", "dihedral(4)") if made_for[1] == "2" else ("volumes", "octahedral(), or 'C4 about z'")
        others = "volumes" if kind == "images" else "images"
        raise NoCounterpart(f"it works on {kind}, but the group moves {others}. Use a group such as {groups}.")
    if plain._forward_hooks or plain._forward_pre_hooks:
        raise NoCounterpart("it has hooks, which may change what it computes. Remove them first.")
    if "forward" in vars(plain):
        raise NoCounterpart(
            "its `forward` was replaced on the object, which may change what it computes. Write a class with that "
            "forward, or restore it with `del layer.forward`."
        )
    if call.node.op == "call_module":
        _check_not_tied(analysis, call)
    LAYER_READERS.get(call.becomes, _read_with_counterpart)(analysis, call)


def _check_not_tied(analysis: GraphAnalysis, call: PlainCall) -> None:
    """NoCounterpart for a layer that has a parameter in common with another one."""
    plain: Any = call.plain
    for name, parameter in plain.named_parameters(recurse=False):
        first = analysis.owners.setdefault(parameter, call.path)
        if first != call.path:
            raise NoCounterpart(
                f"its `{name}` is that of `{first}` too, and layers with separate weights would take their place. Call "
                "one layer twice, or give each its own."
            )


def _reason(plain: nn.Module) -> str:
    if is_parametrized(plain):
        return "its weights are computed from others. Take that off with torch.nn.utils.parametrize first."
    if isinstance(plain, LazyModuleMixin):
        return "its channels are not known yet. Run the network once on an image first."
    return _REASONS.get(
        type(plain).__name__, "no layer of steerable.nn does the same. Replace it, or convert the rest."
    )


def _read_convolution(analysis: GraphAnalysis, call: PlainCall) -> None:
    plain: Any = call.plain
    signal = analysis.tensor(call.source)
    if not signal.is_map:
        raise NoCounterpart("it takes a map of pixels, but gets a vector.")
    _check_channels(signal, plain.in_channels)
    transposed = isinstance(plain, nn.ConvTranspose2d | nn.ConvTranspose3d)
    unpadded = plain.padding == "valid" or not any(plain.padding)
    single = not transposed and set(plain.kernel_size) == {1} and unpadded

    def build(before: Any, after: Any) -> Replacement:
        if transposed:
            return transposed_convolution(plain, before[0], after)
        return convolution(plain, before[0], after, analysis.downsampling)

    form: Form = "point" if single and signal.form == "point" else "map"
    analysis.add(call, (call.source,), Signal(form, TypeVariable(plain.out_channels)), build)


def _read_linear(analysis: GraphAnalysis, call: PlainCall) -> None:
    plain: Any = call.plain
    signal = analysis.tensor(call.source, "last")
    if signal.is_map:
        raise NoCounterpart(
            "on a map it mixes the last dimension, which is not the channels. Pool and flatten first, use "
            f"nn.Conv{analysis.axes}d with kernel size 1, or move the channels there with "
            f"x.permute{analysis.channels_last}."
        )
    note = _check_flattening(analysis, signal, plain.in_features, call.place)

    def build(before: Any, after: Any) -> nn.Module:
        bias = plain.bias is not None
        on_maps = Conv2d if analysis.axes == 2 else Conv3d
        return on_maps(before[0], after, 1, bias=bias) if signal.form == "last" else Linear(before[0], after, bias)

    form: Form = "last" if signal.form == "last" else "vector"
    analysis.add(call, (call.source,), Signal(form, TypeVariable(plain.out_features)), build, note=note)


def _read_with_counterpart(analysis: GraphAnalysis, call: PlainCall) -> None:
    """Record a layer whose output has the type of its input."""
    plain: Any = call.plain
    sort, for_maps = COUNTERPARTS[call.becomes], type(plain).__name__.endswith(("2d", "3d"))
    signal = analysis.tensor(call.source, *(("last",) if sort.channels_last and not for_maps else ()))
    vector, last = signal.is_vector, signal.form == "last"
    if vector and (for_maps or sort.resizes):
        raise NoCounterpart("it takes a map of pixels, but gets a vector.")
    form, flattened_at, pooled = signal.form, signal.flattened_at, ""
    count = _features(plain, vector or last)
    if count > 0:
        pooled = _check_flattening(analysis, signal, count, call.place)
        form, flattened_at = ("vector", "") if vector else (form, flattened_at)
    if call.becomes == "adaptive pooling":
        sides = plain.output_size if isinstance(plain.output_size, tuple | list) else [plain.output_size]
        form = "point" if {*sides} == {1} else "map"
    elif sort.resizes:
        form = "map"

    def build(before: Any, after: Any) -> nn.Module | Replacement:
        return sort.make(plain, Surroundings(after, vector, last, analysis.downsampling))

    result = Signal(form, signal.variable, flattened_at)
    analysis.add(call, (call.source,), result, build, rests=sort.rests, note=pooled)


def _features(plain: Any, channels_at_the_end: bool) -> int:
    """The number of channels of a norm; 0 for other layers, and for an instance norm of any number."""
    if isinstance(plain, nn.LayerNorm) and channels_at_the_end:
        if len(plain.normalized_shape) != 1:
            raise NoCounterpart(
                f"it normalises {plain.normalized_shape}; only a norm of the channels has a counterpart."
            )
        return int(plain.normalized_shape[0])
    count = getattr(plain, "num_features", getattr(plain, "num_channels", None))
    return count if isinstance(count, int) else 0


def _check_flattening(analysis: GraphAnalysis, signal: Signal, wanted: int, taker: str) -> str:
    """Check that a layer gets the features that it takes.

    Returns:
        What to say where it took several pixels side by side, and will get their mean; else "".
    """
    channels = signal.variable.channels
    if signal.form != "flat" or wanted == channels:
        _check_channels(signal, wanted)
        return ""
    if channels is None:  # nothing before it has said how many the image has
        raise refusal(
            signal.flattened_at,
            f"it flattens the image itself, and a linear map of the {wanted} values that {taker} takes depends on "
            "where each pixel is. Begin with convolutions, and pool over all pixels before it, with "
            f"nn.AdaptiveAvgPool{analysis.axes}d(1).",
        )
    pixels = f"{wanted // channels} pixels" if wanted % channels == 0 else "several pixels"
    if analysis.pools_head and wanted % channels == 0:
        return f"the mean over all pixels in place of {pixels} side by side: {wanted} features became {channels}"
    raise refusal(
        signal.flattened_at,
        f"it lays {pixels} of {channels} channels side by side, since {taker} takes {wanted} features, and a linear "
        f"map of those depends on where each pixel is. Pool over all pixels first, with "
        f"nn.AdaptiveAvgPool{analysis.axes}d(1), and take {channels} features; convert(..., head='pool') does that "
        "for you.",
    )


def _check_channels(signal: Signal, wanted: int) -> None:
    if not signal.variable.has_channels(wanted):
        raise NoCounterpart(
            f"it takes {wanted} channels but gets {signal.variable.channels or 'an unknown number'}. Correct the plain "
            "network, or give in_channels=... if the image's channels cannot be seen."
        )


# By what a layer becomes in the table of operations; all others have a counterpart that keeps the type.
LAYER_READERS: dict[str, Callable[[GraphAnalysis, PlainCall], None]] = {
    "flattening": read_layout,
    "convolution": _read_convolution,
    "linear map": _read_linear,
}
