"""Capsules as spaces of functions: which ones are, on which points, and their values at finitely many of them.

A capsule is a space of functions on a group if a linear functional ℓ makes each vector v a function f(g) = ℓ ρ(g⁻¹) v,
different vectors different functions, and if the constants are among them. Then [ρ(a)f](g) = f(a⁻¹g), and a function of
the values commutes with the group. Where ℓ does not change under a subgroup K, f is a function on the cosets gK. A
finite group has finitely many cosets, which are the points; functions on SO(2) and O(2) are sampled on C_N or D_N.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.induction import quotient
from steerable.algebra.intertwiners import metric_of
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.representations import Representation
from steerable.algebra.waves import Wave

__all__ = ["Domain", "common_domain", "is_sampled", "planar_waves", "why_not_functions"]

_QUARTERS = 4
"""Samples are taken on a multiple of four angles, so that turns of the pixel grid only exchange them."""


class Domain(ABC):
    """The points on which the functions of some capsules are defined.

    Attributes:
        step: numbers of samples are multiples of it; 0 where the points are finitely many and all are taken.
        fewest: the smallest number of samples that tells all functions apart.
    """

    step: int = 0
    fewest: int = 0

    @abstractmethod
    def values(self, rho: Representation, samples: int) -> FloatArray:
        """(points, dim): A with f = Av, the values of the function that v stands for.

        A is scaled such that values have variance 1 where the entries of v do, each independently.
        """


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


@final
@dataclass(frozen=True)
class _Circle(Domain):
    """The cosets of C_n in SO(2) or, where there are two circles, in O(2); with one circle in O(2), those of D_n."""

    group: PlanarGroup
    n: int
    circles: int
    frequency: int

    @property
    def step(self) -> int:  # type: ignore[override]
        return math.lcm(_QUARTERS, self.n)

    @property
    def fewest(self) -> int:  # type: ignore[override]
        return self.step * (2 * self.frequency // self.step + 1)

    def values(self, rho: Representation, samples: int) -> FloatArray:
        if not isinstance(rho, CompactRepresentation):
            raise RuntimeError("representations of SO(2) and O(2) are in closed form")
        at_base = self._at_base(rho)
        angles = [360 * j / samples for j in range(samples // self.n)]
        points = [self.group._turning_by(a, mirrored=m) for m in (False, True)[: self.circles] for a in angles]
        return _of_unit_variance(np.stack([at_base @ rho(self.group.inverse(g)) for g in points]))

    def _at_base(self, rho: CompactRepresentation) -> FloatArray:
        """ℓ: cos 0 = 1 of each wave; of two copies of E_k, sin in the first and cos in the second."""
        copies, seen = Counter(rho.waves), Counter[object]()
        parts = []
        for wave in rho.waves:
            row = seen[wave] if copies[wave] > 1 else wave.dim - 1
            parts.append(math.sqrt(wave.dim) * np.eye(wave.dim)[row])
            seen[wave] += 1
        return np.asarray(np.concatenate(parts) @ rho.inverse_basis)


def planar_waves(rho: Representation) -> list[Wave]:
    """The irreps of which a representation of SO(2) or O(2) is the sum; none for other groups."""
    return [wave for wave in rho.waves if isinstance(wave, Wave)] if isinstance(rho, CompactRepresentation) else []


def why_not_functions(rho: Representation) -> str | None:
    """Why a representation is not a space of functions that can be sampled on its group; None where it is one."""
    name = rho.group.name
    if not isinstance(rho.group, FiniteGroup | PlanarGroup):
        return f"functions on {name} are not sampled yet"
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
        sums = [planar_waves(rho) for rho in spaces]
        frequencies = [wave.frequency for waves in sums for wave in waves]
        twice = any(max(Counter(waves).values()) > 1 for waves in sums)
        circles = 2 if twice or any(wave.odd for waves in sums for wave in waves) else 1
        return _Circle(group, math.gcd(*frequencies) or 1, circles, max(frequencies))
    group = finite_group(group)
    for subgroup in sorted(group.subgroups(up_to_conjugacy=True), key=len, reverse=True):
        most = quotient(group, subgroup).type
        if all(m <= n for rho in spaces for m, n in zip(rho.type, most, strict=True)):
            return _Cosets(group, subgroup)
    raise RuntimeError("functions on the whole group contain every space of functions")


def _of_unit_variance(values: FloatArray) -> FloatArray:
    return np.asarray(values * math.sqrt(len(values)) / np.linalg.norm(values))
