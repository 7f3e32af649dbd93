"""Representations of SO(2) and O(2): laws at random elements, and agreement with C_n and D_n for large n."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import numpy as np
import pytest
from group_zoo import group, is_orthonormal, random_invertible, same_span
from planar_zoo import HIGHEST, KINDS, PLANAR_GROUPS, error, function_values, planar_representation

import steerable as st
from steerable.algebra.characters import inner_product, multiplicities
from steerable.algebra.intertwiners import hom_basis
from steerable.algebra.planar_groups import PlanarGroup
from steerable.filters.harmonics import CircularHarmonic

SO2, O2 = st.so2(), st.o2()
LARGE = 2 * HIGHEST + 1  # C_n with n above the sum of two frequencies has no other intertwiners than SO(2)
both = pytest.mark.parametrize("g", PLANAR_GROUPS.values(), ids=PLANAR_GROUPS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def circular_harmonics(g: st.Group, frequencies: Sequence[int]) -> st.Representation:
    return st.direct_sum([CircularHarmonic(k).turned_by(g) for k in frequencies])


def large_subgroup(g: PlanarGroup, n: int = LARGE) -> st.FiniteGroup:
    return st.dihedral(n) if g.reflections else st.cyclic(n)


@both
@every_kind
def test_characters_are_integrated_exactly(g: PlanarGroup, kind: str) -> None:
    """The mean over a finite subgroup with more rotations than the product has frequencies is the integral."""
    rho = planar_representation(g, kind)
    finite = rho.restrict(large_subgroup(g)).character
    assert abs(inner_product(rho.character, rho.character) - np.mean(finite * finite)) < 1e-12


@both
def test_types_are_read_off_the_character_at_any_frequency(g: PlanarGroup) -> None:
    """They agree with inner products, and no other irrep is made, however high the frequency."""
    rho = 2 * g.irrep("E1") + 3 * g.irrep("E4") + g.trivial + g.irrep("E2") @ g.irrep("E2")
    irreps = g.irreps_of(rho.type)
    assert rho.type == tuple(
        round(inner_product(rho.character, irrep.character) / irrep.commutant_dim) for irrep in irreps
    )
    with mock.patch.object(PlanarGroup, "irreps_of", side_effect=AssertionError("no irreps are needed")):
        high = g.irrep("E1000").type
    assert high == (0,) * (len(high) - 1) + (1,)


@both
def test_irreps_are_orthogonal_and_of_the_right_type(g: PlanarGroup) -> None:
    irreps = g.irreps_of((0,) * 12)
    gram = [[inner_product(a.character, b.character) for b in irreps] for a in irreps]
    assert gram == np.diag([irrep.commutant_dim for irrep in irreps]).tolist()
    assert {str(irrep): irrep.commutant_dim for irrep in irreps[:4]} == (
        {"A1": 1, "A2": 1, "E1": 1, "E2": 1} if g.reflections else {"A": 1, "E1": 2, "E2": 2, "E3": 2}
    )
    assert [irrep.schur_type for irrep in irreps[-2:]] == [("real" if g.reflections else "complex")] * 2
    assert all(isinstance(irrep, st.Irrep) and g.irrep(str(irrep)) is irrep for irrep in irreps)
    assert g.trivial == irreps[0] == g.irrep("A") == g.irrep("A1") == g.irrep("trivial")


@pytest.mark.parametrize("n", [3, 4, 5, 8, 12, 64])
def test_irreps_have_the_matrices_of_the_finite_groups(n: int) -> None:
    count = (n - 1) // 2
    for finite, whole in ((st.cyclic(n), SO2), (st.dihedral(n), O2)):
        for k in range(1, count + 1):
            own = finite.irrep("E" if count == 1 else f"E{k}")
            assert error(whole.irrep(f"E{k}").restrict(finite).matrices, own.matrices) < 1e-12
            assert whole.irrep(f"E{k}").restrict(finite) == own
        assert whole.irrep("A").restrict(finite) == finite.trivial
    assert O2.irrep("A2").restrict(st.dihedral(n)) == st.dihedral(n).irrep("A2")


@both
@every_kind
def test_restriction_keeps_the_matrices(g: PlanarGroup, kind: str) -> None:
    rho = planar_representation(g, kind)
    subgroups = [st.cyclic(n) for n in (1, 2, 4, 7, 8)]
    if g.reflections:
        subgroups += [st.dihedral(n) for n in (1, 3, 4, 8)] + [st.dihedral(8).subgroup(["e", "mr"])]
    for smaller in subgroups:
        restricted = rho.restrict(smaller)
        assert restricted.group == smaller
        assert smaller.action is not None
        for element, matrix in zip(smaller.elements, smaller.action, strict=True):
            assert error(restricted(element), rho(g.element(matrix))) < 1e-12


@every_kind
def test_restriction_from_o2_to_so2_and_on(kind: str) -> None:
    rho = planar_representation(O2, kind)
    rotations = rho.restrict(SO2)
    assert rotations.group == SO2
    for x in SO2.random(5, seed=0):
        assert error(rotations(x), rho(O2.element(x.matrix))) < 1e-12
    for n in (4, 9):
        assert error(rotations.restrict(st.cyclic(n)).matrices, rho.restrict(st.cyclic(n)).matrices) < 1e-12
        through = rho.restrict(st.dihedral(n)).restrict(st.cyclic(n))
        assert error(through.matrices, rho.restrict(st.cyclic(n)).matrices) < 1e-12


@both
@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_intertwiners_are_those_of_large_finite_subgroups(g: PlanarGroup, source: str, target: str) -> None:
    pi, rho = planar_representation(g, source), planar_representation(g, target)
    basis = st.intertwiner_basis(pi, rho)
    assert basis.shape == (st.intertwining_number(pi, rho), rho.dim, pi.dim)
    assert is_orthonormal(basis)
    for x in g.random(3, seed=0):
        assert error(rho(x) @ basis, basis @ pi(x)) < 1e-12
    finite = large_subgroup(g)
    assert same_span(basis, st.intertwiner_basis(pi.restrict(finite), rho.restrict(finite)))


@both
def test_a_small_subgroup_has_more_intertwiners(g: PlanarGroup) -> None:
    """Frequencies 1 and 3 are the same for C4 and D4, and only for groups with that few rotations."""
    pi, rho = g.irrep("E1"), g.irrep("E3")
    assert st.intertwining_number(pi, rho) == 0
    for n, more in ((4, True), (5, False)):
        small = large_subgroup(g, n)
        assert (st.intertwining_number(pi.restrict(small), rho.restrict(small)) > 0) == more


@both
def test_an_orthogonal_representation_gets_an_orthogonal_basis(g: PlanarGroup) -> None:
    """Bases that scale whole irreps leave the matrices orthogonal, and intertwiners stay orthonormal."""
    rho = (2 * g.irrep("E1")).change_basis(np.kron(random_invertible(2), np.eye(2)))
    assert rho == 2 * g.irrep("E1")
    assert is_orthonormal(st.intertwiner_basis(rho, g.irrep("E1")))


def test_nonlinearities_follow_from_the_matrices() -> None:
    norm_only = ("norm",)
    for capsule, admitted in {
        SO2.capsule("A"): SO2.capsule("A").nonlinearities,
        SO2.capsule("E1"): norm_only,
        SO2.capsule("regular(2)"): norm_only,
        O2.capsule("qm(3)"): norm_only,
        O2.capsule("E4"): norm_only,
    }.items():
        assert capsule.nonlinearities == admitted
    assert SO2.capsule("A").admits("pointwise")
    assert O2.capsule("A1").kind == O2.capsule("r").kind == "permutation"
    assert O2.capsule("A2").kind == "signed permutation"
    assert [str(c) for c in O2.capsule("A2").after_concatenation()] == ["r"]
    assert [str(c) for c in SO2.capsule("A").after_concatenation()] == ["A", "A"]
    with pytest.raises(TypeError, match="not admissible for capsule `E1` of SO2: its matrices are orthogonal but not"):
        SO2.capsule("E1").after_concatenation()


@pytest.mark.parametrize(
    ("g", "name"),
    [
        *((g, name) for g in (O2, st.o3()) for name in ("C4", "C5", "D8", "SO2")),
        *((st.dihedral(8), name) for name in ("C4", "C8", "D2")),
        *((st.about_axis(O2), name) for name in ("C4 about z", "SO2 about z")),
    ],
)
def test_a_subgroup_is_given_by_name(g: st.Group, name: str) -> None:
    rho = st.direct_sum(list(g.irreps_of((1,) * 4)))
    assert rho.restrict(name) == rho.restrict(st.group_named(name))
    with pytest.raises(ValueError, match="there is no group called 'Q5'"):
        rho.restrict("Q5")


@pytest.mark.parametrize("samples", [5, 6, 8])
def test_matrices_that_permute_at_some_elements_are_not_taken_for_permutations(samples: int) -> None:
    """In the basis of its values at five angles, regular(2) of SO(2) is permuted by turns of 72°, and by no others."""
    values = function_values(SO2.regular(2), [SO2.rotation(72 * k) for k in range(5)])
    rho = SO2.regular(2).change_basis(np.linalg.inv(values))
    assert np.allclose(np.sort(np.abs(rho(SO2.rotation(72))), axis=0)[:-1], 0, atol=1e-12)
    assert rho.kind == "orthogonal"
    assert rho.monomial is None
    assert rho.restrict(st.cyclic(samples)).is_permutation == (samples == 5)
    assert (SO2.irrep("E1") + SO2.trivial).kind == "orthogonal"
    assert SO2.irrep("E1").change_basis([[1, 1], [0, 1]]).kind == "general"


@pytest.mark.parametrize("name", ["C1", "C2", "C3", "C8", "D1", "D4", "D8", "SO2", "O2", "C2xD4|D4"])
def test_waves_of_given_frequencies_for_every_group_of_the_plane(name: str) -> None:
    """[π(g)f](x) = f(g⁻¹x) on -sin kψ and cos kψ, with ψ from the upward direction, for points x of the plane."""
    g = PLANAR_GROUPS.get(name) or group(name)
    frequencies = [0, 3, 1, 1, 6]
    rho = circular_harmonics(g, frequencies)
    assert rho.dim == 9

    def values(point: np.ndarray) -> np.ndarray:
        psi = np.arctan2(-point[0], point[1])
        return np.concatenate([[-np.sin(k * psi), np.cos(k * psi)] if k else [1.0] for k in frequencies])

    point = np.array([0.3, -0.8])
    for element in g.random(6, seed=0):
        matrix = element.matrix if name in PLANAR_GROUPS else g.action[g.index(element)]
        assert error(values(np.linalg.inv(matrix) @ point), values(point) @ rho(element)) < 1e-12
    maps = hom_basis(rho, circular_harmonics(g, [1]))
    assert maps.count == st.intertwining_number(rho, circular_harmonics(g, [1])) >= (2 if name[-2:] == "O2" else 1)
    assert hom_basis(rho @ rho, rho).count == st.intertwining_number(rho @ rho, rho)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: SO2.irrep("E1").matrices, TypeError, "SO2 has infinitely many elements, so the matrices of E1"),
        (lambda: SO2.irrep("E1")("r"), TypeError, "`r` is not an element of SO2"),
        (lambda: SO2.irrep("E1")(O2.reflection(0)), TypeError, r"`reflection\(0\)` of O2 is not an element of SO2"),
        (
            lambda: SO2.irrep("E1").character + O2.irrep("E1").character,
            TypeError,
            "cannot add a character of SO2 and one of O2: .* Restrict one representation",
        ),
        (
            lambda: SO2.irrep("E1").character * O2.irrep("E1").character,
            TypeError,
            "cannot multiply a character of SO2 and one of O2: they are functions on different groups",
        ),
        (lambda: SO2.irrep("E1").character + 1, TypeError, "unsupported operand"),
        (lambda: multiplicities(SO2, O2.irrep("E1").character), TypeError, "a character of O2, not of SO2"),
        (lambda: SO2.irrep("E1").character(O2.rotation(9)), TypeError, r"`rotation\(9\)` of O2 is not an element"),
        (lambda: SO2.irrep("E1") + O2.irrep("E1"), TypeError, "cannot add a representation of SO2 and one of O2"),
        (lambda: SO2.irrep("E1") @ st.cyclic(4).irrep("E"), TypeError, "cannot multiply a representation of SO2 and"),
        (lambda: -1 * SO2.irrep("E1"), ValueError, "a representation is repeated 0 or more times; got -1 copies of E1"),
        (lambda: st.Representation(SO2, [[[1]]]), TypeError, "made from the matrices of a finite group .* got SO2"),
        (
            lambda: SO2.irrep("E1").restrict(O2),
            ValueError,
            r"cannot restrict a representation of SO2 to O2: O2 is larger than SO2. Use cyclic\(n\) or another group",
        ),
        (lambda: SO2.irrep("E1").restrict(st.dihedral(4)), ValueError, "of SO2 to D4: it has reflections. Use cyclic"),
        (lambda: O2.irrep("E1").restrict(st.octahedral()), ValueError, "O2 to O: it does not act on the plane"),
        (lambda: O2.irrep("E1").restrict(group("S4")), ValueError, "O2 to S4: it does not act on the plane"),
        (
            lambda: O2.irrep("E1").restrict(group("C2xD4|D4")),
            ValueError,
            "to C2 x D4: several of its elements move the plane alike",
        ),
        (
            lambda: O2.irrep("E1").restrict(["e", "r"]),
            TypeError,
            r"expected a subgroup of O2, such as cyclic\(8\), got list \['e', 'r'\]. O2 has no list of elements",
        ),
        (
            lambda: st.cyclic(4).irrep("E").restrict(SO2),
            ValueError,
            "cannot restrict a representation of C4 to SO2: SO2 is larger than C4. Use a subgroup of C4",
        ),
        (lambda: st.induce(st.cyclic(4).trivial, SO2), TypeError, "expected the group to induce to"),
        (lambda: st.intertwiner_basis(SO2.trivial, O2.trivial), TypeError, "of one group; got SO2 and O2"),
        (lambda: circular_harmonics(group("S4"), [1]), ValueError, "to S4: it does not act on the plane"),
        (lambda: circular_harmonics(st.octahedral(), [1]), ValueError, "to O: it does not act on the plane"),
    ],
)
def test_bad_input_is_refused_with_words(call, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
