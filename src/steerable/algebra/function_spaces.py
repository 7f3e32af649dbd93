"""Functions on a compact group and on its cosets, up to a frequency or degree: the band-limited capsules.

An element a moves a function by [ρ(a)f](gK) = f(a⁻¹gK). By the theorem of Peter and Weyl the entries √d φ(g)ᵢⱼ of the
irreps are an orthonormal basis of the functions on a group. On left cosets gK each irrep occurs as often as K leaves
vectors of it unchanged.

``regular(3)`` holds the functions on the group. In the plane ``qC4(8)`` and ``qD4(8)`` hold those on the cosets of C_4
and D_4, and ``qm(3)`` those on the cosets of {e, m}, which are the points of the circle. ``sphere(3)`` holds those on
the sphere, the space of cosets of the rotations about z: the coset of g is the point that g makes of (0, 0, 1). In O(2)
and O(3), ``r`` holds all functions on the two cosets of the rotations.
"""

from __future__ import annotations

import math
import re

import numpy as np

from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.recognition import rotation_structure
from steerable.algebra.spherical_harmonics import HIGHEST_DEGREE, checked_degree
from steerable.algebra.spherical_waves import SphericalWave
from steerable.algebra.waves import Wave, checked_frequency

__all__ = [
    "functions_in_space",
    "functions_in_the_plane",
    "functions_on_cosets",
    "named_functions_in_space",
    "named_functions_in_the_plane",
]

_HIGHEST_ON_GROUP = 12  # functions on SO(3) up to this degree have 2,925 channels


def functions_in_the_plane(
    group: CompactGroup, frequency: int, n: int = 1, *, mirrors: bool = False
) -> CompactRepresentation:
    """Functions up to a frequency on the cosets of C_n, or with ``mirrors`` of D_n, which contains m.

    Only multiples of n occur as frequencies. On the cosets of C_1 these are the functions on the group itself.

    >>> from steerable import o2
    >>> circle = functions_in_the_plane(o2(), 3, mirrors=True)
    >>> circle.name, circle.type, circle.dim
    ('qm(3)', (1, 0, 1, 1, 1), 7)
    """
    checked_frequency(frequency)
    kind = f"q{'D' if mirrors else 'C'}{n}" if n > 1 else "qm" if mirrors else "regular"
    if mirrors and not group.reflections:
        raise ValueError(
            f"D{n} is not a subgroup of {group.name}, which has no reflections, so it has no capsule "
            f"`{kind}({frequency})`. Use the cosets of C_n, as in `qC4(8)`, or o2()."
        )
    twice = group.reflections and not mirrors
    waves = [Wave(0), Wave(0, odd=True)] if twice else [Wave(0)]
    waves += [Wave(k) for k in range(n, frequency + 1, n) for _ in range(2 if twice else 1)]
    return CompactRepresentation(group, waves, name=f"{kind}({frequency})")


def functions_on_cosets(group: CompactGroup, subgroup: Group, frequency: int) -> CompactRepresentation:
    """The same for a finite subgroup that is C_n, or D_n with m in it."""
    structure = rotation_structure(subgroup) if isinstance(subgroup, FiniteGroup) and subgroup.axes == 2 else None
    if structure is None or not isinstance(subgroup, FiniteGroup) or not subgroup.acts_faithfully:
        raise ValueError(
            f"functions on cosets of {group.name} are those of cyclic(n), or of dihedral(n) in o2(); got "
            f"{subgroup.name if isinstance(subgroup, Group) else repr(subgroup)}."
        )
    if structure.has_mirrors:
        subgroup.reflection(0)  # refused where m is not among its reflections
    return functions_in_the_plane(group, frequency, structure.n, mirrors=structure.has_mirrors)


def named_functions_in_the_plane(group: CompactGroup, name: str) -> CompactRepresentation | None:
    """The functions for a capsule's name such as ``regular(3)``; None if the name is not of this kind."""
    if name == "r" and group.reflections:
        return _functions_on_orientations(group)
    match = re.fullmatch(r"(regular|qm|q([CD])([1-9]\d*))\((\d+)\)", name)
    if match is None:
        return None
    mirrors = match[1] == "qm" or match[2] == "D"
    return functions_in_the_plane(group, int(match[4]), int(match[3] or 1), mirrors=mirrors)


def functions_in_space(group: CompactGroup, degree: int, *, on_sphere: bool = False) -> CompactRepresentation:
    """Functions up to a degree on SO(3) or O(3) itself, or with ``on_sphere`` on the sphere.

    On the sphere every degree occurs once, and the coefficients are those of the real spherical harmonics. On the group
    L_l occurs 2l + 1 times, and in O(3) as often with either parity.

    >>> from steerable import o3, so3
    >>> functions_in_space(so3(), 2).type, functions_in_space(so3(), 2).dim
    ((1, 3, 5), 35)
    >>> functions_in_space(o3(), 2, on_sphere=True).type  # of L0e, L0o, L1e, L1o, L2e
    (1, 0, 0, 1, 1)
    """
    checked_degree(degree, HIGHEST_DEGREE if on_sphere else _HIGHEST_ON_GROUP)
    degrees = range(degree + 1)
    if on_sphere:
        waves = [SphericalWave(k, odd=group.reflections and k % 2 == 1) for k in degrees]
    else:
        parities = (False, True) if group.reflections else (False,)
        waves = [SphericalWave(k, odd) for k in degrees for odd in parities for _ in range(2 * k + 1)]
    return CompactRepresentation(group, waves, name=f"{'sphere' if on_sphere else 'regular'}({degree})")


def named_functions_in_space(group: CompactGroup, name: str) -> CompactRepresentation | None:
    """The functions for a capsule's name such as ``sphere(3)``; None if the name is not of this kind."""
    if name == "r" and group.reflections:
        return _functions_on_orientations(group)
    match = re.fullmatch(r"(regular|sphere)\((\d+)\)", name)
    return functions_in_space(group, int(match[2]), on_sphere=match[1] == "sphere") if match else None


def _functions_on_orientations(group: CompactGroup) -> CompactRepresentation:
    """The functions on the two cosets of the rotations, which reflections exchange: the capsule ``r``."""
    even_and_odd = [group.wave_numbered(0), group.wave_numbered(1)]
    return CompactRepresentation(group, even_and_odd, np.array([[1, 1], [1, -1]]) / math.sqrt(2), name="r")
