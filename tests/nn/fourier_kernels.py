"""The equations of the GPU's Fourier kernels, written out in torch: what they must compute."""

from __future__ import annotations

import torch
from torch import Tensor

from steerable import FieldType
from steerable.nn.backends import ConvolutionProblem, Window
from steerable.nn.backends.fourier.backend import FourierBackend
from steerable.nn.backends.fourier.gpu.coupling_tables import CouplingTables
from steerable.nn.backends.fourier.gpu.device_tables import Arrays
from steerable.nn.backends.fourier.gpu.irrep_block_tables import IrrepBlockTables
from steerable.nn.backends.fourier.gpu.row_tables import RowTables
from steerable.nn.backends.fourier.gpu.scales import Scale
from steerable.nn.backends.fourier.plan import FourierPlan
from steerable.nn.expansion import BankPlan

__all__ = ["collect", "couple", "expand", "fourier_plan", "from_rows", "largest", "to_rows"]


def fourier_plan(in_type: FieldType, out_type: FieldType, kernel_size: tuple[int, int]) -> FourierPlan:
    """The plan of a convolution with zeros around it."""
    window = Window((0, 0), (1, 1), (1, 1), 1)
    return FourierBackend().prepare(ConvolutionProblem(BankPlan(in_type, out_type, kernel_size), window, "zeros"))


def largest(x: Tensor) -> Tensor:
    return x.abs().amax().float().reshape(1) if x.numel() else torch.zeros(1)


def unit_of(scale: Scale) -> Tensor:
    return torch.exp2(torch.ceil(torch.log2(scale.largest))) / scale.room


def to_rows(x: Tensor, out: Tensor, tables: RowTables, arrays: Arrays, scale: Scale | None) -> None:
    slices, rows, matrix = arrays
    p = torch.arange(len(x))[:, None]
    wide = matrix.dtype
    for channel, dim, copies, first, last, first_copy in slices.tolist():
        field = x[:, channel : channel + copies * dim].unflatten(1, (copies, dim)).to(wide)
        for r in range(first, last):
            value = field @ matrix[r, :dim]
            begin, step = rows[r].tolist()
            value = value if scale is None else value / unit_of(scale)
            out[begin + first_copy + p * step + torch.arange(copies)] = value.to(out.dtype)


def from_rows(
    source: Tensor,
    y: Tensor,
    tables: RowTables,
    arrays: Arrays,
    bias: Tensor | None,
    scales: tuple[Scale, Scale] | None,
) -> None:
    slices, rows, matrix = arrays
    p = torch.arange(len(y))[:, None]
    for channel, dim, copies, first, last, first_copy in slices.tolist():
        total = torch.zeros(len(y), copies, dim, dtype=matrix.dtype)
        for r in range(first, last):
            begin, step = rows[r].tolist()
            total += source[begin + first_copy + p * step + torch.arange(copies)][..., None] * matrix[r, :dim]
        total = total.flatten(1)
        if scales is not None:
            total *= unit_of(scales[0]) * unit_of(scales[1])
        end = channel + copies * dim
        y[:, channel:end] = (total if bias is None else total + bias[channel:end]).to(y.dtype)


def couple(
    source: Tensor,
    out: Tensor,
    tables: CouplingTables,
    arrays: Arrays,
    size: tuple[int, int, int],
    in_size: tuple[int, int],
    channels: int,
) -> None:
    slices, rows, taps, patterns, row_terms, terms, factors = arrays
    batch, y, x = (axis.flatten() for axis in torch.meshgrid(*[torch.arange(n) for n in size], indexing="ij"))
    p = torch.arange(len(batch))[:, None]
    for copies, first, begin, next_component, pattern in slices.tolist():
        i, dim = torch.arange(copies), tables.shapes[pattern][0]
        for r, coupling in enumerate(tables.patterns[pattern]):
            total = torch.zeros(len(p), copies, dtype=factors.dtype)
            row = int(patterns[pattern]) + r
            for t in range(int(row_terms[row]), int(row_terms[row + 1])):
                tap, component = terms[t].tolist()
                above, beside = y + taps[tap, 0], x + taps[tap, 1]
                exists = (above >= 0) & (above < in_size[0]) & (beside >= 0) & (beside < in_size[1])
                at = ((batch * in_size[0] + above) * in_size[1] + beside) * channels + begin
                at = torch.where(exists, at + component * next_component, 0)[:, None] + i
                total += factors[t] * torch.where(exists[:, None], source[at].to(factors.dtype), 0)
                if abs(coupling[tap * dim + component] - float(factors[t])) > 1e-6:
                    raise AssertionError("the terms are those of the coupling")
            to, step = rows[first + r].tolist()
            out[to + p * step + i] = total.to(out.dtype)


def expand(weight: Tensor, tables: IrrepBlockTables, arrays: Arrays, dtype: torch.dtype, scale: Scale | None) -> Tensor:
    blocks = torch.full((weight.numel(),), torch.nan)
    for theta, matrix, at in _pairs(weight, arrays):
        blocks[at] = matrix @ theta.T
    return (blocks if scale is None else blocks / unit_of(scale)).to(dtype)


def collect(blocks: Tensor, tables: IrrepBlockTables, arrays: Arrays, scales: tuple[Scale, Scale] | None) -> Tensor:
    weight = torch.full_like(blocks, torch.nan)
    for theta, matrix, at in _pairs(weight, arrays):
        theta.copy_(blocks[at].T @ matrix)
    return weight if scales is None else weight * unit_of(scales[0]) * unit_of(scales[1])


def _pairs(weight: Tensor, arrays: Arrays) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Of each pair of kinds (copies · copies', count) of the parameters, its matrix, and where its numbers go."""
    _, _, pairs, rows, matrix = arrays
    found = []
    for (start, copies, copies_in, count, first_row, first_entry), (*_, end, _) in zip(
        pairs[:-1].tolist(), pairs[1:].tolist(), strict=True
    ):
        theta = weight[start : start + copies * copies_in * count].view(-1, count)
        factors = matrix[first_entry : first_entry + (end - first_row) * count].view(-1, count)
        q = torch.arange(copies * copies_in)
        begin, step = rows[first_row:end].T
        found.append((theta, factors, begin[:, None] + (q // copies_in) * step[:, None] + q % copies_in))
    return found
