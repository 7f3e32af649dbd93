"""Representations of SO(3) and O(3): laws at random elements, and what finite groups and SO(2) see of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from group_zoo import group, is_orthonormal
from planar_zoo import PLANAR_GROUPS, error
from spatial_zoo import KINDS, SPATIAL_GROUPS, names, spatial_representation

import steerable as st
from steerable.algebra.characters import inner_product
from steerable.algebra.motions_in_space import about_z
from steerable.algebra.spatial_groups import SpatialGroup

SO3, O3 = st.so3(), st.o3()
both = pytest.mark.parametrize("g", SPATIAL_GROUPS.values(), ids=SPATIAL_GROUPS)
every_kind = pytest.mark.parametrize("kind", KINDS)


@both
def test_irreps_by_degree(g: SpatialGroup) -> None:
    count = 8 if g.reflections else 5
    irreps = g.irreps_of((0,) * count)
    gram = [[inner_product(a.character, b.character) for b in irreps] for a in irreps]
    assert gram == np.eye(count).tolist()
    assert " ".join(map(str, irreps)) == ("L0e L0o L1e L1o L2e L2o L3e L3o" if g.reflections else "L0 L1 L2 L3 L4")
    assert all(irrep.schur_type == "real" and g.irrep(str(irrep)) is irrep for irrep in irreps)
    assert g.trivial == irreps[0] == g.irrep("A") == g.irrep("trivial")


def test_vectors_are_the_irrep_of_degree_one() -> None:
    for element in SO3.random(3, seed=0):
        assert np.array_equal(SO3.irrep("L1")(element), element.matrix)
    for element in O3.random(8, seed=0):
        assert np.array_equal(O3.irrep("L1o")(element), element.matrix)
        assert np.array_equal(O3.irrep("L1e")(element), element.matrix * np.linalg.det(element.matrix).round())


def test_names_of_e3nn_are_understood() -> None:
    for ours, theirs in (("L0e", "0e"), ("L1o", "1o"), ("L2e", "2e"), ("L11o", "11o")):
        assert O3.irrep(theirs) is O3.irrep(ours)
    assert str(st.FieldType(O3, "8x0e + 4x1o + 2*(2e + L1e)")) == "8*L0e + 4*L1o + 2*L2e + 2*L1e"
    with pytest.raises(ValueError, match="SO3 has no irrep `1o`"):
        SO3.irrep("1o")


@pytest.mark.parametrize("degree", range(7))
def test_characters_of_irreps(degree: int) -> None:
    """sin((2ℓ+1)θ/2) / sin(θ/2), Weyl's formula."""
    for element in O3.random(6, seed=0):
        half = math.radians(element.angle) / 2
        expected = math.sin((2 * degree + 1) * half) / math.sin(half)
        assert abs(O3.irrep(f"L{degree}e").character(element) - expected) < 1e-12
        assert abs(O3.irrep(f"L{degree}o").character(element) - expected * (-1) ** element.mirrored) < 1e-12


@both
@every_kind
def test_characters_are_integrated_exactly(g: SpatialGroup, kind: str) -> None:
    """Weyl's integral: the mean over the group is (1/π) ∫ (1 - cos θ) χ(θ) dθ from 0 to π, by Gauss's quadrature."""
    rho = spatial_representation(g, kind)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for node, weight in zip(nodes, weights, strict=True):
        angle = math.pi * (node + 1) / 2
        turned = g.rotation("z", math.degrees(angle))
        elements = [turned, g.multiply(g.inversion, turned)] if g.reflections else [turned]
        mean = np.mean([rho.character(element) ** 2 for element in elements])
        total += weight * (1 - math.cos(angle)) * mean / 2
    assert abs(total - inner_product(rho.character, rho.character)) < 1e-9


@both
@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", ["irrep", "mixed", "skewed", "regular(1)", "nothing"])
def test_intertwiners_are_all_that_commute(g: SpatialGroup, source: str, target: str) -> None:
    """As many as the null space of Ψ ↦ ρ(x)Ψ - Ψπ(x) at a few elements has dimensions."""
    pi, rho = spatial_representation(g, source), spatial_representation(g, target)
    basis = st.intertwiner_basis(pi, rho)
    assert basis.shape == (st.intertwining_number(pi, rho), rho.dim, pi.dim)
    assert is_orthonormal(basis)
    for x in g.random(3, seed=0):
        assert error(rho(x) @ basis, basis @ pi(x)) < 1e-12
    if pi.dim * rho.dim:
        equations = np.zeros((pi.dim * rho.dim,) * 2)
        for x in g.generators:
            left = np.kron(rho(x), np.eye(pi.dim)) - np.kron(np.eye(rho.dim), pi(x).T)
            equations += left.T @ left
        assert int((np.linalg.eigvalsh(equations) < 1e-9).sum()) == len(basis)


@both
@every_kind
def test_restriction_keeps_the_matrices(g: SpatialGroup, kind: str) -> None:
    rho = spatial_representation(g, kind)
    subgroups = [st.octahedral(), st.icosahedral(), st.tetrahedral(), st.about_axis(st.cyclic(5), (1, 2, 3))]
    subgroups.append(st.about_axis(st.dihedral(3), "x", flips=True))
    if g.reflections:
        subgroups += [st.tetrahedral(reflections=True), st.about_axis(st.dihedral(4), "y")]
    for smaller in subgroups:
        restricted = rho.restrict(smaller)
        assert restricted.group == smaller
        for element in smaller.random(4, seed=0):
            assert error(restricted(element), rho(g.element(smaller.action[smaller.index(element)]))) < 1e-12
        total = inner_product(restricted.character, smaller.trivial.character)
        assert abs(total - round(total)) < 1e-12


@both
@every_kind
@pytest.mark.parametrize("name", ["C4", "D3", "SO2", "O2"])
def test_groups_of_the_plane_act_about_z(g: SpatialGroup, kind: str, name: str) -> None:
    """Their reflections keep z in O(3), and turn it over in SO(3), where they are rotations by 180°."""
    rho, smaller = spatial_representation(g, kind), st.group_named(name)
    restricted = rho.restrict(smaller)
    assert restricted.group == smaller
    for element in smaller.random(4, seed=0):
        planar = element.matrix if name in PLANAR_GROUPS else smaller.action[smaller.index(element)]
        motion = g.element(about_z(planar, proper=not g.reflections))
        assert error(restricted(element), rho(motion)) < 1e-12
    parts = smaller.irreps_of(restricted.type)
    assert sum(n * irrep.dim for n, irrep in zip(restricted.type, parts, strict=True)) == rho.dim


@every_kind
def test_restriction_from_o3_to_so3_and_on(kind: str) -> None:
    rho = spatial_representation(O3, kind)
    rotations = rho.restrict(SO3)
    for x in SO3.random(3, seed=0):
        assert error(rotations(x), rho(O3.element(x.matrix))) < 1e-12
    for smaller in (st.octahedral(), st.so2()):
        assert rotations.restrict(smaller).type == rho.restrict(smaller).type
    assert error(rotations.restrict(st.tetrahedral()).matrices, rho.restrict(st.tetrahedral()).matrices) < 1e-12


# How spherical harmonics fall apart, from the tables of crystal field theory (Altmann & Herzig, Point-Group Theory
# Tables, 2nd edition, "Descent of symmetry and subduction from O(3)"). O: A1 A2 E T1 T2; I: A T1 T2 G H; T: A E T.
SPLITTING = {
    "O": ["A1", "T1", "E T2", "A2 T1 T2", "A1 E T1 T2", "E T1 T1 T2", "A1 A2 E T1 T2 T2"],
    "I": ["A", "T1", "H", "T2 G", "G H", "T1 T2 H", "A T1 G H"],
    "T": ["A", "T", "E T", "A T T", "A E T T", "E T T T", "A A E T T T"],
}


@pytest.mark.parametrize("name", SPLITTING)
def test_degrees_split_as_the_tables_say(name: str) -> None:
    g = group(name)
    for degree, parts in enumerate(SPLITTING[name]):
        expected = tuple(parts.split().count(str(irrep)) for irrep in g.irreps)
        assert SO3.irrep(f"L{degree}").restrict(g).type == expected


def test_low_degrees_are_the_named_irreps_themselves() -> None:
    for name, irreps in (("O", "A1 T1"), ("I", "A T1 H"), ("T", "A T")):
        for degree, irrep in enumerate(irreps.split()):
            assert SO3.irrep(f"L{degree}").restrict(group(name)) == group(name).irrep(irrep)
    assert O3.irrep("L1o").restrict(group("T_d")) == group("T_d").irrep("T2")
    assert O3.irrep("L2e").restrict(group("I_h")) == group("I_h").irrep("Hg")


def test_nonlinearities_follow_from_the_matrices() -> None:
    for capsule in (SO3.capsule("L1"), SO3.capsule("sphere(2)"), O3.capsule("L3e"), O3.capsule("regular(1)")):
        assert capsule.nonlinearities == ("norm",)
    assert SO3.capsule("L0").admits("pointwise")
    assert SO3.capsule("sphere(0)").admits("pointwise")
    assert O3.capsule("L0o").kind == "signed permutation"
    assert O3.capsule("r").kind == "permutation"
    assert [str(c) for c in O3.capsule("L0o").after_concatenation()] == ["r"]
    pair = O3.capsule("r").representation
    assert pair(O3.rotation("z", 77)).tolist() == np.eye(2).tolist()
    assert pair(O3.reflection("z")).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: SO3.irrep("L1").matrices,
            TypeError,
            r"the matrices of L1 cannot be listed. .* rho.restrict\(octahedral\(\)\)",
        ),
        (lambda: SO3.irrep("L1")(O3.inversion), TypeError, "`inversion` of O3 is not an element of SO3"),
        (lambda: SO3.irrep("L1") + O3.irrep("L1o"), TypeError, "cannot add a representation of SO3 and one of O3"),
        (lambda: SO3.irrep("L1").restrict(O3), ValueError, "SO3 to O3: O3 is larger than SO3. Use octahedral"),
        (lambda: st.so2().irrep("E1").restrict(SO3), ValueError, "SO2 to SO3: SO3 is larger than SO2"),
        (lambda: SO3.irrep("L1").restrict(group("O_h")), ValueError, "SO3 to O_h: it has reflections"),
        (lambda: SO3.irrep("L1").restrict(group("S4")), ValueError, "SO3 to S4: it does not act on space"),
        (lambda: O3.irrep("L1o").restrict(group("C2xO|O")), ValueError, "several of its elements move space alike"),
        (lambda: O3.irrep("L1o").restrict(["e"]), TypeError, r"a subgroup of O3, such as octahedral\(\), got list"),
        (lambda: st.inclusion(st.octahedral(), SO3), TypeError, "expected a finite group"),
        (lambda: SO3.irrep(names(O3, 1)[0]), ValueError, "SO3 has no irrep `L1e`"),
    ],
)
def test_bad_input_is_refused_with_words(call, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("target", ["L0e", "L0o", "r"])
@pytest.mark.parametrize("source", ["L0e", "L0o", "r", "L1o"])
def test_signs_and_pairs_have_the_intertwiners_that_their_characters_give(source: str, target: str) -> None:
    """Representations in which all rotations are 1, so that reflections alone decide."""
    pi, rho = (st.o3().capsule(name).representation for name in (source, target))
    basis = st.intertwiner_basis(pi, rho)
    assert len(basis) == st.intertwining_number(pi, rho)
    for g in st.o3().random(3, seed=0):
        assert np.abs(rho(g) @ basis - basis @ pi(g)).max(initial=0) < 1e-12
