"""Representations of SO(3) and O(3) over which the laws are tested: of every kind, in straight and in skewed bases."""

from __future__ import annotations

from group_zoo import random_invertible, random_orthogonal

import steerable as st
from steerable.algebra.spatial_groups import SpatialGroup

SPATIAL_GROUPS = {"SO3": st.so3(), "O3": st.o3()}

AXIAL_GROUPS = {
    "SO2 about z": st.about_axis(st.so2()),
    "SO2 down": st.about_axis(st.so2(), (0, 0, -2)),
    "O2 about x": st.about_axis(st.o2(), "x"),
    "O2 about y, flips": st.about_axis(st.o2(), "y", flips=True),
    "O2 down, flips": st.about_axis(st.o2(), (0, 0, -1), flips=True),
    "C8 about z": st.about_axis(st.cyclic(8)),
    "D8 about x, flips": st.about_axis(st.dihedral(8), "x", flips=True),
    "D6 about y": st.about_axis(st.dihedral(6), "y"),
}
"""Groups that keep one axis of the grid; the first ones turn by any angle."""
SLANTED_GROUPS = {
    "SO2 about (1, 1, 1)": st.about_axis(st.so2(), (1, 1, 1)),
    "O2 about (1, -1, 0), flips": st.about_axis(st.o2(), (1, -1, 0), flips=True),
    "C8 about (1, 2, 3)": st.about_axis(st.cyclic(8), (1, 2, 3)),
}
"""Groups that keep a line which is not an axis of the grid."""
KINDS = ("trivial", "irrep", "regular(1)", "sphere(2)", "mixed", "product", "turned", "skewed", "nothing")


def names(group: SpatialGroup, *degrees: int) -> list[str]:
    """The irreps of these degrees; in O(3) even and odd ones by turns."""
    return [f"L{degree}{'eo'[k % 2] if group.reflections else ''}" for k, degree in enumerate(degrees)]


def spatial_representation(group: SpatialGroup, kind: str) -> st.Representation:
    """A representation of one of ``KINDS``; its degrees are at most 3."""
    mixed = st.direct_sum([group.irrep(name) for name in names(group, 2, 0, 0, 1, 2)])
    first, second = names(group, 1, 2)
    made = {
        "trivial": lambda: group.trivial,
        "irrep": lambda: group.irrep(names(group, 1, 3)[1]),
        "regular(1)": lambda: group.regular(1),
        "sphere(2)": lambda: group.sphere(2),
        "mixed": lambda: mixed,
        "product": lambda: group.irrep(first) @ (group.irrep(second) + group.trivial),
        "turned": lambda: mixed.change_basis(random_orthogonal(mixed.dim)),
        "skewed": lambda: mixed.change_basis(random_invertible(mixed.dim, seed=3)),
        "nothing": lambda: 0 * mixed,
    }
    return made[kind]()
