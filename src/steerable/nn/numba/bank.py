"""A filter bank on a CPU in one pass over its weights, and its gradient in another.

Where all capsules are signed permutations, each weight of a bank is one parameter times a factor, and the pattern is
the same for every pair of copies. With θ the parameters of a pair, and u and v the channels' places in their capsules,

    bank[o, i, tap] = value[u, v, tap] · θ[number[u, v, tap]]

so that the tables are as small as one copy of each kind; a weight that is always zero has a value of 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.bank_kernels import BankKernels
from steerable.nn.bank_tables import nonzero_weights
from steerable.nn.expansion import BankPlan
from steerable.nn.numba.compiling import KINDS, compiled, in_shares, numbers_at

__all__ = ["BankOnCpu"]

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]
Numbers = NDArray[np.uint32]


def _expand(
    zero: Any, parameters: int, weights: int, of_theta: int, of_bank: int, number: Numbers, value: Floats,
    pairs: Integers, rows: Integers, kinds: int, line: int, start: int, stop: int,
) -> None:  # fmt: skip
    """The rows of a bank that belong to some copies of the capsules that go out."""
    theta, bank = numbers_at(of_theta, parameters, zero), numbers_at(of_bank, weights, zero)
    for own in range(start, stop):
        first_pair, copy, first_row, dim = rows[own]
        for k in range(first_pair, first_pair + kinds):
            first, copies, count, length, table, column = pairs[k]
            for u in range(dim):
                numbers = number[table + u * length : table + (u + 1) * length]
                values = value[table + u * length : table + (u + 1) * length]
                for b in range(copies):
                    begin, place = first + (copy * copies + b) * count, (first_row + u) * line + column + b * length
                    coefficients, found = theta[begin : begin + count], bank[place : place + length]
                    if count == 0:
                        found[:] = 0
                    else:
                        for e in range(length):
                            found[e] = coefficients[numbers[e]] * values[e]


def _project(
    zero: Any, parameters: int, weights: int, of_theta: int, of_bank: int, number: Numbers, value: Floats,
    pairs: Integers, rows: Integers, kinds: int, line: int, start: int, stop: int,
) -> None:  # fmt: skip
    """The gradient of the parameters of some copies of the capsules that go out."""
    theta, bank = numbers_at(of_theta, parameters, zero), numbers_at(of_bank, weights, zero)
    for own in range(start, stop):
        first_pair, copy, first_row, dim = rows[own]
        for k in range(first_pair, first_pair + kinds):
            first, copies, count, length, table, column = pairs[k]
            if count == 0:
                continue
            theta[first + copy * copies * count : first + (copy + 1) * copies * count] = 0
            for u in range(dim):
                numbers = number[table + u * length : table + (u + 1) * length]
                values = value[table + u * length : table + (u + 1) * length]
                for b in range(copies):
                    begin, place = first + (copy * copies + b) * count, (first_row + u) * line + column + b * length
                    coefficients, upstream = theta[begin : begin + count], bank[place : place + length]
                    for e in range(length):
                        coefficients[numbers[e]] += upstream[e] * values[e]


EXPAND, PROJECT = compiled(_expand), compiled(_project)


class BankOnCpu(BankKernels):
    """The kernels of a layer whose parameters have one dtype.

    Args:
        plan: that of the bank, which ``takes_kernels``.
        dtype: float32 or float64.
    """

    def __init__(self, plan: BankPlan, dtype: torch.dtype) -> None:
        super().__init__(plan)
        self._kind, self._line = KINDS[dtype], plan.weights // plan.out_type.channels
        numbers, values, pairs, first, column = [], [], [], 0, 0
        for pair in plan.pairs:
            length = pair.in_capsule.dim * plan.taps
            number = np.zeros((pair.out_capsule.dim, pair.in_capsule.dim, plan.taps), dtype=np.uint32)
            value = np.zeros(number.shape, dtype=type(self._kind))
            which, u, tap, v, factors = nonzero_weights(plan, pair)
            number[u, v, tap], value[u, v, tap] = which, factors
            pairs.append((pair.start, pair.in_copies, pair.count, length, first, column))
            numbers.append(number.ravel())
            values.append(value.ravel())
            first, column = first + number.size, (column + pair.in_copies * length) % self._line
        self._tables = np.concatenate(numbers), np.concatenate(values), np.array(pairs, dtype=np.int64), _rows(plan)

    def expand(self, weight: Tensor, dtype: torch.dtype) -> Tensor:
        bank = torch.empty(self.plan.bank_shape, dtype=dtype, device="cpu")
        self._run(EXPAND, weight.contiguous(), bank)
        return bank

    def project(self, bank: Tensor, dtype: torch.dtype) -> Tensor:
        weight = torch.empty(self.plan.parameters, dtype=dtype, device="cpu")
        self._run(PROJECT, weight, bank.contiguous())
        return weight

    def _run(self, kernel: Any, weight: Tensor, bank: Tensor) -> None:
        sizes, rows = (weight.numel(), bank.numel()), self._tables[-1]
        known = self._kind, *sizes, weight.data_ptr(), bank.data_ptr(), *self._tables, self.plan.in_kinds, self._line
        in_shares(kernel, known, len(rows), bank.numel())


def _rows(plan: BankPlan) -> Integers:
    """For each copy of an outgoing capsule its first pair of kinds, its number, its first row in the bank, its rows."""
    rows, row = [], 0
    for group in range(plan.groups):
        for k in range(0, len(plan.pairs), plan.in_kinds):
            pair = plan.pairs[k]
            for copy in range(pair.out_copies):
                rows.append((k, group * pair.out_copies + copy, row, pair.out_capsule.dim))
                row += pair.out_capsule.dim
    return np.array(rows, dtype=np.int64)
