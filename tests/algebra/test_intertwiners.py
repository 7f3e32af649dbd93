from __future__ import annotations

import itertools

import numpy as np
import pytest
from group_zoo import (
    ODD_TYPES,
    SMALL_GROUPS,
    group,
    is_orthonormal,
    random_invertible,
    random_orthogonal,
    same_span,
    sample_representations,
)

import steerable as st
from steerable.algebra.intertwiners import SparseBasis, hom_basis

KINDS = ("trivial", "last irrep", "quotient", "mixed", "turned", "skewed")
D4 = st.dihedral(4)


def _null_space(pi: st.Representation, rho: st.Representation) -> np.ndarray:
    """All Ψ with ρ(g)Ψ = Ψπ(g), from the definition: the SVD of the stacked linear system over all g."""
    stacked = np.concatenate(
        [
            np.kron(r, np.eye(pi.dim)) - np.kron(np.eye(rho.dim), p.T)
            for p, r in zip(pi.matrices, rho.matrices, strict=True)
        ]
    )
    _, values, rows = np.linalg.svd(np.linalg.qr(stacked, mode="r"))
    solutions = rows[values < 1e-9]
    return solutions.reshape(len(solutions), rho.dim, pi.dim)


def _assert_basis_of_hom(pi: st.Representation, rho: st.Representation) -> None:
    basis = st.intertwiner_basis(pi, rho)
    assert basis.shape == (st.intertwining_number(pi, rho), rho.dim, pi.dim)
    assert is_orthonormal(basis)
    assert same_span(basis, _null_space(pi, rho))
    for psi in basis:
        assert np.abs(rho.matrices @ psi - psi @ pi.matrices).max() < 1e-12


@pytest.mark.parametrize(("first", "second"), list(itertools.product(KINDS, KINDS)))
@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_the_basis_spans_the_null_space(name: str, first: str, second: str) -> None:
    reps = sample_representations(group(name))
    _assert_basis_of_hom(reps[first], reps[second])


@pytest.mark.parametrize("name", ODD_TYPES)
def test_complex_and_quaternionic_irreps_have_more_endomorphisms(name: str) -> None:
    for irrep in group(name).irreps:
        _assert_basis_of_hom(irrep, irrep)
        twice = 2 * irrep
        _assert_basis_of_hom(irrep, twice.change_basis(random_orthogonal(twice.dim)))
        assert len(st.intertwiner_basis(irrep, irrep)) == irrep.commutant_dim


def test_all_pairs_of_d4() -> None:
    reps = [capsule.representation for capsule in D4.capsules.values()]
    for pi, rho in itertools.product(reps, reps):
        _assert_basis_of_hom(pi, rho)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 50.0])
def test_monomial_matrices_with_factors(scale: float) -> None:
    """Not orthogonal, solved by orbits all the same."""
    rho = D4.regular.change_basis(np.diag(scale * np.arange(1.0, 9)))
    signed = D4.irrep("E").change_basis(np.diag([1.0, 3.0]))
    assert rho.kind == signed.kind == "monomial"
    for pi, target in ((rho, rho), (rho, signed), (signed, signed), (signed, D4.regular)):
        _assert_basis_of_hom(pi, target)


def test_exact_and_sparse_for_monomial_representations() -> None:
    basis = hom_basis(D4.regular, D4.regular)
    assert (basis.count, len(basis.value)) == (8, 64)
    assert np.allclose(basis.value, 1 / np.sqrt(8), rtol=1e-15)
    order = np.lexsort((basis.position, basis.number))
    assert (order == np.arange(64)).all()


def test_nothing_between_different_irreps() -> None:
    assert st.intertwiner_basis(D4.irrep("A1"), D4.irrep("E")).shape == (0, 2, 1)
    skewed = D4.irrep("E").change_basis(random_invertible(2))
    assert st.intertwiner_basis(D4.irrep("A1"), skewed).shape == (0, 2, 1)
    assert st.intertwiner_basis(0 * skewed, skewed).shape == (0, 2, 0)


def test_remembered_by_content() -> None:
    pi, rho = D4.quotient(["e", "m"]), D4.irrep("E")
    again = st.Representation(D4, pi.matrices), st.Representation(D4, rho.matrices)
    assert again[0] is not pi
    assert hom_basis(*again) is hom_basis(pi, rho)
    first = st.intertwiner_basis(pi, rho)
    first[:] = 7  # a caller's copy: the cache is not touched
    assert is_orthonormal(st.intertwiner_basis(pi, rho))


def test_sparse_and_dense_forms_agree() -> None:
    arrays = np.random.default_rng(0).standard_normal((3, 2, 4)) * (np.arange(4) != 2)
    basis = SparseBasis.of(arrays)
    assert np.array_equal(basis.dense(), arrays)
    assert len(basis.value) == 18


def test_matrices_that_do_not_belong_to_their_character_are_an_error() -> None:
    """What a bug would look like: the count of solutions is not ⟨χ_π, χ_ρ⟩."""
    pi = D4.regular.renamed("broken")
    pi.__dict__["character"] = 2 * D4.regular.character
    with pytest.raises(ArithmeticError, match="found 8 intertwiners from broken to regular, but ⟨χ_π, χ_ρ⟩ = 16"):
        hom_basis.__wrapped__(pi, D4.regular)


def test_groups_must_match() -> None:
    with pytest.raises(TypeError, match="representations of one group; got D4 and C4"):
        st.intertwiner_basis(D4.regular, st.cyclic(4).regular)
