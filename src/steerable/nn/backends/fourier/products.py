"""One product per irrep: the layout of spectra, matrices and products in memory, with equal blocks side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from steerable.nn.backends.fourier.irrep_blocks import IrrepBlock, IrrepBlockPlan

__all__ = ["block_pairs", "equal_blocks", "matrix_shape", "stacked_matrices"]

Pair = tuple[int, int]


def equal_blocks(blocks: Sequence[IrrepBlock]) -> Iterator[Pair]:
    """Ranges of consecutive real-type blocks of the same shape, for one batched product."""
    start = 0
    for k in range(1, len(blocks) + 1):
        if k < len(blocks):
            a, b = blocks[start], blocks[k]
            if (a.dim, a.n, a.m, len(a.algebra), len(b.algebra)) == (b.dim, b.n, b.m, 1, 1):
                continue
        yield start, k
        start = k


def matrix_shape(block: IrrepBlock) -> Pair:
    """(n, m) of the matrix that one product applies."""
    factor = 1 if len(block.algebra) == 1 else block.dim
    return factor * block.n, factor * block.m


def stacked_matrices(plan: IrrepBlockPlan, groups: Sequence[Pair], blocks: Tensor) -> list[Tensor]:
    """(blocks of equal shape, m, n) for each group of them."""
    found = []
    for start, stop in groups:
        parts = plan.direction.blocks[start:stop]
        if len(parts[0].algebra) > 1:
            stack = plan.matrix(blocks, parts[0])[None]
        else:
            rows, columns = (parts[0].m, parts[0].n) if plan.adjoint else (parts[0].n, parts[0].m)
            stack = blocks[parts[0].start : parts[-1].start + parts[-1].size].view(-1, rows, columns)
        found.append(stack if plan.adjoint else stack.transpose(1, 2))
    return found


def block_pairs(
    blocks: Sequence[IrrepBlock], groups: Sequence[Pair], spectrum: Tensor, product: Tensor, pixels: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """(equal blocks, rows, m) of the spectrum and (equal blocks, rows, n) of the product, block by block."""
    at = to = 0
    for start, stop in groups:
        block, count = blocks[start], stop - start
        rows = pixels if len(block.algebra) > 1 else pixels * block.dim
        n, m = matrix_shape(block)
        yield (
            spectrum[at : at + count * rows * m].view(count, rows, m),
            product[to : to + count * rows * n].view(count, rows, n),
        )
        at, to = at + count * rows * m, to + count * rows * n
