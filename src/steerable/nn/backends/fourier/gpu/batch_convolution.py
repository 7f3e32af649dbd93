"""The group Fourier convolution on a GPU: the spectrum of the whole batch is written out, one product per irrep.

    x ──A⁻¹──▶ x̂ ──stencils, Clebsch–Gordan──▶ spectrum ──W_k──▶ ŷ ──A──▶ y

The spectrum is taps times as large as x. It is not kept for the backward pass. There the spectrum of the output's
gradient g serves both gradients: the input gradient Ψᵀ(Θ)g is a convolution of the same kind, and the weight gradient
is that of ⟨x, Ψᵀ(Θ)g⟩.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.nn.backends.fourier.gpu.device_tables import DeviceTables
from steerable.nn.backends.fourier.gpu.scales import Scale, room_for, spectrum_dtype
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlockPlan
from steerable.nn.backends.fourier.products import block_pairs, equal_blocks, stacked_matrices

__all__ = ["BatchConvolution"]

Pair = tuple[int, ...]  # two numbers: kernels are written for images
Size = tuple[int, int, int]


class BatchConvolution:
    """One direction of a layer; see the module's docstring."""

    def __init__(self, plan: IrrepBlockPlan) -> None:
        self.plan, self.direction, self.tables = plan, plan.direction, DeviceTables(plan)
        self.groups = list(equal_blocks(self.direction.blocks))
        self.spectrum_width = sum(block.dim * block.m for block in self.direction.blocks)
        self.product_width = sum(block.dim * block.n for block in self.direction.blocks)
        bases = self.direction.in_bases
        self.spectrum_room = room_for(
            [*(b.fibre for b in bases), *(b.transform.reshape(len(b.coupling), -1) for b in bases)]
        )
        self.product_room = room_for(self.direction.used_columns(k).T for k in range(len(self.direction.out_copies)))
        self.block_room = room_for(pair.matrix for pair in plan.pairs)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None, padding: Pair, dilation: Pair) -> Tensor:
        """(batch, in, h, w) and the layer's parameters → (batch, out, h', w'), in channels_last."""
        size = self._size(x, padding, dilation)
        with torch.cuda.device_of(x):
            spectrum, scale = self._spectrum(x, size, padding, dilation)
            return self._output(spectrum, scale, weight, bias, size, x.dtype)

    def gradients(
        self, gradient: Tensor, x: Tensor, weight: Tensor, padding: Pair, dilation: Pair, wanted: tuple[bool, bool]
    ) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of x and of the parameters, from the output's; this must be the adjoint direction."""
        size = self._size(gradient, padding, dilation)
        for_x = for_weight = None
        with torch.cuda.device_of(x):
            spectrum, scale = self._spectrum(gradient, size, padding, dilation)
            if wanted[0]:
                for_x = self._output(spectrum, scale, weight, None, size, x.dtype)
            if wanted[1]:
                for_weight = self._weight_gradient(spectrum, scale, x, size).to(weight.dtype)
        return for_x, for_weight

    def _spectrum(self, x: Tensor, size: Size, padding: Pair, dilation: Pair) -> tuple[Tensor, Scale | None]:
        """The spectrum of all patches, in the layout of :class:`BlockLayout`, and the scale it was divided by."""
        from steerable.nn.backends.fourier.gpu.kernels.coupling import couple

        pixels = _pixels(size)
        spectrum = torch.empty(pixels * self.spectrum_width, dtype=spectrum_dtype(x), device=x.device)
        scaled = spectrum.dtype == torch.float16
        if self.direction.taps == 1:
            top, left = padding
            x = F.pad(x, (left, left, top, top)) if any(padding) else x
            return spectrum, self._rows(x, spectrum, "single tap", scaled)
        # x̂ is small beside the spectrum: float32 stays what it is, and is rounded once, there.
        dtype = x.dtype if x.dtype == torch.float32 else spectrum.dtype
        irreps = torch.empty(x.numel(), dtype=dtype, device=x.device)
        scale = self._rows(x, irreps, "irreps", scaled)
        if pixels:
            tables, arrays = self.tables.coupling(pixels, padding, dilation, x.device, _wide(x.dtype))
            couple(irreps, spectrum, tables, arrays, size, (x.shape[2], x.shape[3]), self.direction.in_channels)
        return spectrum, scale

    def _output(
        self, spectrum: Tensor, scale: Scale | None, weight: Tensor, bias: Tensor | None, size: Size, dtype: torch.dtype
    ) -> Tensor:
        """The products with all blocks, brought back to channels."""
        from steerable.nn.backends.fourier.gpu.kernels.rows import from_rows

        pixels, wide = _pixels(size), _wide(dtype)
        y = torch.empty(*size, self.direction.out_channels, dtype=dtype, device=spectrum.device)
        if pixels:
            blocks, weight_scale = self._blocks(weight, spectrum.dtype)
            product = torch.empty(pixels * self.product_width, dtype=wide, device=spectrum.device)
            matrices = stacked_matrices(self.plan, self.groups, blocks)
            for (at, to), matrix in zip(self._pairs(spectrum, product, pixels), matrices, strict=True):
                _multiply(at, matrix, to)
            tables, arrays = self.tables.rows("products", pixels, spectrum.device, wide)
            bias = None if bias is None else bias.contiguous()
            from_rows(product, y.flatten(0, 2), tables, arrays, bias, _both(scale, weight_scale))
        return y.permute(0, 3, 1, 2)

    def _weight_gradient(self, spectrum: Tensor, scale: Scale | None, x: Tensor, size: Size) -> Tensor:
        """(parameters,) in float32 or float64: the gradient of ⟨x, the convolution⟩."""
        pixels, wide = _pixels(size), _wide(spectrum.dtype)
        total = torch.zeros(self.plan.parameters, dtype=wide, device=spectrum.device)
        if not pixels:
            return total
        rows = torch.empty(pixels * self.product_width, dtype=spectrum.dtype, device=spectrum.device)
        x_scale = self._rows(x, rows, "products", rows.dtype == torch.float16)
        for (start, stop), (at, by) in zip(self.groups, self._pairs(spectrum, rows, pixels), strict=True):
            left, right = (at, by) if self.plan.adjoint else (by, at)
            part = self.direction.blocks[start:stop]
            target = total[part[0].start : part[-1].start + part[-1].size]
            shape = (len(part), left.shape[2], right.shape[2])
            if len(part[0].algebra) == 1:
                _multiply(left.transpose(1, 2), right, target.view(shape))
            else:
                whole = torch.empty(shape, dtype=wide, device=total.device)
                _multiply(left.transpose(1, 2), right, whole)
                target.copy_(self.plan.from_matrix(whole[0], part[0]))
        if wide == torch.float64:
            return self.plan.collect(total)
        from steerable.nn.backends.fourier.gpu.kernels.irrep_blocks import collect

        return collect(total, *self.tables.blocks(total.device), _both(scale, x_scale))

    def _rows(self, x: Tensor, out: Tensor, name: str, scaled: bool) -> Scale | None:
        """Write the rows of a field, and return the scale that they were divided by."""
        from steerable.nn.backends.fourier.gpu.kernels.rows import to_rows
        from steerable.nn.backends.fourier.gpu.kernels.scales import largest

        flat = x.permute(0, 2, 3, 1).contiguous().flatten(0, 2)
        room = self.product_room if name == "products" else self.spectrum_room
        scale = Scale(largest(flat), room) if scaled else None
        if len(flat):
            tables, arrays = self.tables.rows(name, len(flat), x.device, _wide(x.dtype))
            to_rows(flat, out, tables, arrays, scale)
        return scale

    def _blocks(self, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Scale | None]:
        """All blocks in ``dtype``, and the scale that they were divided by."""
        if dtype == torch.float64:
            return self.plan.expand(weight), None
        from steerable.nn.backends.fourier.gpu.kernels.irrep_blocks import expand
        from steerable.nn.backends.fourier.gpu.kernels.scales import largest

        weight = weight.float().contiguous()
        scale = Scale(largest(weight), self.block_room) if dtype == torch.float16 else None
        return expand(weight, *self.tables.blocks(weight.device), dtype, scale), scale

    def _pairs(self, spectrum: Tensor, product: Tensor, pixels: int) -> list[tuple[Tensor, Tensor]]:
        return list(block_pairs(self.direction.blocks, self.groups, spectrum, product, pixels))

    def _size(self, x: Tensor, padding: Pair, dilation: Pair) -> Size:
        height, width = self.direction.output_size(x.shape, padding, dilation)
        return len(x), height, width


def _multiply(a: Tensor, b: Tensor, out: Tensor) -> None:
    """out = a @ b; a and b may be of lower precision."""
    if a.dtype == out.dtype:
        torch.bmm(a, b, out=out)
    elif a.device.type == "cuda":
        torch.bmm(a, b, out.dtype, out=out)
    else:
        torch.bmm(a.to(out.dtype), b.to(out.dtype), out=out)


def _both(first: Scale | None, second: Scale | None) -> tuple[Scale, Scale] | None:
    return None if first is None or second is None else (first, second)


def _pixels(size: Size) -> int:
    return size[0] * size[1] * size[2]


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
