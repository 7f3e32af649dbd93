"""Tables by which a GPU kernel maps a layer's parameters to the blocks of its Fourier form, and gradients back.

Per pair of capsule kinds Θ is (copies, copies', count), and row r of the pair's matrix makes one number for each pair
of copies (a, c), at begin[r] + a · step[r] + c in the flat vector of all blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steerable.nn.backends.fourier.gpu.row_tables import common_alignment
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlockPlan

__all__ = ["COPIES_PER_PROGRAM", "ROWS_PER_PROGRAM", "IrrepBlockTables", "irrep_block_tables"]

COPIES_PER_PROGRAM = 128
ROWS_PER_PROGRAM = 16

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class IrrepBlockTables:
    """All tables of one direction.

    Attributes:
        expansion: (programs, 3): pair, first pair of copies, first row.
        collection: (programs, 3): pair, first pair of copies, first parameter of a pair of copies.
        pairs: (pairs + 1, 6): first parameter, copies, copies', count, first row, first entry of the matrix.
        rows: (rows, 2): begin, step.
        matrix: all matrices (rows, count), flat, one after the other.
        align: what all places of rows, and copies', are multiples of.
    """

    expansion: Integers
    collection: Integers
    pairs: Integers
    rows: Integers
    matrix: NDArray[np.float64]
    align: int


def irrep_block_tables(plan: IrrepBlockPlan) -> IrrepBlockTables:
    """The tables of a plan."""
    expansion, collection, pairs, matrices = [], [], [], [np.zeros(0)]
    rows: list[tuple[int, int]] = []
    for number, pair in enumerate(plan.pairs):
        copies, copies_in, count = pair.shape
        pairs.append((pair.start, copies, copies_in, count, len(rows), sum(m.size for m in matrices)))
        for first in range(0, copies * copies_in, COPIES_PER_PROGRAM):
            expansion += [(number, first, r) for r in range(0, len(pair.matrix), ROWS_PER_PROGRAM)]
            collection += [(number, first, h) for h in range(0, count, ROWS_PER_PROGRAM)]
        places = plan.places(pair)
        if len(places) != len(pair.matrix):
            raise RuntimeError("every row of a pair's matrix has a place")
        rows += places
        matrices.append(pair.matrix.ravel())
    pairs.append((0, 0, 0, 0, len(rows), 0))
    return IrrepBlockTables(
        np.array(expansion, dtype=np.int64).reshape(-1, 3),
        np.array(collection, dtype=np.int64).reshape(-1, 3),
        np.array(pairs, dtype=np.int64),
        np.array(rows, dtype=np.int64).reshape(-1, 2),
        np.concatenate(matrices),
        common_alignment([*(value for row in rows for value in row), *(pair[2] for pair in pairs)]),
    )
