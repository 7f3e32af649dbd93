from __future__ import annotations

import pickle

import numpy as np
import pytest
from group_zoo import (
    ALL_GROUPS,
    ODD_TYPES,
    SMALL_GROUPS,
    group,
    homomorphism_error,
    random_invertible,
    random_orthogonal,
    sample_representations,
)

import steerable as st

D4 = st.dihedral(4)
everywhere = pytest.mark.parametrize("name", ALL_GROUPS)


@everywhere
def test_irreps_are_orthogonal_homomorphisms(name: str) -> None:
    for irrep in group(name).irreps:
        assert homomorphism_error(irrep) < 1e-12
        gram = irrep.matrices.transpose(0, 2, 1) @ irrep.matrices
        assert np.abs(gram - np.eye(irrep.dim)).max() < 1e-12


@everywhere
def test_squares_of_dimensions_add_up_to_the_order(name: str) -> None:
    """Σ d_i² / s_i = |G|."""
    irreps = group(name).irreps
    assert sum(i.dim**2 / i.commutant_dim for i in irreps) == group(name).order
    assert irreps[0].is_trivial
    assert len({str(i) for i in irreps}) == len(irreps)


@everywhere
def test_schur_type_is_the_frobenius_schur_indicator(name: str) -> None:
    """The mean of χ(g²) is 1, 0 or -2 for a real irrep of real, complex or quaternionic type."""
    g = group(name)
    for irrep in g.irreps:
        squares = irrep.matrices @ irrep.matrices
        mean = np.trace(squares, axis1=1, axis2=2).mean()
        assert mean == pytest.approx({"real": 1, "complex": 0, "quaternionic": -2}[irrep.schur_type])
        assert irrep.commutant_dim == {"real": 1, "complex": 2, "quaternionic": 4}[irrep.schur_type]


@pytest.mark.parametrize("name", ["Q8", "A4", "S5", "I_h"])
def test_irreps_are_reproducible(name: str) -> None:
    """Computed anew, from a group with other names, they are the same matrices."""
    g = group(name)
    copy = st.FiniteGroup([f"<{e}>" for e in g.elements], g.table, action=g.action)
    for a, b in zip(g.irreps, copy.irreps, strict=True):
        assert str(a) == str(b)
        assert np.allclose(a.matrices, b.matrices, atol=1e-12)


def test_table_1_of_the_paper() -> None:
    one, minus = [[1]], [[-1]]
    table = {  # e, r, r2, r3, m, mr, mr2, mr3
        "A1": [one] * 8,
        "A2": [one, one, one, one, minus, minus, minus, minus],
        "B1": [one, minus, one, minus, one, minus, one, minus],
        "B2": [one, minus, one, minus, minus, one, minus, one],
        "E": [
            [[1, 0], [0, 1]],
            [[0, -1], [1, 0]],
            [[-1, 0], [0, -1]],
            [[0, 1], [-1, 0]],
            [[-1, 0], [0, 1]],
            [[0, 1], [1, 0]],
            [[1, 0], [0, -1]],
            [[0, -1], [-1, 0]],
        ],
    }
    assert [str(i) for i in D4.irreps] == list(table)
    for name, matrices in table.items():
        assert D4.irrep(name).matrices.tolist() == matrices


def test_type_of_the_patch_in_table_1() -> None:
    patch = st.pixel_patch(D4, 3)
    assert patch.type == (3, 0, 1, 1, 2)
    kind, basis = st.decompose(patch)
    assert kind == (3, 0, 1, 1, 2)
    r = np.linalg.inv(basis) @ patch("r") @ basis
    assert np.allclose(np.diag(r), [1, 1, 1, -1, -1, 0, 0, 0, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "irreps"),
    [
        ("C1", "A"),
        ("C2", "A B"),
        ("C3", "A E"),
        ("C4", "A B E"),
        ("C5", "A E1 E2"),
        ("C6", "A B E1 E2"),
        ("D1", "A1 A2"),
        ("D2", "A1 A2 B1 B2"),
        ("D3", "A1 A2 E"),
        ("D6", "A1 A2 B1 B2 E1 E2"),
        ("O", "A1 A2 E T1 T2"),
        ("O_h", "A1g A2g Eg T1g T2g A1u A2u Eu T1u T2u"),
        ("T", "A E T"),
        ("T_d", "A1 A2 E T1 T2"),
        ("I", "A T1 T2 G H"),
        ("I_h", "Ag T1g T2g Gg Hg Au T1u T2u Gu Hu"),
        ("Q8", "A1 A2 A3 A4 G"),
        ("A4", "A E T"),
        ("A5", "A T1 T2 G H"),
        ("S5", "A1 A2 G1 G2 H1 H2 I"),
    ],
)
def test_names(name: str, irreps: str) -> None:
    assert " ".join(str(i) for i in group(name).irreps) == irreps


@pytest.mark.parametrize("n", range(3, 13))
def test_the_first_planar_irrep_is_how_the_plane_moves(n: int) -> None:
    for g in (st.cyclic(n), st.dihedral(n)):
        name = "E" if n < 5 else "E1"
        assert np.array_equal(g.irrep(name).matrices, g.action)


def test_vectors_of_the_octahedral_groups() -> None:
    assert np.array_equal(st.octahedral().irrep("T1").matrices, st.octahedral().action)
    assert np.array_equal(group("O_h").irrep("T1u").matrices, group("O_h").action)
    assert group("O_h").irrep("T1u").is_signed_permutation


def test_subgroups_get_the_names_of_the_groups_they_are() -> None:
    assert [str(i) for i in D4.subgroup(["e", "r2", "mr", "mr3"]).irreps] == ["A1", "A2", "B1", "B2"]
    assert [str(i) for i in st.octahedral().subgroup(["e", "r", "r2", "r3"]).irreps] == ["A", "B", "E"]


def test_signed_permutations_where_a_sign_character_induces_the_irrep() -> None:
    assert group("Q8").irrep("G").is_signed_permutation
    assert group("S4").irrep("T1").is_signed_permutation


@everywhere
def test_the_trivial_irrep_has_aliases(name: str) -> None:
    g = group(name)
    assert g.irrep("trivial") == g.trivial
    assert g.irrep("A1").is_trivial
    assert g.capsule("trivial").representation == g.trivial


def _assert_decomposes(rho: st.Representation, tolerance: float = 1e-12) -> None:
    kind, basis = st.decompose(rho)
    blocks = st.direct_sum([n * i for n, i in zip(kind, rho.group.irreps, strict=True)])
    assert kind == rho.type
    assert np.abs(np.linalg.solve(basis, rho.matrices @ basis) - blocks.matrices).max() < tolerance
    if rho.is_orthogonal:
        assert np.abs(basis.T @ basis - np.eye(rho.dim)).max() < tolerance


@everywhere
def test_decompose_the_regular_representation(name: str) -> None:
    """Every irrep occurs d/s times; the copies come in the same matrices."""
    _assert_decomposes(group(name).regular)


@pytest.mark.parametrize("kind", ["quotient", "mixed", "turned", "skewed"])
@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_decompose(name: str, kind: str) -> None:
    _assert_decomposes(sample_representations(group(name))[kind])


@pytest.mark.parametrize("name", ODD_TYPES)
def test_decompose_many_copies_in_a_mixed_basis(name: str) -> None:
    """Complex and quaternionic types, where Hom(φ, ρ) has 2 or 4 dimensions per copy."""
    g = group(name)
    for irrep in g.irreps[-2:]:
        rho = 3 * irrep + g.trivial
        _assert_decomposes(rho.change_basis(random_orthogonal(rho.dim, seed=3)))
        _assert_decomposes(rho.change_basis(random_invertible(rho.dim, seed=3)))


def test_decompose_an_ill_conditioned_and_an_empty_representation() -> None:
    basis = random_orthogonal(8) @ np.diag(np.geomspace(1, 1e6, 8))
    _assert_decomposes(D4.regular.change_basis(basis), tolerance=1e-9)
    assert st.decompose(0 * D4.regular)[1].shape == (0, 0)


def test_pickle() -> None:
    again = pickle.loads(pickle.dumps(D4.irrep("E")))
    assert again == D4.irrep("E")
    assert (again.name, again.schur_type, again.commutant_dim) == ("E", "real", 1)


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"D4 has no irrep `B3`. Did you mean `B2` or `B1`"):
        D4.irrep("B3")
    with pytest.raises(ValueError, match=r"C4 has no irrep `zzz`. Known names: `A`, `B`, `E`"):
        st.cyclic(4).irrep("zzz")


@pytest.mark.parametrize("parts", [("A1", "A2"), ("A1", "A1"), ("A1", "A2", "B1", "B2"), ("A1", "E")])
def test_what_is_reducible_is_not_an_irrep(parts: tuple[str, ...]) -> None:
    """Also where ⟨χ, χ⟩ is 2 or 4, as for an irrep of complex or quaternionic type."""
    rho = st.direct_sum([D4.irrep(name) for name in parts])
    with pytest.raises(ArithmeticError, match="X of D4 is not irreducible"):
        st.Irrep(D4, rho.matrices, name="X")
