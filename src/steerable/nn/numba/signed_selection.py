"""Channels and their negatives on a CPU: one pass each way, rectified on the way if need be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.channels import in_channels_last, memory_format
from steerable.nn.numba.compiling import compiled, in_shares

__all__ = ["SignedSelectionOnCpu"]

Floats = NDArray[np.floating]
Places = NDArray[np.uint32]  # signed ones, which count from the end where they are negative, take half as long again


def _take_of_images(x: Floats, y: Floats, source: Places, sign: Floats, rectified: bool, start: int, stop: int) -> None:
    """sign · x[:, source] for some images of (batch, channels, pixels); what is not a number stays so."""
    zero = x.dtype.type(0)
    for row in range(start, stop):
        for c in range(len(source)):
            taken, factor = source[c], sign[c]
            for p in range(x.shape[2]):
                value = x[row, taken, p] * factor
                y[row, c, p] = zero if rectified and value < zero else value


def _take_of_pixels(x: Floats, y: Floats, source: Places, sign: Floats, rectified: bool, start: int, stop: int) -> None:
    """The same for some pixels of (pixels, channels)."""
    zero = x.dtype.type(0)
    for row in range(start, stop):
        values, found = x[row], y[row]
        for c in range(len(source)):
            value = values[source[c]] * sign[c]
            found[c] = zero if rectified and value < zero else value


def _gradient_of_images(
    grad: Floats, y: Floats, to_x: Floats, plus: Places, minus: Places, rectified: bool, start: int, stop: int
) -> None:
    """grad[:, plus] - grad[:, minus] for some images, where y is greater than 0 if it was rectified."""
    zero = grad.dtype.type(0)
    for row in range(start, stop):
        for c in range(len(plus)):
            above, below = plus[c], minus[c]
            for p in range(grad.shape[2]):
                left = zero if rectified and y[row, above, p] <= zero else grad[row, above, p]
                right = zero if rectified and y[row, below, p] <= zero else grad[row, below, p]
                to_x[row, c, p] = left - right


def _gradient_of_pixels(
    grad: Floats, y: Floats, to_x: Floats, plus: Places, minus: Places, rectified: bool, start: int, stop: int
) -> None:
    """The same for some pixels."""
    zero = grad.dtype.type(0)
    for row in range(start, stop):
        upstream, signs, found = grad[row], y[row], to_x[row]
        for c in range(len(plus)):
            left, right = upstream[plus[c]], upstream[minus[c]]
            if rectified:
                left = zero if signs[plus[c]] <= zero else left
                right = zero if signs[minus[c]] <= zero else right
            found[c] = left - right


TAKE = {3: compiled(_take_of_images, "nsz"), 2: compiled(_take_of_pixels, "nsz")}
GRADIENT = {3: compiled(_gradient_of_images, "nsz"), 2: compiled(_gradient_of_pixels, "nsz")}


class SignedSelectionOnCpu:
    """The kernels of one layer; :func:`steerable.nn.channels.take_with_negatives` says what they compute.

    Args:
        sign: the layer's own; when it has another one, it needs other kernels.
        tables: ``source``, ``sign``, ``plus`` and ``minus``.
    """

    def __init__(self, sign: Tensor, tables: Mapping[str, NDArray[Any]]) -> None:
        self.sign = sign
        self._source, self._plus, self._minus = (tables[name].astype(np.uint32) for name in ("source", "plus", "minus"))
        signs = tables["sign"]
        self._signs = {torch.float32: signs.astype(np.float32), torch.float64: signs.astype(np.float64)}

    def take(self, x: Tensor, *, rectified: bool) -> Tensor:
        """sign · x[:, source] of a tensor that is dense in either memory format, in the same format."""
        y = _room(x, len(self._source))
        known = (_rows(x), _rows(y), self._source, self._signs[x.dtype], rectified)
        take = TAKE[known[0].ndim]
        in_shares(lambda *share: take(*known, *share), len(known[0]), y.numel())
        return y

    def gradient(self, grad: Tensor, y: Tensor | None) -> Tensor:
        """grad[:, plus] - grad[:, minus], where y, if it is given, is greater than 0; both dense in one format."""
        to_x, rows = _room(grad, len(self._plus)), _rows(grad)
        known = (rows, rows if y is None else _rows(y), _rows(to_x), self._plus, self._minus, y is not None)
        gradient = GRADIENT[rows.ndim]
        in_shares(lambda *share: gradient(*known, *share), len(rows), grad.numel())
        return to_x


def _room(like: Tensor, channels: int) -> Tensor:
    """(batch, channels, …) without values, dense in the memory format of a dense tensor."""
    shape = (like.shape[0], channels, *like.shape[2:])
    return torch.empty(shape, dtype=like.dtype, device="cpu", memory_format=memory_format(like))


def _rows(x: Tensor) -> Floats:
    """(batch, channels, pixels), or (pixels, channels) where the channels of a pixel lie side by side."""
    values: Floats = x.detach().numpy()
    if in_channels_last(x):
        return np.moveaxis(values, 1, -1).reshape(-1, x.shape[1])
    return values.reshape(x.shape[0], x.shape[1], -1)
