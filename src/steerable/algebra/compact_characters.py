"""Characters of SO(2), O(2), SO(3) and O(3): combinations of the characters of irreps, so that integrals are exact."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import final

from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.group_interface import Element

__all__ = ["CompactCharacter"]


@final
@dataclass(frozen=True)
class CompactCharacter:
    """χ = Σ_k multiplicities[k] χ_k, where χ_k is the character of irrep number k.

    Characters are added and multiplied as functions are; ``mean()`` is the integral over the group, whose volume is 1.

    >>> from steerable import o2, o3
    >>> chi = o2().irrep("E2").character
    >>> (chi * chi).mean(), (chi * o2().irrep("E1").character).mean()
    (1.0, 0.0)
    >>> (o3().irrep("L0o") + 3 * o3().irrep("L1e")).character.multiplicities
    (0.0, 1.0, 3.0)
    """

    group: CompactGroup
    multiplicities: tuple[float, ...]
    """How often each irrep occurs, up to the last one that does, and the one-dimensional ones in any case."""

    def __post_init__(self) -> None:
        least = 2 if self.group.reflections else 1
        counts = list(self.multiplicities) + [0.0] * (least - len(self.multiplicities))
        while len(counts) > least and counts[-1] == 0:
            counts.pop()
        object.__setattr__(self, "multiplicities", tuple(float(count) for count in counts))

    def __call__(self, element: Element) -> float:
        """χ(element)."""
        self.group.check_element(element)
        waves = ((count, self.group.wave_numbered(k)) for k, count in enumerate(self.multiplicities) if count)
        return float(sum(count * wave.character(element) for count, wave in waves))

    def mean(self) -> float:
        """∫ χ(g) dg: the integrals of all characters of irreps vanish but that of the trivial one."""
        return self.multiplicities[0]

    def __add__(self, other: CompactCharacter) -> CompactCharacter:
        if not isinstance(other, CompactCharacter):
            return NotImplemented
        self._check_same_group(other, "add")
        pairs = zip_longest(self.multiplicities, other.multiplicities, fillvalue=0.0)
        return CompactCharacter(self.group, tuple(a + b for a, b in pairs))

    def __mul__(self, other: CompactCharacter | float) -> CompactCharacter:
        if not isinstance(other, CompactCharacter):
            return CompactCharacter(self.group, tuple(other * count for count in self.multiplicities))
        self._check_same_group(other, "multiply")
        counts: dict[int, float] = {}
        for j, a in enumerate(self.multiplicities):
            for k, b in enumerate(other.multiplicities):
                if a and b:
                    for part in self.group.product_parts(self.group.wave_numbered(j), self.group.wave_numbered(k)):
                        number = part.number(self.group)
                        counts[number] = counts.get(number, 0.0) + a * b
        return CompactCharacter(self.group, tuple(counts.get(k, 0.0) for k in range(max(counts, default=0) + 1)))

    __rmul__ = __mul__

    def _check_same_group(self, other: CompactCharacter, verb: str) -> None:
        if self.group != other.group:
            raise TypeError(
                f"cannot {verb} a character of {self.group.name} and one of {other.group.name}: they are functions on "
                "different groups. Restrict one representation to the group of the other first."
            )
