"""From irreps at each pixel to the spectrum of their patches, on a GPU.

    row[r, p, i] = Σ_q coupling[r, q] · x̂[p + tap_q, i]

for pixels p and copies i: symmetric stencils and Clebsch–Gordan coefficients in one.
gpu/coupling_tables.py has the tables.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from steerable.nn.backends.fourier.gpu.coupling_tables import VECTORS_PER_PROGRAM, CouplingTables

__all__ = ["couple"]

Arrays = tuple[Tensor, ...]

_INPUTS_IN_REGISTERS = 18  # taps · components; the 3×3 patch of a two-dimensional irrep


@triton.jit
def _positions(
    block,
    copies,
    pixels,
    channels,
    height,
    width,
    in_height,
    in_width,
    WIDTH: tl.constexpr,
    VECTORS: tl.constexpr,
    VECTOR: tl.constexpr,
):
    """The vectors of a program: pixel, first copy, row and column of each, where its pixel begins, whether it exists.

    Those of one pixel follow each other, so that what is written of it is as long as the slice is wide.
    """
    per_pixel: tl.constexpr = WIDTH // VECTOR
    pixels_here: tl.constexpr = VECTORS // per_pixel
    lane = tl.arange(0, VECTORS)
    p, i = block * pixels_here + lane // per_pixel, lane % per_pixel * VECTOR
    # The last lanes may be a part of the next program's first pixel, which is left to that one.
    inside = (lane < pixels_here * per_pixel) & (p < pixels) & (i < copies)
    image, rest = p // (height * width), p % (height * width)
    y, x = rest // width, rest % width
    at = tl.multiple_of(((image.to(tl.int64) * in_height + y) * in_width + x) * channels, VECTOR)
    return p.to(tl.int64), i, y, x, at + i, inside


@triton.jit
def _beside(taps, t, y, x, in_height, in_width, channels, VECTOR: tl.constexpr):
    """How far away the input of a tap is, and whether it exists.

    The distance is that of two pixels of one image, which has fewer than 2^31 numbers; where the tap does not exist it
    may be anything.
    """
    down, right = tl.load(taps + 2 * t).to(tl.int32), tl.load(taps + 2 * t + 1).to(tl.int32)
    # As unsigned numbers negative ones are too large as well.
    exists = ((y + down).to(tl.uint32) < in_height) & ((x + right).to(tl.uint32) < in_width)
    return tl.multiple_of((down * in_width + right) * channels, VECTOR), exists


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
    WIDTH: tl.constexpr,
    VECTORS: tl.constexpr,
    VECTOR: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    copies, first = tl.load(share), tl.load(share + 1)
    begin, next_component = tl.multiple_of(tl.load(share + 2), VECTOR), tl.multiple_of(tl.load(share + 3), VECTOR)
    p, i, y, x, at, inside = _positions(
        block, copies, pixels, channels, height, width, in_height, in_width, WIDTH, VECTORS, VECTOR
    )
    v = tl.arange(0, VECTOR)
    here = source + begin + at[:, None] + v[None, :]
    inputs = ()
    for t in tl.static_range(TAPS):
        away, exists = _beside(taps, t, y, x, in_height, in_width, channels, VECTOR)
        for c in tl.static_range(DIM):
            value = tl.load(here + (away + c * next_component), mask=(inside & exists)[:, None], other=0.0)
            inputs = inputs + (value.to(ACCUMULATE),)  # noqa: RUF005 - Triton knows no unpacking
    for r in tl.static_range(ROWS):
        total = tl.zeros([VECTORS, VECTOR], dtype=ACCUMULATE)
        for q in tl.static_range(TAPS * DIM):
            if COUPLINGS[PATTERN][r * TAPS * DIM + q] != 0:
                total += COUPLINGS[PATTERN][r * TAPS * DIM + q] * inputs[q]
        row = rows + 2 * (first + r)
        to = tl.multiple_of(tl.load(row), VECTOR) + p * tl.multiple_of(tl.load(row + 1), VECTOR) + i
        tl.store(out + to[:, None] + v[None, :], total, mask=inside[:, None])


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
    WIDTH: tl.constexpr,
    VECTORS: tl.constexpr,
    VECTOR: tl.constexpr,
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
                WIDTH,
                VECTORS,
                VECTOR,
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
    WIDTH: tl.constexpr,
    VECTORS: tl.constexpr,
    VECTOR: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    """For larger patches: the terms of each row are read one by one, from the cache after the first row."""
    share = slices + 5 * (tl.program_id(0) % count)
    copies, first = tl.load(share), tl.load(share + 1)
    begin, next_component = tl.multiple_of(tl.load(share + 2), VECTOR), tl.multiple_of(tl.load(share + 3), VECTOR)
    pattern = patterns + tl.load(share + 4)
    first_of_pattern, last_of_pattern = tl.load(pattern), tl.load(pattern + 1)
    block = tl.program_id(0) // count
    p, i, y, x, at, inside = _positions(
        block, copies, pixels, channels, height, width, in_height, in_width, WIDTH, VECTORS, VECTOR
    )
    v = tl.arange(0, VECTOR)
    here = source + begin + at[:, None] + v[None, :]
    for r in range(first_of_pattern, last_of_pattern):
        total = tl.zeros([VECTORS, VECTOR], dtype=ACCUMULATE)
        for t in range(tl.load(row_terms + r), tl.load(row_terms + r + 1)):
            tap, component = tl.load(terms + 2 * t), tl.load(terms + 2 * t + 1)
            away, exists = _beside(taps, tap, y, x, in_height, in_width, channels, VECTOR)
            value = tl.load(here + (away + component * next_component), mask=(inside & exists)[:, None], other=0.0)
            total += tl.load(factors + t) * value.to(ACCUMULATE)
        row = rows + 2 * (first + r - first_of_pattern)
        to = tl.multiple_of(tl.load(row), VECTOR) + p * tl.multiple_of(tl.load(row + 1), VECTOR) + i
        tl.store(out + to[:, None] + v[None, :], total, mask=inside[:, None])


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
    pixels_per_program = VECTORS_PER_PROGRAM // (tables.width // tables.vector)
    grid = (triton.cdiv(pixels, pixels_per_program) * len(slices),)
    shape = (pixels, channels, *size[1:], *in_size)
    constants = {
        "WIDTH": tables.width,
        "VECTORS": VECTORS_PER_PROGRAM,
        "VECTOR": tables.vector,
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
