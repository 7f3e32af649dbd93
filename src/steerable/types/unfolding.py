"""Capsules as the irreps that they consist of, channel by channel.

``regular(2)`` of SO(3) has 35 channels: L0, three times L1 and five times L2, side by side. Filters between such
capsules are filters between irreps, which are few and small. Written out for whole capsules they would be mostly zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steerable.algebra.arrays import IntArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.compact_irreps import CompactIrrep
from steerable.algebra.compact_representations import CompactRepresentation

__all__ = ["Unfolded", "unfolded"]

Terms = Sequence[tuple[Capsule, int]]

_SMALL = 10_000
"""Capsules of the plane stay whole where a bank between two of them has at most so many weights: one product is then
quicker than those of many irreps, and weights that were learned on images rely on the order of whole capsules."""


@dataclass(frozen=True)
class Unfolded:
    """A list of capsules in which those that are sums of irreps are replaced by irreps.

    Attributes:
        terms: the capsules with their numbers of copies; the parts of one follow each other, equal ones adjacent.
        order: (channels,): where each channel of the given capsules stands among the channels of the new ones; None
            where nothing was replaced.
    """

    terms: tuple[tuple[Capsule, int], ...]
    order: IntArray | None


def unfolded(terms: Terms, taps: int = 1) -> Unfolded:
    """The irreps of capsules of groups that move space, or the plane, by any angle; all others stay as they are.

    In the plane only those capsules are replaced that are large for filters of that many taps.

    >>> from steerable import FieldType, so3
    >>> found = unfolded(FieldType(so3(), "2*sphere(1) + L1").terms)
    >>> [f"{copies}*{capsule}" for capsule, copies in found.terms], found.order.tolist()
    (['2*L0', '2*L1', '1*L1'], [0, 2, 3, 4, 1, 5, 6, 7, 8, 9, 10])
    """
    found: list[tuple[Capsule, int]] = []
    order, start = [np.zeros(0, dtype=np.intp)], 0
    for capsule, copies in terms:
        parts = _parts(capsule, taps)
        first = np.empty((copies, capsule.dim), dtype=np.intp)  # of each copy, the places of its channels
        for part, channels in parts:
            size, several = part.dim, len(channels) // part.dim
            places = start + np.arange(copies * several * size).reshape(copies, several * size)
            first[:, channels] = places
            found.append((part, copies * several))
            start += places.size
        order.append(first.ravel())
    whole = np.concatenate(order)
    return Unfolded(tuple(found), None if np.array_equal(whole, np.arange(len(whole))) else whole)


def _parts(capsule: Capsule, taps: int) -> list[tuple[Capsule, IntArray]]:
    """Each kind of irrep with the channels of all its copies; the capsule itself if it is not a sum of irreps."""
    rho = capsule.representation
    whole = [(capsule, np.arange(capsule.dim))]
    if not isinstance(rho, CompactRepresentation) or (rho.group.axes == 2 and rho.dim**2 * taps <= _SMALL):
        return whole
    if rho.is_signed_permutation or len(rho.waves) < 2 or not rho.is_sum_of_irreps:
        return whole
    kinds = dict.fromkeys(rho.waves)
    channels = {
        wave: np.concatenate([np.arange(rho.dim)[s] for w, s in zip(rho.waves, rho.slices, strict=True) if w == wave])
        for wave in kinds
    }
    return [(Capsule(CompactIrrep(rho.group, wave)), places) for wave, places in channels.items()]
