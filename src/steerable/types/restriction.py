"""What a subgroup sees of a field type: the same channels, in smaller capsules where the subgroup splits them.

D4's ``regular`` is ``2*regular`` for C4 and ``4*regular`` for {e, m}: the subgroup moves the eight channels in two or
four separate orbits, and an orbit is a capsule of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.arrays import IntArray
from steerable.algebra.capsules import Capsule, capsule_by_name, quotient_name
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.metrics import TOLERANCE
from steerable.algebra.representations import Representation
from steerable.types.field_types import FieldType
from steerable.types.shared_subgroups import subgroup_of

__all__ = ["Seen", "restriction", "seen_by"]


@dataclass(frozen=True)
class Seen:
    """A field type as a subgroup sees it.

    Attributes:
        field_type: the restricted type.
        order: ``x[:, order]`` is a field of the restricted type when x is one of the type that was restricted.
    """

    field_type: FieldType
    order: NDArray[np.intp]

    @property
    def back(self) -> NDArray[np.intp]:
        """The inverse of ``order``: the place of each channel in the restricted type."""
        return np.argsort(self.order)

    @property
    def keeps_order(self) -> bool:
        """Whether every channel stays where it is."""
        return bool(np.array_equal(self.order, np.arange(len(self.order))))


def seen_by(field_type: FieldType, subgroup: Iterable[str] | Group) -> Seen:
    """The restricted type and the order of its channels, as one value."""
    return Seen(*restriction(field_type, subgroup))


def restriction(field_type: FieldType, subgroup: Iterable[str] | Group) -> tuple[FieldType, NDArray[np.intp]]:
    """(restricted type, order): ``x[:, order]`` is a field of the restricted type when x is one of ``field_type``.

    The subgroup is a group, its name such as ``"C4"``, or a list of elements.

    >>> from steerable import FieldType, cyclic, dihedral, so2
    >>> kind, order = restriction(FieldType(dihedral(4), "regular + E"), ["e", "r2"])
    >>> str(kind), order.tolist()
    ('4*regular + 2*B', [0, 2, 1, 3, 4, 6, 5, 7, 8, 9])
    >>> str(restriction(FieldType(so2(), "2*regular(2) + E7"), cyclic(8))[0])
    '2*A + 3*E1 + 2*E2'
    """
    smaller = subgroup_of(field_type.group, subgroup)
    stack: list[tuple[Capsule, NDArray[np.intp]]] = []
    named: dict[str, Capsule] = {}
    for (capsule, copies), channels in zip(field_type.terms, field_type.term_slices, strict=True):
        found = list(_parts(capsule, capsule.representation.restrict(smaller)))
        parts = [(_uniquely_named(part, named), members) for part, members in found]
        for copy in range(copies):
            start = channels.start + copy * capsule.dim
            stack.extend((part, start + members) for part, members in parts)
    restricted = FieldType(smaller, [part for part, _ in stack])
    ordered = [members for kind, _ in restricted.terms for part, members in stack if part == kind]
    return restricted, np.concatenate(ordered) if ordered else np.zeros(0, dtype=np.intp)


def _uniquely_named(part: Capsule, named: dict[str, Capsule]) -> Capsule:
    """The capsule, with a number where a different one has its name: orbits of one capsule need not be alike."""
    name, number = part.name, 1
    while named.setdefault(name, part) != part:
        number += 1
        name = f"{part.name}{number}"
    return Capsule(part.representation, name)


def _parts(capsule: Capsule, rho: Representation) -> Iterator[tuple[Capsule, IntArray]]:
    """The capsules into which the subgroup divides one capsule, each with its channels in order."""
    if rho == capsule.representation:
        yield capsule, np.arange(rho.dim)
        return
    own_name = re.sub(r"\W", "", capsule.name) + "_restricted"
    for channels in _unmixed(rho):
        part = rho.on_channels(channels)
        known = _quotient(part) if part.is_permutation and isinstance(part.group, FiniteGroup) else _irrep(part)
        found, order = known or (Capsule(part, own_name), np.arange(part.dim))
        yield found, channels[order]


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
