"""The group Fourier convolution on the CPU: tiles of pixels whose spectrum stays in cache, one product per irrep.

    x ──A⁻¹──▶ x̂ ──stencils, Clebsch–Gordan──▶ spectrum of a tile ──W_k──▶ ŷ of the tile ──A──▶ y

The spectrum is taps times as large as x and is never written out as a whole; gradients compute it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.backends.fourier.cpu.run_tables import (
    FibreTable,
    IntoBlocksTable,
    InverseTable,
    SpectrumTable,
    indices,
)
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlockPlan
from steerable.nn.backends.fourier.products import block_pairs, equal_blocks, matrix_shape, stacked_matrices
from steerable.nn.threads import on_all_threads

__all__ = ["TiledConvolution", "numba_available"]

Pair = tuple[int, int]
Floats = NDArray[np.floating]

# Measured: products of fewer rows are slower, larger tiles leave the cache of a core; see benchmarks/NOTES.md.
TILE_BYTES = 3 << 19
TILE_PIXELS = 96


@lru_cache(maxsize=1)
def numba_available() -> bool:
    """Whether numba, which compiles the kernels, is installed (``pip install 'steerable[fast]'``)."""
    return find_spec("numba") is not None


class TiledConvolution:
    """One direction of a layer, carried out in tiles; see the module's docstring."""

    def __init__(self, plan: IrrepBlockPlan) -> None:
        self.plan, self.direction = plan, plan.direction
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

    def forward(self, x: Tensor, blocks: Tensor, bias: Tensor | None, padding: Pair, dilation: Pair) -> Tensor:
        """(batch, in, h, w) → (batch, out, h', w'), in the memory format of x."""
        size = self.direction.output_size(x.shape, padding, dilation)
        last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        shape = (len(x), self.direction.out_channels, *size)
        y = torch.empty(shape, dtype=x.dtype, memory_format=torch.channels_last if last else torch.contiguous_format)
        if y.numel() == 0:
            return y
        spectra = self._spectra(x, padding, dilation)
        matrices = stacked_matrices(self.plan, self.groups, blocks)
        output, strides = _flat(y), indices(y.stride())
        terms = (bias.detach() if bias is not None else x.new_zeros(shape[1])).numpy()
        table = self.inverse
        factors = table.factors.astype(output.dtype)

        def tiles(worker: int, workers: int) -> None:
            for start, stop, spectrum in spectra(worker, workers):
                product = torch.empty((stop - start) * table.layout.width, dtype=x.dtype)
                for (at, to), matrix in zip(self._pairs(spectrum, product, stop - start), matrices, strict=True):
                    torch.bmm(at, matrix, out=to)
                frame = indices([*size, start, stop, table.scratch])
                sources = self._sources(stop - start)
                self.kernels.irreps_to_channels(
                    product.numpy(), output, strides, terms, frame, table.kinds, table.runs, sources, factors
                )

        on_all_threads(tiles)
        return y

    def block_gradient(self, x: Tensor, gradient: Tensor, padding: Pair, dilation: Pair) -> Tensor:
        """(parameters,): the gradient of all blocks, from the input and the gradient of the output."""
        total = x.new_zeros(self.plan.parameters)
        if gradient.numel() == 0:
            return total
        size = self.direction.output_size(x.shape, padding, dilation)
        spectra = self._spectra(x, padding, dilation)
        outer, strides = _flat(gradient), indices(gradient.stride())
        table = self.gradient
        factors = table.factors.astype(outer.dtype)
        parts: dict[int, list[Tensor]] = {}  # of each worker, added up in a fixed order

        def tiles(worker: int, workers: int) -> None:
            sums = parts[worker] = [
                torch.zeros(stop - start, *matrix_shape(self.direction.blocks[start]), dtype=x.dtype)
                for start, stop in self.groups
            ]
            for start, stop, spectrum in spectra(worker, workers):
                product = torch.empty((stop - start) * table.layout.width, dtype=x.dtype)
                frame = indices([*size, *size, 0, 0, start, stop, start, table.scratch])
                runs = self._gradient_runs(stop - start)
                self.kernels.channels_to_irreps(
                    outer, strides, product.numpy(), frame, table.kinds, runs, table.terms, factors
                )
                for (at, by), sum_ in zip(self._pairs(spectrum, product, stop - start), sums, strict=True):
                    sum_.baddbmm_(by.transpose(1, 2), at)

        on_all_threads(tiles)
        for number, (start, stop) in enumerate(self.groups):
            whole = sum((parts[worker][number] for worker in sorted(parts)[1:]), start=parts[0][number])
            for block, one in zip(self.direction.blocks[start:stop], whole, strict=True):
                one = one.T if self.plan.adjoint else one
                total[block.start : block.start + block.size] = self.plan.from_matrix(one, block)
        return total

    def _pairs(self, spectrum: Tensor, product: Tensor, pixels: int) -> Iterator[tuple[Tensor, Tensor]]:
        return block_pairs(self.direction.blocks, self.groups, spectrum, product, pixels)

    # ---------------------------------------------------------------- spectra

    def _spectra(
        self, x: Tensor, padding: Pair, dilation: Pair
    ) -> Callable[[int, int], Iterator[tuple[int, int, Tensor]]]:
        """The tiles of one worker: first and last pixel, and the spectrum, in a buffer that serves all of them."""
        size = self.direction.output_size(x.shape, padding, dilation)
        pixels, layout = len(x) * size[0] * size[1], self.spectrum.layout
        if self.single_tap is not None:
            top, left = padding
            fill = self._single_taps(F.pad(x, (left, left, top, top)) if any(padding) else x, self.single_tap)
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
        values, strides, size = _flat(x), indices(x.stride()), x.shape[2:]
        factors = table.factors.astype(values.dtype)

        def fill(start: int, stop: int, buffer: Floats) -> None:
            place = indices([*size, *size, 0, 0, start, stop, start, table.scratch])
            runs = self._spectrum_runs(stop - start)
            self.kernels.channels_to_irreps(values, strides, buffer, place, table.kinds, runs, table.terms, factors)

        return fill

    def _stencils(self, x: Tensor, padding: Pair, dilation: Pair) -> Callable[[int, int, Floats], None]:
        """Fills a tile with the spectrum of its patches, from the irreps of the whole input."""
        size = self.direction.output_size(x.shape, padding, dilation)
        irreps, frame = self._irreps(x, padding)
        channels = self.fibre.channels
        offsets = self.spectrum.terms @ np.array([dilation[0] * frame[1] * channels, dilation[1] * channels, 1])
        terms = indices(np.stack([offsets, np.full_like(offsets, channels)], axis=1))
        factors = self.spectrum.factors.astype(irreps.dtype)

        def fill(start: int, stop: int, buffer: Floats) -> None:
            place = indices([*size, *frame, channels, start, stop])
            runs = self._spectrum_runs(stop - start)
            self.kernels.spectrum_of_tile(irreps, buffer, place, runs, terms, factors)

        return fill

    def _irreps(self, x: Tensor, padding: Pair) -> tuple[Floats, Pair]:
        """x̂ with its border of zeros, flat in the order (batch, row, column, kind, component, copy)."""
        batch, _, height, width = x.shape
        top, left = padding
        frame = (height + 2 * top, width + 2 * left)
        count = batch * frame[0] * frame[1] * self.fibre.channels
        irreps: Floats = (torch.zeros if top or left else torch.empty)(count, dtype=x.dtype).numpy()
        values, strides, table = _flat(x), indices(x.stride()), self.fibre
        factors = table.factors.astype(irreps.dtype)
        pixels = batch * height * width

        def part(worker: int, workers: int) -> None:
            first, last = pixels * worker // workers, pixels * (worker + 1) // workers
            place = indices([height, width, *frame, top, left, first, last, 0, table.scratch])
            self.kernels.channels_to_irreps(
                values, strides, irreps, place, table.kinds, table.runs, table.terms, factors
            )

        on_all_threads(part)
        return irreps, frame


def _flat(x: Tensor) -> Floats:
    """The memory that a tensor's strides walk over, as a flat array."""
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    flat: Floats = x.detach().as_strided((span,), (1,)).numpy()
    return flat
