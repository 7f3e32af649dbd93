"""The passes over pixels that torch has no operation for, compiled by numba; imported only if numba is installed.

Three kernels, all driven by small tables: from channels to irreps, from irreps to the spectrum of a tile of pixels, and
from the product's irreps back to channels. Their inner loops run over the pixels of a line, which are adjacent in
memory, and add a few such lines; that is what a compiler vectorises well. Arrays are flat, with strides in elements,
and a grid is a list of lines, so that one compiled version serves every layout and any number of axes. All indices are
unsigned: see :mod:`.numba_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steerable.nn.numba.compiling import compiled

__all__ = ["channels_to_rows", "rows_to_channels", "spectrum_of_tile", "sums_and_differences"]

Floats = NDArray[Any]
Index = np.uint64
Indices = NDArray[np.uint64]

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(n) for n in range(5))


def _add_terms(
    out: Floats, at: Index, source: Floats, shift: Index, lines: Indices, span: tuple[Index, Index, Index],
    terms: Indices, factors: Floats, first: Index, last: Index,
) -> None:  # fmt: skip
    """out[at + k·n + i] = Σ_t factor_t · source[shift + terms_t + lines_k + i], i < n; span: first, last line, n."""
    n = span[2]
    if first == last:
        for i in range((span[1] - span[0]) * n):
            out[at + i] = 0
    t = first
    while t < last:
        left = last - t
        a, f, o = shift + terms[t], factors[t], at
        if left >= FOUR:
            b, g, c, h = shift + terms[t + ONE], factors[t + ONE], shift + terms[t + TWO], factors[t + TWO]
            d, e = shift + terms[t + THREE], factors[t + THREE]
            for k in range(span[0], span[1]):
                s = lines[k]
                u, v, w, x = a + s, b + s, c + s, d + s
                if t == first:
                    for i in range(n):
                        out[o + i] = (f * source[u + i] + g * source[v + i]) + (h * source[w + i] + e * source[x + i])
                else:
                    for i in range(n):
                        out[o + i] += (f * source[u + i] + g * source[v + i]) + (h * source[w + i] + e * source[x + i])
                o += n
            t += FOUR
        elif left >= TWO:
            b, g = shift + terms[t + ONE], factors[t + ONE]
            for k in range(span[0], span[1]):
                u, v = a + lines[k], b + lines[k]
                if t == first:
                    for i in range(n):
                        out[o + i] = f * source[u + i] + g * source[v + i]
                else:
                    for i in range(n):
                        out[o + i] += f * source[u + i] + g * source[v + i]
                o += n
            t += TWO
        else:
            for k in range(span[0], span[1]):
                u = a + lines[k]
                if t == first:
                    for i in range(n):
                        out[o + i] = f * source[u + i]
                else:
                    for i in range(n):
                        out[o + i] += f * source[u + i]
                o += n
            t += ONE


add_terms = compiled(_add_terms)


def _channels_to_rows(
    x: Floats, lines: Indices, out: Floats, frame: Indices, kinds: Indices, rows: Indices, terms: Indices,
    factors: Floats,
) -> None:  # fmt: skip
    """out[row, pixel] = Σ_e matrix[row, e] x[pixel, e].

    lines: where each line begins in x and in a row. frame: images and pixels in a line, steps in x from image to image,
    channel to channel and pixel to pixel, length of a row, the largest number of channels in a capsule. kinds, rows: as
    in the table; terms point into the scratch, which has the lines of one capsule.
    """
    images, width, next_image, step, next_pixel, length = frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]
    n = images * width
    scratch, here, span = np.empty(frame[6] * n, dtype=x.dtype), np.zeros(1, dtype=np.uint64), (ZERO, ONE, n)
    for line in range(np.uint64(len(lines))):
        for kind in range(np.uint64(len(kinds))):
            dim = kinds[kind, 2]
            for copy in range(kinds[kind, 1]):
                for e in range(dim):
                    a, s = lines[line, 0] + (kinds[kind, 0] + copy * dim + e) * step, e * n
                    for image in range(images):
                        b, o = a + image * next_image, s + image
                        if images == ONE and next_pixel == ONE:
                            for q in range(width):
                                scratch[o + q] = x[b + q]
                        else:
                            for q in range(width):
                                scratch[o + q * images] = x[b + q * next_pixel]
                for r in range(kinds[kind, 3], kinds[kind, 4]):
                    at = (rows[r, 0] + copy * rows[r, 1]) * length + lines[line, 1]
                    add_terms(out, at, scratch, ZERO, here, span, terms, factors, rows[r, 2], rows[r, 3])


def _sums_and_differences(
    values: Floats, first: Index, second: Index, count: Index, sums: Index, differences: Index
) -> None:
    """values[sums + i] = values[first + i] + values[second + i] for i < count, and so the differences."""
    for i in range(count):
        a, b = values[first + i], values[second + i]
        values[sums + i] = a + b
        values[differences + i] = a - b


def _spectrum_of_tile(
    irreps: Floats, lines: Indices, out: Floats, frame: Indices, kinds: Indices, rows: Indices, terms: Indices,
    factors: Floats,
) -> None:  # fmt: skip
    """out[row, pixel] = Σ_t factor_t · irreps[pixel + term_t] for the lines that ``frame`` names, in one block.

    lines: where the first patch of each line begins. frame: first and last line, their length, and that of a plane.
    kinds, rows: as in the table; terms are counted from the first copy's plane.
    """
    span = (frame[0], frame[1], frame[2])
    length = (frame[1] - frame[0]) * frame[2]
    for kind in range(np.uint64(len(kinds))):
        for copy in range(kinds[kind, 0]):
            for r in range(kinds[kind, 1], kinds[kind, 2]):
                at = (rows[r, 0] + copy * rows[r, 1]) * length
                add_terms(out, at, irreps, copy * frame[3], lines, span, terms, factors, rows[r, 2], rows[r, 3])


def _rows_to_channels(
    source: Floats, y: Floats, lines: Indices, bias: Floats, frame: Indices, kinds: Indices, channels: Indices,
    terms: Indices, factors: Floats,
) -> None:  # fmt: skip
    """y[pixel, e] = Σ_r A[e, r] source[r, pixel] + bias[e], for the lines of a tile.

    lines: where each line begins in y. frame: first and last line, images and pixels in a line, steps in y from image
    to image, channel to channel and pixel to pixel. kinds, channels, terms: as in the table.
    """
    images, width, next_image, step, next_pixel = frame[2], frame[3], frame[4], frame[5], frame[6]
    n = images * width
    length = (frame[1] - frame[0]) * n
    scratch, here, span = np.empty(n, dtype=y.dtype), np.zeros(1, dtype=np.uint64), (ZERO, ONE, n)
    places, component = np.empty(len(terms), dtype=np.uint64), ZERO
    for kind in range(np.uint64(len(kinds))):
        dim = kinds[kind, 2]
        for copy in range(kinds[kind, 1]):
            for t in range(channels[component, 0], channels[component + dim - ONE, 1]):
                places[t] = (terms[t, 0] + copy * terms[t, 1]) * length
            for line in range(frame[0], frame[1]):
                for e in range(dim):
                    first, last = channels[component + e, 0], channels[component + e, 1]
                    add_terms(scratch, ZERO, source, (line - frame[0]) * n, here, span, places, factors, first, last)
                    channel = kinds[kind, 0] + copy * dim + e
                    shift = bias[channel]
                    for image in range(images):
                        a = lines[line] + channel * step + image * next_image
                        if images == ONE and next_pixel == ONE:
                            for q in range(width):
                                y[a + q] = scratch[q] + shift
                        else:
                            for q in range(width):
                                y[a + q * next_pixel] = scratch[q * images + image] + shift
        component += dim


channels_to_rows = compiled(_channels_to_rows)
sums_and_differences = compiled(_sums_and_differences)
spectrum_of_tile = compiled(_spectrum_of_tile)
rows_to_channels = compiled(_rows_to_channels)
