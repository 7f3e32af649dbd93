"""Which familiar group is this? Subgroups and groups from generators get the names and matrices of C_n, D_n, O, O_h."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray
from steerable.algebra.groups import FiniteGroup

__all__ = ["RotationStructure", "is_octahedral", "rotation_structure"]


@dataclass(frozen=True)
class RotationStructure:
    """Every element written as r^power or m r^power: the group is C_n, or D_n where ``has_mirrors``.

    ``power`` and ``mirrored`` are (order,) arrays; r is an element of order n, m one of order 2 outside its powers.
    """

    n: int
    has_mirrors: bool
    power: IntArray
    mirrored: IntArray


@lru_cache(maxsize=1024)
def rotation_structure(group: FiniteGroup) -> RotationStructure | None:
    """The cyclic or dihedral structure of a group, or None.

    Where no two elements move the plane alike, r is the rotation by 360°/n counter-clockwise and m the first
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
    """(order,): k where an element is r^k, -1 where it is not a power of r."""
    power = np.full(group.order, -1, dtype=np.intp)
    element, k = group.identity_index, 0
    while power[element] < 0:
        power[element] = k
        element, k = int(group.table[element, r]), k + 1
    return power


def is_octahedral(group: FiniteGroup) -> bool:
    """Whether the group is O or O_h acting on space along the coordinate axes."""
    action = group.action
    if action is None or action.shape[1] != 3 or group.order not in (24, 48):
        return False
    on_axes = bool((np.abs(action).max(axis=1) == 1).all()) and bool(((action == 0) | (np.abs(action) == 1)).all())
    proper = int((np.linalg.det(action) > 0).sum())
    return on_axes and group.acts_faithfully and proper == 24
