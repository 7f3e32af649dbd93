"""Harmonics: filters that are a radial profile times a function of the direction, and the action of groups on them.

In the plane a filter of angular frequency m > 0 is a pair of real filters (u, v) with u + iv = R(r) i^{m-1} e^{imφ}. A
rotation by α turns the pair by the angle mα, and the mirror of left and right is diag(-1, 1) for each m, as it is for
the irreps E_m of D_n. A filter of frequency 0 is a single one that no element changes. In space a filter of degree l is
a tuple of 2l + 1 real filters R(r) Y_lm(x̂), which turns by Wigner's matrices. For groups about one axis, filters have
an angular frequency in the plane across it, and along it any profile, either even or odd.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.families import o2
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.lines_in_space import Line
from steerable.algebra.metrics import TOLERANCE
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.representations import Representation
from steerable.algebra.space_families import o3
from steerable.algebra.spherical_harmonics import spherical_harmonics
from steerable.algebra.spherical_waves import SphericalWave
from steerable.algebra.waves import Wave

__all__ = ["AxialHarmonic", "CircularHarmonic", "Harmonic", "HarmonicFilter", "SphericalHarmonic"]


class Harmonic(ABC):
    """The way in which a filter turns: its angular frequency or degree, and a representation of each group."""

    frequency: int
    quantity: ClassVar[str] = "angular frequency"
    """What the number is called."""

    @property
    def dim(self) -> int:
        """The number of real filters that are turned into each other."""
        return 2 if self.frequency else 1

    @abstractmethod
    def turned_by(self, group: Group) -> Representation:
        """The action of a group on the filters."""

    @abstractmethod
    def at(self, points: FloatArray) -> FloatArray:
        """(n, dim): the filters with R = 1 at points (n, axes), of length 1; 0 at the centre unless the number is 0."""


@final
@dataclass(frozen=True)
class CircularHarmonic(Harmonic):
    """Filters R(r) e^{imφ} of the plane; a group turns them by E_m of O(2), restricted to the group's action.

    >>> from steerable import cyclic
    >>> CircularHarmonic(3).turned_by(cyclic(8)) == cyclic(8).irrep("E3")
    True
    """

    frequency: int

    def turned_by(self, group: Group) -> Representation:
        return _restricted(group, self)

    def at(self, points: FloatArray) -> FloatArray:
        if self.frequency == 0:
            return np.ones((len(points), 1))
        values = 1j ** (self.frequency - 1) * np.exp(1j * self.frequency * np.arctan2(points[:, 1], points[:, 0]))
        values[np.hypot(points[:, 0], points[:, 1]) < 1e-9] = 0
        return np.stack([values.real, values.imag], axis=1)


@final
@dataclass(frozen=True)
class SphericalHarmonic(Harmonic):
    """Filters R(r) Y_lm(x̂) of space."""

    frequency: int
    quantity: ClassVar[str] = "degree"

    @property
    def dim(self) -> int:
        return 2 * self.frequency + 1

    def turned_by(self, group: Group) -> Representation:
        return _restricted(group, self)

    def at(self, points: FloatArray) -> FloatArray:
        if self.frequency == 0:
            return np.ones((len(points), 1))
        away, values = np.linalg.norm(points, axis=1) > 1e-9, np.zeros((len(points), self.dim))
        values[away] = spherical_harmonics(self.frequency, points[away]) / math.sqrt(self.dim)
        return values


@final
@dataclass(frozen=True)
class AxialHarmonic(Harmonic):
    """Filters of space with an angular frequency about a line; along it they are even, or odd."""

    frequency: int
    line: Line
    odd: bool

    def turned_by(self, group: Group) -> Representation:
        return _axial(group, self)

    def at(self, points: FloatArray) -> FloatArray:
        seen = points @ self.line.frame
        return CircularHarmonic(self.frequency).at(seen[:, :2]) * (np.sign(seen[:, 2:]) if self.odd else 1.0)


@dataclass(frozen=True, eq=False)
class HarmonicFilter:
    """A filter that turns as a harmonic: 2 real filters in the plane, or 1 for frequency 0; 2l + 1 in space.

    Attributes:
        harmonic: how it turns.
        taps: (taps, dim).
        leak: the share of what it does to band-limited images that does not turn as it should.
    """

    harmonic: Harmonic
    taps: FloatArray
    leak: float

    @property
    def frequency(self) -> int:
        """Its angular frequency, or in space its degree."""
        return self.harmonic.frequency


@lru_cache(maxsize=2048)
def _restricted(group: Group, harmonic: CircularHarmonic | SphericalHarmonic) -> Representation:
    """The action of O(2) or O(3) on filters, restricted to a group whose elements may move taps alike."""
    number = harmonic.frequency
    if isinstance(harmonic, CircularHarmonic):
        whole = CompactRepresentation(o2(), [Wave(number)])
    else:
        whole = CompactRepresentation(o3(), [SphericalWave(number, odd=number % 2 == 1)])
    own = whole.along(group) if isinstance(group, FiniteGroup) else whole.restrict(group)
    return own.renamed(f"{harmonic.quantity.split()[-1]} {number}")


@lru_cache(maxsize=1024)
def _axial(group: Group, about: AxialHarmonic) -> Representation:
    wave, name = Wave(about.frequency), f"frequency {about.frequency} {about.line}{', odd' if about.odd else ''}"
    if isinstance(group, PlanarGroup) and group.line is not None:
        between = about.line.frame.T @ group.line.frame
        seen = (between[:2, :2], between[2, 2]) if abs(between[2, 2]) > 1 - TOLERANCE else None
    else:
        action = group.action if isinstance(group, FiniteGroup) and group.axes == 3 else None
        seen = None if action is None else about.line.across(action)
    if seen is None:
        raise ValueError(
            f"{group.name} does not keep the {about.line.label} axis, so it does not turn filters {about.line}. "
            "Make a filter space of this group: `filter_space`."
        )
    if isinstance(group, PlanarGroup):
        # The group's plane is that of the filters, seen from the same side or from the other one.
        own = CompactRepresentation(group, [wave], wave.at(o2().element(seen[0])))
        turned_over = about.odd and group.reflections and group.line is not None and group.line.flips
        return (own @ CompactRepresentation(group, [Wave(0, odd=turned_over)])).renamed(name)
    planar = np.stack([wave.at(o2().element(matrix)) for matrix in seen[0]])
    return Representation._of(group, dense=planar * (seen[1][:, None, None] if about.odd else 1.0), name=name)
