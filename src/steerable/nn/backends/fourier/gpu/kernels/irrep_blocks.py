"""The blocks of a Fourier convolution straight from the parameters, and their gradient, in one kernel each.

    block[place(r) + a · step(r) + c] = Σ_h matrix[r, h] · Θ[a, c, h]

for every pair of capsule kinds, with copies a and c; gpu/irrep_block_tables.py has the tables.
"""

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from steerable.nn.backends.fourier.gpu.irrep_block_tables import COPIES_PER_PROGRAM, ROWS_PER_PROGRAM, IrrepBlockTables
from steerable.nn.backends.fourier.gpu.kernels.scales import unit_of
from steerable.nn.backends.fourier.gpu.scales import Scale

__all__ = ["collect", "expand"]

_STEP = 16  # of the sums, which are so short that reading ahead costs more than it gains: hence one stage


@triton.jit
def _share(programs, pairs, COPIES: tl.constexpr, ALIGN: tl.constexpr):
    """The share of this program: its pair of kinds, its pairs of copies q, and the first of its rows or parameters."""
    program = programs + 3 * tl.program_id(0)
    pair = pairs + 6 * tl.load(program)
    start, copies, copies_in = tl.load(pair), tl.load(pair + 1), tl.load(pair + 2)
    count, first_row, first_entry = tl.load(pair + 3), tl.load(pair + 4), tl.load(pair + 5)
    total_rows = tl.load(pair + 6 + 4) - first_row
    copies_in = tl.multiple_of(copies_in.to(tl.int32), ALIGN)
    q = tl.multiple_of(tl.load(program + 1).to(tl.int32), COPIES) + tl.arange(0, COPIES)
    known = q < copies * copies_in
    return start, count, first_row, total_rows, first_entry, copies_in, q, known, tl.load(program + 2)


@triton.jit
def _places(rows, first_row, r, total_rows, q, copies_in, ALIGN: tl.constexpr):
    """The places of the numbers of rows r and pairs of copies q in the blocks; those of one row are adjacent."""
    row = rows + 2 * (first_row + r)
    begin = tl.multiple_of(tl.load(row, mask=r < total_rows, other=0), ALIGN)
    step = tl.multiple_of(tl.load(row + 1, mask=r < total_rows, other=0), ALIGN)
    return begin[:, None] + (q // copies_in)[None, :] * step[:, None] + (q % copies_in)[None, :]


@triton.jit
def _expand_kernel(
    weight,
    blocks,
    largest_value,
    room,
    programs,
    pairs,
    rows,
    matrix,
    SCALED: tl.constexpr,
    COPIES: tl.constexpr,
    ROWS: tl.constexpr,
    STEP: tl.constexpr,
    ALIGN: tl.constexpr,
    PRECISION: tl.constexpr,
):
    start, count, first_row, total_rows, first_entry, copies_in, q, known, first = _share(
        programs, pairs, COPIES, ALIGN
    )
    r = first + tl.arange(0, ROWS)
    total = tl.zeros([ROWS, COPIES], dtype=tl.float32)
    for h0 in range(0, count, STEP):
        h = h0 + tl.arange(0, STEP)
        theta = tl.load(
            weight + start + (q * count)[:, None] + h[None, :], mask=known[:, None] & (h < count)[None, :], other=0.0
        )
        factor = tl.load(
            matrix + first_entry + (r * count)[:, None] + h[None, :],
            mask=(r < total_rows)[:, None] & (h < count)[None, :],
            other=0.0,
        )
        total += tl.dot(factor, tl.trans(theta), input_precision=PRECISION)
    if SCALED:
        total *= 1.0 / unit_of(largest_value, room)
    at = _places(rows, first_row, r, total_rows, q, copies_in, ALIGN)
    tl.store(blocks + at, total, mask=(r < total_rows)[:, None] & known[None, :])


@triton.jit
def _collect_kernel(
    blocks,
    weight,
    largest_value,
    room,
    other_largest,
    other_room,
    programs,
    pairs,
    rows,
    matrix,
    SCALED: tl.constexpr,
    COPIES: tl.constexpr,
    COUNT: tl.constexpr,
    STEP: tl.constexpr,
    ALIGN: tl.constexpr,
    PRECISION: tl.constexpr,
):
    start, count, first_row, total_rows, first_entry, copies_in, q, known, first = _share(
        programs, pairs, COPIES, ALIGN
    )
    h = first + tl.arange(0, COUNT)
    total = tl.zeros([COUNT, COPIES], dtype=tl.float32)
    for r0 in range(0, total_rows, STEP):
        r = r0 + tl.arange(0, STEP)
        at = _places(rows, first_row, r, total_rows, q, copies_in, ALIGN)
        value = tl.load(blocks + at, mask=(r < total_rows)[:, None] & known[None, :], other=0.0)
        factor = tl.load(
            matrix + first_entry + (r * count)[:, None] + h[None, :],
            mask=(r < total_rows)[:, None] & (h < count)[None, :],
            other=0.0,
        )
        total += tl.dot(tl.trans(factor), value, input_precision=PRECISION)
    if SCALED:
        total *= unit_of(largest_value, room) * unit_of(other_largest, other_room)
    at = start + (q * count)[:, None] + h[None, :]
    tl.store(weight + at, tl.trans(total), mask=known[:, None] & (h < count)[None, :])


Arrays = tuple[Tensor, ...]


def expand(weight: Tensor, tables: IrrepBlockTables, arrays: Arrays, dtype: torch.dtype, scale: Scale | None) -> Tensor:
    """All blocks, (parameters,), in ``dtype``, divided by their scale; weight in float32."""
    programs, _, pairs, rows, matrix = arrays
    blocks = torch.empty(weight.numel(), dtype=dtype, device=weight.device)
    _expand_kernel[(len(programs),)](
        weight,
        blocks,
        *((weight, 1.0) if scale is None else scale),
        programs,
        pairs,
        rows,
        matrix,
        SCALED=scale is not None,
        COPIES=COPIES_PER_PROGRAM,
        ROWS=ROWS_PER_PROGRAM,
        STEP=_STEP,
        ALIGN=tables.align,
        PRECISION=_precision(weight.device, scaled=scale is not None),
        num_stages=1,
    )
    return blocks


def collect(blocks: Tensor, tables: IrrepBlockTables, arrays: Arrays, scales: tuple[Scale, Scale] | None) -> Tensor:
    """The transpose, (parameters,) in float32, multiplied by both scales."""
    _, programs, pairs, rows, matrix = arrays
    weight = torch.empty(blocks.numel(), dtype=torch.float32, device=blocks.device)
    _collect_kernel[(len(programs),)](
        blocks,
        weight,
        *((blocks, 1.0, blocks, 1.0) if scales is None else (*scales[0], *scales[1])),
        programs,
        pairs,
        rows,
        matrix,
        SCALED=scales is not None,
        COPIES=COPIES_PER_PROGRAM,
        COUNT=ROWS_PER_PROGRAM,
        STEP=_STEP,
        ALIGN=tables.align,
        PRECISION=_precision(blocks.device, scaled=scales is not None),
        num_stages=1,
    )
    return weight


@lru_cache
def _precision(device: torch.device, *, scaled: bool) -> str:
    """The precision of the products.

    What is rounded to half precision afterwards, or was before, is multiplied by tensor cores. Three products of TF32
    make one as exact as float32's to a few units in the last place.
    """
    on_tensor_cores = scaled and device.type == "cuda" and torch.version.cuda is not None
    return "tf32x3" if on_tensor_cores and torch.cuda.get_device_capability(device) >= (8, 0) else "ieee"
