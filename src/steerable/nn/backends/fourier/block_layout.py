"""The places of the spectrum and the products of pixels in memory, block by block, on CPUs and GPUs alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steerable.nn.backends.fourier.irrep_blocks import IrrepBlock

__all__ = ["NEGLIGIBLE", "BlockLayout"]

NEGLIGIBLE = 1e-14
"""Factors up to this one are left out."""


class BlockLayout:
    """The places of each block's spectrum in a tile of pixels: (d, pixels, m), or (pixels, d, m) off real type.

    So each block is one matrix of rows (component, pixel) for one product, and equal blocks are adjacent.

    Args:
        blocks: of a direction.
        columns: the m of each, or the n where the layout is that of the products.
    """

    def __init__(self, blocks: Sequence[IrrepBlock], columns: Sequence[int]) -> None:
        self.blocks, self.columns = blocks, columns
        self._starts = np.cumsum([0, *(block.dim * m for block, m in zip(blocks, columns, strict=True))])
        self.width = int(self._starts[-1])

    def place(self, number: int, component: int, pixels: int) -> tuple[int, int]:
        """(begin, step from pixel to pixel) of one component of one block in a tile of that many pixels."""
        begin, m = pixels * int(self._starts[number]), self.columns[number]
        if len(self.blocks[number].algebra) == 1:
            return begin + component * pixels * m, m
        return begin + component * m, self.blocks[number].dim * m
