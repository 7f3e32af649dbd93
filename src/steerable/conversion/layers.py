"""Reading the layers of the plain network: which fibre goes in, which comes out, and how the counterpart is made."""

from __future__ import annotations

from typing import Any

from torch import fx, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils.parametrize import is_parametrized

from steerable.conversion.convolutions import convolution, transposed_convolution
from steerable.conversion.fibres import Fibre
from steerable.conversion.keeping import ACTIVATIONS, KEEPING, Setting, keeping
from steerable.conversion.ledger import Form, Ledger, Signal, Step
from steerable.conversion.refusals import NoCounterpart, refusal
from steerable.nn import Conv2d, EquivariantModule, GlobalAvgPool, Linear

__all__ = ["read_flatten", "read_layer"]

_ON_MAPS_ONLY = (
    nn.BatchNorm2d, nn.InstanceNorm2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d,
    nn.Dropout2d, nn.Upsample, nn.ZeroPad2d, nn.ConstantPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d,
    nn.CircularPad2d,
)  # fmt: skip
_KNOWN = (*KEEPING, nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.Flatten)
_ON_CHANNELS_LAST = (*ACTIVATIONS, nn.LayerNorm, nn.Dropout, nn.Identity, nn.Softmax, nn.LogSoftmax)
_RESIZING = (nn.MaxPool2d, nn.AvgPool2d, nn.Upsample, nn.ZeroPad2d, nn.ConstantPad2d, nn.ReflectionPad2d,
             nn.ReplicationPad2d, nn.CircularPad2d)  # fmt: skip

_REASONS: dict[str, str] = {
    "PixelShuffle": "it turns channels into pixels, which the group moves differently. Use nn.ConvTranspose2d, or "
    "nn.Upsample and a convolution.",
    "PixelUnshuffle": "it turns pixels into channels, which the group moves differently. Use a strided convolution.",
    "MultiheadAttention": "attention between pixels is not there yet. Use convolutions.",
    "LocalResponseNorm": "it looks at neighbouring channels, which have no order here. Use nn.BatchNorm2d.",
    "Embedding": "its input is not a field. Convert the part of the network that works on images.",
    "Conv1d": "it works on sequences, not on images. Convert the part of the network that works on images.",
    "Conv3d": "it works on volumes; only layers on images are converted.",
    "DataParallel": "it hands on to another network. Convert that one, its .module.",
    "DistributedDataParallel": "it hands on to another network. Convert that one, its .module.",
}


def read_layer(ledger: Ledger, node: fx.Node, source: object, place: str, path: str, plain: nn.Module) -> None:
    """Note the counterpart of one layer; NoCounterpart where it has none."""
    if isinstance(plain, EquivariantModule):
        raise NoCounterpart("it is steerable already. Convert a network of torch's own layers.")
    kind = type(plain)
    if kind in (nn.Conv2d, nn.ConvTranspose2d, nn.Linear) and not isinstance(plain.weight, nn.Parameter):
        raise NoCounterpart(  # weight_norm, spectral_norm and pruning of torch.nn.utils
            "its weights are computed from others, by a hook. Take that off first, for instance with "
            "torch.nn.utils.remove_weight_norm."
        )
    if kind in _KNOWN and (plain._forward_hooks or plain._forward_pre_hooks):
        raise NoCounterpart("it has hooks, which may change what it computes. Remove them first.")
    if kind is nn.Flatten:
        read_flatten(ledger, node, source, place, path, plain)
    elif kind in (nn.Conv2d, nn.ConvTranspose2d):
        _read_convolution(ledger, node, source, place, path, plain)
    elif kind is nn.Linear:
        _read_linear(ledger, node, source, place, path, plain)
    elif kind in KEEPING:
        _read_keeping(ledger, node, source, place, path, plain)
    else:
        raise NoCounterpart(_reason(plain))


def _reason(plain: nn.Module) -> str:
    if is_parametrized(plain):
        return "its weights are computed from others. Take that off with torch.nn.utils.parametrize first."
    if isinstance(plain, LazyModuleMixin):
        return "its channels are not known yet. Run the network once on an image first."
    return _REASONS.get(
        type(plain).__name__, "no layer of steerable.nn does the same. Replace it, or convert the rest."
    )


def read_flatten(
    ledger: Ledger, node: fx.Node, source: Any, place: str, path: str, plain: nn.Module, *, certain: bool = False
) -> None:
    """(batch, channels, 1, 1) → (batch, channels), as the mean over all pixels; a linear layer must confirm the 1×1.

    Args:
        certain: whether the plain call itself says that there is one pixel.
    """
    signal = ledger.tensor(source)
    if (
        isinstance(plain, nn.Flatten)
        and (plain.start_dim, plain.end_dim) in ((2, -1), (2, 3))
        and signal.form in ("map", "point")
    ):
        ledger.alias(node, source, Signal("line", signal.fibre, lined_by="flatten"))
        return
    if isinstance(plain, nn.Flatten) and (plain.start_dim != 1 or plain.end_dim not in (-1, 3)):
        raise NoCounterpart(
            f"it flattens dimensions {plain.start_dim} to {plain.end_dim}; only all of one image, 1 to -1, can be."
        )
    if signal.form in ("vector", "flat"):
        ledger.alias(node, source, signal)
        return
    form: Form = "vector" if certain or signal.form == "point" else "flat"

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        return GlobalAvgPool(before[0]), ""

    ledger.add(
        Step(node, place, (source,), (signal.fibre,), signal.fibre, path, plain, build),
        Signal(form, signal.fibre, place if form == "flat" else ""),
    )


def _read_convolution(ledger: Ledger, node: fx.Node, source: Any, place: str, path: str, plain: Any) -> None:
    signal = ledger.tensor(source)
    if signal.form not in ("map", "point"):
        raise NoCounterpart("it takes a map of pixels, but gets a vector.")
    _check_channels(signal, plain.in_channels)
    after = Fibre(plain.out_channels)
    single = isinstance(plain, nn.Conv2d) and plain.kernel_size == (1, 1) and plain.padding in (0, (0, 0), "valid")

    def build(before: Any, out_type: Any, downsampling: Any) -> tuple[nn.Module, str]:
        if isinstance(plain, nn.ConvTranspose2d):
            return transposed_convolution(plain, before[0], out_type)
        return convolution(plain, before[0], out_type, downsampling)

    form: Form = "point" if single and signal.form == "point" else "map"
    ledger.add(
        Step(node, place, (source,), (signal.fibre,), after, path, plain, build, mixes=True), Signal(form, after)
    )


def _read_linear(ledger: Ledger, node: fx.Node, source: Any, place: str, path: str, plain: Any) -> None:
    signal = ledger.tensor(source, "last")
    if signal.form in ("map", "point"):
        raise NoCounterpart(
            "on a map it mixes the last dimension, which is not the channels. Pool and flatten first, use nn.Conv2d "
            "with kernel size 1, or move the channels there with x.permute(0, 2, 3, 1)."
        )
    note = _check_flattening(ledger, signal, plain.in_features, place)
    after = Fibre(plain.out_features)

    def build(before: Any, out_type: Any, downsampling: Any) -> tuple[nn.Module, str]:
        bias = plain.bias is not None
        made = Conv2d(before[0], out_type, 1, bias=bias) if signal.form == "last" else Linear(before[0], out_type, bias)
        return made, note

    form: Form = "last" if signal.form == "last" else "vector"
    ledger.add(
        Step(node, place, (source,), (signal.fibre,), after, path, plain, build, mixes=True), Signal(form, after)
    )


def _read_keeping(ledger: Ledger, node: fx.Node, source: Any, place: str, path: str, plain: Any) -> None:
    signal = ledger.tensor(source, *(("last",) if isinstance(plain, _ON_CHANNELS_LAST) else ()))
    vector, last = signal.form in ("vector", "flat"), signal.form == "last"
    if vector and isinstance(plain, _ON_MAPS_ONLY):
        raise NoCounterpart("it takes a map of pixels, but gets a vector.")
    count = getattr(plain, "num_features", getattr(plain, "num_channels", None))
    if isinstance(plain, nn.LayerNorm) and (vector or last):
        if len(plain.normalized_shape) != 1:
            raise NoCounterpart(
                f"it normalises {plain.normalized_shape}; only a norm of the channels has a counterpart."
            )
        count = plain.normalized_shape[0]
    form, flattened_at, pooled = signal.form, signal.flattened_at, ""
    if isinstance(count, int) and count > 0:  # an instance norm without weights may be made for any number
        pooled = _check_flattening(ledger, signal, count, place)
        form, flattened_at = ("vector", "") if vector else (form, flattened_at)
    if isinstance(plain, nn.AdaptiveAvgPool2d | nn.AdaptiveMaxPool2d):
        form = "point" if plain.output_size in (1, (1, 1), [1, 1]) else "map"
    elif isinstance(plain, _RESIZING):
        form = "map"

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        made, note = keeping(plain, Setting(after, vector, last, downsampling))
        return made, "; ".join(filter(None, [pooled, note]))

    rests = isinstance(plain, nn.Dropout | nn.Dropout2d | nn.Identity)
    ledger.add(
        Step(node, place, (source,), (signal.fibre,), signal.fibre, path, plain, build, rests=rests),
        Signal(form, signal.fibre, flattened_at),
    )


def _check_flattening(ledger: Ledger, signal: Signal, wanted: int, taker: str) -> str:
    """Check that a layer gets the features that it takes.

    Returns:
        What to say where it took several pixels side by side, and will get their mean; else "".
    """
    channels = signal.fibre.channels
    if signal.form != "flat" or wanted == channels:
        _check_channels(signal, wanted)
        return ""
    if channels is None:  # nothing before it has said how many the image has
        raise refusal(
            signal.flattened_at,
            f"it flattens the image itself, and a linear map of the {wanted} values that {taker} takes depends on "
            "where each pixel is. Begin with convolutions, and pool over all pixels before it, with "
            "nn.AdaptiveAvgPool2d(1).",
        )
    pixels = f"{wanted // channels} pixels" if wanted % channels == 0 else "several pixels"
    if ledger.pools_head and wanted % channels == 0:
        return f"the mean over all pixels in place of {pixels} side by side: {wanted} features became {channels}"
    raise refusal(
        signal.flattened_at,
        f"it lays {pixels} of {channels} channels side by side, since {taker} takes {wanted} features, and a linear "
        f"map of those depends on where each pixel is. Pool over all pixels first, with nn.AdaptiveAvgPool2d(1), "
        f"and take {channels} features; convert(..., head='pool') does so by itself.",
    )


def _check_channels(signal: Signal, wanted: int) -> None:
    if not signal.fibre.has_channels(wanted):
        raise NoCounterpart(
            f"it takes {wanted} channels but gets {signal.fibre.channels or 'an unknown number'}. Correct the plain "
            "network, or give in_channels=... where the image's channels cannot be seen."
        )
