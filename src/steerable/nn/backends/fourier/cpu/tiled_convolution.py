"""The group Fourier convolution of wide layers on the CPU: tiles of pixels whose spectrum stays in cache.

    x ──A⁻¹──▶ x̂ ──stencils, Clebsch–Gordan──▶ spectrum of a tile ──W_k──▶ ŷ of the tile ──A──▶ y

The spectrum is taps times as large as x and is never written out as a whole; gradients compute it anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from types import ModuleType

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.nn.backends.fourier.cpu.convolution import ConvolutionOnCpu, Work
from steerable.nn.backends.fourier.cpu.memory import Floats, Indices, Size, flat, indices
from steerable.nn.backends.fourier.cpu.run_tables import (
    FibreTable,
    IntoBlocksTable,
    InverseTable,
    SpectrumTable,
)
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlockPlan
from steerable.nn.backends.fourier.products import block_pairs, equal_blocks, matrix_shape, stacked_matrices
from steerable.nn.threads import on_all_threads

__all__ = ["TiledConvolution"]


# Measured: products of fewer rows are slower, larger tiles leave the cache of a core; see benchmarks/NOTES.md.
TILE_BYTES = 3 << 19
TILE_PIXELS = 96


class TiledConvolution(ConvolutionOnCpu):
    """One direction of a layer, computed in tiles; see the module's docstring."""

    def __init__(self, plan: IrrepBlockPlan) -> None:
        super().__init__(plan)
        self.fibre = FibreTable(self.direction)
        self.spectrum = SpectrumTable(self.direction, self.fibre.starts)
        self.inverse = InverseTable(self.direction)
        self.gradient = IntoBlocksTable.of_gradient(self.direction)
        self.single_tap = IntoBlocksTable.of_single_tap(self.direction) if self.direction.taps == 1 else None
        self.groups = list(equal_blocks(self.direction.blocks))
        into = self.single_tap or self.spectrum
        # The same few sizes of tiles come again and again.
        self._spectrum_runs = lru_cache(maxsize=32)(lambda n: into.runs.in_tile(into.layout, n))
        self._gradient_runs = lru_cache(maxsize=32)(lambda n: self.gradient.runs.in_tile(self.gradient.layout, n))
        self._sources = lru_cache(maxsize=32)(
            lambda n: self.inverse.sources.in_tile(self.inverse.layout, n)[:, :2].copy()
        )

    @cached_property
    def kernels(self) -> ModuleType:
        from steerable.nn.backends.fourier.cpu import numba_kernels

        return numba_kernels

    def carry_out(self, work: Work) -> None:
        x, padding, dilation, blocks, bias, outer, y, total = work
        matrices = [] if blocks is None else stacked_matrices(self.plan, self.groups, blocks)
        spectra = self._spectra(x, padding, dilation)
        write = None if y is None else self._writer(y, bias)
        read = None if outer is None else self._reader(outer, self.gradient, _pixel_steps(outer.shape[2:]))
        parts: dict[int, list[Tensor]] = {}  # of each worker, added up in a fixed order

        def tiles(worker: int, workers: int) -> None:
            sums = parts[worker] = [
                torch.zeros(stop - start, *matrix_shape(self.direction.blocks[start]), dtype=x.dtype)
                for start, stop in (self.groups if outer is not None else [])
            ]
            for start, stop, spectrum in spectra(worker, workers):
                product = torch.empty((stop - start) * self.inverse.layout.width, dtype=x.dtype)
                pairs = list(block_pairs(self.direction.blocks, self.groups, spectrum, product, stop - start))
                if read is not None:
                    read(start, stop, start, product.numpy(), self._gradient_runs(stop - start))
                    for (at, by), sum_ in zip(pairs, sums, strict=True):
                        sum_.baddbmm_(by.transpose(1, 2), at)
                if write is not None:
                    for (at, to), matrix in zip(pairs, matrices, strict=True):
                        torch.bmm(at, matrix, out=to)
                    write(product, start, stop)

        on_all_threads(tiles)
        if total is not None:
            for number, (start, stop) in enumerate(self.groups):
                whole = sum((parts[worker][number] for worker in sorted(parts)[1:]), start=parts[0][number])
                for block, one in zip(self.direction.blocks[start:stop], whole, strict=True):
                    one = one.T if self.plan.adjoint else one
                    total[block.start : block.start + block.size] = self.plan.from_matrix(one, block)

    def _writer(self, y: Tensor, bias: Tensor | None) -> Callable[[Tensor, int, int], None]:
        """Takes the products of a tile of pixels back to channels."""
        output, lines = flat(y), _lines((len(y), *y.shape[2:]), (y.stride(0), *y.stride()[2:]))
        terms, table = (y.new_zeros(y.shape[1]) if bias is None else bias).numpy(), self.inverse
        factors = table.factors.astype(output.dtype)

        def write(product: Tensor, start: int, stop: int) -> None:
            frame, values = (
                indices([y.shape[-1], start, stop, y.stride(1), y.stride(-1), table.scratch]),
                product.numpy(),
            )
            self.kernels.irreps_to_channels(
                values, output, lines, terms, frame, table.kinds, table.runs, self._sources(stop - start), factors
            )

        return write

    # ---------------------------------------------------------------- spectra

    def _spectra(
        self, x: Tensor, padding: Size, dilation: Size
    ) -> Callable[[int, int], Iterator[tuple[int, int, Tensor]]]:
        """The tiles of one worker: first and last pixel, and the spectrum, in a buffer that serves all of them."""
        size = self.direction.output_size(x.shape, padding, dilation)
        pixels, layout = len(x) * math.prod(size), self.spectrum.layout
        if self.single_tap is not None:
            sides = [side for p in reversed(padding) for side in (p, p)]
            fill = self._single_taps(F.pad(x, sides) if any(padding) else x, self.single_tap)
        else:
            fill = self._stencils(x, padding, dilation)

        def tiles(worker: int, workers: int) -> Iterator[tuple[int, int, Tensor]]:
            largest = max(TILE_PIXELS, TILE_BYTES // (layout.width * x.element_size()))
            rounds = -(-pixels // (largest * workers))
            step = -(-pixels // (rounds * workers))  # equal work for all
            buffer = torch.empty(step * layout.width, dtype=x.dtype)
            for start in range(worker * step, pixels, workers * step):
                stop = min(start + step, pixels)
                fill(start, stop, buffer.numpy())
                yield start, stop, buffer

        return tiles

    def _single_taps(self, x: Tensor, table: IntoBlocksTable) -> Callable[[int, int, Floats], None]:
        """Fills a tile with the spectrum of single pixels, straight from the channels."""
        read = self._reader(x, table, _pixel_steps(x.shape[2:]))

        def fill(start: int, stop: int, buffer: Floats) -> None:
            read(start, stop, start, buffer, self._spectrum_runs(stop - start))

        return fill

    def _stencils(self, x: Tensor, padding: Size, dilation: Size) -> Callable[[int, int, Floats], None]:
        """Fills a tile with the spectrum of its patches, from the irreps of the whole input."""
        size = self.direction.output_size(x.shape, padding, dilation)
        irreps, channels = self._irreps(x, padding), self.fibre.channels
        steps = [channels * n for n in _pixel_steps([n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)])]
        lines = _lines((len(x), *size), steps)
        offsets = self.spectrum.terms @ np.array([*(d * n for d, n in zip(dilation, steps[1:], strict=True)), 1])
        terms = indices(np.stack([offsets, np.full_like(offsets, channels)], axis=1))
        factors = self.spectrum.factors.astype(irreps.dtype)

        def fill(start: int, stop: int, buffer: Floats) -> None:
            frame = indices([size[-1], start, stop, channels])
            runs = self._spectrum_runs(stop - start)
            self.kernels.spectrum_of_tile(irreps, lines, buffer, frame, runs, terms, factors)

        return fill

    def _irreps(self, x: Tensor, padding: Size) -> Floats:
        """x̂ with its border of zeros, flat in the order (batch, *grid, kind, component, copy)."""
        frame = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
        steps = _pixel_steps(frame)
        corner = sum(p * n for p, n in zip(padding, steps[1:], strict=True))
        count = len(x) * steps[0] * self.fibre.channels
        irreps: Floats = (torch.zeros if corner else torch.empty)(count, dtype=x.dtype).numpy()
        read, pixels = self._reader(x, self.fibre, steps, corner), len(x) * math.prod(x.shape[2:])

        def part(worker: int, workers: int) -> None:
            first, last = pixels * worker // workers, pixels * (worker + 1) // workers
            read(first, last, 0, irreps, self.fibre.runs)

        on_all_threads(part)
        return irreps

    def _reader(
        self, x: Tensor, table: FibreTable | IntoBlocksTable, steps: Sequence[int], corner: int = 0
    ) -> Callable[[int, int, int, Floats, Indices], None]:
        """Writes the irreps of a field's pixels (first, last, what to subtract from their numbers) into an array.

        ``steps``, from image to image and along each axis, and ``corner``, the first, number the pixels of the output.
        """
        values, shape, strides = flat(x), (len(x), *x.shape[2:]), (x.stride(0), *x.stride()[2:])
        lines = np.stack([_lines(shape, strides), _lines(shape, steps, corner)], axis=1)
        factors = table.factors.astype(values.dtype)

        def read(first: int, last: int, before: int, out: Floats, runs: Indices) -> None:
            frame = indices([shape[-1], first, last, before, x.stride(1), strides[-1], table.scratch])
            self.kernels.channels_to_irreps(values, lines, out, frame, table.kinds, runs, table.terms, factors)

        return read


def _pixel_steps(grid: Sequence[int]) -> list[int]:
    """The distance in pixels from image to image and along each axis."""
    return [math.prod(grid[axis:]) for axis in range(len(grid) + 1)]


def _lines(shape: Sequence[int], steps: Sequence[int], first: int = 0) -> Indices:
    """The beginning of each line of (batch, *grid); lines run along the last axis."""
    places = np.array(first)
    for n, step in zip(shape[:-1], steps[:-1], strict=True):
        places = np.add.outer(places, step * np.arange(n))
    return indices(places.ravel())
