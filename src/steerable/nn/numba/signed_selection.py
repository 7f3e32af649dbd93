"""Channels and their negatives on a CPU: one pass each way, rectified on the way if need be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.channels import in_channels_last, memory_format
from steerable.nn.numba.compiling import KINDS, compiled, in_shares, numbers_at, shape_in_memory

__all__ = ["SignedSelectionOnCpu"]

Floats = NDArray[np.floating]
Shape = tuple[int, ...]
Places = NDArray[np.uint32]  # signed ones, which count from the end where they are negative, take half as long again


def _take_of_images(
    zero: Any, shape: Shape, of_x: int, of_y: int, source: Places, sign: Floats, rectified: bool, start: int, stop: int
) -> None:
    """sign · x[:, source] for some images of (batch, channels, pixels); what is not a number stays so."""
    x, y = numbers_at(of_x, shape, zero), numbers_at(of_y, (shape[0], len(source), shape[2]), zero)
    for row in range(start, stop):
        for c in range(len(source)):
            taken, factor = source[c], sign[c]
            for p in range(x.shape[2]):
                value = x[row, taken, p] * factor
                y[row, c, p] = zero if rectified and value < zero else value


def _take_of_pixels(
    zero: Any, shape: Shape, of_x: int, of_y: int, source: Places, sign: Floats, rectified: bool, start: int, stop: int
) -> None:
    """The same for some pixels of (pixels, channels)."""
    x, y = numbers_at(of_x, shape, zero), numbers_at(of_y, (shape[0], len(source)), zero)
    for row in range(start, stop):
        values, found = x[row], y[row]
        for c in range(len(source)):
            value = values[source[c]] * sign[c]
            found[c] = zero if rectified and value < zero else value


def _gradient_of_images(
    zero: Any, shape: Shape, of_grad: int, of_y: int, of_x: int, plus: Places, minus: Places, rectified: bool,
    start: int, stop: int,
) -> None:  # fmt: skip
    """grad[:, plus] - grad[:, minus] for some images, where y is greater than 0 if it was rectified."""
    grad, y = numbers_at(of_grad, shape, zero), numbers_at(of_y, shape, zero)
    to_x = numbers_at(of_x, (shape[0], len(plus), shape[2]), zero)
    for row in range(start, stop):
        for c in range(len(plus)):
            above, below = plus[c], minus[c]
            for p in range(grad.shape[2]):
                left = zero if rectified and y[row, above, p] <= zero else grad[row, above, p]
                right = zero if rectified and y[row, below, p] <= zero else grad[row, below, p]
                to_x[row, c, p] = left - right


def _gradient_of_pixels(
    zero: Any, shape: Shape, of_grad: int, of_y: int, of_x: int, plus: Places, minus: Places, rectified: bool,
    start: int, stop: int,
) -> None:  # fmt: skip
    """The same for some pixels."""
    grad, y = numbers_at(of_grad, shape, zero), numbers_at(of_y, shape, zero)
    to_x = numbers_at(of_x, (shape[0], len(plus)), zero)
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
        self._sign = tables["sign"].astype(np.float32)  # 1 and -1, in which a field of any dtype keeps its own

    def take(self, x: Tensor, *, rectified: bool) -> Tensor:
        """sign · x[:, source] of a tensor that is dense in either memory format, in the same format."""
        y, shape = _room(x, len(self._source)), shape_in_memory(x)
        known = KINDS[x.dtype], shape, x.data_ptr(), y.data_ptr(), self._source, self._sign, rectified
        in_shares(TAKE[len(shape)], known, shape[0], y.numel())
        return y

    def gradient(self, grad: Tensor, y: Tensor | None) -> Tensor:
        """grad[:, plus] - grad[:, minus], where y, if it is given, is greater than 0; both dense in one format."""
        to_x, shape = _room(grad, len(self._plus)), shape_in_memory(grad)
        addresses = grad.data_ptr(), 0 if y is None else y.data_ptr(), to_x.data_ptr()
        known = KINDS[grad.dtype], shape, *addresses, self._plus, self._minus, y is not None
        in_shares(GRADIENT[len(shape)], known, shape[0], grad.numel())
        return to_x


def _room(like: Tensor, channels: int) -> Tensor:
    """(batch, channels, …) without values, dense in the memory format of a dense tensor."""
    shape = (like.shape[0], channels, *like.shape[2:])
    if in_channels_last(like):
        return torch.empty(shape, dtype=like.dtype, device="cpu", memory_format=memory_format(like))
    return like.new_empty(shape)
