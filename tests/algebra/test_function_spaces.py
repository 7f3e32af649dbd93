"""Functions on SO(2) and O(2) and on their cosets, up to a frequency."""

from __future__ import annotations

import numpy as np
import pytest
from planar_zoo import PLANAR_GROUPS, error, function_values

import steerable as st
from steerable.algebra.function_spaces import functions_in_the_plane, named_functions_in_the_plane
from steerable.algebra.planar_groups import PlanarGroup

SO2, O2 = st.so2(), st.o2()
SPACES = {
    # (the highest frequency, K): functions on the group, or on the cosets of K
    **{f"{g.name} {k}": (g, k, st.cyclic(1)) for g in (SO2, O2) for k in (0, 1, 3)},
    "circle": (O2, 3, st.dihedral(1)),
    "SO2/C3": (SO2, 7, st.cyclic(3)),
    "O2/C2": (O2, 4, st.cyclic(2)),
    "O2/D4": (O2, 8, st.dihedral(4)),
}
every = pytest.mark.parametrize(("g", "frequency", "k"), SPACES.values(), ids=SPACES)


def finite(g: PlanarGroup, n: int) -> st.FiniteGroup:
    return st.dihedral(n) if g.reflections else st.cyclic(n)


@every
def test_functions_are_moved_by_left_translation(g: PlanarGroup, frequency: int, k: st.FiniteGroup) -> None:
    """[ρ(a)f](g) = f(a⁻¹g)."""
    rho = g.quotient(k, frequency)
    points = g.random(9, seed=0)
    for a in g.random(5, seed=1):
        back = [g.multiply(g.inverse(a), x) for x in points]
        assert error(function_values(rho, points) @ rho(a), function_values(rho, back)) < 1e-12


@every
def test_functions_do_not_change_under_the_subgroup(g: PlanarGroup, frequency: int, k: st.FiniteGroup) -> None:
    """f(gk) = f(g) for all k in K, and no other irrep up to that frequency holds such a function."""
    rho = g.quotient(k, frequency)
    points = g.random(6, seed=0)
    assert k.action is not None
    for matrix in k.action:
        moved = [g.multiply(x, g.element(matrix)) for x in points]
        assert error(function_values(rho, moved), function_values(rho, points)) < 1e-12
    kinds = g.irreps_of((0,) * (frequency + (2 if g.reflections else 1)))
    expected = [st.intertwining_number(k.trivial, irrep.restrict(k)) // irrep.commutant_dim for irrep in kinds]
    assert [*rho.type, *[0] * (len(expected) - len(rho.type))] == expected


@every
def test_the_basis_is_orthonormal_over_the_group(g: PlanarGroup, frequency: int, k: st.FiniteGroup) -> None:
    """The mean of f² over the group is |c|², here over a finite subgroup with enough rotations to be exact."""
    rho, many = g.quotient(k, frequency), finite(g, 2 * frequency + 1)
    assert many.action is not None
    values = function_values(rho, [g.element(matrix) for matrix in many.action])
    assert error(values.T @ values / many.order, np.eye(rho.dim)) < 1e-12


@pytest.mark.parametrize("g", PLANAR_GROUPS.values(), ids=PLANAR_GROUPS)
@pytest.mark.parametrize("n", [5, 8])
def test_values_on_a_finite_subgroup_are_its_regular_representation(g: PlanarGroup, n: int) -> None:
    """Sampling commutes with the subgroup: this is what makes Fourier nonlinearities equivariant to it."""
    many, rho = finite(g, n), functions_in_the_plane(g, 2)
    assert many.action is not None
    values = function_values(rho, [g.element(matrix) for matrix in many.action])
    restricted = rho.restrict(many)
    for element in many.elements:
        assert error(values @ restricted(element), many.regular(element) @ values) < 1e-12


def test_dimensions_and_names() -> None:
    assert SO2.regular(3).dim == 7
    assert SO2.regular(3).type == (1, 1, 1, 1)
    assert O2.regular(3).type == (1, 1, 2, 2, 2)
    assert O2.quotient(st.dihedral(1), 3).type == (1, 0, 1, 1, 1)
    assert O2.quotient(st.dihedral(4), 8).type == (1, 0, 0, 0, 0, 1, 0, 0, 0, 1)
    assert SO2.quotient(st.cyclic(4), 5).type == (1, 0, 0, 0, 1)
    named = {
        "regular(3)": SO2.regular(3),
        "qC4(5)": SO2.quotient(st.cyclic(4), 5),
        "qm(3)": O2.quotient(st.dihedral(1), 3),
        "qD4(8)": O2.quotient(st.dihedral(4), 8),
    }
    for name, rho in named.items():
        assert rho.name == name
        assert rho.group.capsule(name).representation == rho
    assert O2.capsule("qD1(2)") == O2.capsule("qm(2)")
    assert SO2.capsule("qC1(2)") == SO2.capsule("regular(2)")
    assert O2.capsule("qm(2)").representation.restrict(SO2) == SO2.regular(2)
    assert SO2.quotient(st.dihedral(4).subgroup(["e", "r2"]), 4) == SO2.quotient(st.cyclic(2), 4)
    assert named_functions_in_the_plane(SO2, "regular(3)") == functions_in_the_plane(SO2, 3)
    assert named_functions_in_the_plane(SO2, "E3") is None


def test_functions_on_the_two_cosets_of_the_rotations() -> None:
    pair = O2.capsule("r").representation
    assert pair(O2.rotation(77)).tolist() == np.eye(2).tolist()
    assert pair(O2.reflection(5)).tolist() == [[0, 1], [1, 0]]
    assert pair.restrict(st.dihedral(4)) == st.dihedral(4).capsule("r").representation
    assert pair.type == (1, 1)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: SO2.regular(-1), ValueError, "a frequency must be a whole number from 0 to 1000; got -1"),
        (lambda: SO2.regular(1.5), TypeError, "a frequency must be a whole number ≥ 0; got float 1.5"),
        (lambda: SO2.quotient(st.dihedral(3), 3), ValueError, "D3 is not a subgroup of SO2, .* no capsule `qD3"),
        (lambda: SO2.capsule("qm(3)"), ValueError, r"D1 is not a subgroup of SO2, .* no capsule `qm\(3\)`"),
        (lambda: O2.quotient(st.octahedral(), 3), ValueError, r"cosets of O2 are those of cyclic\(n\), .* got O"),
        (lambda: O2.quotient(SO2, 3), ValueError, r"cosets of O2 are those of cyclic\(n\), .* got SO2"),
        (
            lambda: O2.quotient(st.dihedral(8).subgroup(["e", "mr"]), 3),
            ValueError,
            "has no reflection in the line at 0° from the vertical",
        ),
        (lambda: SO2.capsule("regular"), ValueError, r"`regular` of SO2. It has .* a frequency: `regular\(3\)` on"),
        (lambda: SO2.capsule("r"), ValueError, "unknown capsule `r` of SO2"),
        (lambda: O2.capsule("B1"), ValueError, r"unknown capsule `B1` of O2. It has the irreps A1, A2, E1, E2 …"),
        (lambda: O2.capsule(3), TypeError, "a capsule of O2 is named by text such as"),
    ],
)
def test_bad_input_is_refused_with_words(call, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
