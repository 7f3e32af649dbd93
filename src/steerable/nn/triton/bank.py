"""A filter bank in one kernel, straight into its final layout and dtype, and its gradient in one reduction.

:mod:`steerable.nn.bank_tables` has the equation. Neither kernel uses atomics: every program writes its own values, so
that results are the same each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

from steerable.nn.bank_kernels import BankKernels
from steerable.nn.bank_tables import PARAMETERS_PER_PROGRAM, BankTables
from steerable.nn.expansion import BankPlan
from steerable.nn.triton.launching import Launcher

__all__ = ["BankOnGpu"]

_CHANNELS_PER_PROGRAM = 256


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
    pairs,
    program_pair,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    program = tl.program_id(0)
    row = pairs + 9 * tl.load(program_pair + program)
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
_INTEGERS_OF_PROJECT = ("place", "pairs", "program_pair")


class BankOnGpu(BankKernels):
    """The tables of a layer on a device, and in eager code the two kernels that go by them.

    Args:
        plan: that of the bank.
        tables: what they are made from.
        like: the parameters, whose device and dtype the tables have.

    Attributes:
        index, factor: all integer tables in one tensor, and all factors in another.
        sizes: the sizes by which they are taken apart.
        constants: the values of the layer's buffer ``bank_index``, which is ``index``.
    """

    def __init__(self, plan: BankPlan, tables: BankTables, like: Tensor) -> None:
        super().__init__(plan)
        integers = [getattr(tables, name) for name in (*_INTEGERS, *_INTEGERS_OF_PROJECT)]
        factor = np.concatenate([tables.value.ravel(), tables.factor.ravel()])
        self.constants = {"bank_index": np.concatenate([table.ravel() for table in integers])}
        self.index = torch.tensor(self.constants["bank_index"], device=like.device)
        self.factor = torch.tensor(factor, dtype=like.dtype, device=like.device)
        self.sizes = [*(table.size for table in integers), *tables.start.shape, tables.place.shape[1]]
        outputs, inputs, *kernel = plan.bank_shape  # in memory the channels that go in lie side by side
        self._stride = torch.empty(outputs, *kernel, inputs, device="meta").movedim(-1, 1).stride()
        self._launchers: tuple[Launcher, Launcher] | None = None

    def bank_in_graph(self, weight: Tensor, index: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
        """``bank`` in compiled graphs, which must see the tables as buffers of the layer."""
        bank: Tensor = _expand(weight, index, factor, self.sizes, dtype)
        outputs, inputs, *kernel = self.plan.bank_shape
        return bank.view(outputs, *kernel, inputs).movedim(-1, 1)

    def expand(self, weight: Tensor, dtype: torch.dtype) -> Tensor:
        bank = torch.empty_strided(self.plan.bank_shape, self._stride, dtype=dtype, device=weight.device)
        self._made_launchers()[0]((weight.contiguous(), bank))
        return bank

    def project(self, bank: Tensor, dtype: torch.dtype) -> Tensor:
        weight = torch.empty(self.plan.parameters, dtype=dtype, device=bank.device)
        self._made_launchers()[1]((bank.movedim(1, -1).contiguous(), weight))
        return weight

    def _made_launchers(self) -> tuple[Launcher, Launcher]:
        if self._launchers is None:
            parts, factor, sizes = self.index.split(self.sizes[:10]), self.factor, self.sizes
            expand = Launcher(_expand_kernel, _expand_grid(sizes), *_expand_tables(parts, factor, sizes))
            project = Launcher(_project_kernel, (sizes[9], 1, 1), *_project_tables(parts, factor, sizes))
            self._launchers = expand, project
        return self._launchers


# ---------------------------------------------------------------- operators, as compiled graphs hold them


def _expand_tables(parts: Any, factor: Tensor, sizes: list[int]) -> tuple[Any, ...]:
    start, *others = parts[:7]
    _, taps, units_in = sizes[10:13]
    return start, factor, *others, taps, sizes[5], units_in, _CHANNELS_PER_PROGRAM


def _expand_grid(sizes: list[int]) -> tuple[int, int, int]:
    return sizes[3], triton.cdiv(sizes[5], _CHANNELS_PER_PROGRAM), 1


def _project_tables(parts: Any, factor: Tensor, sizes: list[int]) -> tuple[Any, ...]:
    place, pairs, program_pair = parts[7:]
    accumulate = tl.float64 if factor.dtype == torch.float64 else tl.float32
    return place, factor[sizes[0] :], pairs, program_pair, sizes[13], PARAMETERS_PER_PROGRAM, accumulate


@triton_op("steerable::expand_bank", mutates_args=())
def _expand(weight: Tensor, index: Tensor, factor: Tensor, sizes: list[int], dtype: torch.dtype) -> Tensor:
    bank = torch.empty(sizes[3], sizes[11], sizes[5], dtype=dtype, device=weight.device)
    tables = _expand_tables(index.split(sizes[:10]), factor, sizes)
    wrap_triton(_expand_kernel)[_expand_grid(sizes)](weight.contiguous(), bank, *tables)
    return bank


@triton_op("steerable::project_bank", mutates_args=())
def _project(
    bank: Tensor, index: Tensor, factor: Tensor, sizes: list[int], parameters: int, dtype: torch.dtype
) -> Tensor:
    weight = torch.empty(parameters, dtype=dtype, device=bank.device)
    tables = _project_tables(index.split(sizes[:10]), factor, sizes)
    wrap_triton(_project_kernel)[(sizes[9], 1, 1)](bank.contiguous(), weight, *tables)
    return weight


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1], inputs[2])
    ctx.sizes, ctx.parameters, ctx.dtype = inputs[3], inputs[0].numel(), inputs[0].dtype


def _expand_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
    return _project(grad, *ctx.saved_tensors, ctx.sizes, ctx.parameters, ctx.dtype), None, None, None, None


def _project_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
    return _expand(grad, *ctx.saved_tensors, ctx.sizes, ctx.dtype), None, None, None, None, None


_expand.register_autograd(_expand_backward, setup_context=_remember)
_project.register_autograd(_project_backward, setup_context=_remember)
