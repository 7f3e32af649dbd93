"""Multiplication tables: the elements of a finite group by name, their products, and everything that follows.

Products read as in the paper: ``mr`` is m after r, so ``multiply("m", "r") == "mr"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import IntArray, read_only
from steerable.errors import did_you_mean, listing, shown

__all__ = ["MultiplicationTable", "closure"]


class MultiplicationTable:
    """Named elements and a table of their products that obeys the laws of a group; the base of `FiniteGroup`."""

    def __init__(self, elements: Sequence[str], table: ArrayLike, *, name: str | None = None) -> None:
        self.elements: tuple[str, ...] = tuple(str(element) for element in elements)
        self.order: int = len(self.elements)
        self.name: str = name if name is not None else f"group of order {self.order}"
        self.table: IntArray = read_only(_as_indices(table))
        self._index = {element: i for i, element in enumerate(self.elements)}
        _check_names(self.elements)
        _check_table(self.elements, self.table)

    def index(self, element: str) -> int:
        """The position of an element in ``elements``."""
        try:
            return self._index[element]
        except (KeyError, TypeError):
            raise ValueError(
                f"`{element}` is not an element of {self.name}. {did_you_mean(str(element), self.elements)}"
            ) from None

    def indices(self, elements: Iterable[str]) -> IntArray:
        """The positions of several elements, as an array."""
        if isinstance(elements, str):
            raise TypeError(
                f"expected a sequence of elements of {self.name} such as ['e', ...], got a single string, "
                f"`{elements}`; put it into a list."
            )
        if not isinstance(elements, Iterable):
            raise TypeError(
                f"expected a sequence of elements of {self.name} such as ['{self.elements[0]}', ...], got "
                f"{type(elements).__name__} {shown(elements)}."
            )
        return np.array([self.index(element) for element in elements], dtype=np.intp)

    def names(self, indices: Iterable[int]) -> tuple[str, ...]:
        """The elements at several positions."""
        return tuple(self.elements[i] for i in indices)

    def multiply(self, *factors: str) -> str:
        """The product of any number of elements; the rightmost acts first."""
        product = self.identity_index
        for factor in factors:
            product = int(self.table[product, self.index(factor)])
        return self.elements[product]

    def inverse(self, element: str) -> str:
        return self.elements[int(self.inverses[self.index(element)])]

    def element_order(self, element: str) -> int:
        """The smallest n > 0 with element^n = e."""
        return int(self.element_orders[self.index(element)])

    @property
    def identity(self) -> str:
        return self.elements[self.identity_index]

    @cached_property
    def identity_index(self) -> int:
        return int(np.flatnonzero((self.table == np.arange(self.order)).all(axis=1))[0])

    @cached_property
    def inverses(self) -> IntArray:
        """(order,): the index of each element's inverse."""
        return read_only(np.argmax(self.table == self.identity_index, axis=1).astype(np.intp))

    @cached_property
    def element_orders(self) -> IntArray:
        """(order,): the order of each element."""
        orders = np.zeros(self.order, dtype=np.intp)
        power, exponent = np.arange(self.order), 1
        while not orders.all():
            orders[(orders == 0) & (power == self.identity_index)] = exponent
            power, exponent = self.table[power, np.arange(self.order)], exponent + 1
        return read_only(orders)

    @property
    def is_abelian(self) -> bool:
        return bool((self.table == self.table.T).all())

    @cached_property
    def generators(self) -> tuple[str, ...]:
        """A small set of elements that generates the group, found greedily."""
        chosen: list[int] = []
        members = closure(self.table, [self.identity_index])
        while len(members) < self.order:
            candidates = np.setdiff1d(np.arange(self.order), members)
            # The element of the largest order first: D64 needs r and m, not 64 reflections.
            best = int(candidates[np.argmax(self.element_orders[candidates])])
            chosen.append(best)
            members = closure(self.table, [*members, best])
        return self.names(chosen)

    def words(self, generators: IntArray) -> list[tuple[int, int, int]]:
        """(element, parent, step) for all but the identity, parents first: element = parent · generators[step]."""
        seen, words, queue = {self.identity_index}, [], [self.identity_index]
        for parent in queue:
            for step, element in enumerate(self.table[parent, generators].tolist()):
                if element not in seen:
                    seen.add(element)
                    queue.append(element)
                    words.append((element, parent, step))
        return words

    @cached_property
    def class_index(self) -> IntArray:
        """(order,): the conjugacy class to which each element belongs."""
        conjugates = self.table[self.table, self.inverses[:, None]]  # [h, g] -> h g h⁻¹
        smallest = [int(s) for s in conjugates.min(axis=0)]
        labels = {label: k for k, label in enumerate(dict.fromkeys(smallest))}
        return read_only(np.array([labels[s] for s in smallest], dtype=np.intp))

    def conjugacy_classes(self) -> tuple[tuple[str, ...], ...]:
        """The classes {hgh⁻¹ | h}, in the order of their first elements."""
        count = int(self.class_index.max()) + 1
        return tuple(self.names(np.flatnonzero(self.class_index == k)) for k in range(count))

    def __contains__(self, element: object) -> bool:
        return element in self._index

    def __len__(self) -> int:
        return self.order


def closure(table: IntArray, seed: Iterable[int]) -> IntArray:
    """The sorted indices of the subgroup that a seed generates; the seed contains the identity."""
    members = np.unique(np.fromiter(seed, dtype=np.intp))
    while True:  # the longest products double each round
        products = np.unique(table[np.ix_(members, members)])
        if len(products) == len(members):
            return products
        members = products


def _as_indices(table: ArrayLike) -> IntArray:
    given = np.array(table)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise TypeError(
            f"a multiplication table holds whole numbers, the indices of products; got {given.dtype} entries."
        )
    return given.astype(np.intp)


def _check_names(elements: tuple[str, ...]) -> None:
    if not elements:
        raise ValueError("a group has at least one element, the identity; got no elements.")
    if len(set(elements)) != len(elements):
        twice = sorted({element for element in elements if elements.count(element) > 1})
        raise ValueError(f"the names of a group's elements must be distinct; given more than once: {listing(twice)}.")


def _check_table(elements: tuple[str, ...], table: IntArray) -> None:
    order = len(elements)
    if table.shape != (order, order):
        raise ValueError(f"the multiplication table of {order} elements has shape {(order, order)}, got {table.shape}.")
    everything = np.arange(order)
    if not ((np.sort(table, axis=0) == everything[:, None]).all() and (np.sort(table, axis=1) == everything).all()):
        raise ValueError(
            "in a multiplication table each row and each column contains every element once; this table does not. "
            "table[a, b] is the index of the product ab."
        )
    identities = np.flatnonzero((table == everything).all(axis=1) & (table == everything[:, None]).all(axis=0))
    if len(identities) == 0:
        raise ValueError("the multiplication table has no identity: no e with e·g = g·e = g for all g.")
    # Light's test: (a b) c = a (b c) for all b in a generating set is enough.
    members = identities
    for b in range(order):
        if b in members:
            continue
        wrong = table[table[:, b]] != table[:, table[b]]
        if wrong.any():
            a, c = np.argwhere(wrong)[0]
            raise ValueError(
                f"the multiplication table is not associative: (`{elements[a]}`·`{elements[b]}`)·`{elements[c]}` "
                f"differs from `{elements[a]}`·(`{elements[b]}`·`{elements[c]}`)."
            )
        members = closure(table, [*members, b])
