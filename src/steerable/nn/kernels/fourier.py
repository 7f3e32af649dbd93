"""The passes over pixels of the group Fourier convolution on a GPU: one kernel, driven by tables.

    out[run, pixel, i] = Σ_t factor_t · source[place_t, pixel + shift_t, i]  (+ bias[run, i])

for every copy i of a capsule kind. With different tables it takes channels to irreps, irreps to the spectrum of their
patches, and products back to channels.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["gather_sum"]

_PIXELS_PER_PROGRAM = 32


@triton.jit
def _gather_sum_kernel(
    source,
    out,
    bias,
    runs,
    terms,
    factors,
    pixels,
    height,
    width,
    in_height,
    in_width,
    HAS_BIAS: tl.constexpr,
    PIXELS: tl.constexpr,
    COPIES: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    row = runs + 7 * tl.program_id(1)
    begin, step, copy_step = tl.load(row), tl.load(row + 1), tl.load(row + 2)
    copies, first, last, bias_begin = tl.load(row + 3), tl.load(row + 4), tl.load(row + 5), tl.load(row + 6)
    p = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    i = tl.program_id(2).to(tl.int64) * COPIES + tl.arange(0, COPIES)
    batch, rest = p // (height * width), p % (height * width)
    y, x = rest // width, rest % width
    inside = (p < pixels)[:, None] & (i < copies)[None, :]
    total = tl.zeros([PIXELS, COPIES], dtype=ACCUMULATE)
    for t in range(first, last):
        term = terms + 5 * t
        above, beside = y + tl.load(term), x + tl.load(term + 1)
        offset, pixel_step, inner_step = tl.load(term + 2), tl.load(term + 3), tl.load(term + 4)
        exists = (above >= 0) & (above < in_height) & (beside >= 0) & (beside < in_width)
        at = ((batch * in_height + above) * in_width + beside) * pixel_step + offset
        value = tl.load(source + at[:, None] + (i * inner_step)[None, :], mask=inside & exists[:, None], other=0.0)
        total += tl.load(factors + t) * value.to(ACCUMULATE)
    if HAS_BIAS:
        total += tl.load(bias + bias_begin + i * copy_step, mask=i < copies, other=0.0).to(ACCUMULATE)[None, :]
    tl.store(out + begin + (p * step)[:, None] + (i * copy_step)[None, :], total, mask=inside)


def gather_sum(
    source: Tensor,
    out: Tensor,
    tables: tuple[Tensor, Tensor, Tensor],
    size: tuple[int, int, int],
    in_size: tuple[int, int],
    most_copies: int,
    bias: Tensor | None = None,
) -> None:
    """Write ``out``, flat, from ``source``, flat.

    Args:
        source, out: memory, as flat as the tables see it.
        tables: runs (runs, 7): begin, step from pixel to pixel, step from copy to copy, copies, first and last term,
            begin of the bias; terms (terms, 5): rows and columns of the shift, begin, step from pixel to pixel, step
            from copy to copy; all int64; factors (terms,), in float32, or float64 where the fields are.
        size: batch, height, width of the output.
        in_size: height, width of the input; beyond it are zeros.
        most_copies: of all runs.
        bias: one term per channel.
    """
    runs, terms, factors = tables
    batch, height, width = size
    pixels = batch * height * width
    copies = min(triton.next_power_of_2(most_copies), 128)
    grid = (triton.cdiv(pixels, _PIXELS_PER_PROGRAM), runs.shape[0], triton.cdiv(most_copies, copies))
    _gather_sum_kernel[grid](
        source,
        out,
        source if bias is None else bias,
        runs,
        terms,
        factors,
        pixels,
        height,
        width,
        *in_size,
        HAS_BIAS=bias is not None,
        PIXELS=_PIXELS_PER_PROGRAM,
        COPIES=copies,
        ACCUMULATE=tl.float64 if factors.dtype == torch.float64 else tl.float32,
    )
