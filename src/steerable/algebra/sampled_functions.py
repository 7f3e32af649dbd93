"""Capsules as spaces of functions: which capsules are such spaces, the points, and the values at finitely many of them.

A capsule is a space of functions on a group if a linear functional ℓ makes each vector v a function f(g) = ℓ ρ(g⁻¹) v,
different vectors different functions, and if the constants are among them. Then [ρ(a)f](g) = f(a⁻¹g), and a function of
the values commutes with the group. Where ℓ does not change under a subgroup K, f is a function on the cosets gK. A
finite group has finitely many cosets, which are the points; functions on SO(2) and O(2) are sampled on C_N or D_N.
Functions on SO(3), O(3) and the sphere are sampled at points that the rotations of the cube exchange.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.compact_groups import AnyWave
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.group_interface import Element
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.induction import quotient
from steerable.algebra.intertwiners import metric_of
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.representations import Representation
from steerable.algebra.spatial_groups import SpatialGroup
from steerable.algebra.spherical_harmonics import spherical_harmonics
from steerable.algebra.spherical_waves import SphericalWave
from steerable.algebra.spread_rotations import orbit_weights, spread_motions

__all__ = ["Domain", "common_domain", "cut_off", "is_sampled", "why_not_functions"]

_QUARTERS = 4
"""Samples are taken on a multiple of four angles, so that turns of the pixel grid only exchange them."""

_MORE_SAMPLES_THAN_FUNCTIONS = 1.25
"""On the sphere and in space, where samples cannot be spread perfectly."""


class Domain(ABC):
    """The points on which the functions of some capsules are defined.

    Attributes:
        step: numbers of samples are multiples of it; 0 if the points are finitely many and all are taken.
        fewest: the smallest number of samples that tells all functions apart.
        exchanged_by: what exchanges the samples, whatever their number.
    """

    step: int = 0
    fewest: int = 0
    exchanged_by: str = "the group"

    @abstractmethod
    def values(self, rho: Representation, samples: int) -> FloatArray:
        """(points, dim): A with f = Av, the values of the function with coefficients v.

        A is scaled such that values have variance 1 if the entries of v do, each independently.
        """

    def weights(self, samples: int) -> FloatArray | None:
        """(points,): the weight of each point when values become coefficients again; None if all are equal."""
        return None


@final
@dataclass(frozen=True)
class _Cosets(Domain):
    """The left cosets of a subgroup of a finite group."""

    group: FiniteGroup
    subgroup: tuple[str, ...]

    def values(self, rho: Representation, samples: int) -> FloatArray:
        metric = None if rho.is_orthogonal else metric_of(rho.matrices)
        matrices = rho.matrices if metric is None else metric.orthogonal
        generic = np.random.default_rng(0).normal(size=rho.dim)  # almost every functional tells all vectors apart
        at_base = generic @ matrices[self.group.indices(self.subgroup)].mean(axis=0)
        firsts = self.group.coset_indices(self.subgroup)[:, 0]
        values = at_base @ matrices[self.group.inverses[firsts]]
        # AᵀA commutes with ρ, so that A (AᵀA)^(-1/2) belongs to a functional too, and its columns are orthonormal.
        left, _, right = np.linalg.svd(values, full_matrices=False)
        values = left @ right
        return _of_unit_variance(values if metric is None else values @ metric.factor)


class _Samples(Domain):
    """Samples of functions on a compact group or on its cosets."""

    @abstractmethod
    def points(self, samples: int) -> Sequence[Element]:
        """The elements at which the samples are taken."""

    @abstractmethod
    def at_base(self, wave: AnyWave, number: int, copies: int) -> FloatArray:
        """(dim,): ℓ on copy ``number`` of an irrep that occurs ``copies`` times."""

    def values(self, rho: Representation, samples: int) -> FloatArray:
        if not isinstance(rho, CompactRepresentation):
            raise RuntimeError("representations of compact groups are in closed form")
        copies, seen, parts = Counter(rho.waves), Counter[AnyWave](), []
        for wave in rho.waves:
            parts.append(self.at_base(wave, seen[wave], copies[wave]))
            seen[wave] += 1
        at_base = np.concatenate(parts) @ rho.inverse_basis
        inverses = [rho.group.inverse(point) for point in self.points(samples)]
        return _of_unit_variance(np.stack([at_base @ rho(g) for g in inverses]))


@final
@dataclass(frozen=True)
class _Circle(_Samples):
    """The cosets of C_n in SO(2) or, where there are two circles, in O(2); with one circle in O(2), those of D_n."""

    group: PlanarGroup
    n: int
    circles: int
    frequency: int
    exchanged_by = "quarter turns"

    @property
    def step(self) -> int:  # type: ignore[override]
        return math.lcm(_QUARTERS, self.n)

    @property
    def fewest(self) -> int:  # type: ignore[override]
        return self.step * (2 * self.frequency // self.step + 1)

    def points(self, samples: int) -> list[Element]:
        angles = [360 * j / samples for j in range(samples // self.n)]
        return [self.group._turning_by(a, mirrored=m) for m in (False, True)[: self.circles] for a in angles]

    def at_base(self, wave: AnyWave, number: int, copies: int) -> FloatArray:
        """cos 0 = 1 of each wave; of two copies of E_k, sin in the first and cos in the second."""
        return _row(wave, number if copies > 1 else wave.dim - 1)


@final
@dataclass(frozen=True)
class _Space(_Samples):
    """Rotations and reflections of space, or with no turns the points to which they take z.

    Attributes:
        group: SO(3) or O(3).
        turns: how many rotations about each point there are; 1 if the functions live on the sphere.
        degree: the highest degree of the functions.
    """

    group: SpatialGroup
    turns: int
    degree: int
    exchanged_by = "the rotations of the cube"

    @property
    def step(self) -> int:  # type: ignore[override]
        return (48 if self.group.reflections else 24) * self.turns

    @property
    def fewest(self) -> int:  # type: ignore[override]
        points = _MORE_SAMPLES_THAN_FUNCTIONS * (self.degree + 1) ** 2 * self.turns
        return self.step * math.ceil(points / self.step)

    def points(self, samples: int) -> list[Element]:
        motions = spread_motions(samples // self.step, self.turns, reflections=self.group.reflections)
        return [self.group.element(motion) for motion in motions]

    def at_base(self, wave: AnyWave, number: int, copies: int) -> FloatArray:
        """The value at z of functions on the sphere; at e, of each copy of an irrep another row of its matrix."""
        if isinstance(wave, SphericalWave) and self.turns == 1:
            return spherical_harmonics(wave.degree, [0, 0, 1])
        return _row(wave, number)

    def weights(self, samples: int) -> FloatArray:
        orbits = orbit_weights(samples // self.step, reflections=self.group.reflections)
        return np.repeat(orbits / self.step, self.step)


def _waves(rho: Representation) -> tuple[Any, ...]:
    """The irreps whose sum a representation of a compact group is; none for finite groups."""
    return rho.waves if isinstance(rho, CompactRepresentation) else ()


def _live_on_the_sphere(rho: Representation) -> bool:
    """Whether each degree occurs at most once, and reflections act as on functions of a direction."""
    waves, mirrored = _waves(rho), isinstance(rho.group, SpatialGroup) and rho.group.reflections
    return max(Counter(waves).values()) == 1 and all(wave.odd == (mirrored and wave.degree % 2 == 1) for wave in waves)


def cut_off(rho: Representation) -> int | None:
    """The highest frequency or degree in a representation of a compact group; None for other groups."""
    planar = isinstance(rho.group, PlanarGroup)
    return max((wave.frequency if planar else wave.degree for wave in _waves(rho)), default=None)


def why_not_functions(rho: Representation) -> str | None:
    """Why a representation is not a space of functions that can be sampled on its group; None if it is one."""
    name = rho.group.name
    if rho.type[0] == 0:
        return f"it is not a space of functions on {name}, since it has no constant function"
    for irrep, copies in zip(rho.group.irreps_of(rho.type), rho.type, strict=True):
        if copies * irrep.commutant_dim > irrep.dim:
            most = irrep.dim // irrep.commutant_dim
            return (
                f"it is not a space of functions on {name}, since it contains `{irrep}` {copies} times, and the "
                f"functions on {name} contain it {'once' if most == 1 else f'{most} times'}"
            )
    return None


def is_sampled(capsule: Capsule) -> bool:
    """Whether a capsule is a space of functions that are not given by their values, so that `Fourier` samples them."""
    return not capsule.admits("pointwise") and why_not_functions(capsule.representation) is None


def common_domain(spaces: Sequence[Representation]) -> Domain:
    """The fewest points that can tell apart the functions of each of these spaces of functions on one group.

    >>> from steerable import dihedral, so2
    >>> common_domain([so2().regular(3)]).values(so2().regular(3), 8).shape
    (8, 7)
    >>> G = dihedral(4)
    >>> common_domain([G.irrep("A1") + G.irrep("B1")]).values(G.irrep("A1") + G.irrep("B1"), 0).round(3).tolist()
    [[0.707, -0.707], [0.707, 0.707]]
    """
    group = spaces[0].group
    if isinstance(group, PlanarGroup):
        frequencies = [wave.frequency for rho in spaces for wave in _waves(rho)]
        twice = any(max(Counter(_waves(rho)).values()) > 1 for rho in spaces)
        circles = 2 if twice or any(wave.odd for rho in spaces for wave in _waves(rho)) else 1
        return _Circle(group, math.gcd(*frequencies) or 1, circles, max(frequencies))
    if isinstance(group, SpatialGroup):
        degree = max(wave.degree for rho in spaces for wave in _waves(rho))
        return _Space(group, 1 if all(map(_live_on_the_sphere, spaces)) else 3 * degree + 1, degree)
    group = finite_group(group)
    for subgroup in sorted(group.subgroups(up_to_conjugacy=True), key=len, reverse=True):
        most = quotient(group, subgroup).type
        if all(m <= n for rho in spaces for m, n in zip(rho.type, most, strict=True)):
            return _Cosets(group, subgroup)
    raise RuntimeError("functions on the whole group contain every space of functions")


def _row(wave: AnyWave, number: int) -> FloatArray:
    """√d times the row of that number of the identity: functions √d φ(g)ᵢⱼ have variance 1."""
    return np.asarray(math.sqrt(wave.dim) * np.eye(wave.dim)[number])


def _of_unit_variance(values: FloatArray) -> FloatArray:
    return np.asarray(values * math.sqrt(len(values)) / np.linalg.norm(values))
