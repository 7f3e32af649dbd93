"""Induced representations: from a subgroup to the whole group, and functions on cosets as the simplest case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.homomorphisms import inclusion
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation
from steerable.errors import expect

__all__ = ["induce", "quotient"]


def induce(
    representation: Representation,
    group: FiniteGroup,
    *,
    embedding: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Representation:
    """Ind_K^G ρ: one copy of ρ per left coset t_i K, with g t_i = t_j k acting as ρ(k) from copy i to copy j.

    ``representation`` is of a subgroup K of ``group``; see :func:`inclusion` for how K's elements are found in G.
    Coset representatives t_i are the first elements of the cosets, in the order of ``group.elements``.
    """
    expect(representation, Representation, "a Representation of a subgroup to induce")
    expect(group, FiniteGroup, "the group to induce to, such as dihedral(4)")
    into = inclusion(representation.group, group, embedding)
    members = into.indices
    position = np.full(group.order, -1, dtype=np.intp)  # element of K in G -> its index in K
    position[members] = np.arange(len(members))
    cosets = group.coset_indices(into.images)
    transversal = cosets[:, 0]
    coset_of = np.empty(group.order, dtype=np.intp)
    coset_of[cosets] = np.arange(len(cosets))[:, None]
    products = group.table[:, transversal]  # (order, cosets): g t_i
    to = coset_of[products]
    within = position[group.table[group.inverses[transversal[to]], products]]  # index in K of t_j⁻¹ g t_i
    if representation.monomial is not None:
        return Representation._of(group, monomial=representation.monomial.induced(to, within), name=name)
    order, count, dim = group.order, len(cosets), representation.dim
    dense = np.zeros((order, count, dim, count, dim))
    g, i = np.arange(order)[:, None], np.arange(count)
    dense[g, to, :, i, :] = representation.matrices[within]
    return Representation._of(group, dense=dense.reshape(order, count * dim, count * dim), name=name)


def quotient(group: Group, subgroup: Iterable[str], *, name: str | None = None) -> Representation:
    """Functions on the left cosets of a subgroup: ρ(a)f(bK) = f(a⁻¹bK), induced by the trivial representation."""
    group = finite_group(group)
    smaller = group.subgroup(subgroup)
    one = Representation._of(smaller, monomial=Monomial.trivial(smaller.order, 1))
    return induce(one, group, name=name)
