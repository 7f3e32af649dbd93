"""From irreps at each pixel to the spectrum of their patches, on a GPU.

    row[r, p, i] = Σ_q coupling[r, q] · x̂[p + tap_q, i]

for pixels p and copies i: symmetric stencils and Clebsch–Gordan coefficients in one.
:mod:`steerable.nn.fourier.pass_tables` has the tables.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from steerable.nn.fourier.pass_tables import CouplingTables

__all__ = ["couple"]

Arrays = tuple[Tensor, ...]

_NUMBERS = 1024  # of each input in a program
_INPUTS_IN_REGISTERS = 18  # taps · components; the 3×3 patch of a two-dimensional irrep


@triton.jit
def _positions(block, height, width, PIXELS: tl.constexpr):
    """The pixels of a program: their numbers, and for each its image, row and column."""
    p = block * PIXELS + tl.arange(0, PIXELS)
    image, rest = p // (height * width), p % (height * width)
    return p.to(tl.int64), image.to(tl.int64), rest // width, rest % width


@triton.jit
def _couple_pattern(
    source,
    out,
    share,
    block,
    rows,
    taps,
    pixels,
    channels,
    height,
    width,
    in_height,
    in_width,
    COUPLINGS: tl.constexpr,
    PATTERN: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    TAPS: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    copies, first = tl.multiple_of(tl.load(share), ALIGN), tl.load(share + 1)
    begin, next_component = tl.multiple_of(tl.load(share + 2), ALIGN), tl.multiple_of(tl.load(share + 3), ALIGN)
    p, image, y, x = _positions(block, height, width, PIXELS)
    i = tl.arange(0, WIDTH)
    inside = (p < pixels)[:, None] & (i < copies)[None, :]
    inputs = ()
    for t in tl.static_range(TAPS):
        above, beside = y + tl.load(taps + 2 * t), x + tl.load(taps + 2 * t + 1)
        exists = (above >= 0) & (above < in_height) & (beside >= 0) & (beside < in_width)
        at = ((image * in_height + above) * in_width + beside) * channels + begin
        for c in tl.static_range(DIM):
            where = (at + c * next_component)[:, None] + i[None, :]
            value = tl.load(source + where, mask=inside & exists[:, None], other=0.0)
            inputs = inputs + (value.to(ACCUMULATE),)  # noqa: RUF005 - Triton knows no unpacking
    for r in tl.static_range(ROWS):
        total = tl.zeros([PIXELS, WIDTH], dtype=ACCUMULATE)
        for q in tl.static_range(TAPS * DIM):
            if COUPLINGS[PATTERN][r * TAPS * DIM + q] != 0:
                total += COUPLINGS[PATTERN][r * TAPS * DIM + q] * inputs[q]
        row = rows + 2 * (first + r)
        to = tl.multiple_of(tl.load(row), ALIGN) + (p * tl.multiple_of(tl.load(row + 1), ALIGN))[:, None] + i[None, :]
        tl.store(out + to, total, mask=inside)


@triton.jit
def _couple_kernel(
    source,
    out,
    slices,
    count,
    rows,
    taps,
    pixels,
    channels,
    height,
    width,
    in_height,
    in_width,
    COUPLINGS: tl.constexpr,
    SHAPES: tl.constexpr,
    TAPS: tl.constexpr,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    """All inputs of a slice are held in registers, each read once per tap; factors are constants of the code."""
    share = slices + 5 * (tl.program_id(0) % count)
    pattern = tl.load(share + 4)
    for k in tl.static_range(len(SHAPES)):
        if pattern == k:
            _couple_pattern(
                source,
                out,
                share,
                tl.program_id(0) // count,
                rows,
                taps,
                pixels,
                channels,
                height,
                width,
                in_height,
                in_width,
                COUPLINGS,
                k,
                SHAPES[k][0],
                SHAPES[k][1],
                TAPS,
                PIXELS,
                WIDTH,
                ALIGN,
                ACCUMULATE,
            )


@triton.jit
def _couple_by_terms_kernel(
    source,
    out,
    slices,
    count,
    rows,
    taps,
    patterns,
    row_terms,
    terms,
    factors,
    pixels,
    channels,
    height,
    width,
    in_height,
    in_width,
    PIXELS: tl.constexpr,
    WIDTH: tl.constexpr,
    ALIGN: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    """For larger patches: the terms of each row are read one by one, from the cache after the first row."""
    share = slices + 5 * (tl.program_id(0) % count)
    copies, first = tl.multiple_of(tl.load(share), ALIGN), tl.load(share + 1)
    begin, next_component = tl.multiple_of(tl.load(share + 2), ALIGN), tl.multiple_of(tl.load(share + 3), ALIGN)
    pattern = patterns + tl.load(share + 4)
    first_of_pattern, last_of_pattern = tl.load(pattern), tl.load(pattern + 1)
    p, image, y, x = _positions(tl.program_id(0) // count, height, width, PIXELS)
    i = tl.arange(0, WIDTH)
    inside = (p < pixels)[:, None] & (i < copies)[None, :]
    for r in range(first_of_pattern, last_of_pattern):
        total = tl.zeros([PIXELS, WIDTH], dtype=ACCUMULATE)
        for t in range(tl.load(row_terms + r), tl.load(row_terms + r + 1)):
            tap, component = tl.load(terms + 2 * t), tl.load(terms + 2 * t + 1)
            above, beside = y + tl.load(taps + 2 * tap), x + tl.load(taps + 2 * tap + 1)
            exists = (above >= 0) & (above < in_height) & (beside >= 0) & (beside < in_width)
            at = ((image * in_height + above) * in_width + beside) * channels + begin + component * next_component
            value = tl.load(source + at[:, None] + i[None, :], mask=inside & exists[:, None], other=0.0)
            total += tl.load(factors + t) * value.to(ACCUMULATE)
        row = rows + 2 * (first + r - first_of_pattern)
        to = tl.multiple_of(tl.load(row), ALIGN) + (p * tl.multiple_of(tl.load(row + 1), ALIGN))[:, None] + i[None, :]
        tl.store(out + to, total, mask=inside)


def couple(
    source: Tensor,
    out: Tensor,
    tables: CouplingTables,
    arrays: Arrays,
    size: tuple[int, int, int],
    in_size: tuple[int, int],
    channels: int,
) -> None:
    """Write the spectrum.

    Neighbouring programs write all slices of the same pixels: their runs share cache lines, which reach memory whole.

    Args:
        source: x̂, flat.
        out: the spectrum, flat.
        tables: of a direction.
        arrays: slices, rows, taps, first row of each pattern, first term of each row, terms (tap, component), factors.
        size: batch, height and width of the output.
        in_size: height and width of the input; beyond it are zeros.
        channels: of one pixel of x̂.
    """
    slices, rows, taps, *by_terms = arrays
    pixels = size[0] * size[1] * size[2]
    per_program = _NUMBERS // tables.width
    grid = (triton.cdiv(pixels, per_program) * len(slices),)
    shape = (pixels, channels, *size[1:], *in_size)
    constants = {
        "PIXELS": per_program,
        "WIDTH": tables.width,
        "ALIGN": tables.align,
        "ACCUMULATE": tl.float64 if out.dtype == torch.float64 else tl.float32,
    }
    if max(len(pattern[0]) for pattern in tables.patterns) <= _INPUTS_IN_REGISTERS:
        _couple_kernel[grid](
            source,
            out,
            slices,
            len(slices),
            rows,
            taps,
            *shape,
            COUPLINGS=tables.constants,
            SHAPES=tables.shapes,
            TAPS=len(taps),
            **constants,
        )
    else:
        _couple_by_terms_kernel[grid](source, out, slices, len(slices), rows, taps, *by_terms, *shape, **constants)
