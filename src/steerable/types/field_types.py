"""Field types: a stack of capsules, written and read as text."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import final, overload

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.arrays import is_whole
from steerable.algebra.capsules import Capsule, capsule_by_name
from steerable.algebra.compact_characters import CompactCharacter
from steerable.algebra.families import group_named
from steerable.algebra.group_interface import Group
from steerable.algebra.representations import Representation, direct_sum
from steerable.types.field_text import parse_field_type

__all__ = ["FieldType"]


@final
class FieldType:
    """The type of a field: how many capsules of which kind each fibre has. Immutable; compared by content.

    Equal capsules are kept adjacent, in the order in which each kind is first named: ``2*(A1 + E)`` is ``2*A1 + 2*E``.

    Args:
        group: the group H that acts on the fibres, or its name, such as ``"D4"``.
        spec: text such as ``"14*(regular + qm) + 2*E"``, or a capsule, or a sequence of capsules or of
            (multiplicity, capsule) pairs.
        capsules: capsules of your own that the text may name, in addition to the group's catalogue.

    Attributes:
        terms: each kind of capsule with its number of copies, in the order of their channels.
        channels: how many channels a field of this type has.

    >>> stream = FieldType("D4", "2*(regular + qm + qmr2 + qmr3)")
    >>> stream.channels, str(stream)
    (40, '2*regular + 2*qm + 2*qmr2 + 2*qmr3')
    """

    def __init__(
        self,
        group: Group | str,
        spec: str | Capsule | Representation | Iterable[object],
        *,
        capsules: Iterable[Capsule] = (),
    ) -> None:
        group = group_named(group) if isinstance(group, str) else group
        if not isinstance(group, Group):
            raise TypeError(
                "the first argument of a field type is its group, such as dihedral(4), or the group's name, such as "
                f"'D4'; got {type(group).__name__}."
            )
        own = _own_capsules(group, capsules)
        counts: dict[Capsule, int] = {}
        for copies, capsule in _counted(group, spec, own):
            if capsule.group != group:
                raise TypeError(
                    f"capsule `{capsule}` belongs to {capsule.group.name}, but the field type to {group.name}. "
                    f"Restrict the capsule's representation, or use a capsule of {group.name}."
                )
            if copies:
                counts[capsule] = counts.get(capsule, 0) + copies
        _own_capsules(group, counts)  # two different capsules of one name could not be told apart in text
        self.group = group
        self.terms: tuple[tuple[Capsule, int], ...] = tuple(counts.items())
        self.channels: int = sum(capsule.dim * copies for capsule, copies in self.terms)

    # ---------------------------------------------------------------- what it is made of

    @property
    def blocks(self) -> tuple[tuple[Capsule, int], ...]:
        """The former name of ``terms``."""
        return self.terms

    @property
    def capsules(self) -> tuple[Capsule, ...]:
        """Every capsule, copies written out, in the order of their channels."""
        return tuple(itertools.chain.from_iterable([capsule] * copies for capsule, copies in self.terms))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The channels of each capsule."""
        ends = list(itertools.accumulate((capsule.dim for capsule in self.capsules), initial=0))
        return tuple(slice(low, high) for low, high in itertools.pairwise(ends))

    @property
    def term_slices(self) -> tuple[slice, ...]:
        """The channels of each term."""
        ends = list(itertools.accumulate((capsule.dim * n for capsule, n in self.terms), initial=0))
        return tuple(slice(low, high) for low, high in itertools.pairwise(ends))

    @cached_property
    def type(self) -> tuple[int, ...]:
        """How often each irrep of the group occurs in the fibre."""
        total = [0] * len(self.group.trivial.type)
        for capsule, copies in self.terms:
            total = [t + copies * m for t, m in itertools.zip_longest(total, capsule.type, fillvalue=0)]
        return tuple(total)

    @property
    def character(self) -> NDArray[np.float64] | CompactCharacter:
        """The character of the fibre: (order,), or a combination of irreps for SO(2), O(2), SO(3) and O(3)."""
        return sum(
            (n * capsule.representation.character for capsule, n in self.terms), 0 * self.group.trivial.character
        )

    @cached_property
    def representation(self) -> Representation:
        """The block-diagonal representation by which a fibre transforms."""
        parts = [capsule.representation for capsule in self.capsules]
        return direct_sum(parts, group=self.group)

    # ---------------------------------------------------------------- algebra

    def __add__(self, other: FieldType) -> FieldType:
        """The direct sum. Equal capsules become adjacent, so channels may come in another order than in a
        concatenation; ``snn.Concat`` concatenates and brings them into this order.
        """
        if not isinstance(other, FieldType):
            return NotImplemented
        if other.group != self.group:
            raise TypeError(
                f"cannot add a field type of {self.group.name} and one of {other.group.name}: different groups act on "
                "them. Restrict one of them first."
            )
        return FieldType(self.group, [(n, c) for c, n in (*self.terms, *other.terms)])

    def __mul__(self, copies: int) -> FieldType:
        if not is_whole(copies):
            return NotImplemented
        if copies < 0:
            raise ValueError(f"a field type is repeated 0 or more times; got {copies} times `{self}`.")
        return FieldType(self.group, [(int(copies) * n, c) for c, n in self.terms])

    __rmul__ = __mul__

    def after_concatenation(self) -> FieldType:
        """Act_ν: the type after a concatenated nonlinearity such as CReLU, capsule by capsule.

        Capsules that become equal are adjacent, so that their order may differ from that of (ν(x), ν(-x)).
        """
        return FieldType(self.group, [(n, after) for c, n in self.terms for after in c.after_concatenation()])

    def __len__(self) -> int:
        """The number of capsules."""
        return sum(copies for _, copies in self.terms)

    def __iter__(self) -> Iterator[Capsule]:
        return iter(self.capsules)

    @overload
    def __getitem__(self, index: int) -> Capsule: ...
    @overload
    def __getitem__(self, index: slice) -> FieldType: ...
    def __getitem__(self, index: int | slice) -> Capsule | FieldType:
        """A capsule by its number, or the type made of a slice of the capsules."""
        if isinstance(index, slice):
            return FieldType(self.group, self.capsules[index])
        return self.capsules[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldType) and self.group == other.group and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.group, self.terms))

    def __str__(self) -> str:
        return " + ".join(str(c) if n == 1 else f"{n}*{c}" for c, n in self.terms) or "0"

    def __repr__(self) -> str:
        return f"FieldType({self.group.name}, '{self}')"


def _own_capsules(group: Group, capsules: Iterable[Capsule]) -> dict[str, Capsule]:
    own: dict[str, Capsule] = {}
    for capsule in capsules:
        if not isinstance(capsule, Capsule):
            raise TypeError(
                f"capsules=... takes Capsule objects, got {type(capsule).__name__}; wrap it in Capsule(...)."
            )
        if own.setdefault(capsule.name, capsule) != capsule:
            raise ValueError(f"two different capsules of {group.name} are called `{capsule.name}`; rename one of them.")
    return own


def _counted(group: Group, spec: object, own: Mapping[str, Capsule]) -> Iterator[tuple[int, Capsule]]:
    def lookup(name: str) -> Capsule:
        return own.get(name) or capsule_by_name(group, name)

    if isinstance(spec, str):
        yield from parse_field_type(group, spec, lookup)
    elif isinstance(spec, FieldType):
        yield from ((copies, capsule) for capsule, copies in spec.terms)
    elif isinstance(spec, Capsule | Representation):
        yield 1, _as_capsule(spec, lookup)
    elif isinstance(spec, Iterable):
        for item in spec:
            if isinstance(item, tuple) and len(item) == 2:
                copies, capsule = item
                if not is_whole(copies) or copies < 0:
                    raise ValueError(f"a multiplicity must be a whole number ≥ 0, got {copies!r} for `{capsule}`.")
                yield int(copies), _as_capsule(capsule, lookup)
            else:
                yield 1, _as_capsule(item, lookup)
    else:
        raise TypeError(
            "a field type is text such as '2*regular + E', a capsule, or a sequence of (multiplicity, capsule) "
            f"pairs; got {type(spec).__name__}."
        )


def _as_capsule(item: object, lookup: Callable[[str], Capsule]) -> Capsule:
    if isinstance(item, str):
        return lookup(item)
    if isinstance(item, Capsule):
        return item
    if isinstance(item, Representation):
        return Capsule(item)
    raise TypeError(f"expected a Capsule or a Representation with a name, got {type(item).__name__}.")
