"""The tables that the compiled kernels need for a direction: rows of numbers, and the terms that add up to them.

A *row* holds one component of one irrep in one copy of a capsule: a plane of x̂, or the pixels of a tile in a spectrum
or a product. A table names the row of a kind's first copy, and how many rows further the next copy is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from steerable.nn.backends.fourier.block_layout import NEGLIGIBLE
from steerable.nn.backends.fourier.cpu.memory import indices
from steerable.nn.backends.fourier.irrep_blocks import Direction, IrrepBlock
from steerable.nn.backends.fourier.spectrum import IsotypicBasis

__all__ = ["BlockTable", "ProductTable", "RowTable", "first_rows", "irrep_table"]

FloatArray = NDArray[np.float64]
Place = tuple[int, int]


class RowTable:
    """From channels to rows, row = matrix · capsule for each copy of each kind.

    Args:
        matrices: per kind (rows, D).
        copies: per kind.
        places: per kind and row, (row of the first copy, step to the next).

    Attributes:
        kinds: rows (first channel, copies, dim, first row, last row).
        rows: rows (place, step, first term, last term); a term is a channel of the capsule.
        widest: the largest D.
    """

    def __init__(
        self, matrices: Sequence[FloatArray], copies: Sequence[int], places: Sequence[Sequence[Place]]
    ) -> None:
        kinds: list[tuple[int, ...]] = []
        rows: list[tuple[int, ...]] = []
        terms: list[int] = []
        factors: list[float] = []
        channel = 0
        for matrix, n, of_kind in zip(matrices, copies, places, strict=True):
            kinds.append((channel, n, matrix.shape[1], len(rows), len(rows) + len(matrix)))
            for row, place in zip(matrix, of_kind, strict=True):
                used = np.flatnonzero(np.abs(row) > NEGLIGIBLE)
                rows.append((*place, len(terms), len(terms) + len(used)))
                terms += used.tolist()
                factors += row[used].tolist()
            channel += n * matrix.shape[1]
        self.kinds, self.rows = indices(kinds), indices(np.array(rows, dtype=np.int64).reshape(-1, 4))
        self.terms, self.factors = indices(terms), np.array(factors)
        self.widest = max(matrix.shape[1] for matrix in matrices)


def irrep_table(direction: Direction) -> RowTable:
    """x̂ = A⁻¹x for each capsule, in the order (kind, component, copy)."""
    places, start = [], 0
    for basis, n in zip(direction.in_bases, direction.in_copies, strict=True):
        places.append([(start + r * n, 1) for r in range(len(basis.fibre))])
        start += n * len(basis.fibre)
    return RowTable([basis.fibre for basis in direction.in_bases], direction.in_copies, places)


class ProductTable:
    """Between the products of all blocks and channels: y = Aŷ for each capsule, and Aᵀ for gradients.

    Attributes:
        gradient: from the gradient of the output's channels to that of the products.
        starts: where each block begins among the rows, and their number.
        channels: rows (first term, last term), one for each component of each kind.
        terms: rows (place, step).
    """

    def __init__(self, direction: Direction) -> None:
        counts = [block.n for block in direction.blocks]
        self.starts = first_rows(direction.blocks, counts)
        matrices, places, before = [], [], [0] * len(direction.blocks)
        for kind, (basis, n) in enumerate(zip(direction.out_bases, direction.out_copies, strict=True)):
            matrices.append(direction.used_columns(kind).T)
            places.append(list(_places(direction.blocks, counts, self.starts, basis, n, before)))
        self.gradient = RowTable(matrices, direction.out_copies, places)
        self.kinds = self.gradient.kinds
        channels: list[Place] = []
        terms: list[Place] = []
        factors: list[float] = []
        for matrix, of_kind in zip(matrices, places, strict=True):
            for column in matrix.T:
                used = np.flatnonzero(np.abs(column) > NEGLIGIBLE)
                channels.append((len(terms), len(terms) + len(used)))
                terms += [of_kind[row] for row in used]
                factors += column[used].tolist()
        self.channels, self.terms = indices(channels), indices(np.array(terms, dtype=np.int64).reshape(-1, 2))
        self.factors = np.array(factors)


class BlockTable:
    """From the irreps of a slab to the spectrum of one block.

    A term is (plane of the first copy, number of a sum or difference of taps or 0, place of the tap on each axis).

    Attributes:
        kinds: rows (copies, first row, last row).
        rows: rows (place, step, first term, last term).
    """

    def __init__(self, direction: Direction, block: IrrepBlock) -> None:
        kinds: list[tuple[int, ...]] = []
        rows: list[tuple[int, ...]] = []
        terms: list[tuple[int, ...]] = []
        factors: list[float] = []
        before, plane = [0], 0
        for basis, n in zip(direction.in_bases, direction.in_copies, strict=True):
            places = list(_places([block], [block.m], [0], basis, n, before))
            first = basis.first_row(block.irrep)
            coupling, read = _in_pairs(basis.coupling[first : first + len(places)], direction.kernel_size)
            kinds.append((n, len(rows), len(rows) + len(places)))
            for place, row in zip(places, coupling, strict=True):
                used = np.argwhere(np.abs(row) > NEGLIGIBLE)
                rows.append((*place, len(terms), len(terms) + len(used)))
                terms += [(plane + i * n, read[tap][0], *taps, read[tap][1]) for *taps, tap, i in used.tolist()]
                factors += [float(row[tuple(at)]) for at in used]
            plane += n * len(basis.fibre)
        self.kinds, self.rows = indices(kinds), indices(np.array(rows, dtype=np.int64).reshape(-1, 4))
        self.terms = np.array(terms, dtype=np.int64).reshape(-1, 2 + len(direction.kernel_size))
        self.factors = np.array(factors)


def pairs_of_taps(kernel: tuple[int, ...]) -> list[tuple[int, int]]:
    """The pairs of taps along the last axis that mirror each other, to be added and subtracted."""
    return [(tap, kernel[-1] - 1 - tap) for tap in range(kernel[-1] // 2)]


def _in_pairs(coupling: FloatArray, kernel: tuple[int, ...]) -> tuple[FloatArray, list[tuple[int, int]]]:
    """(rows, taps, D) → (rows, *taps, D), and for the last axis of taps where each is read.

    That is (0, its place), or for the sums and differences of pairs their number, from 1 on, and 0.
    """
    whole = coupling.reshape(len(coupling), *kernel, coupling.shape[-1])
    pairs = pairs_of_taps(kernel)
    single = sorted(set(range(kernel[-1])).difference(*pairs))
    parts = [whole[..., single, :]]
    for a, b in pairs:
        parts += [(whole[..., [a], :] + whole[..., [b], :]) / 2, (whole[..., [a], :] - whole[..., [b], :]) / 2]
    read = [(0, tap) for tap in single] + [(number, 0) for number in range(1, 1 + 2 * len(pairs))]
    return np.concatenate(parts, axis=-2), read


def first_rows(blocks: Sequence[IrrepBlock], counts: Sequence[int]) -> list[int]:
    """The first row of each block among all rows, and their number."""
    return list(itertools.accumulate((block.dim * n for block, n in zip(blocks, counts, strict=True)), initial=0))


def _places(
    blocks: Sequence[IrrepBlock],
    counts: Sequence[int],
    starts: Sequence[int],
    basis: IsotypicBasis,
    copies: int,
    before: list[int],
) -> Iterator[Place]:
    """The place of each row (k, μ, c) of one kind; ``before`` counts the occurrences of kinds that came earlier.

    The rows of a block are (occurrence, component), or (component, occurrence) where the irrep is not of real type:
    as its matrix takes them.
    """
    for number, (block, count) in enumerate(zip(blocks, counts, strict=True)):
        for _ in range(basis.multiplicity[block.irrep]):
            for c in range(block.dim):
                if len(block.algebra) == 1:
                    yield starts[number] + before[number] * block.dim + c, block.dim
                else:
                    yield starts[number] + c * count + before[number], 1
            before[number] += copies
