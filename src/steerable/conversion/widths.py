"""The width of the converted network: a value for every type variable, and the factor that matches the parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from steerable.algebra.group_interface import Group
from steerable.conversion.type_variables import TypeVariable
from steerable.errors import expect
from steerable.types.field_types import FieldType

__all__ = ["Mix", "Widths", "matching_width"]

Mix = str | Callable[[int], FieldType]


@dataclass(frozen=True)
class Widths:
    """The type of a hidden layer of c plain channels: as many copies of a mix as come nearest to ``factor``·c channels.

    Attributes:
        group: the group.
        mix: a mix of capsules as text, or a function from a number of channels to a field type.
        factor: what the plain network's hidden channels are multiplied by.
    """

    group: Group
    mix: Mix
    factor: float = 1.0

    def type_of(self, variable: TypeVariable) -> FieldType:
        """The field type that a variable gets; a stack of variables gets the sum of their types."""
        return sum(map(self._type_of_leaf, variable.leaves), FieldType(self.group, []))

    def _type_of_leaf(self, leaf: TypeVariable) -> FieldType:
        if leaf.given is not None:
            return leaf.given
        channels = leaf.channels
        if channels is None:
            raise ValueError("a type variable whose channels are not known has no value yet")
        if leaf.scalar:
            return FieldType(self.group, [(channels, self.group.trivial)])
        return self.hidden(channels)

    def hidden(self, channels: int) -> FieldType:
        """At least one copy, however narrow the plain layer is.

        >>> from steerable import dihedral
        >>> Widths(dihedral(4), "regular").hidden(20)
        FieldType(D4, '3*regular')
        """
        wanted = self.factor * channels
        if callable(self.mix):
            chosen = self.mix(max(1, round(wanted)))
            expect(chosen, FieldType, "a mix function to return a FieldType")
            if chosen.group != self.group or chosen.channels == 0:
                raise ValueError(
                    f"the mix function gave `{chosen}` of {chosen.group.name} for {round(wanted)} channels; expected a "
                    f"type of {self.group.name} with at least one capsule."
                )
            return chosen
        unit = FieldType(self.group, self.mix)
        if unit.channels == 0:
            raise ValueError("mix has no capsules; write for instance mix='regular'.")
        # Ties go up: 12 channels become 16, not 8.
        return max(1, int(wanted / unit.channels + 0.5)) * unit


def matching_width(parameters: Callable[[float], int], target: int) -> float:
    """The factor at which a count that grows with it comes nearest to ``target``; found by bisection.

    >>> matching_width(lambda factor: round(100 * factor**2), 400)
    2.0
    """
    tried: dict[float, int] = {}

    def count(factor: float) -> int:
        tried[factor] = tried[factor] if factor in tried else parameters(factor)
        return tried[factor]

    low = high = 1.0
    while count(high) < target and high < 1024:
        low, high = high, 2 * high
    while count(low) > target and low > 1 / 1024:
        low, high = low / 2, low
    for _ in range(10):
        nearest = min(tried, key=lambda factor: abs(tried[factor] - target))
        if abs(tried[nearest] - target) <= 0.005 * target:
            break
        middle = (low + high) / 2
        low, high = (middle, high) if count(middle) < target else (low, middle)
    return min(tried, key=lambda factor: (abs(tried[factor] - target), factor))
