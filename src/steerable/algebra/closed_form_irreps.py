"""Irreps with fixed names and matrices: those of C_n, D_n, O and O_h."""

from __future__ import annotations

import math

import numpy as np

from steerable.algebra.actions import planar_matrix
from steerable.algebra.arrays import FloatArray
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.recognition import RotationStructure, is_octahedral, rotation_structure

__all__ = ["closed_form_irreps"]

NamedMatrices = list[tuple[str, FloatArray]]
"""Irreps as (name, matrices of shape (order, d, d)), the trivial one first."""


def closed_form_irreps(group: FiniteGroup) -> NamedMatrices | None:
    """The irreps of a group that is recognised as C_n, D_n, O or O_h; None for all other groups."""
    structure = rotation_structure(group)
    if structure is not None:
        return _dihedral_irreps(structure) if structure.has_mirrors else _cyclic_irreps(structure)
    return _octahedral_irreps(group) if is_octahedral(group) else None


def _cyclic_irreps(structure: RotationStructure) -> NamedMatrices:
    n, power = structure.n, structure.power
    named: NamedMatrices = [("A", np.ones((len(power), 1, 1)))]
    if n % 2 == 0:
        named.append(("B", np.asarray((-1.0) ** power[:, None, None], dtype=np.float64)))
    return named + _planar_irreps(structure)


def _dihedral_irreps(structure: RotationStructure) -> NamedMatrices:
    turn, flip = (-1.0) ** structure.power[:, None, None], (-1.0) ** structure.mirrored[:, None, None]
    named = [("A1", np.ones_like(turn)), ("A2", flip)]
    if structure.n % 2 == 0:
        named += [("B1", turn), ("B2", turn * flip)]
    return named + _planar_irreps(structure)


def _planar_irreps(structure: RotationStructure) -> NamedMatrices:
    """The two-dimensional irreps E_k: r turns by k·360°/n, and m is diag(-1, 1)."""
    count = (structure.n - 1) // 2
    pairs = list(zip(structure.power, structure.mirrored, strict=True))
    return [
        (
            "E" if count == 1 else f"E{k}",
            np.stack([planar_matrix(k * int(p), structure.n, mirrored=bool(m)) for p, m in pairs]),
        )
        for k in range(1, count + 1)
    ]


def _octahedral_irreps(group: FiniteGroup) -> NamedMatrices:
    """A1, A2, E, T1 (the vectors), T2 of O; for O_h each twice, even (g) and odd (u) under the inversion."""
    if group.action is None:
        raise RuntimeError("is_octahedral looked at the action")
    parity = np.round(np.linalg.det(group.action))[:, None, None]
    proper = group.action * parity
    axes = np.abs(proper)  # how the three axes are permuted
    sign = np.round(np.linalg.det(axes))[:, None, None]
    # 2z²-x²-y² and x²-y², normalised: the part of the axis permutation that is orthogonal to x²+y²+z².
    quadratic = np.array([[-1, 1 * math.sqrt(3)], [-1, -math.sqrt(3)], [2, 0]]) / math.sqrt(6)
    even = [
        ("A1", np.ones_like(sign)),
        ("A2", sign),
        ("E", quadratic.T @ axes @ quadratic),
        ("T1", proper),
        ("T2", proper * sign),
    ]
    if group.order == 24:
        return even
    return [(f"{name}{suffix}", m * p) for suffix, p in (("g", 1.0), ("u", parity)) for name, m in even]
