"""The small numbers of a batch norm on a CPU: one per capsule or channel, in numpy.

A capsule's invariant direction w is 1 on every channel of a permutation capsule, and 0 where there is none; its
invariant part of a vector v is w⟨w, v⟩ / ⟨w, w⟩. An operation of numpy on a few numbers takes a fraction of the time
that torch takes to start one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from steerable.nn.channels import capsule_of_channel
from steerable.types.field_types import FieldType

__all__ = ["AnyNumbers", "CapsuleNumbers", "Numbers", "Shares"]

Numbers = NDArray[np.float64]
AnyNumbers = NDArray[np.floating]


class Shares(NamedTuple):
    """What sums over N values per channel are multiplied with, one number per capsule.

    Attributes:
        of_direction: 1 / (N ⟨w, w⟩), or 0 where there is no invariant direction.
        of_capsule: one over the number of values in a capsule.
        unbiased: what makes the variance unbiased. A mean that is zero by symmetry costs no degree of freedom.
    """

    of_direction: Numbers
    of_capsule: Numbers
    unbiased: Numbers


class CapsuleNumbers:
    """Sums over capsules, and numbers of capsules on channels.

    Args:
        field_type: the capsules, each with one invariant direction at most.
        reference: (channels,), w of each capsule, one after the other.

    Attributes:
        biased: the capsules that have an invariant direction.
    """

    def __init__(self, field_type: FieldType, reference: Numbers) -> None:
        self._first = np.array([channels.start for channels in field_type.slices])
        self._capsule = capsule_of_channel(field_type)
        self._dims = np.array([float(capsule.dim) for capsule in field_type.capsules])
        self._squares = self.sums(reference * reference)
        directed = self._squares > 0
        # Where w is 1 on all channels or on none there is nothing to multiply: the share of no direction is 0.
        self._reference = None if (reference == directed[self._capsule]).all() else reference
        self.biased = np.flatnonzero(directed)
        self._all_biased = len(self.biased) == len(directed)
        self._shares: dict[int, Shares] = {}

    def shares(self, count: int) -> Shares:
        """The shares of sums over that many values per channel."""
        found = self._shares.get(count)
        if found is None:
            directed, values = self._squares > 0, self._dims * count
            along = np.divide(1 / count, self._squares, where=directed, out=np.zeros_like(values))
            found = Shares(along, 1 / values, values / np.maximum(values - directed, 1))
            self._shares = {count: found}
        return found

    def sums(self, values: AnyNumbers) -> Numbers:
        """(channels,) → (capsules,): the sum over each capsule's channels."""
        return np.add.reduceat(values, self._first, dtype=np.float64)

    def along(self, values: AnyNumbers) -> Numbers:
        """(channels,) → (capsules,): ⟨w, values⟩, and any number where w is 0."""
        return self.sums(values if self._reference is None else values * self._reference)

    def statistics(self, totals: AnyNumbers, squares: AnyNumbers, shares: Shares) -> tuple[Numbers, Numbers, Numbers]:
        """⟨w, mean⟩ / ⟨w, w⟩, mean square and variance of each capsule, from Σ x and Σ x² of channels."""
        along, square = self.along(totals), self.sums(squares) * shares.of_capsule
        centre = along * shares.of_direction
        return centre, square, square - along * centre * shares.of_capsule

    def scales(self, weight: Tensor | None) -> AnyNumbers:
        """(capsules,): the scale of each, which is 1 without parameters."""
        return np.ones(len(self._dims)) if weight is None else weight.detach().numpy()

    def biases(self, bias: Tensor | None) -> AnyNumbers:
        """(capsules,): the shift of each along w, and 0 where there is none."""
        if bias is not None and self._all_biased:
            return bias.detach().numpy()
        found = np.zeros(len(self._dims))
        if bias is not None:
            found[self.biased] = bias.detach().numpy()
        return found

    def on_channels(self, rows: AnyNumbers, invariant: tuple[int, ...]) -> AnyNumbers:
        """(rows, capsules) → (rows, channels): each capsule's number on its channels, in some rows times w."""
        spread = rows.take(self._capsule, 1)  # contiguous, which an index is not
        if self._reference is not None:
            for row in invariant:
                spread[row] *= self._reference
        return spread
