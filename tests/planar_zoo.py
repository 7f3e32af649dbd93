"""Representations of SO(2) and O(2) over which the laws are tested: of every kind, in straight and in skewed bases."""

from __future__ import annotations

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


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max(initial=0))
