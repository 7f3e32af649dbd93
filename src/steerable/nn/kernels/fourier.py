"""The passes over pixels of the group Fourier convolution on a GPU.

    to_rows:    row[r, p, i] = Σ_e matrix[r, e] · x[p, i, e]          channels to irreps
    couple:     row[r, p, i] = Σ_q coupling[r, q] · x̂[p + tap_q, i]   irreps to the spectrum of their patches
    from_rows:  y[p, i, e]   = Σ_r matrix[r, e] · row[r, p, i]        products to channels

for pixels p, copies i of a capsule kind and its components e. :mod:`steerable.nn.fourier.pass_tables` has the tables.

Half precision is float16 inside, with three more bits than bfloat16, and values are divided by the power of two above
the largest one, so that nothing can overflow.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from steerable.nn.fourier.pass_tables import CouplingTables, RowTables

__all__ = ["couple", "from_rows", "largest", "to_rows"]

Arrays = tuple[Tensor, ...]

_PIXELS = 32  # per program
_INPUTS_IN_REGISTERS = 18  # taps · components that `couple` holds at once; the 3×3 patch of a two-dimensional irrep


@triton.jit
def _largest_kernel(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.abs(tl.load(x + i, mask=i < count, other=0.0).to(tl.float32))
    tl.atomic_max(out, tl.max(value, 0))


def largest(x: Tensor) -> Tensor:
    """max |x| of dense memory, (1,) in float32."""
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    if x.numel():
        _largest_kernel[(triton.cdiv(x.numel(), 8192),)](x, out, x.numel(), BLOCK=8192)
    return out


@triton.jit
def unit_above(largest_value):
    """2^⌈log2 of the largest value⌉, or 1 where that is no reasonable number."""
    value = tl.load(largest_value)
    unit = tl.exp2(tl.ceil(tl.log2(value)))
    return tl.where((value > 1e-30) & (value < 1e30), unit, 1.0)


@triton.jit
def _to_rows_of_dim(
    x,
    out,
    scale,
    share,
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
    p = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
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
    slices,
    rows,
    matrix,
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
    share = slices + 6 * tl.program_id(1)
    dim = tl.load(share + 1)
    scale = 1.0 / unit_above(largest_value) if SCALED else 1.0
    for k in tl.static_range(len(DIMS)):
        if dim == DIMS[k][0]:
            _to_rows_of_dim(
                x,
                out,
                scale,
                share,
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
    rows,
    matrix,
    pixels,
    channels,
    DIM: tl.constexpr,
    PADDED: tl.constexpr,
    STRIDE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNEL_ALIGN: tl.constexpr,
    ROW_ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    channel, copies = tl.multiple_of(tl.load(share), CHANNEL_ALIGN), tl.multiple_of(tl.load(share + 2), ROW_ALIGN)
    first, last = tl.load(share + 3), tl.load(share + 4)
    first_copy = tl.multiple_of(tl.load(share + 5), ROW_ALIGN)
    p = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    i, e = tl.arange(0, WIDTH), tl.arange(0, PADDED)
    inside = (p < pixels)[:, None] & (i < copies)[None, :]
    total = tl.zeros([PIXELS, WIDTH, PADDED], dtype=ACCUMULATE)
    for r in range(first, last):
        begin = tl.multiple_of(tl.load(rows + 2 * r), ROW_ALIGN) + first_copy
        step = tl.multiple_of(tl.load(rows + 2 * r + 1), ROW_ALIGN)
        value = tl.load(source + begin + (p * step)[:, None] + i[None, :], mask=inside, other=0.0).to(ACCUMULATE)
        factor = tl.load(matrix + r * STRIDE + e)
        total += value[:, :, None] * factor[None, None, :]
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
    other_largest,
    slices,
    rows,
    matrix,
    pixels,
    channels,
    HAS_BIAS: tl.constexpr,
    SCALED: tl.constexpr,
    DIMS: tl.constexpr,
    STRIDE: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    CHANNEL_ALIGN: tl.constexpr,
    ROW_ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    share = slices + 6 * tl.program_id(1)
    dim = tl.load(share + 1)
    scale = unit_above(largest_value) * unit_above(other_largest) if SCALED else 1.0
    for k in tl.static_range(len(DIMS)):
        if dim == DIMS[k][0]:
            _from_rows_of_dim(
                source,
                y,
                bias,
                scale,
                share,
                rows,
                matrix,
                pixels,
                channels,
                DIMS[k][0],
                DIMS[k][1],
                STRIDE,
                HAS_BIAS,
                PIXELS,
                WIDTH,
                CHANNEL_ALIGN,
                ROW_ALIGN,
                ACCUMULATE,
            )


@triton.jit
def _couple_kernel(
    source,
    out,
    slices,
    rows,
    taps,
    pixels,
    channels,
    height,
    width,
    in_height,
    in_width,
    COUPLING: tl.constexpr,
    ROWS: tl.constexpr,
    TAPS: tl.constexpr,
    DIM: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    """All inputs of a slice are held in registers, each read once per tap; factors are constants of the code."""
    share = slices + 4 * tl.program_id(1)
    copies, first = tl.multiple_of(tl.load(share), ALIGN), tl.load(share + 1)
    begin, next_component = tl.multiple_of(tl.load(share + 2), ALIGN), tl.multiple_of(tl.load(share + 3), ALIGN)
    p = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    i = tl.arange(0, WIDTH)
    batch, rest = p // (height * width), p % (height * width)
    y, x = rest // width, rest % width
    p, batch = p.to(tl.int64), batch.to(tl.int64)
    inside = (p < pixels)[:, None] & (i < copies)[None, :]
    inputs = ()
    for t in tl.static_range(TAPS):
        above, beside = y + tl.load(taps + 2 * t), x + tl.load(taps + 2 * t + 1)
        exists = (above >= 0) & (above < in_height) & (beside >= 0) & (beside < in_width)
        at = ((batch * in_height + above) * in_width + beside) * channels + begin
        for c in tl.static_range(DIM):
            where = (at + c * next_component)[:, None] + i[None, :]
            value = tl.load(source + where, mask=inside & exists[:, None], other=0.0)
            inputs = inputs + (value.to(ACCUMULATE),)  # noqa: RUF005 - Triton knows no unpacking
    for r in tl.static_range(ROWS):
        total = tl.zeros([PIXELS, WIDTH], dtype=ACCUMULATE)
        for q in tl.static_range(TAPS * DIM):
            if COUPLING[r * TAPS * DIM + q] != 0:
                total += COUPLING[r * TAPS * DIM + q] * inputs[q]
        row = rows + 2 * (first + r)
        to = tl.multiple_of(tl.load(row), ALIGN) + (p * tl.multiple_of(tl.load(row + 1), ALIGN))[:, None] + i[None, :]
        tl.store(out + to, total, mask=inside)


@triton.jit
def _couple_by_terms_kernel(
    source,
    out,
    slices,
    rows,
    taps,
    row_terms,
    terms,
    factors,
    pixels,
    channels,
    height,
    width,
    in_height,
    in_width,
    ROWS: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    """For larger patches: the terms of each row are read one by one, from the cache after the first row."""
    share = slices + 4 * tl.program_id(1)
    copies, first = tl.multiple_of(tl.load(share), ALIGN), tl.load(share + 1)
    begin, next_component = tl.multiple_of(tl.load(share + 2), ALIGN), tl.multiple_of(tl.load(share + 3), ALIGN)
    p = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    i = tl.arange(0, WIDTH)
    batch, rest = p // (height * width), p % (height * width)
    y, x = rest // width, rest % width
    p, batch = p.to(tl.int64), batch.to(tl.int64)
    inside = (p < pixels)[:, None] & (i < copies)[None, :]
    for r in range(ROWS):
        total = tl.zeros([PIXELS, WIDTH], dtype=ACCUMULATE)
        for t in range(tl.load(row_terms + r), tl.load(row_terms + r + 1)):
            tap, component = tl.load(terms + 2 * t), tl.load(terms + 2 * t + 1)
            above, beside = y + tl.load(taps + 2 * tap), x + tl.load(taps + 2 * tap + 1)
            exists = (above >= 0) & (above < in_height) & (beside >= 0) & (beside < in_width)
            at = ((batch * in_height + above) * in_width + beside) * channels + begin + component * next_component
            value = tl.load(source + at[:, None] + i[None, :], mask=inside & exists[:, None], other=0.0)
            total += tl.load(factors + t) * value.to(ACCUMULATE)
        row = rows + 2 * (first + r)
        to = tl.multiple_of(tl.load(row), ALIGN) + (p * tl.multiple_of(tl.load(row + 1), ALIGN))[:, None] + i[None, :]
        tl.store(out + to, total, mask=inside)


# ---------------------------------------------------------------- calls


def to_rows(x: Tensor, out: Tensor, tables: RowTables, arrays: Arrays, scale: Tensor | None) -> None:
    """Write the rows of x, (pixels, channels); divided by the power of two above ``scale``."""
    pixels, channels = x.shape
    _to_rows_kernel[(triton.cdiv(pixels, _PIXELS), len(tables.slices))](
        x,
        out,
        x if scale is None else scale,
        *arrays,
        pixels,
        channels,
        SCALED=scale is not None,
        PIXELS=_PIXELS,
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
    scales: tuple[Tensor, Tensor] | None,
) -> None:
    """Write y, (pixels, channels), from its rows; multiplied by the powers of two above the ``scales``."""
    pixels, channels = y.shape
    _from_rows_kernel[(triton.cdiv(pixels, _PIXELS), len(tables.slices))](
        source,
        y,
        y if bias is None else bias,
        *((y, y) if scales is None else scales),
        *arrays,
        pixels,
        channels,
        HAS_BIAS=bias is not None,
        SCALED=scales is not None,
        PIXELS=_PIXELS,
        DIMS=tables.dims,
        STRIDE=tables.matrix.shape[1],
        WIDTH=tables.width,
        CHANNEL_ALIGN=tables.channel_align,
        ROW_ALIGN=tables.row_align,
        ACCUMULATE=_accumulator(source),
    )


def couple(
    source: Tensor,
    out: Tensor,
    tables: CouplingTables,
    arrays: Arrays,
    size: tuple[int, int, int],
    in_size: tuple[int, int],
    channels: int,
) -> None:
    """Write the rows of one irrep's spectrum.

    Args:
        source: x̂, flat.
        out: the spectrum, flat.
        tables: of one irrep.
        arrays: slices, rows, taps, first term of each row, terms (tap, component), factors.
        size: batch, height and width of the output.
        in_size: height and width of the input; beyond it are zeros.
        channels: of one pixel of x̂.
    """
    slices, rows, taps, row_terms, terms, factors = arrays
    pixels = size[0] * size[1] * size[2]
    grid = (triton.cdiv(pixels, _PIXELS), len(tables.slices))
    shape = (pixels, channels, *size[1:], *in_size)
    constants = {
        "ROWS": len(tables.coupling),
        "PIXELS": _PIXELS,
        "WIDTH": tables.width,
        "ALIGN": tables.align,
        "ACCUMULATE": _accumulator(out),
    }
    if len(tables.coupling[0]) <= _INPUTS_IN_REGISTERS:
        _couple_kernel[grid](
            source,
            out,
            slices,
            rows,
            taps,
            *shape,
            COUPLING=tables.constants,
            TAPS=len(taps),
            DIM=tables.dim,
            **constants,
        )
    else:
        _couple_by_terms_kernel[grid](source, out, slices, rows, taps, row_terms, terms, factors, *shape, **constants)


def _accumulator(values: Tensor) -> tl.dtype:
    return tl.float64 if values.dtype == torch.float64 else tl.float32
