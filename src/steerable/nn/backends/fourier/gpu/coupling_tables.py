"""The tables by which a GPU takes irreps at each tap to the spectrum of a patch; rows and slices as in row_tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steerable.nn.backends.fourier.block_layout import NEGLIGIBLE, BlockLayout
from steerable.nn.backends.fourier.gpu.row_tables import Places, common_alignment, shifted, stretches
from steerable.nn.backends.fourier.irrep_blocks import Direction

__all__ = ["VECTORS_PER_PROGRAM", "CouplingTables", "coupling_tables"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Pattern = tuple[tuple[float, ...], ...]
_LONGEST_VECTOR = 8  # copies; in half precision as many bytes as a thread reads at a time
_NARROWEST_SLICE = 16  # where there are as many copies: shorter runs reach memory in pieces
VECTORS_PER_PROGRAM = 128  # of each input, one for each thread of four warps


@dataclass(frozen=True)
class CouplingTables:
    """From the irreps of a fibre at each tap to rows of the spectrum.

    A *pattern* is the coupling of one irrep of the fibre with the patch, (rows, taps · dim); many irreps share one.

    Attributes:
        slices: (slices, 5): copies, first row, begin of the first component, step to the next component, pattern.
        rows: (rows, 2): begin, step; those of a slice follow each other.
        taps: (taps, 2): the shift of each in pixels.
        patterns: each with its factors.
        width: the most copies in a slice.
        vector: how many copies are read and written at a time; all addresses, and ``width``, are multiples of it.
    """

    slices: Integers
    rows: Integers
    taps: Integers
    patterns: tuple[Pattern, ...]
    width: int
    vector: int

    @cached_property
    def constants(self) -> tuple[tuple[float, ...], ...]:
        """The factors of each pattern, flat."""
        return tuple(tuple(factor for row in pattern for factor in row) for pattern in self.patterns)

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(dim, rows) of each pattern."""
        return tuple((len(pattern[0]) // len(self.taps), len(pattern)) for pattern in self.patterns)

    def terms(self) -> tuple[Integers, Integers, Integers, Floats]:
        """All patterns as sparse rows: first row of each pattern, first term of each row, (tap, component), factors."""
        starts, counts, terms, factors = [0], [0], [], []
        for pattern, (dim, rows) in zip(self.patterns, self.shapes, strict=True):
            coupling = np.array(pattern)
            row, entry = np.nonzero(coupling)
            starts.append(starts[-1] + rows)
            counts += np.bincount(row, minlength=rows).tolist()
            terms.append(np.stack(np.divmod(entry, dim), 1))
            factors.append(coupling[row, entry])
        return np.array(starts), np.cumsum(counts), np.concatenate(terms), np.concatenate(factors)


def coupling_tables(
    direction: Direction, pixels: int, padding: tuple[int, int], dilation: tuple[int, int]
) -> CouplingTables:
    """Stencils and Clebsch–Gordan coefficients, x̂ → spectrum."""
    layout = BlockLayout(direction.blocks, [block.m for block in direction.blocks])
    patterns: dict[Pattern, int] = {}
    irreps: list[tuple[int, int, Places, int]] = []  # of the fibre: begin, copies, places of its rows, pattern
    before, channel = [0] * len(direction.blocks), 0
    for basis, n in zip(direction.in_bases, direction.in_copies, strict=True):
        parts: dict[tuple[int, ...], list[tuple[tuple[int, int], Floats]]] = {}
        for number, block in enumerate(direction.blocks):
            for mu in range(basis.multiplicity[block.irrep]):
                first = basis.first_row(block.irrep) + mu * block.dim
                coupling = basis.coupling[first : first + block.dim]  # (dim, taps, D)
                components = tuple(np.flatnonzero((np.abs(coupling) > NEGLIGIBLE).any((0, 1))).tolist())
                for c in range(block.dim):
                    place = shifted(layout.place(number, c, pixels), before[number])
                    parts.setdefault(components, []).append((place, coupling[c][:, components]))
                before[number] += n
        for components, found in parts.items():
            ordered = sorted((_clean(coupling), place) for place, coupling in found)  # so that irreps share a pattern
            pattern = tuple(coupling for coupling, _ in ordered)
            places = [place for _, place in ordered]
            irreps.append((channel + components[0] * n, n, places, patterns.setdefault(pattern, len(patterns))))
        channel += n * len(basis.fibre)
    height, width = direction.kernel_size
    taps = np.array([(y, x) for y in range(height) for x in range(width)]) * dilation - np.array(padding)
    vector = min(_LONGEST_VECTOR, common_alignment(direction.in_copies))  # all addresses are sums of multiples of these
    slices = []
    rows: Places = []
    copies_in_slice = _widest_slice([n for _, n, _, _ in irreps], vector)
    for begin, n, places, number in irreps:
        for first, copies in stretches(n, copies_in_slice):
            slices.append((copies, len(rows), begin + first, n, number))
            rows += [shifted(place, first) for place in places]
    return CouplingTables(
        np.array(slices, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        np.asarray(taps, dtype=np.int64),
        tuple(patterns),
        copies_in_slice,
        vector,
    )


def _widest_slice(copies: Sequence[int], vector: int) -> int:
    """The widest slice that wastes little if kinds are cut into equal parts.

    What wastes is a kind with fewer copies than the slice has room for, and a program whose last vectors belong to no
    pixel.
    """

    def work(width: int) -> float:
        idle = VECTORS_PER_PROGRAM % (width // vector)
        return sum(n + -n % width for n in copies) / sum(copies) / (1 - idle / VECTORS_PER_PROGRAM)

    equal_parts = {-(-n // (parts * vector)) * vector for n in copies for parts in range(1, n // vector + 1)}
    narrowest, room = min(_NARROWEST_SLICE, max(copies)), VECTORS_PER_PROGRAM * vector
    widths = [width for width in equal_parts if narrowest <= width <= room]
    least = min(map(work, widths))
    return max(width for width in widths if work(width) <= least + 0.1)


def _clean(coupling: Floats) -> tuple[float, ...]:
    """Rounded, so that equal patterns are found to be equal."""
    return tuple(round(float(v), 15) if abs(v) > NEGLIGIBLE else 0.0 for v in coupling.ravel())
