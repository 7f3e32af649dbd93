"""Channels and their negatives in eager code on a GPU: one kernel each way, rectified on the way if need be."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from steerable.nn.channels import in_channels_last, memory_format
from steerable.nn.triton.launching import Launcher

__all__ = ["SignedSelection"]

_VALUES_PER_PROGRAM = 1024
_MOST_SHAPES = 32


@triton.jit
def _take_kernel(
    x,
    y,
    source,
    sign,
    count,
    inner,
    channels_in,
    channels_out,
    RECTIFY: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    at = program * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    outer = at // inner
    channel, image = outer % channels_out, outer // channels_out
    place = (image * channels_in + tl.load(source + channel, mask=inside, other=0)) * inner + at % inner
    value = tl.load(x + place, mask=inside, other=0.0)
    value = tl.where(tl.load(sign + channel, mask=inside, other=1.0) < 0, -value, value)
    if RECTIFY:
        value = tl.where(value < 0, 0.0, value)  # what is not a number stays so
    tl.store(y + at, value, mask=inside)


@triton.jit
def _gradient_kernel(
    grad,
    y,
    to_x,
    plus,
    minus,
    count,
    inner,
    channels_in,
    channels_out,
    RECTIFY: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    at = program * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    outer = at // inner
    channel, first = outer % channels_in, outer // channels_in * channels_out
    upper = (first + tl.load(plus + channel, mask=inside, other=0)) * inner + at % inner
    lower = (first + tl.load(minus + channel, mask=inside, other=0)) * inner + at % inner
    above, below = tl.load(grad + upper, mask=inside, other=0.0), tl.load(grad + lower, mask=inside, other=0.0)
    if RECTIFY:
        above = tl.where(tl.load(y + upper, mask=inside, other=0.0) <= 0, 0.0, above)
        below = tl.where(tl.load(y + lower, mask=inside, other=0.0) <= 0, 0.0, below)
    tl.store(to_x + at, above - below, mask=inside)


class SignedSelection:
    """The kernels of one layer; :func:`steerable.nn.channels.take_with_negatives` says what they compute.

    Args:
        source, sign, plus, minus: its tables; indices are whole numbers of 32 bits.
    """

    def __init__(self, source: Tensor, sign: Tensor, plus: Tensor, minus: Tensor) -> None:
        self.sign = sign
        self._source, self._plus, self._minus = (t.to(torch.int32) for t in (source, plus, minus))
        self._launchers: dict[tuple[Any, ...], Launcher] = {}

    def take(self, x: Tensor, *, rectified: bool) -> Tensor:
        """sign · x[:, source] of a tensor that is dense in either memory format, in the same format."""
        y = _room(x, len(self._source))
        self._launcher("take", y, x.shape[1], y.shape[1], rectified)((x, y))
        return y

    def gradient(self, grad: Tensor, y: Tensor | None) -> Tensor:
        """grad[:, plus] - grad[:, minus], where y, if it is given, is greater than 0; both dense in one format."""
        to_x = _room(grad, len(self._plus))
        launcher = self._launcher("gradient", to_x, to_x.shape[1], grad.shape[1], y is not None)
        launcher((grad, grad if y is None else y, to_x))
        return to_x

    def _launcher(self, what: str, written: Tensor, channels_in: int, channels_out: int, rectified: bool) -> Launcher:
        planes = written.ndim > 2 and not in_channels_last(written)
        count, inner = written.numel(), math.prod(written.shape[2:]) if planes else 1
        key = what, count, inner, rectified
        if key not in self._launchers:
            if len(self._launchers) >= _MOST_SHAPES:
                self._launchers.clear()
            tables = (self._source, self.sign) if what == "take" else (self._plus, self._minus)
            kernel = _take_kernel if what == "take" else _gradient_kernel
            fixed = (*tables, count, inner, channels_in, channels_out, rectified, count >= 2**30, _VALUES_PER_PROGRAM)
            self._launchers[key] = Launcher(kernel, (triton.cdiv(count, _VALUES_PER_PROGRAM), 1, 1), *fixed)
        return self._launchers[key]


def _room(like: Tensor, channels: int) -> Tensor:
    """(batch, channels, …) without values, dense in the memory format of a dense tensor."""
    shape = (like.shape[0], channels, *like.shape[2:])
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=memory_format(like))
