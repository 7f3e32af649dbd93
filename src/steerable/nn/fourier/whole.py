"""The group Fourier convolution on a GPU: the spectrum of the whole batch is written out, one product per irrep.

    x ──A⁻¹──▶ x̂ ──stencils, Clebsch–Gordan──▶ spectrum ──W_k──▶ ŷ ──A──▶ y

The spectrum is taps times as large as x. It is not kept for the backward pass, which computes it anew.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.fourier.blocks import BlockPlan
from steerable.nn.fourier.products import block_pairs, equal_blocks, stacked_matrices
from steerable.nn.fourier.tables import FibreTable, IntoBlocksTable, InverseTable, SpectrumTable

__all__ = ["WholeConvolution"]

Pair = tuple[int, int]
Tables = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


class WholeConvolution:
    """One direction of a layer; see the module's docstring."""

    def __init__(self, plan: BlockPlan) -> None:
        self.plan, self.direction = plan, plan.direction
        self.fibre = FibreTable(self.direction)
        self.spectrum = SpectrumTable(self.direction, self.fibre.starts)
        self.inverse = InverseTable(self.direction)
        self.gradient = IntoBlocksTable.of_gradient(self.direction)
        self.groups = list(equal_blocks(self.direction.blocks))
        self.most_copies = max(*self.direction.in_copies, *self.direction.out_copies)
        self._on_device = lru_cache(maxsize=64)(self._make_tables)

    def forward(self, x: Tensor, blocks: Tensor, bias: Tensor | None, padding: Pair, dilation: Pair) -> Tensor:
        """(batch, in, h, w) → (batch, out, h', w'), in channels_last."""
        from steerable.nn.kernels.fourier import gather_sum

        size = (len(x), *self.direction.output_size(x.shape, padding, dilation))
        y = torch.empty(size[0], *size[1:], self.direction.out_channels, dtype=x.dtype, device=x.device)
        if y.numel():
            spectrum = self._spectrum(x, size, padding, dilation)
            pixels = size[0] * size[1] * size[2]
            product = torch.empty(pixels * self.inverse.layout.width, dtype=x.dtype, device=x.device)
            matrices = stacked_matrices(self.plan, self.groups, blocks)
            pairs = block_pairs(self.direction.blocks, self.groups, spectrum, product, pixels)
            for (at, to), matrix in zip(pairs, matrices, strict=True):
                torch.bmm(at, matrix, out=to)
            tables = self._on_device("inverse", pixels, (0, 0), (1, 1), x.device, _wide(x.dtype))
            gather_sum(product, y, tables, size, size[1:], self.most_copies, bias)
        return y.permute(0, 3, 1, 2)

    def block_gradient(self, x: Tensor, gradient: Tensor, padding: Pair, dilation: Pair) -> Tensor:
        """(parameters,): the gradient of all blocks, from the input and the gradient of the output."""
        from steerable.nn.kernels.fourier import gather_sum

        total = torch.zeros(self.plan.parameters, dtype=_wide(x.dtype), device=x.device)
        size = (len(x), *self.direction.output_size(x.shape, padding, dilation))
        pixels = size[0] * size[1] * size[2]
        if not pixels:
            return total.to(x.dtype)
        spectrum = self._spectrum(x, size, padding, dilation)
        outer = gradient.permute(0, 2, 3, 1).contiguous()
        product = torch.empty(pixels * self.gradient.layout.width, dtype=x.dtype, device=x.device)
        tables = self._on_device("gradient", pixels, (0, 0), (1, 1), x.device, _wide(x.dtype))
        gather_sum(outer, product, tables, size, size[1:], self.most_copies)
        for (start, stop), (at, by) in zip(
            self.groups, block_pairs(self.direction.blocks, self.groups, spectrum, product, pixels), strict=True
        ):
            whole = torch.bmm(by.transpose(1, 2), at).to(total.dtype)
            for block, one in zip(self.direction.blocks[start:stop], whole, strict=True):
                one = one.T if self.plan.adjoint else one
                total[block.start : block.start + block.size] = self.plan.from_matrix(one, block)
        return total.to(x.dtype)

    def _spectrum(self, x: Tensor, size: tuple[int, int, int], padding: Pair, dilation: Pair) -> Tensor:
        from steerable.nn.kernels.fourier import gather_sum

        batch, _, height, width = x.shape
        flat = x.permute(0, 2, 3, 1).contiguous()
        irreps = torch.empty(flat.numel(), dtype=x.dtype, device=x.device)
        fibre = self._on_device("fibre", batch * height * width, (0, 0), (1, 1), x.device, _wide(x.dtype))
        gather_sum(flat, irreps, fibre, (batch, height, width), (height, width), self.most_copies)
        pixels = size[0] * size[1] * size[2]
        spectrum = torch.empty(pixels * self.spectrum.layout.width, dtype=x.dtype, device=x.device)
        tables = self._on_device("spectrum", pixels, padding, dilation, x.device, _wide(x.dtype))
        gather_sum(irreps, spectrum, tables, size, (height, width), self.most_copies)
        return spectrum

    # ---------------------------------------------------------------- tables

    def _make_tables(
        self, name: str, pixels: int, padding: Pair, dilation: Pair, device: torch.device, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        runs, terms, factors = {
            "fibre": self._fibre_tables,
            "spectrum": self._spectrum_tables,
            "inverse": self._inverse_tables,
            "gradient": self._gradient_tables,
        }[name](pixels, padding, dilation)
        return (
            torch.tensor(runs, device=device),
            torch.tensor(terms, device=device),
            torch.tensor(factors, dtype=dtype, device=device),
        )

    def _fibre_tables(self, pixels: int, padding: Pair, dilation: Pair) -> Tables:
        runs = self.fibre.runs.astype(np.int64)
        table = np.stack([runs[:, 0], runs[:, 1], _ones(runs), runs[:, 2], runs[:, 3], runs[:, 4], 0 * runs[:, 0]], 1)
        terms = _channel_terms(self.fibre.kinds, runs[:, 3:5], self.fibre.terms, self.direction.in_channels)
        return table, terms, self.fibre.factors

    def _spectrum_tables(self, pixels: int, padding: Pair, dilation: Pair) -> Tables:
        runs = self.spectrum.runs.in_tile(self.spectrum.layout, pixels).astype(np.int64)
        shifts = self.spectrum.terms[:, :2] * np.array(dilation) - np.array(padding)
        steps = np.broadcast_to([self.direction.in_channels, 1], (len(shifts), 2))
        return _block_runs(runs), np.concatenate([shifts, self.spectrum.terms[:, 2:], steps], 1), self.spectrum.factors

    def _inverse_tables(self, pixels: int, padding: Pair, dilation: Pair) -> Tables:
        sources = self.inverse.sources.in_tile(self.inverse.layout, pixels).astype(np.int64)
        zeros, ones = 0 * sources[:, :2], _ones(sources)[:, None]
        terms = np.concatenate([zeros, sources[:, :2], ones], 1)
        rows = []
        for channel, _, dim, first, last in self.inverse.kinds.astype(np.int64):
            for e, run in enumerate(self.inverse.runs[first:last].astype(np.int64)):
                rows.append((channel + e, self.direction.out_channels, dim, *run[2:], channel + e))
        return np.array(rows, dtype=np.int64), terms, self.inverse.factors

    def _gradient_tables(self, pixels: int, padding: Pair, dilation: Pair) -> Tables:
        runs = self.gradient.runs.in_tile(self.gradient.layout, pixels).astype(np.int64)
        terms = _channel_terms(self.gradient.kinds, runs[:, 3:5], self.gradient.terms, self.direction.out_channels)
        return _block_runs(runs), terms, self.gradient.factors


def _block_runs(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """(begin, step, copy step 1, copies, first, last, no bias) from runs in a block layout."""
    return np.stack([runs[:, 0], runs[:, 1], _ones(runs), *runs[:, 2:5].T, 0 * runs[:, 0]], 1)


def _channel_terms(
    kinds: NDArray[np.uint64], ranges: NDArray[np.int64], terms: NDArray[np.uint64], channels: int
) -> NDArray[np.int64]:
    """Terms that read a pixel's channels as they lie, (copy, component), where the tables count (component, copy)."""
    table = np.zeros((len(terms), 5), dtype=np.int64)
    for channel, copies, dim, first_run, last_run in kinds.astype(np.int64):
        for first, last in ranges[first_run:last_run]:
            component = terms[first:last, 0].astype(np.int64) // copies
            table[first:last, 2:] = np.stack([channel + component, 0 * component + channels, 0 * component + dim], 1)
    return table


def _ones(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ones(len(rows), dtype=np.int64)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
