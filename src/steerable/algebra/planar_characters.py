"""Characters of SO(2) and O(2): finite Fourier series with whole coefficients, so that integrals are exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import zip_longest
from typing import final

from steerable.algebra.planar_groups import PlanarElement, PlanarGroup

__all__ = ["PlanarCharacter"]


@final
@dataclass(frozen=True)
class PlanarCharacter:
    """χ(r^θ) = Σ_k cosines[k] cos kθ, and χ = ``mirror`` on all reflections of O(2), which are conjugate to each other.

    For SO(2) ``mirror`` is 0.

    Characters are added and multiplied as functions are; ``mean()`` is the integral over the group, whose volume is 1.

    >>> from steerable import o2
    >>> chi = o2().irrep("E2").character
    >>> (chi * chi).mean(), (chi * o2().irrep("E1").character).mean()
    (1.0, 0.0)
    """

    group: PlanarGroup
    cosines: tuple[float, ...]
    mirror: float = 0

    def multiplicities(self) -> tuple[float, ...]:
        """How often each irrep occurs, up to the highest frequency: E_k has the character 2 cos kθ, and A2 is -1 on m.

        >>> from steerable import o2
        >>> (o2().irrep("A2") + 3 * o2().irrep("E1")).character.multiplicities()
        (0.0, 1.0, 3.0)
        """
        even, odd = (self.cosines[0] + self.mirror) / 2, (self.cosines[0] - self.mirror) / 2
        constant = (even, odd) if self.group.reflections else (self.cosines[0],)
        return (*constant, *(cosine / 2 for cosine in self.cosines[1:]))

    def __call__(self, element: PlanarElement) -> float:
        """χ(element)."""
        self.group.check_element(element)
        if element.mirrored:
            return float(self.mirror)
        return sum(c * math.cos(math.radians(k * element.angle)) for k, c in enumerate(self.cosines))

    def mean(self) -> float:
        """∫ χ(g) dg: all cosines but the constant vanish, and half of O(2) are reflections."""
        return float((self.cosines[0] + self.mirror) / 2 if self.group.reflections else self.cosines[0])

    def __add__(self, other: PlanarCharacter) -> PlanarCharacter:
        if not isinstance(other, PlanarCharacter):
            return NotImplemented
        self._check_same_group(other, "add")
        cosines = tuple(a + b for a, b in zip_longest(self.cosines, other.cosines, fillvalue=0))
        return PlanarCharacter(self.group, cosines, self.mirror + other.mirror)

    def __mul__(self, other: PlanarCharacter | float) -> PlanarCharacter:
        if not isinstance(other, PlanarCharacter):
            return PlanarCharacter(self.group, tuple(c * other for c in self.cosines), self.mirror * other)
        self._check_same_group(other, "multiply")
        cosines = [0.0] * (len(self.cosines) + len(other.cosines) - 1)
        for j, a in enumerate(self.cosines):  # cos j cos k = (cos (j+k) + cos (j-k)) / 2
            for k, b in enumerate(other.cosines):
                cosines[j + k] += a * b / 2
                cosines[abs(j - k)] += a * b / 2
        return PlanarCharacter(self.group, tuple(cosines), self.mirror * other.mirror)

    __rmul__ = __mul__

    def _check_same_group(self, other: PlanarCharacter, verb: str) -> None:
        if self.group != other.group:
            raise TypeError(
                f"cannot {verb} a character of {self.group.name} and one of {other.group.name}: they are functions on "
                "different groups. Restrict one representation to the group of the other first."
            )
