"""A filter bank in one kernel, straight into its final layout and dtype, and its gradient in one reduction.

``expand(θ)`` and ``project(bank)`` are adjoint to each other; :mod:`steerable.nn.bank_tables` has the equation. Neither
uses atomics: every program writes its own values, so that results are the same each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

from steerable.nn.bank_tables import PARAMETERS_PER_PROGRAM, BankTables

__all__ = ["PackedTables", "expand", "pack", "project"]

_CHANNELS_PER_PROGRAM = 256

PackedTables = tuple[Tensor, Tensor, list[int]]
"""All integer tables in one tensor, all factors in another, and the sizes by which they are taken apart."""


@triton.jit
def _expand_kernel(
    weight,
    bank,
    start,
    value,
    step_out,
    step_in,
    unit_out,
    copy_out,
    unit_in,
    copy_in,
    taps,
    in_channels,
    units_in,
    BLOCK: tl.constexpr,
):
    o = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < in_channels
    u, a = tl.load(unit_out + o), tl.load(copy_out + o)
    v, b = tl.load(unit_in + i, mask=inside, other=0), tl.load(copy_in + i, mask=inside, other=0)
    pair = u * units_in + v
    shift = a * tl.load(step_out + pair, mask=inside, other=0) + b * tl.load(step_in + pair, mask=inside, other=0)
    for tap in range(taps):
        entry = (u * taps + tap) * units_in + v
        first = tl.load(start + entry, mask=inside, other=-1)
        factor = tl.load(value + entry, mask=inside, other=0.0)
        theta = tl.load(weight + first + shift, mask=inside & (first >= 0), other=0.0)
        tl.store(bank + (o * taps + tap) * in_channels + i, theta * factor, mask=inside)


@triton.jit
def _project_kernel(
    bank,
    weight,
    place,
    factor,
    blocks,
    program_block,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    program = tl.program_id(0)
    row = blocks + 9 * tl.load(program_block + program)
    first_program, chunks = tl.load(row), tl.load(row + 1)
    per_copy, count, first_parameter = tl.load(row + 2), tl.load(row + 3), tl.load(row + 4)
    first_filter, first_weight = tl.load(row + 5), tl.load(row + 6)
    next_out, next_in = tl.load(row + 7), tl.load(row + 8)
    out_copy = (program - first_program) // chunks
    p = (program - first_program) % chunks * BLOCK + tl.arange(0, BLOCK)
    inside = p < per_copy
    origin = first_weight + out_copy * next_out + p // count * next_in
    entry = (first_filter + p % count) * WIDTH
    total = tl.zeros([BLOCK], dtype=ACCUMULATE)
    for j in range(WIDTH):
        f = tl.load(factor + entry + j, mask=inside, other=0.0)
        at = tl.load(place + entry + j, mask=inside, other=0)
        g = tl.load(bank + origin + at, mask=inside & (f != 0), other=0.0)
        total += f.to(ACCUMULATE) * g.to(ACCUMULATE)
    tl.store(weight + first_parameter + out_copy * per_copy + p, total, mask=inside)


_INTEGERS = ("start", "step_out", "step_in", "unit_out", "copy_out", "unit_in", "copy_in")
_INTEGERS_OF_PROJECT = ("place", "blocks", "program_block")


def pack(tables: BankTables, device: torch.device, dtype: torch.dtype) -> PackedTables:
    """The tables on a device, for :func:`expand` and :func:`project`."""
    integers = [getattr(tables, name) for name in (*_INTEGERS, *_INTEGERS_OF_PROJECT)]
    index = np.concatenate([table.ravel() for table in integers])
    factor = np.concatenate([tables.value.ravel(), tables.factor.ravel()])
    sizes = [*(table.size for table in integers), *tables.start.shape, tables.place.shape[1]]
    return torch.tensor(index, device=device), torch.tensor(factor, dtype=dtype, device=device), sizes


def expand(weight: Tensor, tables: PackedTables, dtype: torch.dtype) -> Tensor:
    """The bank, (out channels, taps, in channels), in ``dtype``; differentiable any number of times."""
    index, factor, sizes = tables
    if torch.compiler.is_compiling():
        return _expand(weight, index, factor, sizes, dtype)
    with torch.cuda.device_of(weight):  # kernels run on the current device
        return _Expand.apply(weight, tables, dtype)


def project(bank: Tensor, tables: PackedTables, parameters: int, dtype: torch.dtype) -> Tensor:
    """The adjoint of :func:`expand`, (parameters,), in ``dtype``."""
    index, factor, sizes = tables
    if torch.compiler.is_compiling():
        return _project(bank, index, factor, sizes, parameters, dtype)
    with torch.cuda.device_of(bank):
        return _Project.apply(bank, tables, parameters, dtype)


# ---------------------------------------------------------------- operators, as compiled graphs hold them


def _write_bank(
    kernel: Any, weight: Tensor, index: Tensor, factor: Tensor, sizes: list[int], dtype: torch.dtype
) -> Tensor:
    start, step_out, step_in, unit_out, copy_out, unit_in, copy_in, *_ = index.split(sizes[:10])
    _, taps, units_in = sizes[10:13]
    out_channels, in_channels = sizes[3], sizes[5]
    bank = torch.empty(out_channels, taps, in_channels, dtype=dtype, device=weight.device)
    grid = (out_channels, triton.cdiv(in_channels, _CHANNELS_PER_PROGRAM))
    kernel[grid](
        weight.contiguous(),
        bank,
        start,
        factor,
        step_out,
        step_in,
        unit_out,
        copy_out,
        unit_in,
        copy_in,
        taps,
        in_channels,
        units_in,
        BLOCK=_CHANNELS_PER_PROGRAM,
    )
    return bank


def _reduce_bank(
    kernel: Any, bank: Tensor, index: Tensor, factor: Tensor, sizes: list[int], parameters: int, dtype: torch.dtype
) -> Tensor:
    *_, place, blocks, program_block = index.split(sizes[:10])
    weight = torch.empty(parameters, dtype=dtype, device=bank.device)
    kernel[(sizes[9],)](
        bank.contiguous(),
        weight,
        place,
        factor[sizes[0] :],
        blocks,
        program_block,
        WIDTH=sizes[13],
        BLOCK=PARAMETERS_PER_PROGRAM,
        ACCUMULATE=tl.float64 if dtype == torch.float64 else tl.float32,
    )
    return weight


@triton_op("steerable::expand_bank", mutates_args=())
def _expand(weight: Tensor, index: Tensor, factor: Tensor, sizes: list[int], dtype: torch.dtype) -> Tensor:
    return _write_bank(wrap_triton(_expand_kernel), weight, index, factor, sizes, dtype)


@triton_op("steerable::project_bank", mutates_args=())
def _project(
    bank: Tensor, index: Tensor, factor: Tensor, sizes: list[int], parameters: int, dtype: torch.dtype
) -> Tensor:
    return _reduce_bank(wrap_triton(_project_kernel), bank, index, factor, sizes, parameters, dtype)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])
    ctx.sizes, ctx.parameters, ctx.dtype = inputs[3], inputs[0].numel(), inputs[0].dtype


def _expand_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
    return _project(grad, *ctx.saved_tensors, ctx.sizes, ctx.parameters, ctx.dtype), None, None, None, None


def _project_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
    return _expand(grad, *ctx.saved_tensors, ctx.sizes, ctx.dtype), None, None, None, None, None


_expand.register_autograd(_expand_backward, setup_context=_remember)
_project.register_autograd(_project_backward, setup_context=_remember)


# ---------------------------------------------------------------- the same for eager code, where an operator costs more


class _Expand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, tables: PackedTables, dtype: torch.dtype) -> Tensor:
        ctx.tables, ctx.parameters, ctx.dtype = tables, weight.numel(), weight.dtype
        return _write_bank(_expand_kernel, weight, *tables, dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return project(grad, ctx.tables, ctx.parameters, ctx.dtype), None, None


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bank: Tensor, tables: PackedTables, parameters: int, dtype: torch.dtype) -> Tensor:
        ctx.tables, ctx.dtype = tables, bank.dtype
        return _reduce_bank(_project_kernel, bank, *tables, parameters, dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return expand(grad, ctx.tables, ctx.dtype), None, None, None
