"""The tables of one direction on a device, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.backends.fourier.gpu.coupling_tables import CouplingTables, coupling_tables
from steerable.nn.backends.fourier.gpu.irrep_block_tables import IrrepBlockTables, irrep_block_tables
from steerable.nn.backends.fourier.gpu.row_tables import RowTables, irrep_rows, product_rows, single_tap_rows
from steerable.nn.backends.fourier.irrep_blocks import Direction, IrrepBlockPlan

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

    def __init__(self, plan: IrrepBlockPlan) -> None:
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

    def _blocks(self, device: torch.device) -> tuple[IrrepBlockTables, Arrays]:
        tables = irrep_block_tables(self._plan)
        return tables, _placed(
            device, torch.float32, tables.expansion, tables.collection, tables.pairs, tables.rows, tables.matrix
        )


def _placed(device: torch.device, dtype: torch.dtype, *arrays: NDArray[np.int64] | NDArray[np.float64]) -> Arrays:
    """Whole numbers as they are, others in ``dtype``."""

    def place() -> Arrays:
        kinds = (torch.int64 if array.dtype.kind == "i" else dtype for array in arrays)
        return tuple(torch.tensor(a, dtype=kind, device=device) for a, kind in zip(arrays, kinds, strict=True))

    if device.type != "cuda":
        return place()
    # Tables outlive the pass that first needs them. Where that pass is about to be recorded as a CUDA graph, torch
    # takes whatever its thread allocates for the graph's own: compiled with mode="reduce-overhead" it then fails.
    with ThreadPoolExecutor(max_workers=1) as elsewhere:
        return elsewhere.submit(place).result()
