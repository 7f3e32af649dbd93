"""The tables that the compiled kernels need for a direction: runs of copies, and the terms that add up to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steerable.nn.backends.fourier.block_layout import NEGLIGIBLE, BlockLayout
from steerable.nn.backends.fourier.cpu.memory import Indices, indices
from steerable.nn.backends.fourier.irrep_blocks import Direction, IrrepBlock
from steerable.nn.backends.fourier.spectrum import IsotypicBasis

__all__ = ["FibreTable", "IntoBlocksTable", "InverseTable", "SpectrumTable"]

FloatArray = NDArray[np.float64]


@dataclass
class _Runs:
    """Runs of copies in a block layout, whose places are known once the size of a tile is.

    Attributes:
        places: (block, component, position in a row of the block) of each run.
        sizes: (length, first term, last term) of each run.
        terms: where each term reads, as its table wants it.
        factors: of each term.
    """

    places: list[tuple[int, int, int]] = field(default_factory=list)
    sizes: list[tuple[int, int, int]] = field(default_factory=list)
    terms: list[tuple[int, ...]] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)

    def add(self, place: tuple[int, int, int], length: int, terms: Sequence[tuple[tuple[int, ...], float]]) -> None:
        first = len(self.terms)
        self.terms += [where for where, _ in terms]
        self.factors += [factor for _, factor in terms]
        self.places.append(place)
        self.sizes.append((length, first, len(self.terms)))

    def in_tile(self, layout: BlockLayout, pixels: int) -> Indices:
        """(runs, 5): begin, step from pixel to pixel, length, first and last term."""
        rows = []
        for (block, component, position), size in zip(self.places, self.sizes, strict=True):
            begin, step = layout.place(block, component, pixels)
            rows.append((begin + position, step, *size))
        return indices(np.array(rows, dtype=np.int64).reshape(-1, 5))


class FibreTable:
    """From channels to irreps: x̂ = A⁻¹x for each capsule, in the order (kind, component, copy).

    Attributes:
        kinds: rows (first channel, copies, dim, first run, last run).
        starts: where the copies of each component of each kind begin.
        scratch: how many numbers the largest kind has at one pixel.
    """

    def __init__(self, direction: Direction) -> None:
        runs: list[tuple[int, ...]] = []
        kinds, channel = [], 0
        offsets: list[int] = []
        factors: list[float] = []
        self.starts: list[list[int]] = []
        self.channels, self.scratch = direction.in_channels, _widest(direction.in_bases, direction.in_copies)
        for basis, n in zip(direction.in_bases, direction.in_copies, strict=True):
            dim = len(basis.fibre)
            kinds.append((channel, n, dim, len(runs), len(runs) + dim))
            self.starts.append([channel + r * n for r in range(dim)])
            for row, start in zip(basis.fibre, self.starts[-1], strict=True):
                used = np.flatnonzero(np.abs(row) > NEGLIGIBLE)
                runs.append((start, self.channels, n, len(factors), len(factors) + len(used)))
                offsets += [int(e) * n for e in used]
                factors += row[used].tolist()
            channel += dim * n
        self.kinds, self.runs, self.factors = indices(kinds), indices(runs), np.array(factors)
        self.terms = indices([(offset, self.scratch) for offset in offsets])


class SpectrumTable:
    """From irreps at each pixel to the spectrum of its patch; terms are (place of a tap on each axis, channel)."""

    def __init__(self, direction: Direction, starts: Sequence[Sequence[int]]) -> None:
        self.layout = BlockLayout(direction.blocks, [block.m for block in direction.blocks])
        self.runs = _Runs()
        places = list(np.ndindex(*direction.kernel_size))
        for number, block in enumerate(direction.blocks):
            position = 0
            for basis, n, start in zip(direction.in_bases, direction.in_copies, starts, strict=True):
                first = basis.first_row(block.irrep)
                for mu in range(basis.multiplicity[block.irrep]):
                    for c in range(block.dim):
                        coupling = basis.coupling[first + mu * block.dim + c]
                        terms = [
                            ((*places[t], start[i]), float(coupling[t, i]))
                            for t, i in np.argwhere(np.abs(coupling) > NEGLIGIBLE)
                        ]
                        self.runs.add((number, c, position), n, terms)
                    position += n
        self.terms, self.factors = np.array(self.runs.terms, dtype=np.int64), np.array(self.runs.factors)


class InverseTable:
    """From the products back to channels: y = Aŷ for each capsule. Each term is a run of its own in the tile."""

    def __init__(self, direction: Direction) -> None:
        self.layout = BlockLayout(direction.blocks, [block.n for block in direction.blocks])
        self.sources = _Runs()
        runs: list[tuple[int, ...]] = []
        kinds, channel = [], 0
        factors: list[float] = []
        self.scratch = _widest(direction.out_bases, direction.out_copies)
        for kind, (basis, n) in enumerate(zip(direction.out_bases, direction.out_copies, strict=True)):
            dim = len(basis.fibre_back)
            kinds.append((channel, n, dim, len(runs), len(runs) + dim))
            columns = list(_output_columns(direction, kind))
            for e in range(dim):
                used = [(place, basis.fibre_back[e, row]) for place, row in columns]
                used = [(place, float(factor)) for place, factor in used if abs(factor) > NEGLIGIBLE]
                runs.append((0, 0, n, len(factors), len(factors) + len(used)))
                for place, factor in used:
                    self.sources.add(place, n, ())
                    factors.append(factor)
            channel += dim * n
        self.kinds, self.runs, self.factors = indices(kinds), indices(runs), np.array(factors)


class IntoBlocksTable:
    """From channels straight to a block layout, each capsule by itself: its rows (k, μ, c) = matrix · channels.

    Args:
        blocks: of a direction.
        columns: the length of each block's rows.
        matrices: per kind (rows, D), the rows in the order of the blocks.
        multiplicities: per kind and block, how many rows (μ, ·) there are.
        copies: per kind.
    """

    def __init__(
        self,
        blocks: Sequence[IrrepBlock],
        columns: Sequence[int],
        matrices: Sequence[FloatArray],
        multiplicities: Sequence[Sequence[int]],
        copies: Sequence[int],
    ) -> None:
        self.layout = BlockLayout(blocks, columns)
        self.runs = _Runs()
        self.scratch = max(n * matrix.shape[1] for matrix, n in zip(matrices, copies, strict=True))
        kinds, channel, positions = [], 0, [0] * len(blocks)
        for matrix, multiplicity, n in zip(matrices, multiplicities, copies, strict=True):
            first, row = len(self.runs.places), 0
            for number, block in enumerate(blocks):
                for _ in range(multiplicity[number]):
                    for c in range(block.dim):
                        used = np.flatnonzero(np.abs(matrix[row]) > NEGLIGIBLE)
                        terms = [((int(e) * n, self.scratch), float(matrix[row, e])) for e in used]
                        self.runs.add((number, c, positions[number]), n, terms)
                        row += 1
                    positions[number] += n
            kinds.append((channel, n, matrix.shape[1], first, len(self.runs.places)))
            channel += matrix.shape[1] * n
        self.kinds, self.terms = indices(kinds), indices(self.runs.terms)
        self.factors = np.array(self.runs.factors)

    @staticmethod
    def of_gradient(direction: Direction) -> IntoBlocksTable:
        """From the gradient of output channels to that of the products: Aᵀ."""
        return IntoBlocksTable(
            direction.blocks,
            [block.n for block in direction.blocks],
            [direction.used_columns(kind).T for kind in range(len(direction.out_copies))],
            [[basis.multiplicity[block.irrep] for block in direction.blocks] for basis in direction.out_bases],
            direction.out_copies,
        )

    @staticmethod
    def of_single_tap(direction: Direction) -> IntoBlocksTable:
        """From input channels to the spectrum of a patch of one tap: A⁻¹."""
        matrices = []
        for basis in direction.in_bases:
            rows = [
                np.arange(basis.multiplicity[block.irrep] * block.dim) + basis.first_row(block.irrep)
                for block in direction.blocks
            ]
            matrices.append(basis.transform[np.concatenate(rows), :, 0])
        return IntoBlocksTable(
            direction.blocks,
            [block.m for block in direction.blocks],
            matrices,
            [[basis.multiplicity[block.irrep] for block in direction.blocks] for basis in direction.in_bases],
            direction.in_copies,
        )


def _output_columns(direction: Direction, kind: int) -> Iterator[tuple[tuple[int, int, int], int]]:
    """For each component of an output capsule's irreps its (block, component, position), and its column of A."""
    basis = direction.out_bases[kind]
    for number, block in enumerate(direction.blocks):
        before = direction.occurrences(direction.out_bases[:kind], direction.out_copies[:kind], block.irrep)
        for j in range(basis.multiplicity[block.irrep]):
            for c in range(block.dim):
                place = (number, c, before + j * direction.out_copies[kind])
                yield place, basis.first_row(block.irrep) + j * block.dim + c


def _widest(bases: Sequence[IsotypicBasis], copies: Sequence[int]) -> int:
    return max(n * len(basis.fibre) for basis, n in zip(bases, copies, strict=True))
