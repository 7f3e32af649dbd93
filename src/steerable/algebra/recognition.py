"""Recognition of C_n, D_n and the groups of regular solids, so that subgroups get their names and matrices, too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray
from steerable.algebra.groups import FiniteGroup

__all__ = ["RotationStructure", "is_cubic", "is_icosahedral", "rotation_structure"]


@dataclass(frozen=True)
class RotationStructure:
    """Every element written as r^power or m r^power: the group is C_n, or D_n if ``has_mirrors``.

    ``power`` and ``mirrored`` are (order,) arrays; r is an element of order n, m one of order 2 outside its powers.
    """

    n: int
    has_mirrors: bool
    power: IntArray
    mirrored: IntArray


@lru_cache(maxsize=1024)
def rotation_structure(group: FiniteGroup) -> RotationStructure | None:
    """The cyclic or dihedral structure of a group, or None.

    Where no two elements move the plane alike, r is the rotation by 360°/n counter-clockwise and m is the first
    reflection; otherwise both are the first elements that fit.
    """
    if group.action is not None and group.action.shape[1] == 2 and group.acts_faithfully:
        return _planar_structure(group, group.action)
    orders = group.element_orders
    full = np.flatnonzero(orders == group.order)
    if len(full):
        return RotationStructure(group.order, False, _powers(group, int(full[0])), np.zeros(group.order, dtype=np.intp))
    if group.order % 2:
        return None
    n = group.order // 2
    for r in np.flatnonzero(orders == n):
        power = _powers(group, int(r))
        for m in np.flatnonzero((orders == 2) & (power < 0)):
            if group.table[group.table[m, r], m] == group.inverses[r]:
                return _with_mirror(group, n, power, int(m))
    return None


def _planar_structure(group: FiniteGroup, action: FloatArray) -> RotationStructure:
    proper = np.linalg.det(action) > 0
    n = int(proper.sum())
    angle = np.arctan2(action[:, 1, 0], action[:, 0, 0]) / (2 * math.pi)
    power = np.where(proper, np.round(angle * n).astype(np.intp) % n, -1)
    if proper.all():
        return RotationStructure(n, False, power, np.zeros(group.order, dtype=np.intp))
    return _with_mirror(group, n, power, int(np.argmax(~proper)))


def _with_mirror(group: FiniteGroup, n: int, power: IntArray, m: int) -> RotationStructure:
    mirrored = (power < 0).astype(np.intp)
    rotation = np.where(mirrored == 1, group.table[m], np.arange(group.order))  # m⁻¹ g = m g for reflections
    return RotationStructure(n, True, power[rotation], mirrored)


def _powers(group: FiniteGroup, r: int) -> IntArray:
    """(order,): k for an element r^k, -1 for an element that is not a power of r."""
    power = np.full(group.order, -1, dtype=np.intp)
    element, k = group.identity_index, 0
    while power[element] < 0:
        power[element] = k
        element, k = int(group.table[element, r]), k + 1
    return power


def is_cubic(group: FiniteGroup) -> bool:
    """Whether the group is T, T_d, T_h, O or O_h acting on space along the coordinate axes."""
    action = group.action
    if action is None or action.shape[1] != 3 or group.order not in (12, 24, 48):
        return False
    return bool(np.isin(np.abs(action), (0.0, 1.0)).all()) and group.acts_faithfully and _turns_by_thirds(action)


def is_icosahedral(group: FiniteGroup) -> bool:
    """Whether the group is I or I_h in the orientation of `icosahedral`, which contains T along the axes."""
    action = group.action
    if action is None or action.shape[1] != 3 or group.order not in (60, 120):
        return False
    fifth = group.order // 5  # the elements of T or T_h
    on_axes = np.isin(np.abs(action), (0.0, 1.0)).all(axis=(1, 2))
    return int(on_axes.sum()) == fifth and group.acts_faithfully and _turns_by_thirds(action[on_axes])


def _turns_by_thirds(action: FloatArray) -> bool:
    """Whether some motion permutes the axes x, y and z cyclically, as in T, O and I but in no group about one axis."""
    cycle = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    return bool((np.abs(action) == cycle).all(axis=(1, 2)).any())
