"""The tables by which a GPU takes channels to rows of irreps, and back.

A *row* is the run of one irrep component over all copies of a capsule kind, at every pixel: row r of pixel p begins at
begin[r] + p · step[r]. A *slice* is a stretch of copies, the share of one program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steerable.nn.backends.fourier.block_layout import BlockLayout
from steerable.nn.backends.fourier.irrep_blocks import Direction

__all__ = [
    "Places",
    "RowTables",
    "common_alignment",
    "irrep_rows",
    "product_rows",
    "shifted",
    "single_tap_rows",
    "stretches",
]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Places = list[tuple[int, int]]
_WIDTHS = (16, 32, 64)  # copies in a slice


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
                kind += [shifted(layout.place(number, c, pixels), before[number]) for c in range(block.dim)]
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
                places[-1] += [shifted(layout.place(number, c, pixels), before[number]) for c in range(block.dim)]
                before[number] += n
    return _row_tables(matrices, direction.out_copies, places)


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
        for first, share in stretches(n, width):
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


def stretches(copies: int, width: int) -> Iterator[tuple[int, int]]:
    """(first, how many) of each stretch of copies."""
    for first in range(0, copies, width):
        yield first, min(width, copies - first)


def _slice_width(copies: Sequence[int]) -> int:
    """The widest slice whose idle lanes, those beyond a kind's copies, cost less than longer runs gain."""
    waste = {width: sum(-n % width for n in copies) / sum(copies) for width in _WIDTHS}
    return max(width for width in _WIDTHS if waste[width] <= min(waste.values()) + 0.4)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def common_alignment(addresses: Sequence[int]) -> int:
    """The largest power of two, up to 16, that divides all of them."""
    common = math.gcd(16, *addresses)
    return common & -common


def shifted(place: tuple[int, int], by: int) -> tuple[int, int]:
    return place[0] + by, place[1]
