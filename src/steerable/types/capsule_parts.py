"""The parts of a capsule that a subgroup sees: one or several capsules of its own, which have names in text, too.

Often they are in the subgroup's catalogue: D4's ``regular`` is twice ``regular`` for C4. Otherwise they are named after
the larger group: D4 sees ``E3`` of D8 as ``E3[D8]``, a vector that turns the other way round than ``E``. ``L4[SO3, 2]``
is the second of the parts that a subgroup sees of ``L4``, and ``L4[SO3]`` is all of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from steerable.algebra.arrays import IntArray
from steerable.algebra.capsules import Capsule, capsule_by_name, quotient_name
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.families import group_named, is_named
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.metrics import TOLERANCE
from steerable.algebra.representations import Representation

__all__ = ["capsules_seen", "parts_seen"]

_LARGER = re.compile(r"\[ *(.+?)(?:, *([1-9]\d{0,3}))? *\]")


def parts_seen(capsule: Capsule, subgroup: Group) -> Iterator[tuple[Capsule, IntArray]]:
    """The capsules into which the subgroup divides one capsule, each with its channels in order."""
    rho = capsule.representation
    if subgroup == rho.group:
        yield capsule, np.arange(rho.dim)
    elif isinstance(rho, CompactRepresentation) and len(rho.waves) > 1 and rho.is_sum_of_irreps:
        irreps = {wave: capsule_by_name(rho.group, wave.name(rho.group)) for wave in rho.waves}
        parts = {wave: tuple(parts_seen(irrep, subgroup)) for wave, irrep in irreps.items()}  # of several copies once
        for wave, place in zip(rho.waves, rho.slices, strict=True):
            yield from ((part, place.start + members) for part, members in parts[wave])
    else:
        smaller = rho.restrict(subgroup)
        sets = _unmixed(smaller)
        for number, channels in enumerate(sets, start=1):
            part = smaller.on_channels(channels)
            known = _quotient(part) if part.is_permutation and isinstance(part.group, FiniteGroup) else _irrep(part)
            name = _name_of_part(capsule, number if len(sets) > 1 else None)
            found, order = known or (Capsule(part, name), np.arange(part.dim))
            yield found, channels[order]


def capsules_seen(group: Group, name: str, larger: Sequence[str]) -> list[Capsule]:
    """The capsules that are written ``name[G]``, or ``name[K][G]`` where G itself is a subgroup of K.

    >>> from steerable import dihedral
    >>> [str(capsule) for capsule in capsules_seen(dihedral(4), "E2", ["[D8]"])]
    ['B2', 'B1']
    """
    read = [match for text in larger if (match := _LARGER.fullmatch(text))]
    if len(read) < len(larger):
        raise ValueError(f"in brackets stands the name of a larger group, as in `{name}[D8]` or `{name}[SO3, 2]`")
    groups = [*(group_named(match[1]) for match in read), group]
    found = [capsule_by_name(groups[0], name)]
    for match, subgroup in zip(read, groups[1:], strict=True):
        seen = [part for capsule in found for part, _ in parts_seen(capsule, subgroup)]
        number = int(match[2] or 0)
        if number > len(seen):
            parts = f"{len(seen)} part{'s' if len(seen) > 1 else ''}"
            raise ValueError(f"{subgroup.name} sees {parts} of `{name}` of {match[1]}; got number {number}")
        found = seen[number - 1 : number] if number else seen
    return found


def _name_of_part(capsule: Capsule, number: int | None) -> str:
    """A name such as ``E3[D8]``, or ``…_restricted`` if the capsule is not found by its name in its group."""
    is_written = is_named(capsule.group)
    if is_written and "[" not in capsule.name:  # else it was named here
        try:
            is_written = capsule_by_name(capsule.group, capsule.name) == capsule
        except ValueError:
            is_written = False
    if is_written:
        return f"{capsule.name}[{capsule.group.name}{f', {number}' if number else ''}]"
    return re.sub(r"\W", "_", capsule.name) + f"_restricted{number or ''}"


def _unmixed(rho: Representation) -> list[IntArray]:
    """The smallest sets of channels that the group keeps apart from each other, by their first channels."""
    mixed = rho.mixing() > TOLERANCE
    joined = mixed | mixed.T | np.eye(rho.dim, dtype=np.bool_)  # one way is enough: a triangular matrix mixes all
    while (closer := joined @ joined).sum() > joined.sum():
        joined = closer
    return [np.flatnonzero(row) for k, row in enumerate(joined) if row.argmax() == k]


def _quotient(rho: Representation) -> tuple[Capsule, IntArray] | None:
    """One orbit of channels, which the group permutes: the quotient by a stabiliser, and the channels of its cosets."""
    group = finite_group(rho.group)
    if rho.monomial is None:
        raise RuntimeError("an orbit of channels needs a monomial representation")
    for base in range(rho.dim):
        stabiliser = [group.elements[g] for g in np.flatnonzero(rho.monomial.image[:, base] == base)]
        name = quotient_name(group, stabiliser)
        if name is not None:
            carriers = group.coset_indices(stabiliser)[:, 0]
            return capsule_by_name(group, name), rho.monomial.image[carriers, base]
    return None


def _irrep(rho: Representation) -> tuple[Capsule, IntArray] | None:
    """The irrep that has exactly these matrices, perhaps with its channels in another order, if there is one."""
    if sum(rho.type) != 1:
        return None
    irrep = rho.group.irreps_of(rho.type)[rho.type.index(1)]
    orders = [np.arange(rho.dim), np.arange(rho.dim)[::-1]]  # reversed, a turn by -θ is one by θ
    if rho.dim == 3:  # xy, yz, xz of degree 2 are the channels yz, xz, xy of T2
        orders = [np.array(order) for order in itertools.permutations(range(3))]
    return next(((Capsule(irrep), order) for order in orders if rho.on_channels(order) == irrep), None)
