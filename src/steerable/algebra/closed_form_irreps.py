"""Irreps with fixed names and matrices: those of C_n, D_n and the groups of the regular solids."""

from __future__ import annotations

import math

import numpy as np

from steerable.algebra.actions import planar_matrix
from steerable.algebra.arrays import FloatArray
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.recognition import RotationStructure, is_cubic, is_icosahedral, rotation_structure
from steerable.algebra.wigner_matrices import wigner_matrix

__all__ = ["closed_form_irreps"]

NamedMatrices = list[tuple[str, FloatArray]]
"""Irreps as (name, matrices of shape (order, d, d)), the trivial one first."""


def closed_form_irreps(group: FiniteGroup) -> NamedMatrices | None:
    """The irreps of a group that is recognised as C_n, D_n, T, T_d, T_h, O, O_h, I or I_h; None for all others."""
    structure = rotation_structure(group)
    if structure is not None:
        return _dihedral_irreps(structure) if structure.has_mirrors else _cyclic_irreps(structure)
    if is_cubic(group):
        return _cubic_irreps(group)
    return _icosahedral_irreps(group) if is_icosahedral(group) else None


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


def _cubic_irreps(group: FiniteGroup) -> NamedMatrices:
    """A1, A2, E, T1, T2 of O and T_d, or A, E, T of T.

    T1 are the vectors of O, and T2 those of T_d, where T1 are axial vectors.
    """
    proper, parity = _proper_and_parity(group)
    axes = np.abs(proper)  # how the three axes are permuted
    sign = np.round(np.linalg.det(axes))[:, None, None]
    # 2z²-x²-y² and x²-y², normalised: the part of the axis permutation that is orthogonal to x²+y²+z².
    quadratic = np.array([[-1, 1 * math.sqrt(3)], [-1, -math.sqrt(3)], [2, 0]]) / math.sqrt(6)
    two = quadratic.T @ axes @ quadratic
    one = np.ones_like(sign)
    if (sign == 1).all():  # the axes are only sent round, as in T
        return _with_parity(group, parity, [("A", one), ("E", two), ("T", proper)])
    named = [("A1", one), ("A2", sign), ("E", two), ("T1", proper), ("T2", proper * sign)]
    return _with_parity(group, parity, named)


def _icosahedral_irreps(group: FiniteGroup) -> NamedMatrices:
    """A, T1 (the vectors), T2, G and H (the spherical harmonics of degree 2).

    T2 has √5 replaced by -√5 in the matrices of T1. G permutes the five triples of orthogonal half-turn axes, without
    the trivial part.
    """
    proper, parity = _proper_and_parity(group)
    # Entries have the size 0, 1/2, 1, φ/2 or 1/(2φ); the last two, with φ = (1 + √5)/2, are exchanged up to sign.
    golden = (1 + math.sqrt(5)) / 2
    size = np.abs(proper)
    conjugate = np.where(np.abs(size - golden / 2) < 1e-6, (1 - golden) / 2, size)
    conjugate = np.where(np.abs(size - (golden - 1) / 2) < 1e-6, -golden / 2, conjugate)
    five = np.stack([wigner_matrix(2, rotation) for rotation in proper])
    return _with_parity(
        group,
        parity,
        [
            ("A", np.ones_like(parity)),
            ("T1", proper),
            ("T2", np.sign(proper) * conjugate),
            ("G", _permuting_triples(proper)),
            ("H", five),
        ],
    )


def _permuting_triples(rotations: FloatArray) -> FloatArray:
    """(order, 4, 4): how rotations of the icosahedron permute the images of the axes x, y, z, less the trivial part."""
    places: dict[frozenset[tuple[float, ...]], int] = {}
    first: list[FloatArray] = []
    for rotation in rotations:
        if places.setdefault(_axes_of(rotation), len(places)) == len(first):
            first.append(rotation)
    image = np.array([[places[_axes_of(rotation @ triple)] for triple in first] for rotation in rotations])
    # Orthonormal vectors across (1, 1, 1, 1, 1): column j compares triple j + 1 with those before it.
    contrasts = np.triu(np.ones((5, 4))) - np.diag(np.arange(1.0, 5), -1)[:, :4]
    contrasts /= np.linalg.norm(contrasts, axis=0)
    return np.stack([contrasts[row].T @ contrasts for row in image])


def _axes_of(rotation: FloatArray) -> frozenset[tuple[float, ...]]:
    """The lines to which the axes x, y and z are sent, each by the direction that comes first."""
    columns = np.round(rotation.T, 6) + 0.0
    return frozenset(min(tuple(column.tolist()), tuple((0.0 - column).tolist())) for column in columns)


def _proper_and_parity(group: FiniteGroup) -> tuple[FloatArray, FloatArray]:
    """(order, 3, 3) rotations and (order, 1, 1) signs: the motion of each element up to the inversion."""
    if group.action is None:
        raise RuntimeError("recognition looked at the action")
    parity = np.round(np.linalg.det(group.action))[:, None, None]
    return group.action * parity + 0.0, parity


def _with_parity(group: FiniteGroup, parity: FloatArray, named: NamedMatrices) -> NamedMatrices:
    """The irreps; if the group contains the inversion, each of them twice, even (g) and odd (u) under it."""
    if group.action is None or not (group.action == -np.eye(3)).all(axis=(1, 2)).any():
        return named
    return [(f"{name}{suffix}", m * p) for suffix, p in (("g", 1.0), ("u", parity)) for name, m in named]
