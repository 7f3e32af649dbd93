"""The tables of one direction on a device, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.fourier.block_tables import BlockTables, block_tables
from steerable.nn.fourier.blocks import BlockPlan, Direction
from steerable.nn.fourier.pass_tables import (
    CouplingTables,
    RowTables,
    coupling_tables,
    irrep_rows,
    product_rows,
    single_tap_rows,
)

__all__ = ["Arrays", "DeviceTables"]

Arrays = tuple[Tensor, ...]
Pair = tuple[int, int]

_ROWS: dict[str, Callable[[Direction, int], RowTables]] = {
    "irreps": lambda direction, pixels: irrep_rows(direction),
    "single tap": single_tap_rows,
    "products": product_rows,
}


class DeviceTables:
    """Remembers tables by what they depend on: the number of pixels, padding and dilation, device and dtype."""

    def __init__(self, plan: BlockPlan) -> None:
        self._plan = plan
        self.rows = lru_cache(maxsize=64)(self._rows)
        self.coupling = lru_cache(maxsize=64)(self._coupling)
        self.blocks = lru_cache(maxsize=16)(self._blocks)

    def _rows(self, name: str, pixels: int, device: torch.device, dtype: torch.dtype) -> tuple[RowTables, Arrays]:
        tables = _ROWS[name](self._plan.direction, pixels)
        return tables, _placed(device, dtype, tables.slices, tables.rows, tables.matrix)

    def _coupling(
        self, pixels: int, padding: Pair, dilation: Pair, device: torch.device, dtype: torch.dtype
    ) -> tuple[CouplingTables, Arrays]:
        tables = coupling_tables(self._plan.direction, pixels, padding, dilation)
        return tables, _placed(device, dtype, tables.slices, tables.rows, tables.taps, *tables.terms())

    def _blocks(self, device: torch.device) -> tuple[BlockTables, Arrays]:
        tables = block_tables(self._plan)
        return tables, _placed(
            device, torch.float32, tables.expansion, tables.collection, tables.pairs, tables.rows, tables.matrix
        )


def _placed(device: torch.device, dtype: torch.dtype, *arrays: NDArray[np.int64] | NDArray[np.float64]) -> Arrays:
    """Whole numbers as they are, others in ``dtype``."""
    return tuple(
        torch.tensor(array, dtype=torch.int64 if array.dtype.kind == "i" else dtype, device=device) for array in arrays
    )
