"""The group Fourier convolution in plain torch operations: any dtype, any device, differentiable any number of times.

It is what the faster implementations are tested against, and what they fall back on.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.nn.backends.fourier.irrep_blocks import Direction, IrrepBlockPlan

__all__ = ["block_gradient_reference", "fourier_conv_reference"]

Size = tuple[int, ...]


def fourier_conv_reference(x: Tensor, blocks: Tensor, plan: IrrepBlockPlan, padding: Size, dilation: Size) -> Tensor:
    """(batch, in, *grid) and the blocks of a plan → (batch, out, *grid'): transform, one product per irrep, back."""
    direction = plan.direction
    products = []
    for block, spectrum in zip(direction.blocks, _spectra(x, direction, padding, dilation), strict=True):
        matrix = plan.matrix(blocks, block)
        matrix = matrix.T if plan.adjoint else matrix
        if len(block.algebra) == 1:
            products.append(matrix @ spectrum)
        else:
            products.append((matrix @ spectrum.flatten(1, 2)).unflatten(1, (block.dim, block.n)))
    size = direction.output_size(x.shape, padding, dilation)
    return _channels(products, x, direction).view(len(x), direction.out_channels, *size)


def block_gradient_reference(
    x: Tensor, gradient: Tensor, plan: IrrepBlockPlan, padding: Size, dilation: Size
) -> Tensor:
    """(parameters,): the gradient of all blocks from the input and the gradient of the output, ĝ_k ŝ_kᵀ per irrep."""
    direction = plan.direction
    spectra = _spectra(x, direction, padding, dilation)
    parts = []
    for block, spectrum, outer in zip(direction.blocks, spectra, _product_gradients(gradient, direction), strict=True):
        if len(block.algebra) == 1:
            matrix = torch.einsum("bcnl,bcml->nm", outer, spectrum)
        else:
            matrix = torch.einsum("bnl,bml->nm", outer.flatten(1, 2), spectrum.flatten(1, 2))
        parts.append(plan.from_matrix(matrix.T if plan.adjoint else matrix, block))
    return torch.cat(parts) if parts else x.new_zeros(0)


def _spectra(x: Tensor, direction: Direction, padding: Size, dilation: Size) -> list[Tensor]:
    """ŝ_k of shape (batch, d, m, pixels) for each block."""
    patches = _patches(x, direction, padding, dilation)
    kinds, start = [], 0
    for basis, copies in zip(direction.in_bases, direction.in_copies, strict=True):
        channels = len(basis.fibre) * copies
        capsules = patches.narrow(1, start, channels).unflatten(1, (copies, len(basis.fibre)))
        transform = torch.tensor(basis.transform, dtype=x.dtype, device=x.device)
        kinds.append(torch.einsum("rdt,bndtl->brnl", transform, capsules))
        start += channels
    spectra = []
    for block in direction.blocks:
        parts = []
        for basis, spectrum in zip(direction.in_bases, kinds, strict=True):
            occurrences = basis.multiplicity[block.irrep]
            rows = spectrum.narrow(1, basis.first_row(block.irrep), occurrences * block.dim)
            parts.append(rows.unflatten(1, (occurrences, block.dim)).transpose(1, 2).flatten(2, 3))
        spectra.append(torch.cat(parts, 2))
    return spectra


def _patches(x: Tensor, direction: Direction, padding: Size, dilation: Size) -> Tensor:
    """(batch, in, taps, pixels): what each tap sees."""
    padded = F.pad(x, [side for p in reversed(padding) for side in (p, p)])
    size = direction.output_size(x.shape, padding, dilation)
    seen = []
    for tap in np.ndindex(*direction.kernel_size):
        part = padded
        for axis, (n, t, d) in enumerate(zip(size, tap, dilation, strict=True), start=2):
            part = part.narrow(axis, t * d, n)
        seen.append(part.flatten(2))
    return torch.stack(seen, 2)


def _channels(products: list[Tensor], like: Tensor, direction: Direction) -> Tensor:
    """(batch, out, pixels) from ŷ_k of shape (batch, d, n, pixels): y = Aŷ for each capsule."""
    if not products:
        raise ValueError("a convolution without parameters has no products; its output is zero.")
    outputs, used = [], [0] * len(products)
    for kind, copies in enumerate(direction.out_copies):
        basis, parts = direction.out_bases[kind], []
        for k, (block, product) in enumerate(zip(direction.blocks, products, strict=True)):
            occurrences = basis.multiplicity[block.irrep]
            part = product.narrow(2, used[k], occurrences * copies).unflatten(2, (occurrences, copies))
            parts.append(part.transpose(1, 2).flatten(1, 2))  # (batch, (j, c), copies, pixels)
            used[k] += occurrences * copies
        back = torch.tensor(direction.used_columns(kind), dtype=like.dtype, device=like.device)
        outputs.append(torch.einsum("er,brnl->bnel", back, torch.cat(parts, 1)).flatten(1, 2))
    return torch.cat(outputs, 1)


def _product_gradients(gradient: Tensor, direction: Direction) -> list[Tensor]:
    """The transpose of ``_channels``: (batch, d, n, pixels) for each block."""
    parts: list[list[Tensor]] = [[] for _ in direction.blocks]
    start = 0
    for kind, copies in enumerate(direction.out_copies):
        basis = direction.out_bases[kind]
        back = torch.tensor(direction.used_columns(kind), dtype=gradient.dtype, device=gradient.device)
        capsules = gradient.narrow(1, start, len(back) * copies).flatten(2).unflatten(1, (copies, len(back)))
        rows, at = torch.einsum("er,bnel->brnl", back, capsules), 0
        for k, block in enumerate(direction.blocks):
            occurrences = basis.multiplicity[block.irrep]
            part = rows.narrow(1, at, occurrences * block.dim).unflatten(1, (occurrences, block.dim))
            parts[k].append(part.transpose(1, 2).flatten(2, 3))
            at += occurrences * block.dim
        start += len(back) * copies
    return [torch.cat(part, 2) for part in parts]
