"""Clebsch–Gordan coefficients and characters of SO(2) and O(2) against sympy, which torch installs.

The oracle knows nothing of this library: the irrep of frequency k is written down as a symbolic matrix of cos kθ and
sin kθ, m as diag(-1, 1), and sympy multiplies, simplifies and integrates exactly. Recipe, for E2 ⊗ E1 of O(2)::

    import sympy as sp

    t = sp.Symbol("t", real=True)
    turn = lambda k: sp.Matrix([[sp.cos(k * t), -sp.sin(k * t)], [sp.sin(k * t), sp.cos(k * t)]])
    product = sp.kronecker_product(turn(2), turn(1))
    (C.T * product * C).applyfunc(sp.simplify)  # diag(turn(1), turn(3)), with C of decompose(E2 @ E1)
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy as sp
from planar_zoo import PLANAR_GROUPS, error

import steerable as st
from steerable.algebra.characters import inner_product
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.waves import Wave, clebsch_gordan

T = sp.Symbol("t", real=True)
both = pytest.mark.parametrize("g", PLANAR_GROUPS.values(), ids=PLANAR_GROUPS)
NAMES = {"SO2": ("A", "E1", "E2", "E3"), "O2": ("A1", "A2", "E1", "E2", "E3")}
# What the product of two irreps is, from a table of O(2)'s characters: cos a cos b = (cos(a+b) + cos(a-b)) / 2.
PRODUCTS = {
    ("O2", "A2", "A2"): ["A1"],
    ("O2", "A2", "E3"): ["E3"],
    ("O2", "E1", "E1"): ["A1", "A2", "E2"],
    ("O2", "E1", "E3"): ["E2", "E4"],
    ("SO2", "E1", "E1"): ["A", "A", "E2"],
    ("SO2", "E3", "E2"): ["E1", "E5"],
    ("SO2", "A", "E2"): ["E2"],
}


def rotation(name: str) -> sp.Matrix:
    """The irrep at a rotation by t."""
    if name[0] == "A":
        return sp.Matrix([[1]])
    k = int(name[1:])
    return sp.Matrix([[sp.cos(k * T), -sp.sin(k * T)], [sp.sin(k * T), sp.cos(k * T)]])


def mirror(name: str) -> sp.Matrix:
    """The irrep at m."""
    return sp.diag(-1, 1) if name[0] == "E" else sp.Matrix([[-1 if name == "A2" else 1]])


def exact(matrix: np.ndarray) -> sp.Matrix:
    """Entries 0, ±1 and ±1/√2 as symbols; anything else is not a Clebsch–Gordan coefficient of these groups."""
    known = {0: 0, 1: 1, -1: -1, 0.707107: 1 / sp.sqrt(2), -0.707107: -1 / sp.sqrt(2)}
    return sp.Matrix(*matrix.shape, [known[round(float(value), 6)] for value in matrix.ravel()])


@pytest.mark.parametrize(("g", "names"), [(PLANAR_GROUPS[key], names) for key, names in NAMES.items()], ids=NAMES)
def test_products_fall_apart_as_sympy_says(g: PlanarGroup, names: tuple[str, ...]) -> None:
    for a, b in itertools.product(names, repeat=2):
        product = g.irrep(a) @ g.irrep(b)
        kind, columns = st.decompose(product)
        parts = [str(irrep) for irrep, n in zip(g.irreps_of(kind), kind, strict=True) for _ in range(n)]
        c = exact(columns)
        assert c.T * c == sp.eye(product.dim)
        for of in (rotation, mirror) if g.reflections else (rotation,):
            turned = c.T * sp.kronecker_product(of(a), of(b)) * c
            difference = turned - sp.diag(*(of(part) for part in parts))
            assert difference.applyfunc(lambda x: sp.expand(x.rewrite(sp.exp))) == sp.zeros(product.dim), (a, b)


@pytest.mark.parametrize(("key", "parts"), PRODUCTS.items(), ids=lambda value: str(value))
def test_products_have_the_parts_of_the_table(key: tuple[str, str, str], parts: list[str]) -> None:
    g = PLANAR_GROUPS[key[0]]
    first, second = g.irrep(key[1]), g.irrep(key[2])
    waves, _ = clebsch_gordan(g, first.waves[0], second.waves[0])
    assert [wave.name(g) for wave in waves] == parts


@both
@pytest.mark.parametrize(("j", "k"), [(0, 0), (0, 4), (7, 2), (2, 7), (5, 5), (100, 99)])
def test_coefficients_are_orthogonal_and_split_the_product(g: PlanarGroup, j: int, k: int) -> None:
    waves, c = clebsch_gordan(g, Wave(j), Wave(k))
    assert error(c.T @ c, np.eye(len(c))) < 1e-15
    for x in g.random(4, seed=j):
        blocks = st.direct_sum([g.irrep(wave.name(g)) for wave in waves])(x)
        assert error(np.kron(Wave(j).at(x), Wave(k).at(x)) @ c, c @ blocks) < 1e-11


@pytest.mark.parametrize(("g", "names"), [(PLANAR_GROUPS[key], names) for key, names in NAMES.items()], ids=NAMES)
def test_inner_products_of_characters_are_integrals(g: PlanarGroup, names: tuple[str, ...]) -> None:
    """(1/2π) ∫ χψ dθ over SO(2); in O(2) half of it, and half of the same over the reflections m r^θ."""
    for a, b in itertools.combinations_with_replacement((*names, "E4"), 2):
        pairs = [(rotation(a), rotation(b))]
        if g.reflections:
            pairs.append((mirror(a) * rotation(a), mirror(b) * rotation(b)))
        integrals = [sp.integrate(x.trace() * y.trace(), (T, 0, 2 * sp.pi)) / (2 * sp.pi) for x, y in pairs]
        expected = float(sum(integrals) / len(integrals))
        assert inner_product(g.irrep(a).character, g.irrep(b).character) == expected
        assert st.intertwining_number(g.irrep(a), g.irrep(b)) == expected
