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

Numbers = NDArray[np.floating]


class CapsuleNumbers:
    """Sums over capsules, and numbers of capsules on channels.

    Args:
        field_type: the capsules, each with one invariant direction at most.
        reference: (channels,), w of each capsule, one after the other.

    Attributes:
        dims: (capsules,), the number of channels.
        biased: (capsules,), whether there is an invariant direction.
    """

    def __init__(self, field_type: FieldType, reference: NDArray[np.float64]) -> None:
        self._first = np.array([channels.start for channels in field_type.slices])
        self._capsule = capsule_of_channel(field_type)
        self._reference = reference
        self.dims = np.array([float(capsule.dim) for capsule in field_type.capsules])
        squares = self.sums(reference * reference)
        self.biased = squares > 0
        self._inverse_square = np.divide(1, squares, where=self.biased, out=np.zeros_like(squares))

    def sums(self, values: Numbers) -> Numbers:
        """(channels,) → (capsules,): the sum over each capsule's channels."""
        return np.add.reduceat(values, self._first)

    def on_channels(self, numbers: Numbers) -> Numbers:
        """(capsules,) → (channels,): each capsule's number on all of its channels."""
        return numbers[self._capsule]

    def along(self, values: Numbers) -> Numbers:
        """(channels,) → (capsules,): ⟨w, values⟩."""
        return self.sums(values * self._reference)

    def invariant(self, along: Numbers) -> Numbers:
        """(capsules,) → (channels,): the invariant part of a vector from its products ⟨w, ·⟩."""
        return self.on_channels(along * self._inverse_square) * self._reference

    def statistics(self, mean: Numbers, variance: Numbers) -> tuple[Numbers, Numbers]:
        """Centre (channels,) and variance (capsules,) of capsules from the moments of channels."""
        centre = self.invariant(self.along(mean))
        return centre, self.sums(variance + np.square(mean - centre)) / self.dims

    def shift(self, bias: Numbers) -> Numbers:
        """(channels,): the invariant vector β w, from one number for each capsule that has a direction."""
        numbers = np.zeros(len(self.dims))
        numbers[self.biased] = bias
        return self.on_channels(numbers) * self._reference

    def unbiased(self, variance: Numbers, count: int) -> Numbers:
        """Variances of capsules whose mean was taken from the same ``count`` values per channel.

        A mean that is zero by symmetry costs no degree of freedom.
        """
        values = self.dims * count
        return variance * (values / np.maximum(values - self.biased, 1))
