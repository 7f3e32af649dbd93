"""The passes over pixels that torch has no operation for, compiled by numba; imported only if numba is installed.

Three kernels, all driven by small tables: from channels to irreps, from irreps to the spectrum of a tile of pixels, and
from the product's irreps back to channels. Their inner loops run over the copies of a capsule kind, which are adjacent
in memory, and add a few such runs; that is what a compiler vectorises well. Arrays are flat, with strides in elements,
and a grid is a list of lines, the pixels along its last axis, so that one compiled version serves every layout and any
number of axes. All indices are unsigned: a signed one might be negative, numba would wrap it around, and the loop would
not be vectorised.

A table of runs has one row per run: where it begins in the output, how far it moves from pixel to pixel, its length,
and its first and last term. A term is an offset into the input, a step from pixel to pixel, and a factor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steerable.nn.numba.compiling import compiled

__all__ = ["channels_to_irreps", "irreps_to_channels", "spectrum_of_tile"]

Floats = NDArray[Any]
Index = np.uint64
Indices = NDArray[np.uint64]

ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


def _add_runs(
    out: Floats, at: Index, out_step: Index, n: Index, pixels: Index, source: Floats, base: Index, terms: Indices,
    factors: Floats, first: Index, last: Index,
) -> None:  # fmt: skip
    """out[at + q·out_step + i] = Σ_t factor_t · source[base + offset_t + q·step_t + i] for i < n, q < pixels."""
    left = last - first
    for q in range(pixels):
        o = at + q * out_step
        if left == ONE:
            a, f = base + terms[first, 0] + q * terms[first, 1], factors[first]
            for i in range(n):
                out[o + i] = f * source[a + i]
        elif left == TWO:
            a, f = base + terms[first, 0] + q * terms[first, 1], factors[first]
            b, g = base + terms[first + ONE, 0] + q * terms[first + ONE, 1], factors[first + ONE]
            for i in range(n):
                out[o + i] = f * source[a + i] + g * source[b + i]
        elif left >= FOUR:
            a, f = base + terms[first, 0] + q * terms[first, 1], factors[first]
            b, g = base + terms[first + ONE, 0] + q * terms[first + ONE, 1], factors[first + ONE]
            c, h = base + terms[first + TWO, 0] + q * terms[first + TWO, 1], factors[first + TWO]
            d, k = base + terms[first + THREE, 0] + q * terms[first + THREE, 1], factors[first + THREE]
            for i in range(n):
                out[o + i] = (f * source[a + i] + g * source[b + i]) + (h * source[c + i] + k * source[d + i])
            t = first + FOUR
            while t + FOUR <= last:
                a, f = base + terms[t, 0] + q * terms[t, 1], factors[t]
                b, g = base + terms[t + ONE, 0] + q * terms[t + ONE, 1], factors[t + ONE]
                c, h = base + terms[t + TWO, 0] + q * terms[t + TWO, 1], factors[t + TWO]
                d, k = base + terms[t + THREE, 0] + q * terms[t + THREE, 1], factors[t + THREE]
                for i in range(n):
                    out[o + i] += (f * source[a + i] + g * source[b + i]) + (h * source[c + i] + k * source[d + i])
                t += FOUR
            while t < last:
                a, f = base + terms[t, 0] + q * terms[t, 1], factors[t]
                for i in range(n):
                    out[o + i] += f * source[a + i]
                t += ONE
        else:  # none or three
            for i in range(n):
                out[o + i] = 0
            t = first
            while t < last:
                a, f = base + terms[t, 0] + q * terms[t, 1], factors[t]
                for i in range(n):
                    out[o + i] += f * source[a + i]
                t += ONE


add_runs = compiled(_add_runs)


def _channels_to_irreps(
    x: Floats, lines: Indices, out: Floats, frame: Indices, kinds: Indices, runs: Indices, terms: Indices,
    factors: Floats,
) -> None:  # fmt: skip
    """x̂[pixel, run] = Σ_e A⁻¹[run, e] x[pixel, e] for the pixels that ``frame`` names.

    lines: where each line begins in x, and the number of its first pixel in the output. frame: pixels in a line, first
    and last pixel, what to subtract from output pixels, steps in x from channel to channel and from pixel to pixel,
    scratch per pixel. kinds: rows (first channel, copies, dim, first run, last run). Terms point into the scratch,
    where a pixel's channels of a kind lie in the order (e, copy).
    """
    zero = np.uint64(0)
    width, step, next_pixel, size = frame[0], frame[4], frame[5], frame[6]
    scratch = np.empty(min(width, frame[2] - frame[1]) * size, dtype=x.dtype)
    p = frame[1]
    while p < frame[2]:  # a part of one line
        line, column = p // width, p % width
        pixels = min(width - column, frame[2] - p)
        x_at = lines[line, 0] + column * next_pixel
        pixel = lines[line, 1] + column - frame[3]
        for kind in range(np.uint64(len(kinds))):
            n, dim = kinds[kind, 1], kinds[kind, 2]
            start = x_at + kinds[kind, 0] * step
            if step == ONE:
                for q in range(pixels):
                    for e in range(dim):
                        a, s = start + q * next_pixel + e, q * size + e * n
                        for i in range(n):
                            scratch[s + i] = x[a + i * dim]
            else:  # along rows, because channels lie far apart
                for i in range(n):
                    for e in range(dim):
                        a, s = start + (i * dim + e) * step, e * n + i
                        for q in range(pixels):
                            scratch[s + q * size] = x[a + q * next_pixel]
            for r in range(kinds[kind, 3], kinds[kind, 4]):
                at, last = runs[r, 0] + pixel * runs[r, 1], runs[r, 4]
                add_runs(out, at, runs[r, 1], n, pixels, scratch, zero, terms, factors, runs[r, 3], last)
        p += pixels


def _spectrum_of_tile(
    irreps: Floats, lines: Indices, out: Floats, frame: Indices, runs: Indices, terms: Indices, factors: Floats
) -> None:
    """out[run, pixel] = Σ_t factor_t · irreps[pixel + offset_t].

    lines: where the first patch of each line begins. frame: pixels in a line, first and last pixel, channels.
    """
    width, channels = frame[0], frame[3]
    q, end = np.uint64(0), frame[2] - frame[1]
    while q < end:
        line, column = (frame[1] + q) // width, (frame[1] + q) % width
        pixels = min(width - column, end - q)
        base = lines[line] + column * channels
        for r in range(np.uint64(len(runs))):
            at, n, last = runs[r, 0] + q * runs[r, 1], runs[r, 2], runs[r, 4]
            add_runs(out, at, runs[r, 1], n, pixels, irreps, base, terms, factors, runs[r, 3], last)
        q += pixels


def _irreps_to_channels(
    irreps: Floats, y: Floats, lines: Indices, bias: Floats, frame: Indices, kinds: Indices, runs: Indices,
    terms: Indices, factors: Floats,
) -> None:  # fmt: skip
    """y[pixel, e] = Σ_r A[e, r] ŷ[r, pixel] + bias[e]: the inverse of the first kernel, from a tile.

    lines: where each line begins in y. frame: pixels in a line, first and last pixel, steps in y from channel to
    channel and from pixel to pixel, scratch per pixel. runs: one per component e of each kind, (0, 0, n, first term,
    last term).
    """
    width, step, next_pixel, size = frame[0], frame[3], frame[4], frame[5]
    scratch = np.empty(min(width, frame[2] - frame[1]) * size, dtype=y.dtype)
    moved = np.empty_like(terms)
    q, end = np.uint64(0), frame[2] - frame[1]
    while q < end:
        line, column = (frame[1] + q) // width, (frame[1] + q) % width
        pixels = min(width - column, end - q)
        y_at = lines[line] + column * next_pixel
        for t in range(np.uint64(len(terms))):
            moved[t, 0], moved[t, 1] = terms[t, 0] + q * terms[t, 1], terms[t, 1]
        for kind in range(np.uint64(len(kinds))):
            n, dim = kinds[kind, 1], kinds[kind, 2]
            for e in range(dim):
                r = kinds[kind, 3] + e
                first, last = runs[r, 3], runs[r, 4]
                add_runs(scratch, e * n, size, n, pixels, irreps, np.uint64(0), moved, factors, first, last)
            start, channel = y_at + kinds[kind, 0] * step, kinds[kind, 0]
            if step == ONE:
                for k in range(pixels):
                    for e in range(dim):
                        a, s, c = start + k * next_pixel + e, k * size + e * n, channel + e
                        for i in range(n):
                            y[a + i * dim] = scratch[s + i] + bias[c + i * dim]
            else:
                for i in range(n):
                    for e in range(dim):
                        a, s, shift = start + (i * dim + e) * step, e * n + i, bias[channel + i * dim + e]
                        for k in range(pixels):
                            y[a + k * next_pixel] = scratch[s + k * size] + shift
        q += pixels


channels_to_irreps = compiled(_channels_to_irreps)
spectrum_of_tile = compiled(_spectrum_of_tile)
irreps_to_channels = compiled(_irreps_to_channels)
