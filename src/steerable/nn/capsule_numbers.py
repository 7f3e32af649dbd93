"""The small numbers of a batch norm on a CPU: one per capsule or channel, in numpy.

A capsule's invariant direction w is 1 on every channel of a permutation capsule, and 0 where there is none; its
invariant part of a vector v is w⟨w, v⟩ / ⟨w, w⟩. An operation of numpy on a few numbers takes a fraction of the time
that torch takes to start one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steerable.nn.channels import capsule_of_channel
from steerable.types.field_types import FieldType

__all__ = ["CapsuleNumbers"]

Numbers = NDArray[np.float64]


class CapsuleNumbers:
    """Sums over capsules, and numbers of capsules on channels.

    Args:
        field_type: the capsules, each with one invariant direction at most.
        reference: (channels,), w of each capsule, one after the other.

    Attributes:
        dims: (capsules,), the number of channels.
        biased: (capsules,), whether there is an invariant direction.
        inverse_square: (capsules,), 1 / ⟨w, w⟩, or 0.
    """

    def __init__(self, field_type: FieldType, reference: Numbers) -> None:
        self._first = np.array([channels.start for channels in field_type.slices])
        self._capsule = capsule_of_channel(field_type)
        self._reference = None if (reference == 1).all() else reference
        self.dims = np.array([float(capsule.dim) for capsule in field_type.capsules])
        squares = self.sums(reference * reference)
        self.biased = squares > 0
        self.inverse_square = np.divide(1, squares, where=self.biased, out=np.zeros_like(squares))

    def sums(self, values: NDArray[np.floating]) -> Numbers:
        """(channels,) → (capsules,): the sum over each capsule's channels."""
        return np.add.reduceat(values, self._first, dtype=np.float64)

    def along(self, values: NDArray[np.floating]) -> Numbers:
        """(channels,) → (capsules,): ⟨w, values⟩."""
        return self.sums(values if self._reference is None else values * self._reference)

    def statistics(self, mean: NDArray[np.floating], square: NDArray[np.floating]) -> tuple[Numbers, Numbers]:
        """⟨w, mean⟩ / ⟨w, w⟩ and the variance of each capsule from the means and mean squares of channels."""
        along = self.along(mean)
        centre = along * self.inverse_square
        return centre, np.maximum((self.sums(square) - along * centre) / self.dims, 0)

    def on_channels(self, rows: NDArray[np.floating], invariant: tuple[int, ...]) -> NDArray[np.floating]:
        """(rows, capsules) → (rows, channels): each capsule's number on its channels, in some rows times w."""
        spread = np.take(rows, self._capsule, axis=1)  # contiguous, which an index is not
        if self._reference is not None:
            for row in invariant:
                spread[row] *= self._reference
        return spread

    def unbiased(self, variance: Numbers, count: int) -> Numbers:
        """Variances of capsules whose mean was taken from the same ``count`` values per channel.

        A mean that is zero by symmetry costs no degree of freedom.
        """
        values = self.dims * count
        unbiased: Numbers = variance * (values / np.maximum(values - self.biased, 1))
        return unbiased
