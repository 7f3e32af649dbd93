"""What a subgroup sees of a field type: the same channels, in smaller capsules where the subgroup splits them.

D4's ``regular`` is ``2*regular`` for C4 and ``4*regular`` for {e, m}: the subgroup moves the eight channels in two or
four separate orbits, and an orbit is a capsule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.arrays import IntArray
from steerable.algebra.capsules import Capsule, capsule_by_name, quotient_name
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.homomorphisms import inclusion
from steerable.algebra.irreps import real_irreps
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation
from steerable.types.field_types import FieldType

__all__ = ["restriction"]


def restriction(field_type: FieldType, subgroup: Iterable[str] | FiniteGroup) -> tuple[FieldType, NDArray[np.intp]]:
    """(restricted type, order): ``x[:, order]`` is a field of the restricted type when x is one of ``field_type``.

    >>> from steerable import FieldType, dihedral
    >>> kind, order = restriction(FieldType(dihedral(4), "regular + E"), ["e", "r2"])
    >>> str(kind), order.tolist()
    ('4*regular + 2*B', [0, 2, 1, 3, 4, 6, 5, 7, 8, 9])
    """
    smaller = subgroup if isinstance(subgroup, FiniteGroup) else field_type.group.subgroup(subgroup)
    into = inclusion(smaller, field_type.group)
    stack: list[tuple[Capsule, NDArray[np.intp]]] = []
    named: dict[str, Capsule] = {}
    for (capsule, copies), channels in zip(field_type.blocks, field_type.block_slices, strict=True):
        found = list(_parts(capsule, capsule.representation.pullback(into)))
        parts = [(_under_own_name(part, named), members) for part, members in found]
        for copy in range(copies):
            start = channels.start + copy * capsule.dim
            stack.extend((part, start + members) for part, members in parts)
    restricted = FieldType(smaller, [part for part, _ in stack])
    ordered = [members for kind, _ in restricted.blocks for part, members in stack if part == kind]
    return restricted, np.concatenate(ordered) if ordered else np.zeros(0, dtype=np.intp)


def _under_own_name(part: Capsule, named: dict[str, Capsule]) -> Capsule:
    """The capsule, numbered where a different one has its name: the orbits of one capsule need not be alike."""
    name, number = part.name, 1
    while named.setdefault(name, part) != part:
        number += 1
        name = f"{part.name}{number}"
    return Capsule(part.representation, name)


def _parts(capsule: Capsule, rho: Representation) -> Iterator[tuple[Capsule, IntArray]]:
    """The capsules into which the subgroup divides one capsule, each with its channels in order."""
    if rho.monomial is None:
        yield _known(rho) or Capsule(rho, f"{capsule.name}_restricted"), np.arange(rho.dim)
        return
    for first in np.flatnonzero(rho.monomial.image.min(axis=0) == np.arange(rho.dim)):
        orbit = np.unique(rho.monomial.image[:, first])
        if (rho.monomial.scale[:, orbit] == 1).all():
            yield _quotient_part(capsule, rho, orbit)
        else:
            part = _on_channels(rho, orbit)
            yield _known(part) or Capsule(part, f"{capsule.name}_restricted"), orbit


def _quotient_part(capsule: Capsule, rho: Representation, orbit: IntArray) -> tuple[Capsule, IntArray]:
    """An orbit that the subgroup permutes: the quotient by a stabiliser, its channels in the order of the cosets."""
    if rho.monomial is None:
        raise RuntimeError("an orbit of channels needs a monomial representation")
    group = rho.group
    for base in orbit:
        stabiliser = [group.elements[g] for g in np.flatnonzero(rho.monomial.image[:, base] == base)]
        name = quotient_name(group, stabiliser)
        if name is not None:
            carriers = group.coset_indices(stabiliser)[:, 0]
            return capsule_by_name(group, name), rho.monomial.image[carriers, base]
    return Capsule(_on_channels(rho, orbit), f"{capsule.name}_restricted"), orbit


def _on_channels(rho: Representation, channels: IntArray) -> Representation:
    if rho.monomial is None:
        raise RuntimeError("an orbit of channels needs a monomial representation")
    image = np.searchsorted(channels, rho.monomial.image[:, channels])
    return Representation._of(rho.group, monomial=Monomial(image, rho.monomial.scale[:, channels]))


def _known(rho: Representation) -> Capsule | None:
    """The irrep with exactly these matrices, if there is one."""
    return next((Capsule(irrep) for irrep in real_irreps(rho.group) if irrep == rho), None)
