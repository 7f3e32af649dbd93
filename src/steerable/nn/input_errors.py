"""Messages about a tensor that is not a field of a layer's type: what was expected, what was given, and what to do."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.group_interface import Group
from steerable.nn.geometry import axis_names
from steerable.types.field_types import FieldType

__all__ = ["into_floats", "no_tensor", "other_axes", "wrong_channels", "wrong_dtype", "wrong_rank"]


def no_tensor(x: object) -> str:
    """The second half of a sentence on something that is not a tensor."""
    if isinstance(x, np.ndarray):
        scaled = " / 255" if x.dtype == np.uint8 else ""
        return f"a NumPy array. Convert it with `torch.as_tensor(x).float(){scaled}`."
    if type(x).__module__.startswith("PIL."):
        return (
            "a PIL image. Convert it with `torch.as_tensor(numpy.array(image)).permute(2, 0, 1).unsqueeze(0) / 255`, "
            "or read image files with `steerable.data.read_images`."
        )
    return f"{type(x).__name__}. Make a tensor of it, for instance with `torch.stack` for a list of images."


def other_axes(layer: str, group: Group, axes: int) -> str:
    """The message of a layer of images about a group of space, or of a layer of volumes about a group of the plane."""
    kind, groups = {
        2: ("images", "a group of the plane, such as cyclic(4) or dihedral(4)"),
        3: ("volumes", "a group of space, such as octahedral() or about_axis(dihedral(4), 'z')"),
    }[axes]
    counterpart = layer.replace(f"{axes}d", f"{group.axes}d")
    return (
        f"{layer} is a layer for {kind}, but {group.name} acts on {group.axes} dimensions. Use {counterpart}, or "
        f"{groups}."
    )


def wrong_rank(x: Tensor, in_type: FieldType, out_type: FieldType, axes: int, *, maps: bool) -> str:
    """The second half of a sentence on a tensor that has too many or too few axes."""
    expected = 2 + axes if maps else 2
    names = ", ".join(["batch", str(in_type.channels), *axis_names(expected - 2)])
    remedy = ""
    if not maps and x.ndim == 2 + axes:
        remedy = (
            f" It maps single fibres. Pool the map first, with `snn.GlobalAvgPool({in_type})`, or map every pixel, "
            f"with `snn.Conv{axes}d({in_type}, {out_type}, 1)`."
        )
    elif maps and axes == 3 and x.ndim == 4 and x.shape[0] != in_type.channels == x.shape[1]:
        remedy = f" {in_type.group.name} moves volumes; for images use a group of the plane."
    elif x.ndim == expected - 1 and x.ndim > 2:
        remedy = " Add a batch dimension with x.unsqueeze(0)."
    return f"a tensor of shape ({names}), got one of rank {x.ndim} with shape {tuple(x.shape)}.{remedy}"


def wrong_channels(x: Tensor, in_type: FieldType) -> str:
    """The second half of a sentence on a tensor with another number of channels than the type."""
    last = x.ndim - 1
    turned = ", ".join(map(str, (0, last, *range(1, last))))
    channels_come_last = x.ndim > 2 and x.shape[-1] == in_type.channels
    remedy = f" Channels come second: x.permute({turned})." if channels_come_last else ""
    got = f"got {x.shape[1]} (shape {tuple(x.shape)}).{remedy}"
    return f"{in_type.channels} channels, those of its type `{in_type}`, {got}"


def wrong_dtype(x: Tensor, own: torch.dtype) -> str:
    """The second half of a sentence on a tensor of another precision than the layer's parameters."""
    wide = x.dtype == torch.float64
    reason = " NumPy arrays are float64 by default." if wide and own == torch.float32 else ""
    remedy = f"Convert one of them, `x.to({own})` or `layer.to({x.dtype})`"
    mixed = "" if wide else f", or compute in mixed precision inside `torch.autocast({x.device.type!r})`"
    return f"a field of {own}, the dtype of its parameters, got one of {x.dtype}.{reason} {remedy}{mixed}."


def into_floats(dtype: torch.dtype) -> str:
    """The remedy that makes a field of a tensor of whole or complex numbers."""
    if dtype == torch.uint8:
        return "Scale an image of bytes to the range from 0 to 1 with `x.float() / 255`."
    if dtype.is_complex:
        return "Make channels of the real and the imaginary part with `torch.cat([x.real, x.imag], 1)`."
    return "Convert it with `x.float()`, and scale it so that its values are about 1."
