"""Functions on SO(3), O(3) and the sphere up to a degree: the capsules ``regular(2)`` and ``sphere(3)``.

The sphere is the space of cosets of the rotations about z: the coset of g is the point that g makes of (0, 0, 1). In
O(3), ``r`` holds all functions on the two cosets of SO(3).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import final

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_groups import AnyWave, CompactGroup
from steerable.algebra.group_functions import GroupFunctions
from steerable.algebra.spherical_harmonics import HIGHEST_DEGREE, checked_degree, spherical_harmonics
from steerable.algebra.spherical_waves import SphericalWave

__all__ = ["SphericalFunctions"]

_HIGHEST_ON_GROUP = 12  # functions on SO(3) up to this degree have 2,925 channels


@final
@dataclass(frozen=True)
class SphericalFunctions(GroupFunctions):
    """Functions up to a degree on SO(3) or O(3) itself, or with ``on_sphere`` on the sphere.

    On the sphere every degree occurs once, and the coefficients are those of the real spherical harmonics. On the group
    L_l occurs 2l + 1 times, and in O(3) as often with either parity.

    >>> from steerable import o3, so3
    >>> SphericalFunctions(so3(), 2).representation.type, SphericalFunctions(so3(), 2).representation.dim
    ((1, 3, 5), 35)
    >>> str(SphericalFunctions(o3(), 2, on_sphere=True).name), o3().sphere(2).type  # L0e, L0o, L1e, L1o, L2e
    ('sphere(2)', (1, 0, 0, 1, 1))
    """

    group: CompactGroup
    degree: int
    on_sphere: bool = False

    def __post_init__(self) -> None:
        checked_degree(self.degree, HIGHEST_DEGREE if self.on_sphere else _HIGHEST_ON_GROUP)

    @staticmethod
    def named(group: CompactGroup, name: str) -> SphericalFunctions | None:
        match = re.fullmatch(r"(regular|sphere)\((\d+)\)", name)
        return SphericalFunctions(group, int(match[2]), match[1] == "sphere") if match else None

    @property
    def name(self) -> str:
        return f"{'sphere' if self.on_sphere else 'regular'}({self.degree})"

    @property
    def _parts(self) -> list[tuple[AnyWave, FloatArray]]:
        parts: list[tuple[AnyWave, FloatArray]] = []
        for degree in range(self.degree + 1):
            if self.on_sphere:
                wave = SphericalWave(degree, odd=self.group.reflections and degree % 2 == 1)
                parts.append((wave, spherical_harmonics(degree, [0, 0, 1])))
                continue
            for odd in (False, True) if self.group.reflections else (False,):
                wave = SphericalWave(degree, odd)
                parts += [(wave, math.sqrt(wave.dim) * row) for row in np.eye(wave.dim)]
        return parts
