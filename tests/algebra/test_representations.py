from __future__ import annotations

import pickle

import numpy as np
import pytest
from group_zoo import (
    ALL_GROUPS,
    SMALL_GROUPS,
    group,
    homomorphism_error,
    random_invertible,
    random_orthogonal,
    sample_representations,
)

import steerable as st

D4 = st.dihedral(4)
E = D4.irrep("E")
KINDS = ("trivial", "last irrep", "quotient", "mixed", "turned", "skewed")
everywhere = pytest.mark.parametrize("name", SMALL_GROUPS)
TURN = st.cyclic(3).irrep("E")  # orthogonal, not monomial
# ρ(r) = [[0, 2], [1/2, 0]]: monomial, but not a signed permutation.
SCALED = st.Representation(st.cyclic(2), {"r": [[0, 2], [0.5, 0]]}, name="scaled")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL_GROUPS)
def test_representations_are_homomorphisms(name: str, kind: str) -> None:
    rho = sample_representations(group(name))[kind]
    assert rho.matrices.shape == (rho.group.order, rho.dim, rho.dim)
    assert np.array_equal(rho(rho.group.elements[-1]), rho.matrices[-1])
    assert homomorphism_error(rho) < 1e-12
    assert np.allclose(rho.character, [np.trace(m) for m in rho.matrices], atol=1e-12)


@everywhere
def test_sum_is_block_diagonal(name: str) -> None:
    reps = sample_representations(group(name))
    for a, b in ((reps["quotient"], reps["last irrep"]), (reps["skewed"], reps["quotient"])):
        total = a + b
        assert np.array_equal(total.matrices[:, : a.dim, : a.dim], a.matrices)
        assert np.array_equal(total.matrices[:, a.dim :, a.dim :], b.matrices)
        assert not total.matrices[:, : a.dim, a.dim :].any()
        assert not total.matrices[:, a.dim :, : a.dim].any()
        assert 2 * a == a + a == a * 2
        assert (0 * a).dim == 0
        assert st.direct_sum([a, b, a]) == a + b + a


@everywhere
def test_tensor_product_is_the_kronecker_product(name: str) -> None:
    reps = sample_representations(group(name))
    for a, b in ((reps["quotient"], reps["last irrep"]), (reps["skewed"], reps["mixed"])):
        expected = [np.kron(x, y) for x, y in zip(a.matrices, b.matrices, strict=True)]
        assert np.allclose((a @ b).matrices, expected, atol=1e-14)


@everywhere
@pytest.mark.parametrize("kind", KINDS)
def test_dual_is_the_inverse_transpose(name: str, kind: str) -> None:
    rho = sample_representations(group(name))[kind]
    dual = rho.dual()
    assert np.allclose(dual.matrices, np.linalg.inv(rho.matrices).transpose(0, 2, 1), atol=1e-12)
    assert np.allclose(dual.dual().matrices, rho.matrices, atol=1e-14)
    if rho.is_orthogonal:
        assert np.allclose(dual.matrices, rho.matrices, atol=1e-12)


def test_dual_of_a_scaled_monomial() -> None:
    assert SCALED.dual()("r").tolist() == [[0, 0.5], [2, 0]]


@everywhere
def test_change_of_basis_conjugates_and_keeps_the_type(name: str) -> None:
    rho = sample_representations(group(name))["mixed"]
    a = random_invertible(rho.dim, seed=5)
    turned = rho.change_basis(a)
    assert np.allclose(a @ turned.matrices, rho.matrices @ a, atol=1e-12)
    assert turned.type == rho.type


@pytest.mark.parametrize("rho", [E, E @ E, TURN, TURN @ TURN, TURN.change_basis([[1, 1], [0, 1]]), TURN.dual()])
def test_matrices_cannot_be_overwritten(rho: st.Representation) -> None:
    with pytest.raises(ValueError, match="read-only"):
        rho.matrices[0, 0, 0] = 2.0


@everywhere
def test_restriction_keeps_the_matrices(name: str) -> None:
    g = group(name)
    rho = sample_representations(g)["turned"]
    for members in g.subgroups(up_to_conjugacy=True):
        smaller = rho.restrict(members)
        assert smaller.group == g.subgroup(members)
        assert np.allclose(smaller.matrices, rho.matrices[g.indices(members)], atol=1e-14)
        assert smaller == rho.restrict(g.subgroup(members))


def test_restriction_finds_a_group_by_how_it_moves_the_plane() -> None:
    assert np.array_equal(E.restrict(st.cyclic(2))("r"), E("r2"))
    assert st.octahedral().irrep("T1").restrict(["e", "r2"]).type == (1, 2)


@pytest.mark.parametrize(("source", "target"), [("D4", "D2"), ("S4", "S4"), ("Q8", "C4xC2"), ("C12", "C4")])
def test_pullback_composes(source: str, target: str) -> None:
    g, h = group(source), group(target)
    for rho in (h.regular, sample_representations(h)["skewed"]):
        for phi in st.homomorphisms(g, h):
            pulled = rho.pullback(phi)
            assert pulled.group == g
            assert all(np.allclose(pulled(x), rho(phi(x)), atol=1e-14) for x in g.elements)


@pytest.mark.parametrize("name", ["C6", "D4", "D6", "Q8", "A4", "S4", "A5", "C7:C3", "SL(2,3)"])
def test_frobenius_reciprocity(name: str) -> None:
    """⟨Ind σ, φ⟩_G = ⟨σ, Res φ⟩_K for every subgroup up to conjugacy, σ of K and φ of G irreducible."""
    g = group(name)
    for members in g.subgroups(up_to_conjugacy=True):
        k = g.subgroup(members)
        for sigma in k.irreps:
            induced = st.induce(sigma, g)
            assert induced.dim == sigma.dim * g.order // k.order
            for phi in g.irreps:
                assert st.intertwining_number(induced, phi) == st.intertwining_number(sigma, phi.restrict(members))


@pytest.mark.parametrize("name", ["D4", "Q8", "A4", "S4", "C7:C3"])
def test_induced_representations_are_homomorphisms_with_the_subgroup_in_a_corner(name: str) -> None:
    g = group(name)
    for members in g.subgroups(up_to_conjugacy=True):
        sigma = sample_representations(g)["skewed"].restrict(members)
        induced = st.induce(sigma, g)
        assert homomorphism_error(induced) < 1e-12
        assert np.array_equal(induced.matrices[g.indices(members)][:, : sigma.dim, : sigma.dim], sigma.matrices)


def test_induction_in_stages() -> None:
    s4, a = group("S4"), group("S4").subgroups(up_to_conjugacy=True)[1]
    middle = s4.subgroup(next(k for k in s4.subgroups() if len(k) == 8 and set(a) <= set(k)))
    sigma = s4.subgroup(a).irreps[-1]
    assert st.induce(st.induce(sigma, middle), s4).type == st.induce(sigma, s4).type


def test_induction_through_an_embedding() -> None:
    sign = st.cyclic(2).irrep("B")
    along_m = st.induce(sign, D4, embedding={"e": "e", "r": "m"})
    along_r2 = st.induce(sign, D4)
    assert (along_m.type, along_r2.type) == ((0, 1, 0, 1, 1), (0, 0, 0, 0, 2))


@everywhere
def test_quotients_move_cosets(name: str) -> None:
    """ρ(a) e_{bK} = e_{abK}; the regular representation for K = {e}, the trivial one for K = G."""
    g = group(name)
    for members in g.subgroups(up_to_conjugacy=True):
        rho, cosets = g.quotient(members), g.cosets(members)
        assert rho.is_permutation
        assert rho.dim == len(cosets)
        for a in g.generators:
            for i, coset in enumerate(cosets):
                moved = next(j for j, other in enumerate(cosets) if g.multiply(a, coset[0]) in other)
                assert rho(a)[moved, i] == 1
    assert g.regular == g.quotient([g.identity])
    assert g.quotient(g.elements) == g.trivial
    assert g.trivial.is_trivial
    assert g.regular.is_trivial == (g.order == 1)


def test_from_permutations() -> None:
    images = {"e": [0, 1, 2], "r": [1, 2, 0], "r2": [2, 0, 1]}
    rho = st.Representation.from_permutations(st.cyclic(3), images, name="points")
    assert rho == st.cyclic(3).regular
    assert (rho.name, str(rho)) == ("points", "points")
    assert rho == st.Representation.from_permutations(st.cyclic(3), list(images.values()))


def test_matrices_without_rows_are_the_empty_sum() -> None:
    assert st.Representation(D4, np.zeros((8, 0, 0))) == 0 * E
    assert (0 * E).change_basis(np.zeros((0, 0))) == 0 * E


def test_generators_are_enough() -> None:
    given = {g: E(g) for g in ("r", "m")}
    assert st.Representation(D4, given) == E
    assert st.Representation(D4, E.matrices) == E


@pytest.mark.parametrize(
    ("rho", "kind"),
    [
        (D4.regular, "permutation"),
        (0 * E, "permutation"),
        (E, "signed permutation"),
        (E @ E, "signed permutation"),
        (SCALED, "monomial"),
        (SCALED + st.cyclic(2).irrep("B"), "monomial"),
        (st.dihedral(3).irrep("E"), "orthogonal"),
        (D4.regular.change_basis(random_orthogonal(8)), "orthogonal"),
        (D4.regular.change_basis(random_invertible(8)), "general"),
        (D4.regular.change_basis(3 * np.eye(8)), "permutation"),
        (D4.regular.change_basis(np.diag([1, -1, 1, -1, 1, 1, 1, 1])), "signed permutation"),
        (D4.regular.change_basis(np.diag([1, 2, 3, 4, 5, 6, 7, 8])), "monomial"),
    ],
)
def test_classification(rho: st.Representation, kind: str) -> None:
    assert rho.kind == kind
    m = rho.matrices
    one_per_line = bool(((m != 0).sum(axis=1) == 1).all() and ((m != 0).sum(axis=2) == 1).all())
    assert rho.is_monomial == one_per_line
    assert rho.is_signed_permutation == (one_per_line and set(np.unique(np.abs(m))) <= {0, 1})
    assert rho.is_permutation == (one_per_line and set(np.unique(m)) <= {0, 1})
    assert rho.is_orthogonal == bool(np.allclose(m @ m.transpose(0, 2, 1), np.eye(rho.dim)))


def test_value_semantics() -> None:
    for rho in (E, D4.regular, SCALED, E.change_basis(random_invertible(2))):
        again = pickle.loads(pickle.dumps(rho))
        assert again == rho
        assert hash(again) == hash(rho)
        assert np.array_equal(again.matrices, rho.matrices)
        assert rho.renamed("other") == rho
        assert rho.renamed("other").name == "other"
    assert D4.quotient(["e", "m"]) != D4.quotient(["e", "mr2"])
    assert st.cyclic(4).irrep("E") != E
    with pytest.raises(ValueError, match="read-only"):
        E.matrices[0, 0, 0] = 2


C2, from_permutations = st.cyclic(2), st.Representation.from_permutations
WRONG = {g: E(g) for g in D4.elements} | {"r": E("r3")}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: st.Representation(D4, WRONG), r"representation of D4: ρ\(`.+`\) ρ\(`r`\) differs from ρ\(`.+`\) by"),
        (
            lambda: st.Representation(D4, {"r": E("r"), "m": E("r")}),
            r"of D4: ρ\(`.+`\) ρ\(`.+`\) differs",
        ),
        (lambda: st.Representation(D4, 2 * E.matrices), "matrix of the identity `e` of D4 is not the identity matrix"),
        (lambda: st.Representation(D4, E.matrices[:3]), r"an array of shape \(8, d, d\).*got shape \(3, 2, 2\)"),
        (lambda: st.Representation(D4, {"r": E("r")}), "the matrices given for r do not determine `m` of D4"),
        (lambda: st.Representation(D4, {"r": E("r"), "x": E("m")}), "`x` is not an element of D4"),
        (lambda: st.Representation(D4, {"r": np.eye(2), "m": np.eye(3)}), "square matrices of one size"),
        (lambda: st.Representation(D4, {"r": np.ones((1, 2))}), r"square matrices of one size; `r` has shape \(1, 2\)"),
        (lambda: st.Representation(D4, {}), "at least one"),
        (lambda: st.Representation(C2, [[[1]], [[np.nan]]]), "the matrix of `r` has entries that are not finite"),
        (lambda: -1 * E, "repeated 0 or more times; got -1 copies of E"),
        (lambda: E.change_basis(np.eye(3)), r"is a \(2, 2\) matrix, got shape \(3, 3\)"),
        (lambda: E.change_basis(np.ones((2, 2))), "an invertible matrix; the one given is singular"),
        (lambda: st.direct_sum([]), "an empty direct sum needs group="),
        (lambda: E.restrict(["e", "r"]), "the product `r`·`r` = `r2` is missing"),
        (lambda: st.induce(st.cyclic(3).irrep("E"), D4), "C3 is not recognised as a subgroup of D4"),
        (lambda: from_permutations(C2, {"e": [0]}), "no permutation was given for `r` of C2"),
        (lambda: from_permutations(C2, [[0, 1]]), r"shape \(2, points\); got \(1, 2\)"),
        (lambda: from_permutations(C2, [[0, 1], [1, 1]]), "images of `r` are not a permutation"),
        (lambda: from_permutations(C2, [[1, 0], [0, 1]]), "identity `e` of C2 moves points"),
        (
            lambda: from_permutations(C2, [[0, 1, 2], [1, 2, 0]]),
            r"not a representation of C2: ρ\(`r`\) ρ\(`r`\) differs from ρ\(`e`\)",
        ),
    ],
)
def test_bad_values_are_refused(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: E + st.cyclic(4).irrep("E"), "cannot add a representation of D4 and one of C4.*Restrict both"),
        (lambda: E @ st.cyclic(4).irrep("E"), "cannot multiply a representation of D4 and one of C4"),
        (lambda: 1.5 * E, "unsupported operand"),
        (lambda: E + 1, "unsupported operand"),
    ],
)
def test_bad_types_are_refused(build, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()


@pytest.mark.parametrize("name", ["D4", "Q8", "S4"])
def test_the_named_pair_does_fail(name: str) -> None:
    """The pair of elements in the message really violates ρ(a)ρ(b) = ρ(ab)."""
    g = group(name)
    matrices = np.array(g.irreps[-1].matrices)
    matrices[-1] *= -1
    with pytest.raises(ValueError, match="not a representation") as caught:
        st.Representation(g, matrices)
    a, b, ab = (part.split("`")[1] for part in str(caught.value).split("ρ(")[1:4])
    assert g.multiply(a, b) == ab
    assert not np.allclose(matrices[g.index(a)] @ matrices[g.index(b)], matrices[g.index(ab)])


def test_a_pullback_needs_a_homomorphism_into_the_group() -> None:
    with pytest.raises(TypeError, match="ends in C4, but the representation is of D4"):
        E.pullback(st.inclusion(st.cyclic(2), st.cyclic(4)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: st.decompose(3),
        lambda: st.decompose(D4.capsule("E")),
        lambda: st.intertwiner_basis("a", "b"),
        lambda: st.intertwining_number(D4.regular, "E"),
        lambda: st.induce(3, D4),
        lambda: st.induce(D4.regular, "D4"),
        lambda: st.pixel_patch("D4", 3),
        lambda: st.transform(None, "r", "3*A1"),
        lambda: D4.regular.restrict(None),
        lambda: D4.quotient(3),
    ],
)
def test_arguments_of_another_kind_are_refused_with_an_example(call) -> None:
    with pytest.raises(TypeError, match=r"^expected .*, got "):
        call()


def test_representations_without_a_name_are_described_in_words() -> None:
    turned = D4.irrep("E").change_basis(random_orthogonal(2))
    assert repr(turned) == "<an orthogonal representation of dimension 2 of D4: dim 2, orthogonal>"
    assert str(D4.regular.renamed(None)) == "a permutation representation of dimension 8"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.Representation(D4, "abc"), "one matrix of real numbers per element; got 'abc'"),
        (lambda: st.Representation(st.cyclic(4), [[[1j**k]] for k in range(4)]), "one matrix of real numbers per"),
        (lambda: st.Representation(D4, {"r": "x", "m": "y"}), "the matrix of `r` has real numbers; got 'x'"),
        (lambda: E.change_basis("x"), "a change of basis is a matrix of real numbers, one column per vector; got 'x'"),
        (lambda: E.change_basis(np.array([[1, 1j], [1j, 1]])), "a change of basis is a matrix of real numbers"),
        (lambda: st.Representation.from_permutations(st.cyclic(2), "ab"), "one list of points per element; got 'ab'"),
        (lambda: st.spherical_harmonics(1, "north"), "points of the sphere are numbers of shape"),
        (lambda: st.o3().element("x"), "an element of O3 is given by an orthogonal matrix; got 'x'"),
        (lambda: st.FiniteGroup(["e"], [[0]], action="x"), "an action has one matrix of real numbers per element"),
    ],
)
def test_what_is_not_real_numbers_is_refused_in_words(call, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.direct_sum([E, "E"]), r"expected Representations to add, such as G\.irrep\('E'\), got str 'E'"),
        (lambda: st.kernel_basis("E", E, 3), "expected two Representations, .* got str 'E'"),
        (lambda: st.intertwiner_basis(E, ["E"]), "expected two Representations, .* got list"),
        (lambda: E.pullback("r"), "expected a Homomorphism into the group, .* got str 'r'"),
        (lambda: D4.irrep(["E"]), "expected the name of an irrep, such as 'E', got list"),
        (lambda: D4.direct_product("C2"), "expected the second factor, a finite group .* got str 'C2'"),
        (lambda: st.character_table("D4"), r"expected a finite group, such as cyclic\(8\), got str 'D4'"),
        (lambda: st.homomorphisms(st.so2(), D4), "expected a finite group such as .* got SO2, which has infinitely"),
        (lambda: st.restriction("regular", "C4"), "expected the field type to restrict, .* got str 'regular'"),
    ],
)
def test_what_is_not_of_the_right_class_is_refused_in_words(call, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_points_are_whole_numbers() -> None:
    with pytest.raises(
        ValueError, match=r"points are numbered from 0 on, by whole numbers; got \[\[0, 1\], \[1.5, 0\]\]"
    ):
        st.Representation.from_permutations(st.cyclic(2), [[0, 1], [1.5, 0]])


@pytest.mark.parametrize("group", [D4, st.so2(), st.o3()], ids=lambda group: group.name)
@pytest.mark.parametrize("seed", ["a", -1, 2.5])
def test_seeds_are_whole_numbers(group: st.Group, seed: object) -> None:
    with pytest.raises(
        ValueError, match="a seed must be a whole number ≥ 0, or None for other elements each time; got "
    ):
        group.random(2, seed=seed)
