"""Subgroups of a finite group, their conjugates and their cosets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from steerable.algebra.arrays import IntArray
from steerable.algebra.multiplication_tables import MultiplicationTable, closure

__all__ = ["SubgroupLattice"]

Members = tuple[int, ...]
"""The elements of one subgroup, as sorted indices."""


class SubgroupLattice(MultiplicationTable):
    """A multiplication table together with its subgroups, each given by its elements; a base of `FiniteGroup`."""

    def subgroups(self, *, up_to_conjugacy: bool = False) -> tuple[tuple[str, ...], ...]:
        """All subgroups (or one from each conjugacy class), smallest first, each as a tuple of elements.

        >>> from steerable import cyclic
        >>> cyclic(4).subgroups()
        (('e',), ('e', 'r2'), ('e', 'r', 'r2', 'r3'))
        """
        classes = self._subgroup_classes
        if up_to_conjugacy:
            return self._smallest_first(c[0] for c in classes)
        return self._smallest_first(members for c in classes for members in c)

    def few_subgroups(self, *, limit: int) -> tuple[tuple[str, ...], ...] | None:
        """Subgroups up to conjugacy, or None, quickly, for a group with more than ``limit`` subgroups."""
        classes = self._find_subgroup_classes(limit)
        return None if classes is None else self._smallest_first(c[0] for c in classes)

    def generated_by(self, elements: Iterable[str]) -> tuple[str, ...]:
        """The elements of the smallest subgroup that contains the given ones."""
        return self.names(closure(self.table, [self.identity_index, *self.indices(elements)]))

    def subgroup_indices(self, elements: Iterable[str]) -> IntArray:
        """The sorted indices of elements that form a subgroup.

        Raises ValueError, naming the missing product, when the elements are not closed.
        """
        members = np.unique(self.indices(elements))
        if self.identity_index not in members:
            raise ValueError(
                f"{{{', '.join(self.names(members))}}} is not a subgroup of {self.name}: the identity "
                f"`{self.identity}` is missing. Add it, or use generated_by(...)."
            )
        products = self.table[np.ix_(members, members)]
        outside = ~np.isin(products, members)
        if outside.any():
            a, b = np.argwhere(outside)[0]
            raise ValueError(
                f"{{{', '.join(self.names(members))}}} is not a subgroup of {self.name}: the product "
                f"`{self.elements[members[a]]}`·`{self.elements[members[b]]}` = `{self.elements[products[a, b]]}` is "
                "missing. Add it, or use generated_by(...)."
            )
        return members

    def cosets(self, subgroup: Iterable[str], *, side: str = "left") -> tuple[tuple[str, ...], ...]:
        """The cosets gK (``side="left"``) or Kg (``"right"``), in the order of their first elements."""
        return tuple(self.names(coset) for coset in self.coset_indices(subgroup, side=side))

    def coset_indices(self, subgroup: Iterable[str], *, side: str = "left") -> IntArray:
        """(number of cosets, |K|): the cosets as indices of elements, each sorted."""
        if side not in ("left", "right"):
            raise ValueError(f"side must be 'left' (gK) or 'right' (Kg), got {side!r}.")
        members = self.subgroup_indices(subgroup)
        table = self.table if side == "left" else self.table.T
        cosets = np.sort(table[:, members], axis=1)
        first = np.unique(cosets[:, 0])
        return cosets[first]

    def conjugate(self, subgroup: Iterable[str], by: str) -> tuple[str, ...]:
        """The elements of hKh⁻¹ for h = ``by``."""
        h = self.index(by)
        return self.names(np.sort(self.table[self.table[h, self.subgroup_indices(subgroup)], self.inverses[h]]))

    def _smallest_first(self, subgroups: Iterable[Members]) -> tuple[tuple[str, ...], ...]:
        return tuple(self.names(members) for members in sorted(subgroups, key=lambda s: (len(s), s)))

    @cached_property
    def _subgroup_classes(self) -> tuple[tuple[Members, ...], ...]:
        return self._find_subgroup_classes(limit=None) or ()

    def _find_subgroup_classes(self, limit: int | None) -> tuple[tuple[Members, ...], ...] | None:
        """Conjugacy classes of subgroups, or None if there are more than ``limit`` subgroups.

        One subgroup of each class is joined with cyclic groups of prime-power order until no new ones turn up.
        """
        prime_powers = [g for g in range(self.order) if _is_prime_power(int(self.element_orders[g]))]
        cyclic = {tuple(closure(self.table, [self.identity_index, g])): g for g in prime_powers}
        trivial: Members = (self.identity_index,)
        classes: dict[Members, tuple[Members, ...]] = {trivial: (trivial,)}
        known = {trivial}
        queue = [trivial]
        while queue:
            members = queue.pop()
            inside = set(members)
            for g in cyclic.values():
                if g in inside:
                    continue
                joined = tuple(int(i) for i in closure(self.table, [*members, g]))
                if joined in known:
                    continue
                conjugates = np.sort(self.table[self.table[:, joined], self.inverses[:, None]], axis=1)
                orbit = sorted({tuple(int(i) for i in row) for row in conjugates})
                known.update(orbit)
                if limit is not None and len(known) > limit:
                    return None
                classes[joined] = tuple(orbit)
                queue.append(joined)
        return tuple(classes.values())


def _is_prime_power(n: int) -> bool:
    if n < 2:
        return False
    prime = next(p for p in range(2, n + 1) if n % p == 0)
    while n % prime == 0:
        n //= prime
    return n == 1
