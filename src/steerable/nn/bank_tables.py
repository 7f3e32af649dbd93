"""Small tables by which a GPU kernel writes a filter bank straight from the parameters, and reduces its gradient.

If all capsules are signed permutations, each weight of a bank is one parameter times a factor, and the pattern is
the same for every pair of copies:

    bank[o, tap, i] = value[u, tap, v] · θ[start[u, tap, v] + copy(o) · step_out[u, v] + copy(i) · step_in[u, v]]

where u and v are the *units* of the channels o and i: their components within a kind of capsule. The tables are as
small as one copy of each kind. The gradient runs over the parameters instead: each is a sum of a few weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steerable.nn.expansion import BankPlan, PairFilters
from steerable.types.field_types import FieldType

__all__ = ["PARAMETERS_PER_PROGRAM", "BankTables", "bank_tables", "nonzero_weights"]

PARAMETERS_PER_PROGRAM = 256

Integers = NDArray[np.int32]
Floats = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True)
class BankTables:
    """All tables of one layer.

    Attributes:
        start, value: (units out, taps, units in); a start of -1 is a weight that is always zero.
        step_out, step_in: (units out, units in), from one copy's parameters to the next one's.
        unit_out, copy_out, unit_in, copy_in: (channels,).
        place, factor: (basis filters, width): where the weights of one parameter lie in the bank, counted from the
            first weight of its pair of copies, and what they are multiplied by; padded with factors 0.
        pairs: (pairs of kinds, 9), the fields of :func:`_pair_row`.
        program_pair: (programs,), the pair of kinds on which each program of the gradient works.
    """

    start: Integers
    value: Floats
    step_out: Integers
    step_in: Integers
    unit_out: Integers
    copy_out: Integers
    unit_in: Integers
    copy_in: Integers
    place: Integers
    factor: Floats
    pairs: Integers
    program_pair: Integers


def bank_tables(plan: BankPlan) -> BankTables | None:
    """The tables of a layer; None if its capsules mix channels, it is grouped, or its bank is too large."""
    if plan.groups > 1 or not plan.takes_kernels or plan.weights >= 2**31:
        return None
    in_dims = [capsule.dim for capsule, _ in plan.in_type.terms]
    out_dims = [capsule.dim for capsule, _ in plan.out_type.terms]
    units_in, units_out = np.cumsum([0, *in_dims]), np.cumsum([0, *out_dims])
    start = np.full((units_out[-1], plan.taps, units_in[-1]), -1, dtype=np.int32)
    value = np.zeros(start.shape)
    step_out, step_in = np.zeros((2, units_out[-1], units_in[-1]), dtype=np.int32)
    numbers, places, values, rows, programs = [], [], [], [], []
    hom_start = program = 0
    for k, pair in enumerate(plan.pairs):
        a, b = divmod(k, plan.in_kinds)
        number, u, tap, v, factors = nonzero_weights(plan, pair)
        at = units_out[a] + u, tap, units_in[b] + v
        start[at], value[at] = pair.start + number, factors
        where = slice(units_out[a], units_out[a + 1]), slice(units_in[b], units_in[b + 1])
        step_out[where], step_in[where] = pair.in_copies * pair.count, pair.count
        numbers.append(hom_start + number)
        places.append((u * plan.taps + tap) * plan.in_type.channels + v)
        values.append(factors)
        chunks = -(-pair.in_copies * pair.count // PARAMETERS_PER_PROGRAM)
        rows.append(_pair_row(plan, k, program, chunks, hom_start))
        programs.append(np.full(pair.out_copies * chunks, k))
        program += pair.out_copies * chunks
        hom_start += pair.count
    number = np.concatenate(numbers)
    counts = np.bincount(number, minlength=hom_start)
    column = np.arange(number.size) - np.repeat(np.cumsum(counts) - counts, counts)
    place, factor = np.zeros((hom_start, counts.max()), dtype=np.int32), np.zeros((hom_start, counts.max()))
    place[number, column], factor[number, column] = np.concatenate(places), np.concatenate(values)
    return BankTables(
        start,
        value,
        step_out,
        step_in,
        *_units(plan.out_type),
        *_units(plan.in_type),
        place,
        factor,
        np.array(rows, dtype=np.int32),
        np.concatenate(programs).astype(np.int32),
    )


def nonzero_weights(plan: BankPlan, pair: PairFilters) -> tuple[Places, Places, Places, Places, Floats]:
    """Filter, channel out, tap, channel in and value of all weights of a pair's filters, filter by filter."""
    in_dim = pair.in_capsule.dim
    if pair.order_start is None:
        psi = plan.basis[pair.basis_start :][: pair.count * pair.entries * plan.taps]
        number, u, v, tap = np.nonzero(psi.reshape(pair.count, pair.out_capsule.dim, in_dim, plan.taps))
        return number, u, tap, v, psi[psi != 0]
    # Each orbit has the filters of one table, at places of its own.
    rows, turns = pair.count // pair.orbits, pair.entries // pair.orbits
    table = plan.basis[pair.basis_start :][: rows * turns * plan.taps].reshape(rows, turns, plan.taps)
    row, turn, tap = np.nonzero(table)
    place = np.argsort(plan.order[pair.order_start : pair.order_start + pair.entries]).reshape(pair.orbits, turns)
    u, v = np.divmod(place[:, turn].ravel(), in_dim)
    number = np.arange(pair.orbits)[:, None] * rows + row
    return number.ravel(), u, np.tile(tap, pair.orbits), v, np.tile(table[row, turn, tap], pair.orbits)


def _pair_row(plan: BankPlan, k: int, program: int, chunks: int, hom_start: int) -> list[int]:
    """The numbers that a program needs to know about its pair of kinds.

    Its first program; programs per out copy; parameters per out copy; basis filters; first parameter; first row of
    ``place``; first weight in the bank; weights from one out copy to the next; from one in copy to the next.
    """
    pair = plan.pairs[k]
    a, b = divmod(k, plan.in_kinds)
    row, column = plan.out_type.term_slices[a].start, plan.in_type.term_slices[b].start
    line = plan.taps * plan.in_type.channels
    return [
        program,
        chunks,
        pair.in_copies * pair.count,
        pair.count,
        pair.start,
        hom_start,
        row * line + column,
        pair.out_capsule.dim * line,
        pair.in_capsule.dim,
    ]


def _units(field_type: FieldType) -> tuple[Integers, Integers]:
    """For each channel its unit, counted over all components of all kinds, and the number of its copy."""
    units, copies_of, start = [], [], 0
    for capsule, copies in field_type.terms:
        units.append(np.tile(np.arange(start, start + capsule.dim), copies))
        copies_of.append(np.repeat(np.arange(copies), capsule.dim))
        start += capsule.dim
    return np.concatenate(units).astype(np.int32), np.concatenate(copies_of).astype(np.int32)
