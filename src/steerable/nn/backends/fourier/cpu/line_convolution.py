"""The group Fourier convolution on the CPU: tiles of pixels whose spectrum stays in cache, one product per irrep.

    x ──A⁻¹──▶ x̂ ──stencils, Clebsch–Gordan──▶ spectrum of a tile ──W_k──▶ ŷ of the tile ──A──▶ y

The spectrum is taps times as large as x. There is never more of it than one irrep's in one tile, and of x̂ never more
than one slab for each thread; gradients compute them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from steerable.nn.backends.fourier.cpu.convolution import ConvolutionOnCpu, Work
from steerable.nn.backends.fourier.cpu.line_tables import (
    BlockTable,
    ProductTable,
    RowTable,
    irrep_table,
    pairs_of_taps,
)
from steerable.nn.backends.fourier.cpu.memory import Floats, Indices, flat, indices
from steerable.nn.backends.fourier.cpu.slabs import Grid, Slab
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlock, IrrepBlockPlan
from steerable.nn.threads import on_all_threads

__all__ = ["LineConvolution"]

# Measured: products of fewer pixels are slower, larger tiles leave the cache of a core; see benchmarks/NOTES.md.
TILE_BYTES = 1 << 20
TILE_PIXELS = 128


class LineConvolution(ConvolutionOnCpu):
    """One direction of a layer, computed in tiles; see the module's docstring."""

    def __init__(self, plan: IrrepBlockPlan) -> None:
        super().__init__(plan)
        self.irreps, self.products = irrep_table(self.direction), ProductTable(self.direction)
        self.spectra = [BlockTable(self.direction, block) for block in self.direction.blocks]
        self.pairs = pairs_of_taps(self.direction.kernel_size)
        self.widest = max((block.dim * block.m for block in self.direction.blocks), default=0)

    @cached_property
    def kernels(self) -> ModuleType:
        from steerable.nn.backends.fourier.cpu import line_kernels

        return line_kernels

    def carry_out(self, work: Work) -> None:
        x, padding, dilation, blocks, bias, outer, y, total = work
        grid = Grid(len(x), tuple(x.shape[2:]), self.direction.kernel_size, padding, dilation)
        matrices = [] if blocks is None else [self._matrix(blocks, block) for block in self.direction.blocks]
        parts: dict[int, list[Tensor]] = {}  # of each worker, added up in a fixed order

        def slabs(worker: int, workers: int) -> None:
            sums = parts[worker] = [
                torch.zeros(_rows(block, block.n), _rows(block, block.m), dtype=x.dtype)
                for block in (self.direction.blocks if outer is not None else [])
            ]
            numbers = max(TILE_PIXELS, TILE_BYTES // (self.widest * x.element_size()))
            planes = x.element_size() * (1 + 2 * len(self.pairs)) * self.direction.in_channels
            for slab in grid.slabs(workers, planes)[worker::workers]:
                longest = max(last - first for first, last in slab.tiles(numbers)) * slab.line
                buffers = [x.new_empty(self.products.starts[-1] * longest) for _ in range(2)]
                read = None if outer is None else self._reader(outer, slab)
                write = None if y is None else self._writer(y, bias, slab)
                for first, last, spectra in self._tiles(x, slab, numbers):
                    length = (last - first) * slab.line
                    product, rows = (b[: len(b) // longest * length].view(-1, length) for b in buffers)
                    if read is not None:
                        read(rows, first, last)
                    for number, spectrum in enumerate(spectra):
                        if read is not None:
                            sums[number].addmm_(self._block(rows, number), spectrum.T)
                        if write is not None:
                            torch.mm(matrices[number], spectrum, out=self._block(product, number))
                    if write is not None:
                        write(product, first, last)

        on_all_threads(slabs)
        if total is not None:
            for number, block in enumerate(self.direction.blocks):
                whole = sum((parts[worker][number] for worker in sorted(parts)[1:]), start=parts[0][number])
                whole = whole.T if self.plan.adjoint else whole
                total[block.start : block.start + block.size] = self.plan.from_matrix(whole, block)

    def _matrix(self, blocks: Tensor, block: IrrepBlock) -> Tensor:
        matrix = self.plan.matrix(blocks, block)
        return matrix.T if self.plan.adjoint else matrix

    def _block(self, rows: Tensor, number: int) -> Tensor:
        """One block of a tile's rows, as its matrix takes or gives it."""
        block = self.direction.blocks[number]
        return rows[self.products.starts[number] : self.products.starts[number + 1]].view(_rows(block, block.n), -1)

    # ---------------------------------------------------------------- a slab, tile by tile

    def _tiles(self, x: Tensor, slab: Slab, numbers: int) -> Iterator[tuple[int, int, Iterator[Tensor]]]:
        """First and last line of each tile, and its spectrum block by block, in one buffer that serves all of them."""
        irreps, (plane, *steps) = self._irreps(x, slab), slab.steps
        lines, factors = slab.patches(), [table.factors.astype(irreps.dtype) for table in self.spectra]
        units = [plane, plane * self.direction.in_channels]
        units += [d * step for d, step in zip(slab.grid.dilation, steps, strict=True)]
        terms = [indices(table.terms @ units) for table in self.spectra]
        tiles = list(slab.tiles(numbers))
        longest = max(last - first for first, last in tiles) * slab.line
        buffer = x.new_empty(self.widest * longest)

        def spectra(first: int, last: int) -> Iterator[Tensor]:
            frame = indices([first, last, slab.line, plane])
            for table, block, at, by in zip(self.spectra, self.direction.blocks, terms, factors, strict=True):
                self.kernels.spectrum_of_tile(irreps, lines, buffer.numpy(), frame, table.kinds, table.rows, at, by)
                count = block.dim * block.m * (last - first) * slab.line
                yield buffer[:count].view(_rows(block, block.m), -1)

        for first, last in tiles:
            yield first, last, spectra(first, last)

    def _irreps(self, x: Tensor, slab: Slab) -> Floats:
        """x̂ of a slab with zeros around it, (channels, *grid, image), then sums and differences of its pairs."""
        plane, *steps = slab.steps
        count = self.direction.in_channels * plane
        irreps: Floats = x.new_empty((1 + 2 * len(self.pairs)) * count).numpy()
        irreps[:count] = 0
        lines = slab.lines_of_input(x.stride())
        if len(lines):
            self._read(x, slab, self.irreps)(lines, irreps, plane)
        for number, (a, b) in enumerate(self.pairs):
            a, b = (tap * slab.grid.dilation[-1] * steps[-1] for tap in (a, b))
            sums = (1 + 2 * number) * count
            self.kernels.sums_and_differences(irreps, *indices([a, b, count - b, sums, sums + count]))
        return irreps

    def _reader(self, outer: Tensor, slab: Slab) -> Callable[[Tensor, int, int], None]:
        """Takes the output's gradient in a tile, from line to line, to that of the products."""
        lines, read = slab.lines_of_output(outer.stride()), self._read(outer, slab, self.products.gradient)

        def of_tile(rows: Tensor, first: int, last: int) -> None:
            places = indices(np.arange(last - first) * slab.line)
            read(np.stack([lines[first:last], places], axis=1), rows.view(-1).numpy(), rows.shape[1])

        return of_tile

    def _read(self, x: Tensor, slab: Slab, table: RowTable) -> Callable[[Indices, Floats, int], None]:
        """Takes lines of channels to rows of this many numbers, by a table."""
        width, values = x.shape[-1], flat(x)
        terms, factors = table.terms * np.uint64(slab.count * width), table.factors.astype(values.dtype)

        def read(lines: Indices, out: Floats, length: int) -> None:
            frame = indices([slab.count, width, x.stride(0), x.stride(1), x.stride(-1), length, table.widest])
            self.kernels.channels_to_rows(values, lines, out, frame, table.kinds, table.rows, terms, factors)

        return read

    def _writer(self, y: Tensor, bias: Tensor | None, slab: Slab) -> Callable[[Tensor, int, int], None]:
        """Takes the products of a tile, from line to line, back to channels."""
        lines, table, output = slab.lines_of_output(y.stride()), self.products, flat(y)
        shift, factors = (y.new_zeros(y.shape[1]) if bias is None else bias).numpy(), table.factors.astype(output.dtype)
        steps = [slab.count, y.shape[-1], y.stride(0), y.stride(1), y.stride(-1)]

        def write(product: Tensor, first: int, last: int) -> None:
            frame, values = indices([first, last, *steps]), product.view(-1).numpy()
            self.kernels.rows_to_channels(
                values, output, lines, shift, frame, table.kinds, table.channels, table.terms, factors
            )

        return write


def _rows(block: IrrepBlock, count: int) -> int:
    """The number of rows of a matrix for this many occurrences of a block's irrep."""
    return count if len(block.algebra) == 1 else count * block.dim
