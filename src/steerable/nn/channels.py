"""Moving and scaling channels, in ways that keep a tensor's memory format and that torch.fx can follow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.capsules import Capsule
from steerable.fields import FieldType

__all__ = [
    "capsule_of_channel",
    "is_traced",
    "is_vector",
    "merge_order",
    "scale_channels",
    "shift_channels",
    "take_channels",
    "widened",
]


def is_traced(x: object) -> bool:
    """Whether torch.fx is following: then shapes, ranks and dtypes are not known."""
    return isinstance(x, torch.fx.Proxy)


def take_channels(x: Tensor, index: Tensor) -> Tensor:
    """x[:, index], in channels_last where x is, or is a part of such a tensor."""
    if is_traced(x) or x.ndim != 4 or x.is_contiguous() or x.stride(1) != 1:
        return x.index_select(1, index)
    return x.permute(0, 2, 3, 1).index_select(3, index).permute(0, 3, 1, 2)


def scale_channels(x: Tensor, factors: Tensor) -> Tensor:
    """x times one factor per channel, for (batch, channels) and (batch, channels, height, width)."""
    if is_traced(x):  # its rank is not known yet; this is right for both
        return (x.transpose(1, -1) * factors).transpose(1, -1)
    return x * (factors if x.ndim == 2 else factors[:, None, None])


def shift_channels(x: Tensor, terms: Tensor) -> Tensor:
    """x plus one term per channel, for (batch, channels) and (batch, channels, height, width)."""
    if is_traced(x):
        return (x.transpose(1, -1) + terms).transpose(1, -1)
    return x + (terms if x.ndim == 2 else terms[:, None, None])


def is_vector(x: Tensor) -> bool:
    """Whether x is a pooled field, (batch, channels)."""
    return not is_traced(x) and x.ndim == 2


def widened(x: Tensor) -> Tensor:
    """x in float32 at least: statistics of half-precision tensors are taken in single precision."""
    if is_traced(x) or x.dtype not in (torch.float16, torch.bfloat16):
        return x
    return x.float()


def merge_order(stack: Sequence[Capsule], merged: FieldType) -> NDArray[np.intp]:
    """The channels of capsules stacked in any order, in the order of the type that keeps equal ones adjacent.

    ``stacked[:, merge_order(...)]`` is a field of type ``merged``.
    """
    starts = list(itertools.accumulate((capsule.dim for capsule in stack), initial=0))
    parts: dict[Capsule, list[NDArray[np.intp]]] = {kind: [] for kind, _ in merged.blocks}
    for capsule, start in zip(stack, starts, strict=False):
        parts[capsule].append(np.arange(start, start + capsule.dim))
    return np.concatenate([channels for kind in parts.values() for channels in kind] or [np.zeros(0, dtype=np.intp)])


def capsule_of_channel(field_type: FieldType) -> NDArray[np.intp]:
    """(channels,): the number of the capsule that each channel belongs to."""
    dims = [capsule.dim for capsule in field_type.capsules]
    return np.repeat(np.arange(len(dims)), dims)
