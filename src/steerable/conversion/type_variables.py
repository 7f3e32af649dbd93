"""Type variables: the tensors of a plain network that must get the same field type, which is chosen later.

The output of a convolution gets a new variable; a norm or an activation keeps the one it gets; an addition makes two of
them one; a concatenation stacks them. The image consists of scalars, and so does the network's output.
"""

from __future__ import annotations

from collections.abc import Sequence

from steerable.types.field_types import FieldType

__all__ = ["TypeVariable", "stack", "unify"]


class TypeVariable:
    """The type of a tensor of the plain network, still to be chosen: one variable, or several one after another.

    Attributes:
        scalar: its channels are invariant.
        given: the type it must have, where the caller said so.
    """

    def __init__(self, channels: int | None, *, scalar: bool = False) -> None:
        self._channels = channels
        self._parts: tuple[TypeVariable, ...] | None = None
        self.scalar = scalar
        self.given: FieldType | None = None

    @property
    def leaves(self) -> tuple[TypeVariable, ...]:
        """The variables that it consists of, none of them divided any further."""
        if self._parts is None:
            return (self,)
        self._parts = tuple(leaf for part in self._parts for leaf in part.leaves)
        return self._parts

    @property
    def channels(self) -> int | None:
        """Channels in the plain network; None as long as the number of the image's channels is unknown."""
        counts = [leaf._channels for leaf in self.leaves]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def has_channels(self, count: int) -> bool:
        """Whether it has this number of channels; a variable of unknown size learns it."""
        if self.channels is None and len(self.leaves) == 1:
            self.leaves[0]._channels = count
        return self.channels == count

    def make_scalar(self) -> None:
        for leaf in self.leaves:
            leaf.scalar = True

    def become(self, others: Sequence[TypeVariable]) -> None:
        """Stand for these from now on, and pass on everything known about it."""
        self._parts = tuple(others)
        for leaf in self.leaves:
            leaf.scalar = leaf.scalar or self.scalar


def stack(variables: Sequence[TypeVariable]) -> TypeVariable:
    """Several variables one after the other, as ``torch.cat`` puts them."""
    whole = TypeVariable(None)
    whole.become(variables)
    return whole


def unify(a: TypeVariable, b: TypeVariable) -> bool:
    """Make two variables one, if they have equally many channels; False if that is not possible."""
    of_a, of_b = a.leaves, b.leaves
    if of_a == of_b:
        return True
    if len(of_a) == len(of_b) > 1:
        return all(unify(x, y) for x, y in zip(of_a, of_b, strict=True))
    one, others = (of_a[0], of_b) if len(of_a) == 1 else (of_b[0], of_a)
    if len(of_a) > 1 and len(of_b) > 1:
        return False
    total = stack(others).channels
    if one in others or (one.channels != total and not (total and one.has_channels(total))):
        return False
    one.become(others)
    return True
