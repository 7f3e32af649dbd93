"""What the passes of the Fourier convolution over a whole batch need to know of a direction, for kernels on a GPU.

A *row* is the run of one irrep component over all copies of a capsule kind, at every pixel: row r of pixel p begins at
begin[r] + p · step[r]. A *slice* is a stretch of copies, the share of one program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from steerable.nn.backends.fourier.block_layout import NEGLIGIBLE, BlockLayout
from steerable.nn.backends.fourier.irrep_blocks import Direction

__all__ = [
    "VECTORS_PER_PROGRAM",
    "CouplingTables",
    "RowTables",
    "common_alignment",
    "coupling_tables",
    "irrep_rows",
    "product_rows",
    "single_tap_rows",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Places = list[tuple[int, int]]
Pattern = tuple[tuple[float, ...], ...]
_WIDTHS = (16, 32, 64)  # copies in a slice
_LONGEST_VECTOR = 8  # copies; in half precision as many bytes as a thread reads at a time
_NARROWEST_SLICE = 16  # where there are as many copies: shorter runs reach memory in pieces
VECTORS_PER_PROGRAM = 128  # of each input, one for each thread of four warps


@dataclass(frozen=True)
class RowTables:
    """Between the channels of a field, (copy, component), and rows: row = matrix · capsule, and the transpose.

    Attributes:
        slices: (slices, 6): first channel, dim, copies, first row, last row, first copy.
        rows: (rows, 2): begin, step.
        matrix: (rows, components), padded with zeros.
        width: the most copies in a slice.
        dims: the dimensions that occur, each with the next power of two.
        channel_align, row_align: what all addresses of channels and of rows are multiples of.
    """

    slices: Integers
    rows: Integers
    matrix: Floats
    width: int
    dims: tuple[tuple[int, int], ...]
    channel_align: int
    row_align: int


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


def irrep_rows(direction: Direction) -> RowTables:
    """x → x̂ = A⁻¹x, with x̂ of each pixel in the order (kind, component, copy)."""
    places, channel = [], 0
    for basis, n in zip(direction.in_bases, direction.in_copies, strict=True):
        places.append([(channel + r * n, direction.in_channels) for r in range(len(basis.fibre))])
        channel += n * len(basis.fibre)
    return _row_tables([basis.fibre for basis in direction.in_bases], direction.in_copies, places)


def single_tap_rows(direction: Direction, pixels: int) -> RowTables:
    """x → the spectrum of patches of one tap."""
    layout = BlockLayout(direction.blocks, [block.m for block in direction.blocks])
    matrices, places, before = [], [], [0] * len(direction.blocks)
    for basis, n in zip(direction.in_bases, direction.in_copies, strict=True):
        kind: Places = []
        rows: list[int] = []
        for number, block in enumerate(direction.blocks):
            for _ in range(basis.multiplicity[block.irrep]):
                kind += [_shifted(layout.place(number, c, pixels), before[number]) for c in range(block.dim)]
                before[number] += n
            first = basis.first_row(block.irrep)
            rows += range(first, first + basis.multiplicity[block.irrep] * block.dim)
        matrices.append(basis.transform[np.array(rows, dtype=np.int64), :, 0])
        places.append(kind)
    return _row_tables(matrices, direction.in_copies, places)


def product_rows(direction: Direction, pixels: int) -> RowTables:
    """A of the output: from the products to channels, y = Aŷ, and for gradients back, Aᵀ."""
    layout = BlockLayout(direction.blocks, [block.n for block in direction.blocks])
    matrices, before = [], [0] * len(direction.blocks)
    places: list[Places] = []
    for kind, (basis, n) in enumerate(zip(direction.out_bases, direction.out_copies, strict=True)):
        matrices.append(direction.used_columns(kind).T)
        places.append([])
        for number, block in enumerate(direction.blocks):
            for _ in range(basis.multiplicity[block.irrep]):
                places[-1] += [_shifted(layout.place(number, c, pixels), before[number]) for c in range(block.dim)]
                before[number] += n
    return _row_tables(matrices, direction.out_copies, places)


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
                    place = _shifted(layout.place(number, c, pixels), before[number])
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
        for first, copies in _stretches(n, copies_in_slice):
            slices.append((copies, len(rows), begin + first, n, number))
            rows += [_shifted(place, first) for place in places]
    return CouplingTables(
        np.array(slices, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        np.asarray(taps, dtype=np.int64),
        tuple(patterns),
        copies_in_slice,
        vector,
    )


def _row_tables(
    matrices: Sequence[Floats], copies: Sequence[int], places: Sequence[Sequence[tuple[int, int]]]
) -> RowTables:
    """For each kind its matrix (rows, D), its copies, and the place of each row."""
    width, dims = _slice_width(copies), sorted({matrix.shape[1] for matrix in matrices})
    columns = _power_of_two(dims[-1])
    slices, padded, channel = [], [np.zeros((0, columns))], 0
    rows: Places = []
    for matrix, n, kind in zip(matrices, copies, places, strict=True):
        components = matrix.shape[1]
        for first, share in _stretches(n, width):
            begin = channel + first * components
            slices.append((begin, components, share, len(rows), len(rows) + len(matrix), first))
        rows += kind
        padded.append(np.pad(matrix, ((0, 0), (0, columns - components))))
        channel += n * components
    return RowTables(
        np.array(slices, dtype=np.int64),
        np.array(rows, dtype=np.int64).reshape(-1, 2),
        np.concatenate(padded),
        width,
        tuple((dim, _power_of_two(dim)) for dim in dims),
        common_alignment([channel, *(row[0] for row in slices)]),
        common_alignment(
            [*(value for row in rows for value in row), *(value for row in slices for value in (row[2], row[5]))]
        ),
    )


def _stretches(copies: int, width: int) -> Iterator[tuple[int, int]]:
    """(first, how many) of each stretch of copies."""
    for first in range(0, copies, width):
        yield first, min(width, copies - first)


def _slice_width(copies: Sequence[int]) -> int:
    """The widest slice whose idle lanes, those beyond a kind's copies, cost less than longer runs gain."""
    waste = {width: sum(-n % width for n in copies) / sum(copies) for width in _WIDTHS}
    return max(width for width in _WIDTHS if waste[width] <= min(waste.values()) + 0.4)


def _widest_slice(copies: Sequence[int], vector: int) -> int:
    """The widest slice that wastes little, where kinds are cut into equal parts.

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


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def common_alignment(addresses: Sequence[int]) -> int:
    """The largest power of two, up to 16, that divides all of them."""
    common = math.gcd(16, *addresses)
    return common & -common


def _shifted(place: tuple[int, int], by: int) -> tuple[int, int]:
    return place[0] + by, place[1]


def _clean(coupling: Floats) -> tuple[float, ...]:
    """Rounded, so that equal patterns are found to be equal."""
    return tuple(round(float(v), 15) if abs(v) > NEGLIGIBLE else 0.0 for v in coupling.ravel())
