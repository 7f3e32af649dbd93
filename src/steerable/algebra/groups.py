"""Finite groups: element names, a multiplication table, and how the elements move the plane or space.

Products read as in the paper: ``mr`` is m after r, so ``multiply("m", "r") == "mr"``. Everything here is
combinatorics on the table. Representations, irreps and capsules are built in the modules below this one; a group
offers its own (``G.irreps``, ``G.regular``, ``G.capsules``) through accessors that import them when they are asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steerable.algebra.metrics import TOLERANCE, is_orthogonal, snap
from steerable.errors import did_you_mean, listing

if TYPE_CHECKING:
    from steerable.algebra.capsules import Capsule
    from steerable.algebra.homomorphisms import Homomorphism
    from steerable.algebra.irreps import Irrep
    from steerable.algebra.representations import Representation

__all__ = ["FiniteGroup", "IntArray"]

IntArray = NDArray[np.intp]


@final
class FiniteGroup:
    """A finite group given by its elements' names and its multiplication table.

    Args:
        elements: distinct names, one for each element.
        table: (order, order) integers; ``table[a, b]`` is the index of the product ab (a after b).
        action: (order, k, k) orthogonal matrices that say how each element moves the plane (k = 2; x to the right,
            y up) or space (k = 3), or None for an abstract group. It obeys ``action[ab] = action[a] @ action[b]``.
            Several elements may move it alike.
        name: what the group is called in messages.

    >>> from steerable import dihedral
    >>> dihedral(4).multiply("r", "m")
    'mr3'
    """

    def __init__(
        self,
        elements: Sequence[str],
        table: ArrayLike,
        *,
        action: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        self.elements: tuple[str, ...] = tuple(str(element) for element in elements)
        self.order: int = len(self.elements)
        self.name: str = name if name is not None else f"group of order {self.order}"
        self.table: IntArray = _as_indices(table)
        self._index = {element: i for i, element in enumerate(self.elements)}
        _check_table(self.elements, self._index, self.table)
        self.action: NDArray[np.float64] | None = None
        if action is not None:
            self.action = np.array(action, dtype=np.float64)
            _check_action(self)
            self.action = snap(self.action)
            self.action.setflags(write=False)
        self.table.setflags(write=False)

    # ---------------------------------------------------------------- elements and products

    def index(self, element: str) -> int:
        """The position of an element in ``elements``."""
        try:
            return self._index[element]
        except (KeyError, TypeError):
            raise ValueError(
                f"`{element}` is no element of {self.name}. {did_you_mean(str(element), self.elements)}"
            ) from None

    def indices(self, elements: Iterable[str]) -> IntArray:
        """The positions of several elements, as an array."""
        if isinstance(elements, str):
            raise TypeError(
                f"expected a sequence of elements of {self.name} such as ['e', ...], got the single text "
                f"`{elements}`; put it into a list."
            )
        return np.array([self.index(element) for element in elements], dtype=np.intp)

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
        inverses: IntArray = np.argmax(self.table == self.identity_index, axis=1).astype(np.intp)
        inverses.setflags(write=False)
        return inverses

    @cached_property
    def element_orders(self) -> IntArray:
        """(order,): the order of each element."""
        orders = np.zeros(self.order, dtype=np.intp)
        power, exponent = np.arange(self.order), 1
        while not orders.all():
            orders[(orders == 0) & (power == self.identity_index)] = exponent
            power, exponent = self.table[power, np.arange(self.order)], exponent + 1
        orders.setflags(write=False)
        return orders

    @property
    def is_abelian(self) -> bool:
        return bool((self.table == self.table.T).all())

    @cached_property
    def acts_faithfully(self) -> bool:
        """Whether no element but the identity leaves every point of the plane or space where it is."""
        if self.action is None:
            return False
        moved = np.abs(self.action - np.eye(self.action.shape[1])).max(axis=(1, 2)) > TOLERANCE
        return int(moved.sum()) == self.order - 1

    # ---------------------------------------------------------------- structure

    @cached_property
    def generators(self) -> tuple[str, ...]:
        """A small set of elements that generates the group, found greedily."""
        chosen: list[int] = []
        members = self._closure([self.identity_index])
        while len(members) < self.order:
            inside = np.zeros(self.order, dtype=bool)
            inside[members] = True
            candidates = np.flatnonzero(~inside)
            # The element of the largest order first: D64 needs r and m, not 64 reflections.
            best = int(candidates[np.argmax(self.element_orders[candidates])])
            chosen.append(best)
            members = self._closure([*members, best])
        return tuple(self.elements[i] for i in chosen)

    @cached_property
    def class_index(self) -> IntArray:
        """(order,): which conjugacy class each element belongs to."""
        everything = np.arange(self.order)
        conjugates = self.table[self.table, self.inverses[:, None]]  # [h, g] -> h g h⁻¹
        smallest = conjugates.min(axis=0)
        labels = {int(label): k for k, label in enumerate(dict.fromkeys(int(s) for s in smallest))}
        index = np.array([labels[int(smallest[g])] for g in everything], dtype=np.intp)
        index.setflags(write=False)
        return index

    def conjugacy_classes(self) -> tuple[tuple[str, ...], ...]:
        """The classes {hgh⁻¹ | h}, in the order of their first elements."""
        count = int(self.class_index.max()) + 1
        return tuple(self._names(np.flatnonzero(self.class_index == k)) for k in range(count))

    def subgroups(self, *, up_to_conjugacy: bool = False) -> tuple[tuple[str, ...], ...]:
        """All subgroups (or one from each conjugacy class), smallest first, each as a tuple of elements.

        >>> from steerable import cyclic
        >>> cyclic(4).subgroups()
        (('e',), ('e', 'r2'), ('e', 'r', 'r2', 'r3'))
        """
        classes = self._subgroup_classes
        if up_to_conjugacy:
            return self._sorted_names(c[0] for c in classes)
        return self._sorted_names(members for c in classes for members in c)

    def few_subgroups(self, *, limit: int) -> tuple[tuple[str, ...], ...] | None:
        """Subgroups up to conjugacy, or None, quickly, for a group with more than ``limit`` subgroups."""
        classes = self._find_subgroup_classes(limit)
        return None if classes is None else self._sorted_names(c[0] for c in classes)

    def subgroup(self, elements: Iterable[str]) -> FiniteGroup:
        """The subgroup with exactly these elements, as a group that moves the plane as this one does.

        Raises ValueError, naming the missing product, when the elements are not closed.
        """
        members = self._checked_subgroup(elements)
        position = np.full(self.order, -1, dtype=np.intp)
        position[members] = np.arange(len(members))
        names = self._names(members)
        return FiniteGroup(
            names,
            position[self.table[np.ix_(members, members)]],
            action=None if self.action is None else self.action[members],
            name=self.name if len(names) == self.order else f"{{{', '.join(names)}}} < {self.name}",
        )

    def generated_by(self, elements: Iterable[str]) -> tuple[str, ...]:
        """The elements of the smallest subgroup that contains the given ones."""
        return self._names(self._closure([self.identity_index, *self.indices(elements)]))

    def cosets(self, subgroup: Iterable[str], *, side: str = "left") -> tuple[tuple[str, ...], ...]:
        """The cosets gK (``side="left"``) or Kg (``"right"``), in the order of their first elements."""
        return tuple(self._names(coset) for coset in self.coset_indices(subgroup, side=side))

    def coset_indices(self, subgroup: Iterable[str], *, side: str = "left") -> IntArray:
        """(number of cosets, |K|): the cosets as indices of elements, each sorted."""
        if side not in ("left", "right"):
            raise ValueError(f"side is 'left' (gK) or 'right' (Kg), got {side!r}.")
        members = self._checked_subgroup(subgroup)
        table = self.table if side == "left" else self.table.T
        cosets = np.sort(table[:, members], axis=1)
        first = np.unique(cosets[:, 0])
        return cosets[first]

    def conjugate(self, subgroup: Iterable[str], by: str) -> tuple[str, ...]:
        """The elements of hKh⁻¹ for h = ``by``."""
        h = self.index(by)
        return self._names(np.sort(self.table[self.table[h, self._checked_subgroup(subgroup)], self.inverses[h]]))

    def direct_product(
        self, other: FiniteGroup, *, acting: Literal["first", "second"] | None = None, name: str | None = None
    ) -> FiniteGroup:
        """Pairs (a, b) with (a, b)(c, d) = (ac, bd).

        Args:
            other: the group of the second elements.
            acting: the factor that moves the plane or space; the other one leaves every pixel where it is and acts
                on channels alone. By default the product is abstract, since there is no single way for a
                product to act.
            name: what the product is called; by default after its factors.

        Contrast inversion beside rotations and reflections; an image of type ``sign`` changes its sign:

        >>> from steerable import Representation, cyclic, dihedral
        >>> G = cyclic(2).direct_product(dihedral(4), acting="second")
        >>> sign = Representation(G, {"(r,e)": [[-1]], "(e,r)": [[1]], "(e,m)": [[1]]}, name="sign")
        """
        if acting not in (None, "first", "second"):
            raise ValueError(f"acting is 'first', 'second' or None, the factor that moves the plane; got {acting!r}.")
        pairs = [(a, b) for a in self.elements for b in other.elements]
        names = ["e" if (a, b) == (self.identity, other.identity) else f"({a},{b})" for a, b in pairs]
        table = self.table[:, None, :, None] * other.order + other.table[None, :, None, :]
        size = self.order * other.order
        action = None
        if acting is not None:
            factor = self if acting == "first" else other
            if factor.action is None:
                raise ValueError(
                    f"acting={acting!r} names a factor that moves the plane or space, but {factor.name} is abstract."
                )
            first, second = np.divmod(np.arange(size), other.order)
            action = factor.action[first if acting == "first" else second]
        return FiniteGroup(names, table.reshape(size, size), action=action, name=name or f"{self.name} x {other.name}")

    def acting_through(self, homomorphism: Homomorphism, *, name: str | None = None) -> FiniteGroup:
        """This group, where g moves the plane or space as φ(g) does; elements with the same image move it alike.

        >>> from steerable import Homomorphism, cyclic
        >>> C4, C2 = cyclic(4), cyclic(2)
        >>> halved = C4.acting_through(Homomorphism(C4, C2, ("e", "r", "e", "r")))
        >>> halved.action[C4.index("r")].astype(int).tolist()
        [[-1, 0], [0, -1]]
        """
        if homomorphism.source != self:
            raise TypeError(
                f"{self.name} acts through a homomorphism that starts from it; this one starts from "
                f"{homomorphism.source.name}."
            )
        target = homomorphism.target
        if target.action is None:
            raise ValueError(f"{self.name} cannot act through {target.name}, which is abstract and moves nothing.")
        return FiniteGroup(
            self.elements,
            self.table,
            action=target.action[homomorphism.indices],
            name=name or f"{self.name} through {target.name}",
        )

    # ---------------------------------------------------------------- what the modules below say of this group

    @property
    def irreps(self) -> tuple[Irrep, ...]:
        """The real irreducible representations, the trivial one first."""
        from steerable.algebra.irreps import real_irreps

        return real_irreps(self)

    def irrep(self, name: str) -> Irrep:
        """The real irrep of that name, for instance ``G.irrep("E")``."""
        from steerable.algebra.irreps import irrep_by_name

        return irrep_by_name(self, name)

    @property
    def trivial(self) -> Representation:
        """Every element as the 1×1 identity; it is the first of ``irreps``."""
        return self.irreps[0]

    @cached_property
    def regular(self) -> Representation:
        """The action on functions on the group: one channel per element."""
        from steerable.algebra.representations import quotient

        return quotient(self, [self.identity], name="regular")

    def quotient(self, subgroup: Iterable[str]) -> Representation:
        """The action on functions on the left cosets of a subgroup (appendix C): one channel per coset."""
        from steerable.algebra.capsules import quotient_name
        from steerable.algebra.representations import quotient

        members = self._names(self._checked_subgroup(subgroup))
        return quotient(self, members, name=quotient_name(self, members))

    @property
    def capsules(self) -> dict[str, Capsule]:
        """The catalogue by name: irreps first, then quotients, the regular capsule first among them."""
        from steerable.algebra.capsules import catalogue

        return dict(catalogue(self))

    def capsule(self, name: str) -> Capsule:
        """The capsule of that name in the catalogue."""
        from steerable.algebra.capsules import capsule_by_name

        return capsule_by_name(self, name)

    # ---------------------------------------------------------------- value semantics

    @cached_property
    def digest(self) -> bytes:
        """A fingerprint of elements, table and action; equal groups have equal fingerprints."""
        content = hashlib.blake2b(digest_size=16)
        content.update("\0".join(self.elements).encode())
        content.update(np.ascontiguousarray(self.table, dtype=np.int64).tobytes())
        if self.action is not None:
            content.update((np.round(self.action, 9) + 0.0).tobytes())
        return content.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FiniteGroup) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.elements, np.array(self.table), self.action, self.name))

    def __repr__(self) -> str:
        return f"<{self.name}, order {self.order}>"

    def __contains__(self, element: object) -> bool:
        return element in self._index

    def __len__(self) -> int:
        return self.order

    # ---------------------------------------------------------------- internals

    def _names(self, indices: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.elements[i] for i in indices)

    def _sorted_names(self, subgroups: Iterable[tuple[int, ...]]) -> tuple[tuple[str, ...], ...]:
        return tuple(self._names(members) for members in sorted(subgroups, key=lambda s: (len(s), s)))

    def _closure(self, seed: Iterable[int]) -> IntArray:
        """Indices of the subgroup generated by a seed that contains the identity (products double each round)."""
        members = np.unique(np.fromiter(seed, dtype=np.intp))
        while True:
            products = np.unique(self.table[np.ix_(members, members)])
            if len(products) == len(members):
                return products
            members = products

    def _checked_subgroup(self, elements: Iterable[str]) -> IntArray:
        members = np.unique(self.indices(elements))
        if self.identity_index not in members:
            raise ValueError(
                f"{{{', '.join(self._names(members))}}} is no subgroup of {self.name}: the identity `{self.identity}` "
                "is missing. Add it, or use generated_by(...)."
            )
        products = self.table[np.ix_(members, members)]
        outside = ~np.isin(products, members)
        if outside.any():
            a, b = np.argwhere(outside)[0]
            raise ValueError(
                f"{{{', '.join(self._names(members))}}} is no subgroup of {self.name}: the product "
                f"`{self.elements[members[a]]}`·`{self.elements[members[b]]}` = `{self.elements[products[a, b]]}` is "
                "missing. Add it, or use generated_by(...)."
            )
        return members

    @cached_property
    def _subgroup_classes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        classes = self._find_subgroup_classes(limit=None)
        return () if classes is None else classes

    def _find_subgroup_classes(self, limit: int | None) -> tuple[tuple[tuple[int, ...], ...], ...] | None:
        """Conjugacy classes of subgroups, found by joining one of each with cyclic groups of prime-power order."""
        zuppos = [g for g in range(self.order) if _is_prime_power(int(self.element_orders[g]))]
        cyclic = {tuple(self._closure([self.identity_index, g])): g for g in zuppos}
        extensions = list(cyclic.values())
        start: tuple[int, ...] = (self.identity_index,)
        classes: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {start: (start,)}
        known = {start}
        queue = [start]
        while queue:
            members = queue.pop()
            inside = set(members)
            for g in extensions:
                if g in inside:
                    continue
                joined = tuple(int(i) for i in self._closure([*members, g]))
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


def _rebuild(elements: tuple[str, ...], table: IntArray, action: ArrayLike | None, name: str) -> FiniteGroup:
    return FiniteGroup(elements, table, action=action, name=name)


def _is_prime_power(n: int) -> bool:
    if n < 2:
        return False
    prime = next(p for p in range(2, n + 1) if n % p == 0)
    while n % prime == 0:
        n //= prime
    return n == 1


def _as_indices(table: ArrayLike) -> IntArray:
    given = np.array(table)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise TypeError(
            f"a multiplication table holds whole numbers, the indices of products; got {given.dtype} entries."
        )
    return given.astype(np.intp)


def _check_table(elements: tuple[str, ...], index: dict[str, int], table: IntArray) -> None:
    order = len(elements)
    if order == 0:
        raise ValueError("a group has at least one element, the identity; got no elements.")
    if len(index) != order:
        twice = sorted({element for element in elements if elements.count(element) > 1})
        raise ValueError(f"the names of a group's elements are distinct; given more than once: {listing(twice)}.")
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
    members = {int(identities[0])}
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
        members = _grow(table, members, b)


def _grow(table: IntArray, members: set[int], new: int) -> set[int]:
    reached = np.array(sorted({*members, new}))
    while True:
        products = np.unique(np.concatenate([reached, table[np.ix_(reached, reached)].ravel()]))
        if len(products) == len(reached):
            return {int(i) for i in products}
        reached = products


def _check_action(group: FiniteGroup) -> None:
    action = group.action
    if action is None or action.ndim != 3 or action.shape[0] != group.order or action.shape[1] != action.shape[2]:
        shape = None if action is None else action.shape
        raise ValueError(f"an action has shape ({group.order}, k, k), one matrix per element; got {shape}.")
    if not is_orthogonal(action):
        raise ValueError("a group moves the plane or space by rotations and reflections: its matrices are orthogonal.")
    for s in [group.identity_index, *group.indices(group.generators)]:
        wrong = np.abs(action @ action[s] - action[group.table[:, s]]).max(axis=(1, 2)) > TOLERANCE
        if wrong.any():
            g = int(np.argmax(wrong))
            raise ValueError(
                f"the action is no homomorphism: action(`{group.elements[g]}`) @ action(`{group.elements[s]}`) is not "
                f"action(`{group.elements[group.table[g, s]]}`)."
            )
