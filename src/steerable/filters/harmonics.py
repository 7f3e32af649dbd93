"""Angular frequencies: how a group that moves the plane turns functions of the form R(r) e^{imφ}.

A filter of frequency m > 0 is a pair of real filters (u, v) with u + iv = R(r) i^{m-1} e^{imφ}. A rotation by α turns
the pair by the angle mα, and the mirror of left and right is diag(-1, 1) for each m, as it is for the irreps E_m of
D_n. A filter of frequency 0 is a single one that no element changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.group_interface import Group
from steerable.algebra.planar_irreps import circular_harmonics
from steerable.algebra.representations import Representation

__all__ = ["HarmonicFilter", "harmonic", "harmonics_at"]


@dataclass(frozen=True)
class HarmonicFilter:
    """A filter that turns with an angular frequency m: one real filter for m = 0, otherwise a pair (u, v).

    Attributes:
        frequency: m.
        taps: (taps, 1 or 2).
        leak: the share of what it does to band-limited images that does not turn as it should.
    """

    frequency: int
    taps: FloatArray
    leak: float


@lru_cache(maxsize=1024)
def harmonic(group: Group, frequency: int) -> Representation:
    """How a group of the plane turns filters of one frequency: E_m of O(2), restricted to the group's action.

    >>> from steerable import cyclic
    >>> harmonic(cyclic(8), 3) == cyclic(8).irrep("E3")
    True
    """
    return circular_harmonics(group, [frequency]).renamed(f"frequency {frequency}")


def harmonics_at(points: FloatArray, frequency: int) -> FloatArray:
    """(points, 1 or 2): the pair (u, v) with R = 1 at points (n, 2) of the plane; 0 at the centre where m > 0."""
    if frequency == 0:
        return np.ones((len(points), 1))
    angle = np.arctan2(points[:, 1], points[:, 0])
    values = 1j ** (frequency - 1) * np.exp(1j * frequency * angle)
    values[np.hypot(points[:, 0], points[:, 1]) < 1e-9] = 0
    return np.stack([values.real, values.imag], axis=1)
