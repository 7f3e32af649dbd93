"""Representations of SO(2) and O(2) over which the laws are tested: of every kind, in straight and in skewed bases."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from group_zoo import random_invertible, random_orthogonal

import steerable as st
from steerable.algebra.planar_groups import PlanarGroup

PLANAR_GROUPS = {"SO2": st.so2(), "O2": st.o2()}
KINDS = ("trivial", "E3", "regular(2)", "qC2(4)", "mixed", "product", "turned", "skewed", "nothing")


def planar_representation(group: PlanarGroup, kind: str) -> st.Representation:
    """A representation of one of ``KINDS``; its frequencies are at most 5."""
    odd = "A2" if group.reflections else "A"
    mixed = st.direct_sum([group.irrep(name) for name in ("E2", "A", "E1", "E2", odd)])
    made = {
        "trivial": lambda: group.trivial,
        "regular(2)": lambda: group.regular(2),
        "qC2(4)": lambda: group.quotient(st.cyclic(2), 4),
        "mixed": lambda: mixed,
        "product": lambda: group.irrep("E2") @ (group.irrep("E1") + group.irrep("E3")),
        "turned": lambda: mixed.change_basis(random_orthogonal(mixed.dim)),
        "skewed": lambda: mixed.change_basis(random_invertible(mixed.dim, seed=3)),
        "nothing": lambda: 0 * mixed,
    }
    return made[kind]() if kind in made else group.irrep(kind)


HIGHEST = 5
"""The highest frequency of these representations."""


def function_values(rho: st.Representation, elements: Iterable[object], *, on_sphere: bool = False) -> np.ndarray:
    """(elements, dim): f(g) = ℓ ρ(g⁻¹) v of functions on a compact group, or on its cosets, as they are defined.

    Of n copies of an irrep ℓ is √d times another row of the identity each; of a single one it is the last row, which
    the mirror m leaves unchanged, or on the sphere the values of the harmonics at (0, 0, 1).
    """
    waves, rows = list(rho.waves), []
    for k, wave in enumerate(waves):
        row = waves[:k].count(wave) if waves.count(wave) > 1 else wave.dim - 1
        own = np.sqrt(wave.dim) * np.eye(wave.dim)[row]
        rows.append(st.spherical_harmonics(wave.degree, [0, 0, 1]) if on_sphere else own)
    return np.stack([np.concatenate(rows) @ rho(rho.group.inverse(g)) for g in elements])


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max(initial=0))
