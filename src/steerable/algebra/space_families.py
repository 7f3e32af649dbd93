"""Groups that move space: those of the regular solids, SO(3) and O(3), and groups of the plane about an axis.

x points to the right along a volume's width, y up against its height, and z towards the viewer, against its depth.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray
from steerable.algebra.generation import group_from_matrices
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.lines_in_space import line_along
from steerable.algebra.motions_in_space import rotation_matrix
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.spatial_groups import SpatialGroup

__all__ = ["about_axis", "icosahedral", "o3", "octahedral", "so3", "tetrahedral"]

_THIRD_TURN = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]])  # by 120° about (1, 1, 1)


@lru_cache(maxsize=2)
def tetrahedral(*, reflections: bool = False) -> FiniteGroup:
    """T, the 12 rotations of the tetrahedron, or with ``reflections=True`` T_d, all 24 symmetries.

    Its corners are (1, 1, 1), (1, -1, -1), (-1, 1, -1) and (-1, -1, 1), so that voxels are mapped onto voxels. t turns
    by 120° about (1, 1, 1), h by 180° about z; in T_d, m exchanges x and y and comes first in a name: ``mt``.

    >>> [str(irrep) for irrep in tetrahedral().irreps], [str(irrep) for irrep in tetrahedral(reflections=True).irreps]
    (['A', 'E', 'T'], ['A1', 'A2', 'E', 'T1', 'T2'])
    """
    rotations = group_from_matrices({"t": _THIRD_TURN, "h": np.diag([-1.0, -1, 1])}, name="T")
    return _with(rotations, "m", np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 1]]), "T_d") if reflections else rotations


@lru_cache(maxsize=2)
def octahedral(*, reflections: bool = False) -> FiniteGroup:
    """O, the 24 rotations of the cube, or with ``reflections=True`` O_h, all 48 symmetries.

    r turns by 90° about z, s by 90° about x; in O_h, i is the inversion x ↦ -x and comes first in a name: ``irs``.
    """
    rotations = group_from_matrices({"r": rotation_matrix("z", 90), "s": rotation_matrix("x", 90)}, name="O")
    return _with(rotations, "i", -np.eye(3), "O_h") if reflections else rotations


@lru_cache(maxsize=2)
def icosahedral(*, reflections: bool = False) -> FiniteGroup:
    """I, the 60 rotations of the icosahedron, or with ``reflections=True`` I_h, all 120 symmetries.

    Its corners are (±1, ±φ, 0), (0, ±1, ±φ) and (±φ, 0, ±1) with the golden ratio φ = (1 + √5) / 2, so that it contains
    the group T of :func:`tetrahedral`. f turns by 72° about (φ, 0, 1), t by 120° about (1, 1, 1); in I_h, i is the
    inversion x ↦ -x and comes first in a name: ``if``.

    >>> [f"{irrep}: {irrep.dim}" for irrep in icosahedral().irreps]
    ['A: 1', 'T1: 3', 'T2: 3', 'G: 4', 'H: 5']
    """
    golden = (1 + math.sqrt(5)) / 2
    fifth = rotation_matrix((golden, 0, 1), 72)
    rotations = group_from_matrices({"f": fifth, "t": _THIRD_TURN}, name="I")
    return _with(rotations, "i", -np.eye(3), "I_h") if reflections else rotations


def so3() -> SpatialGroup:
    """SO(3), the rotations of space by any angle about any axis. Its irreps are ``L0``, ``L1``, ``L2`` …, by degree.

    >>> G = so3()
    >>> G.multiply(G.rotation((0, 0, 1), 30), G.rotation((0, 0, 1), 45))
    rotation((0, 0, 1), 75)
    >>> G.irrep("L1")(G.rotation((0, 0, 1), 90)).astype(int).tolist()
    [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    """
    return SpatialGroup(reflections=False)


def o3() -> SpatialGroup:
    """O(3), all rotations and reflections of space. Its irreps are ``L0e``, ``L0o``, ``L1e``, ``L1o`` …

    The letter is the parity: the inversion x ↦ -x is 1 for even irreps and -1 for odd ones. Vectors are ``L1o``.

    >>> G = o3()
    >>> G.multiply(G.reflection((0, 0, 1)), G.inversion)
    rotation((0, 0, 1), 180)
    """
    return SpatialGroup(reflections=True)


@overload
def about_axis(group: FiniteGroup, axis: ArrayLike = "z", *, flips: bool = False) -> FiniteGroup: ...
@overload
def about_axis(group: PlanarGroup, axis: ArrayLike = "z", *, flips: bool = False) -> PlanarGroup: ...
def about_axis(
    group: FiniteGroup | PlanarGroup, axis: ArrayLike = "z", *, flips: bool = False
) -> FiniteGroup | PlanarGroup:
    """A group of the plane as it moves space, about an axis: the same elements with another action.

    Many volumes have an up. ``about_axis(cyclic(4), "z")`` turns them about z, and ``about_axis(so2())`` by any angle;
    the plane across the axis is moved as images are, seen from where the axis points.

    Args:
        group: a group that moves the plane, such as ``cyclic(8)``, ``dihedral(4)``, ``so2()`` or ``o2()``.
        axis: a vector such as ``(0, 0, 1)``, or ``"x"``, ``"y"`` or ``"z"``.
        flips: what reflections become. By default they mirror space in a plane that contains the axis. With
            ``flips=True`` they turn it by 180° about a line across the axis, which is a rotation.

    >>> from steerable import dihedral, so2
    >>> about_axis(dihedral(4), "z").action[4].astype(int).tolist()
    [[-1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> G = about_axis(so2(), "x")
    >>> G, G.motion(G.rotation(90)).astype(int).tolist()
    (<SO2 about x, all rotations of space about x>, [[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    """
    if not isinstance(group, FiniteGroup | PlanarGroup) or group.axes != 2:
        raise ValueError(
            "about_axis takes a group that moves the plane, such as cyclic(4), dihedral(4), so2() or o2(); got "
            f"{getattr(group, 'name', repr(group))}."
        )
    if isinstance(group, PlanarGroup):
        return PlanarGroup(reflections=group.reflections, line=line_along(axis, flips=flips and group.reflections))
    line = line_along(axis, flips=flips)
    if group.action is None:
        raise RuntimeError("a finite group that moves the plane carries its action")
    return FiniteGroup(group.elements, group.table, action=line.in_space(group.action), name=f"{group.name} {line}")


def _with(rotations: FiniteGroup, letter: str, matrix: FloatArray, name: str) -> FiniteGroup:
    """The rotations, and one more motion of order 2 after each of them, whose letter comes first in their names."""
    if rotations.action is None:
        raise RuntimeError("3×3 rotations always carry an action")
    names = [*rotations.elements, *(letter if g == "e" else f"{letter}{g}" for g in rotations.elements)]
    action = np.concatenate([rotations.action, matrix @ rotations.action]) + 0.0
    place = {_key(motion): k for k, motion in enumerate(action)}
    products = action[:, None] @ action[None]
    table = [[place[_key(product)] for product in row] for row in products]
    return FiniteGroup(names, table, action=action, name=name)


def _key(matrix: FloatArray) -> bytes:
    return (np.round(matrix, 6) + 0.0).tobytes()
