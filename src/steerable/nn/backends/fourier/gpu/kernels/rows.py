"""Between the channels of a field and its rows, one per irrep component, on a GPU.

    to_rows:    row[r, p, i] = Σ_e matrix[r, e] · x[p, i, e]
    from_rows:  y[p, i, e]   = Σ_r matrix[r, e] · row[r, p, i]

for pixels p, copies i of a capsule kind and its components e. gpu/row_tables.py has the tables.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from steerable.nn.backends.fourier.gpu.kernels.scales import unit_of
from steerable.nn.backends.fourier.gpu.row_tables import RowTables
from steerable.nn.backends.fourier.gpu.scales import Scale

__all__ = ["from_rows", "to_rows"]

Arrays = tuple[Tensor, ...]

# Of one program, found by trial on an H200: pixels, and numbers in its registers, which leave room for fewer pixels
# where capsules are large.
_TO_ROWS, _FROM_ROWS = (32, 16384), (16, 4096)
_ROWS_AT_ONCE = 8


@triton.jit
def _to_rows_of_dim(
    x,
    out,
    scale,
    share,
    block,
    rows,
    matrix,
    pixels,
    channels,
    DIM: tl.constexpr,
    PADDED: tl.constexpr,
    STRIDE: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNEL_ALIGN: tl.constexpr,
    ROW_ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    channel, copies = tl.multiple_of(tl.load(share), CHANNEL_ALIGN), tl.multiple_of(tl.load(share + 2), ROW_ALIGN)
    first, last = tl.load(share + 3), tl.load(share + 4)
    first_copy = tl.multiple_of(tl.load(share + 5), ROW_ALIGN)
    p = block.to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    i, e = tl.arange(0, WIDTH), tl.arange(0, PADDED)
    at = (p * channels)[:, None, None] + channel + (i * DIM)[None, :, None] + e[None, None, :]
    valid = (p < pixels)[:, None, None] & (i < copies)[None, :, None]
    if PADDED > DIM:
        valid = valid & (e < DIM)[None, None, :]
    field = tl.load(x + at, mask=valid, other=0.0).to(ACCUMULATE) * scale
    inside = (p < pixels)[:, None] & (i < copies)[None, :]
    for r in range(first, last):
        begin = tl.multiple_of(tl.load(rows + 2 * r), ROW_ALIGN) + first_copy
        step = tl.multiple_of(tl.load(rows + 2 * r + 1), ROW_ALIGN)
        factor = tl.load(matrix + r * STRIDE + e)
        value = tl.sum(field * factor[None, None, :], axis=2)
        tl.store(out + begin + (p * step)[:, None] + i[None, :], value, mask=inside)


@triton.jit
def _to_rows_kernel(
    x,
    out,
    largest_value,
    room,
    slices,
    rows,
    matrix,
    count,
    pixels,
    channels,
    SCALED: tl.constexpr,
    DIMS: tl.constexpr,
    STRIDE: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNEL_ALIGN: tl.constexpr,
    ROW_ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    share = slices + 6 * (tl.program_id(0) % count)
    dim = tl.load(share + 1)
    scale = 1.0 / unit_of(largest_value, room) if SCALED else 1.0
    for k in tl.static_range(len(DIMS)):
        if dim == DIMS[k][0]:
            _to_rows_of_dim(
                x,
                out,
                scale,
                share,
                tl.program_id(0) // count,
                rows,
                matrix,
                pixels,
                channels,
                DIMS[k][0],
                DIMS[k][1],
                STRIDE,
                PIXELS,
                WIDTH,
                CHANNEL_ALIGN,
                ROW_ALIGN,
                ACCUMULATE,
            )


@triton.jit
def _from_rows_of_dim(
    source,
    y,
    bias,
    scale,
    share,
    block,
    rows,
    matrix,
    pixels,
    channels,
    DIM: tl.constexpr,
    PADDED: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    AT_ONCE: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNEL_ALIGN: tl.constexpr,
    ROW_ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    channel, copies = tl.multiple_of(tl.load(share), CHANNEL_ALIGN), tl.multiple_of(tl.load(share + 2), ROW_ALIGN)
    first, last = tl.load(share + 3), tl.load(share + 4)
    first_copy = tl.multiple_of(tl.load(share + 5), ROW_ALIGN)
    p = block.to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    i, e = tl.arange(0, WIDTH), tl.arange(0, PADDED)
    inside = (p < pixels)[:, None] & (i < copies)[None, :]
    total = tl.zeros([PIXELS, WIDTH, PADDED], dtype=ACCUMULATE)
    for chunk in tl.static_range((DIM + AT_ONCE - 1) // AT_ONCE):  # there are no more rows than components
        first_of_chunk = first + chunk * AT_ONCE
        values = ()  # read together, so that memory is waited for once and not once per row
        for k in tl.static_range(AT_ONCE):
            row = rows + 2 * (first_of_chunk + k)
            exists = first_of_chunk + k < last
            begin = tl.multiple_of(tl.load(row, mask=exists, other=0), ROW_ALIGN) + first_copy
            step = tl.multiple_of(tl.load(row + 1, mask=exists, other=0), ROW_ALIGN)
            at = source + begin + (p * step)[:, None] + i[None, :]
            value = tl.load(at, mask=inside & exists, other=0.0).to(ACCUMULATE)
            values = values + (value,)  # noqa: RUF005 - Triton knows no unpacking
        for k in tl.static_range(AT_ONCE):
            r = first_of_chunk + k
            factor = tl.load(matrix + r * STRIDE + e, mask=r < last, other=0.0)
            total += values[k][:, :, None] * factor[None, None, :]
    total *= scale
    within = channel + (i * DIM)[:, None] + e[None, :]
    valid = (i < copies)[:, None] & (e < PADDED)[None, :]
    if PADDED > DIM:
        valid = (i < copies)[:, None] & (e < DIM)[None, :]
    if HAS_BIAS:
        total += tl.load(bias + within, mask=valid, other=0.0).to(ACCUMULATE)[None, :, :]
    at = (p * channels)[:, None, None] + within[None, :, :]
    tl.store(y + at, total, mask=(p < pixels)[:, None, None] & valid[None, :, :])


@triton.jit
def _from_rows_kernel(
    source,
    y,
    bias,
    largest_value,
    room,
    other_largest,
    other_room,
    slices,
    rows,
    matrix,
    count,
    pixels,
    channels,
    HAS_BIAS: tl.constexpr,
    SCALED: tl.constexpr,
    DIMS: tl.constexpr,
    STRIDE: tl.constexpr,
    ROWS_AT_ONCE: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNEL_ALIGN: tl.constexpr,
    ROW_ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    share = slices + 6 * (tl.program_id(0) % count)
    dim = tl.load(share + 1)
    scale = unit_of(largest_value, room) * unit_of(other_largest, other_room) if SCALED else 1.0
    for k in tl.static_range(len(DIMS)):
        if dim == DIMS[k][0]:
            _from_rows_of_dim(
                source,
                y,
                bias,
                scale,
                share,
                tl.program_id(0) // count,
                rows,
                matrix,
                pixels,
                channels,
                DIMS[k][0],
                DIMS[k][1],
                STRIDE,
                HAS_BIAS,
                min(DIMS[k][0], ROWS_AT_ONCE),
                PIXELS,
                WIDTH,
                CHANNEL_ALIGN,
                ROW_ALIGN,
                ACCUMULATE,
            )


def to_rows(x: Tensor, out: Tensor, tables: RowTables, arrays: Arrays, scale: Scale | None) -> None:
    """Write the rows of x, (pixels, channels), divided by its scale."""
    pixels, channels = x.shape
    per_program = _pixels_per_program(_TO_ROWS, tables)
    _to_rows_kernel[(triton.cdiv(pixels, per_program) * len(tables.slices),)](
        x,
        out,
        *((x, 1.0) if scale is None else scale),
        *arrays,
        len(tables.slices),
        pixels,
        channels,
        SCALED=scale is not None,
        PIXELS=per_program,
        DIMS=tables.dims,
        STRIDE=tables.matrix.shape[1],
        WIDTH=tables.width,
        CHANNEL_ALIGN=tables.channel_align,
        ROW_ALIGN=tables.row_align,
        ACCUMULATE=_accumulator(out),
    )


def from_rows(
    source: Tensor,
    y: Tensor,
    tables: RowTables,
    arrays: Arrays,
    bias: Tensor | None,
    scales: tuple[Scale, Scale] | None,
) -> None:
    """Write y, (pixels, channels), from its rows, multiplied by both scales."""
    pixels, channels = y.shape
    per_program = _pixels_per_program(_FROM_ROWS, tables)
    _from_rows_kernel[(triton.cdiv(pixels, per_program) * len(tables.slices),)](
        source,
        y,
        y if bias is None else bias,
        *((y, 1.0, y, 1.0) if scales is None else (*scales[0], *scales[1])),
        *arrays,
        len(tables.slices),
        pixels,
        channels,
        HAS_BIAS=bias is not None,
        ROWS_AT_ONCE=_ROWS_AT_ONCE,
        SCALED=scales is not None,
        PIXELS=per_program,
        DIMS=tables.dims,
        STRIDE=tables.matrix.shape[1],
        WIDTH=tables.width,
        CHANNEL_ALIGN=tables.channel_align,
        ROW_ALIGN=tables.row_align,
        ACCUMULATE=_accumulator(source),
    )


def _pixels_per_program(limits: tuple[int, int], tables: RowTables) -> int:
    pixels, numbers = limits
    return max(1, min(pixels, numbers // (tables.width * tables.dims[-1][1])))


def _accumulator(values: Tensor) -> tl.dtype:
    return tl.float64 if values.dtype == torch.float64 else tl.float32
