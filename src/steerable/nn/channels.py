"""Moving and scaling channels, in ways that keep a tensor's memory format and that torch.fx can follow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.algebra.capsules import Capsule
from steerable.types.field_types import FieldType

__all__ = [
    "HALF_PRECISION",
    "SelectionKernels",
    "SignedTables",
    "capsule_of_channel",
    "channels_at_end",
    "channels_second",
    "hides_shapes",
    "in_channels_last",
    "is_batched",
    "is_dispatched",
    "is_exported",
    "is_recorded",
    "is_traced",
    "is_transformed",
    "is_vector",
    "memory_format",
    "merge_order",
    "on_maps",
    "scale_channels",
    "shift_channels",
    "take",
    "take_channels",
    "take_with_negatives",
    "widened",
    "without_autocast",
]

HALF_PRECISION = (torch.float16, torch.bfloat16)


def is_traced(x: object) -> bool:
    """Whether torch.fx is tracing; shapes, ranks and dtypes are then unknown."""
    return isinstance(x, torch.fx.Proxy)


def is_exported() -> bool:
    """Whether torch.export or torch.jit.trace is tracing; their graphs may hold only torch's own operations.

    The flag itself is read because in some versions of torch (2.11) ``torch.compiler.is_exporting()`` is also true in
    ``torch.compile``.
    """
    return torch.compiler._is_exporting_flag or is_recorded()


def is_recorded() -> bool:
    """Whether torch.jit.trace is tracing, which warns about every look at a shape."""
    return torch.jit.is_tracing()  # type: ignore[attr-defined,no-any-return]


def hides_shapes(x: object) -> bool:
    """Whether torch.fx or torch.jit.trace is tracing, so that shapes are unknown or must not be looked at."""
    return isinstance(x, torch.fx.Proxy) or torch.jit.is_tracing()  # type: ignore[attr-defined]


def is_transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is at work; both know only plain operations.

    They refuse others also where none of the tensors is their own. A compiler enters the transforms that it follows,
    and compiles anew under others.
    """
    return torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0


# What torch.compiler.assume_constant_result does, without importing a compiler: ask at compile time, keep the answer.
is_transformed._dynamo_marked_constant = True  # type: ignore[attr-defined]


def is_dispatched() -> bool:
    """Whether somebody follows torch's operations one by one, as fake tensors do, who would not see a kernel."""
    return torch._C._len_torch_dispatch_stack() > 0


def take_channels(x: Tensor, index: Tensor) -> Tensor:
    """x[:, index], in channels_last if x is, or is a part of such a tensor."""
    return _take(x, index, in_channels_last(x))


def _take(x: Tensor, index: Tensor, last: bool) -> Tensor:
    return channels_second(take(channels_at_end(x), x.ndim - 1, index)) if last else take(x, 1, index)


def channels_at_end(x: Tensor) -> Tensor:
    """(batch, channels, …) → (batch, …, channels), a view."""
    return x.permute(0, *range(2, x.ndim), 1)


def channels_second(x: Tensor) -> Tensor:
    """(batch, …, channels) → (batch, channels, …), a view."""
    return x.permute(0, x.ndim - 1, *range(1, x.ndim - 1))


def take(values: Tensor, dim: int, index: Tensor) -> Tensor:
    """``values.index_select(dim, index)``; a single value is repeated, and a CPU gathers along the last axis.

    Inductor cannot compile the gradient of a single value's selection for CPUs: an addition of many numbers at one
    place (seen with torch 2.11 and 2.13). In eager code torch makes one strided copy per index where the axis is the
    last one, which takes up to forty times as long as to gather the same values.
    """
    if hides_shapes(values):
        return values.index_select(dim, index)
    if values.shape[dim] == 1:
        shape = list(values.shape)
        shape[dim] = len(index)
        return values.expand(shape).clone()  # as a selection: memory of its own
    if values.is_cpu and 0 < dim == values.ndim - 1 and not (torch.compiler.is_compiling() or is_exported()):
        return values.gather(dim, index.expand(*values.shape[:-1], -1))
    return values.index_select(dim, index)


def in_channels_last(x: Tensor) -> bool:
    """Whether the channels of one pixel or voxel of x lie side by side."""
    return not (is_traced(x) or x.ndim not in (4, 5) or x.is_contiguous() or x.stride(1) != 1)


def memory_format(x: Tensor) -> torch.memory_format:
    """The memory format of an operation's result on x, which a compiler must know beforehand."""
    return _last_format(x) if in_channels_last(x) else torch.contiguous_format


def _last_format(x: Tensor) -> torch.memory_format:
    return torch.channels_last_3d if x.ndim == 5 else torch.channels_last


class SelectionKernels(Protocol):
    """The kernels for :func:`take_with_negatives` and its gradient in eager code, for dense tensors."""

    sign: Tensor

    def take(self, x: Tensor, *, rectified: bool) -> Tensor:
        """sign · x[:, source], rectified or not."""

    def gradient(self, grad: Tensor, y: Tensor | None) -> Tensor:
        """grad[:, plus] - grad[:, minus], restricted to y > 0 if y is given."""


SignedTables = tuple[Tensor, Tensor, Tensor, Tensor]
"""(2 · channels,) source and sign; (channels,) plus and minus."""


def take_with_negatives(
    x: Tensor, tables: SignedTables, *, rectified: bool = False, kernels: SelectionKernels | None = None
) -> Tensor:
    """sign · x[:, source], where each channel of x is taken twice: as it is, at ``plus``, and negated, at ``minus``.

    Its gradient is g[:, plus] - g[:, minus]: two reads, where that of a plain selection is a scattered addition. With
    ``rectified``, negative values become 0 on the way.
    """
    if is_traced(x) or is_transformed() or is_exported():
        taken = scale_channels(take_channels(x, tables[0]), tables[1].to(x.dtype))
        return torch.relu(taken) if rectified else taken
    if not (torch.is_grad_enabled() and x.requires_grad):
        return _signed(x, tables[0], tables[1], in_channels_last(x), rectified, kernels)
    y: Tensor = _TakeWithNegatives.apply(x, *tables, rectified, kernels)
    return y


def _signed(
    x: Tensor, source: Tensor, sign: Tensor, last: bool, rectified: bool, kernels: SelectionKernels | None
) -> Tensor:
    """``take_with_negatives`` of x in a known layout.

    A compiler lays out by axes what it keeps, so that everything is done while channels are the last axis.
    """
    if kernels is not None:
        # A part of one channel is in both layouts once it is dense, and what is made of it in one.
        return _dense(kernels.take(_dense(x, last), rectified=rectified), last)
    dim = x.ndim - 1 if last else 1
    taken = take(channels_at_end(x) if last else x, dim, source)
    factor = sign if dim == x.ndim - 1 else sign.view(-1, *(1,) * (x.ndim - 2))
    if torch.compiler.is_compiling():  # which loses the gradient of what is changed in place (torch 2.11)
        taken = torch.relu(taken * factor) if rectified else taken * factor
    else:
        taken.mul_(factor)
        taken = taken.relu_() if rectified else taken
    return channels_second(taken) if last else taken


class _TakeWithNegatives(torch.autograd.Function):
    """Without ``setup_context``, for which torch would look up the signature of ``forward`` at every call."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        source: Tensor,
        sign: Tensor,
        plus: Tensor,
        minus: Tensor,
        rectified: bool,
        kernels: SelectionKernels | None,
    ) -> Tensor:
        # The layout is that of x: a compiler does not know the gradient's when it follows the backward pass.
        ctx.last, ctx.kernels = in_channels_last(x), kernels
        y = _signed(x, source, sign, ctx.last, rectified, kernels)
        ctx.save_for_backward(plus, minus, y if rectified else None)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        plus, minus, y = ctx.saved_tensors
        nothing = (None,) * 6
        if ctx.kernels is not None and not (torch.is_grad_enabled() or is_batched(grad)):
            return ctx.kernels.gradient(_dense(grad, ctx.last), y), *nothing
        if y is not None:
            grad = torch.ops.aten.threshold_backward(grad, y, 0)
        if ctx.last:
            grad, dim = channels_at_end(grad), grad.ndim - 1
            of_x = channels_second(take(grad, dim, plus) - take(grad, dim, minus))
        else:
            of_x = take(grad, 1, plus) - take(grad, 1, minus)
        return of_x, *nothing


def is_batched(grad: Tensor) -> bool:
    """Whether several gradients are taken at once, as by ``is_grads_batched``, which knows only plain operations."""
    found: bool = torch._C._functorch.is_batchedtensor(grad) or torch._C._functorch.is_legacy_batchedtensor(grad)
    return found


def _dense(x: Tensor, last: bool) -> Tensor:
    return x.contiguous(memory_format=_last_format(x) if last else torch.contiguous_format)


def scale_channels(x: Tensor, factors: Tensor) -> Tensor:
    """x times one factor per channel, for pooled fields, images and volumes."""
    if is_traced(x):  # its rank is not known yet; this is right for all
        return (x.transpose(1, -1) * factors).transpose(1, -1)
    return x * on_maps(factors, x.ndim - 2)


def shift_channels(x: Tensor, terms: Tensor) -> Tensor:
    """x plus one term per channel, for pooled fields, images and volumes."""
    if is_traced(x):
        return (x.transpose(1, -1) + terms).transpose(1, -1)
    return x + on_maps(terms, x.ndim - 2)


def on_maps(numbers: Tensor, axes: int) -> Tensor:
    """(…, channels) numbers in the shape in which they meet the channels of fields with that many axes of pixels."""
    return numbers[(..., *(None,) * axes)] if axes else numbers


def is_vector(x: Tensor) -> bool:
    """Whether x is a pooled field, (batch, channels)."""
    return not is_traced(x) and x.ndim == 2


def widened(x: Tensor) -> Tensor:
    """x in float32 at least: statistics of half-precision tensors are computed in single precision."""
    if is_traced(x) or x.dtype not in HALF_PRECISION:
        return x
    return x.float()


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A context for computations that need more than half precision; the meta device has no autocast.

    To switch off what is off takes longer than a small product. Exported graphs may be run under autocast later.
    """
    kind = device.type
    if kind == "meta" or not (torch.is_autocast_enabled(kind) or is_exported()):
        return nullcontext()
    return torch.autocast(kind, enabled=False)


def merge_order(stack: Sequence[Capsule], merged: FieldType) -> NDArray[np.intp]:
    """The order that brings the channels of stacked capsules into that of the type, with equal ones adjacent.

    ``stacked[:, merge_order(...)]`` is a field of type ``merged``.
    """
    starts = list(itertools.accumulate((capsule.dim for capsule in stack), initial=0))
    parts: dict[Capsule, list[NDArray[np.intp]]] = {kind: [] for kind, _ in merged.terms}
    for capsule, start in zip(stack, starts, strict=False):
        parts[capsule].append(np.arange(start, start + capsule.dim))
    return np.concatenate([channels for kind in parts.values() for channels in kind] or [np.zeros(0, dtype=np.intp)])


def capsule_of_channel(field_type: FieldType) -> NDArray[np.intp]:
    """(channels,): the number of the capsule that each channel belongs to."""
    dims = [capsule.dim for capsule in field_type.capsules]
    return np.repeat(np.arange(len(dims)), dims)
