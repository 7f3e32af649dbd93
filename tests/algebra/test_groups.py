from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from group_zoo import ALL_GROUPS, NOT_FAITHFUL, SMALL_GROUPS, SOLIDS, group

import steerable as st

everywhere = pytest.mark.parametrize("name", ALL_GROUPS)
D4 = st.dihedral(4)


@everywhere
def test_axioms(name: str) -> None:
    g = group(name)
    t, everything = g.table, np.arange(g.order)
    assert np.array_equal(t[t], np.stack([t[a][t] for a in everything]))  # (ab)c = a(bc)
    assert (t[g.identity_index] == everything).all()
    assert (t[:, g.identity_index] == everything).all()
    assert (t[everything, g.inverses] == g.identity_index).all()
    assert (t[g.inverses, everything] == g.identity_index).all()


@everywhere
def test_the_order_of_an_element_is_the_first_power_that_is_the_identity(name: str) -> None:
    g = group(name)
    for element in g.elements:
        n = g.element_order(element)
        powers = [g.multiply(*[element] * k) for k in range(1, n + 1)]
        assert powers.index(g.identity) == n - 1
        assert g.order % n == 0


@everywhere
def test_generators_generate(name: str) -> None:
    g = group(name)
    assert g.generated_by(g.generators) == g.elements
    assert len(g.generators) <= max(1, g.order.bit_length())


@everywhere
def test_conjugacy_classes_are_the_orbits_of_conjugation(name: str) -> None:
    g = group(name)
    classes = g.conjugacy_classes()
    assert sorted(itertools.chain(*classes)) == sorted(g.elements)
    for members in classes:
        assert {g.multiply(h, members[0], g.inverse(h)) for h in g.elements} == set(members)


@everywhere
def test_subgroups_are_closed_and_come_in_whole_conjugacy_classes(name: str) -> None:
    g = group(name)
    found = g.subgroups()
    assert len(set(found)) == len(found)
    for members in found:
        assert g.generated_by(members) == members
    representatives = g.subgroups(up_to_conjugacy=True)
    orbits = [{g.conjugate(members, by) for by in g.elements} for members in representatives]
    assert sum(len(orbit) for orbit in orbits) == len(found)
    assert set().union(*orbits) == set(found)


@pytest.mark.parametrize("name", ["C6", "D4", "Q8", "A4", "C2xC2xC2"])
def test_every_subset_that_is_closed_is_listed(name: str) -> None:
    """Against the definition: all subsets that contain e and all their products."""
    g = group(name)
    rest = [e for e in g.elements if e != g.identity]
    closed = set()
    for size in (d for d in range(1, g.order + 1) if g.order % d == 0):
        for others in itertools.combinations(rest, size - 1):
            subset = {g.identity, *others}
            if all(g.multiply(a, b) in subset for a in subset for b in subset):
                closed.add(frozenset(subset))
    assert {frozenset(members) for members in g.subgroups()} == closed


def test_few_subgroups_gives_up_beyond_its_limit() -> None:
    assert D4.few_subgroups(limit=10) == D4.subgroups(up_to_conjugacy=True)
    assert D4.few_subgroups(limit=9) is None


@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_cosets_partition_the_group(name: str) -> None:
    g = group(name)
    for members in g.subgroups(up_to_conjugacy=True):
        for side in ("left", "right"):
            cosets = g.cosets(members, side=side)
            assert sorted(itertools.chain(*cosets)) == sorted(g.elements)
            for coset in cosets:
                products = ((coset[0], k) if side == "left" else (k, coset[0]) for k in members)
                assert {g.multiply(*pair) for pair in products} == set(coset)


@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_a_subgroup_multiplies_and_moves_as_its_group_does(name: str) -> None:
    g = group(name)
    for members in g.subgroups(up_to_conjugacy=True):
        k = g.subgroup(members)
        assert all(k.multiply(a, b) == g.multiply(a, b) for a in members for b in members)
        if g.action is not None:
            assert np.array_equal(k.action, g.action[g.indices(members)])


@everywhere
def test_the_action_is_an_orthogonal_homomorphism(name: str) -> None:
    action = group(name).action
    acting = (name[0] in "CD" and not set(name) & set("x:")) or name in (*SOLIDS, *NOT_FAITHFUL)
    assert (action is not None) == acting
    if action is not None:
        assert np.allclose(action @ action.transpose(0, 2, 1), np.eye(action.shape[1]), atol=1e-12)
        assert np.allclose(action[:, None] @ action[None], action[group(name).table], atol=1e-12)


@pytest.mark.parametrize("n", range(1, 9))
def test_dihedral_relations_and_names(n: int) -> None:
    g = st.dihedral(n)
    rotations = ["e", "r", *(f"r{k}" for k in range(2, n))][:n]
    assert g.elements == (*rotations, "m", *(f"m{name}" for name in rotations[1:]))
    for k, name in enumerate(rotations):
        assert g.multiply(*["r" if n > 1 else "e"] * k) == name
        assert g.multiply("m", name) == ("m" if k == 0 else f"m{name}")
        assert g.multiply("m", name, "m") == g.inverse(name)


def test_products_read_as_in_the_paper() -> None:
    assert D4.elements == ("e", "r", "r2", "r3", "m", "mr", "mr2", "mr3")
    assert D4.multiply("m", "r") == "mr"
    assert D4.multiply("r", "m") == "mr3"
    assert D4.multiply() == "e"
    assert D4.action[D4.index("r")].tolist() == [[0, -1], [1, 0]]
    assert D4.action[D4.index("m")].tolist() == [[-1, 0], [0, 1]]


def test_octahedral_groups_are_the_signed_permutation_matrices() -> None:
    for g, wanted in ((st.octahedral(), (1,)), (st.octahedral(reflections=True), (1, -1))):
        expected = {
            tuple((np.eye(3)[list(p)] * signs).ravel())
            for p in itertools.permutations(range(3))
            for signs in itertools.product((1, -1), repeat=3)
            if round(np.linalg.det(np.eye(3)[list(p)] * signs)) in wanted
        }
        assert {tuple(m.ravel()) for m in g.action} == expected
    assert np.array_equal(st.octahedral(reflections=True).action[24], -np.eye(3))


def test_direct_product_multiplies_in_pairs() -> None:
    a, b = st.dihedral(3), st.cyclic(4)
    product = a.direct_product(b)
    assert (product.order, product.action, product.name) == (24, None, "D3 x C4")
    assert product.multiply("(m,r)", "(r,r2)") == f"({a.multiply('m', 'r')},{b.multiply('r', 'r2')})"
    assert product.multiply("(m,r2)", "(m,r2)") == "e"


def test_is_abelian() -> None:
    assert group("C4xC2").is_abelian
    assert not group("D3").is_abelian


@pytest.mark.parametrize("name", ["D4", "O_h", "S4", "C4xC2"])
def test_value_semantics(name: str) -> None:
    g = group(name)
    again = pickle.loads(pickle.dumps(g))
    assert again is not g
    assert again == g
    assert hash(again) == hash(g)
    assert again.irreps is g.irreps  # caches are keyed by content
    renamed = st.FiniteGroup(g.elements, g.table, action=g.action, name="other")
    assert renamed == g
    assert g != st.FiniteGroup([f"{e}'" for e in g.elements], g.table, action=g.action)
    with pytest.raises(ValueError, match="read-only"):
        again.table[0, 0] = 1


def test_an_action_is_part_of_the_value() -> None:
    assert st.FiniteGroup(D4.elements, D4.table) != D4


LOOP = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: D4.subgroup(["e", "r"]), r"\{e, r\} is not a subgroup of D4: the product `r`·`r` = `r2` is missing"),
        (lambda: D4.subgroup(["r2"]), "the identity `e` is missing. Add it, or use generated_by"),
        (lambda: D4.quotient(["e", "mr", "m"]), "is not a subgroup of D4: the product `m`·`mr` = `r` is missing"),
        (lambda: D4.index("mr4"), r"`mr4` is not an element of D4. Did you mean `mr"),
        (lambda: D4.index(3), "`3` is not an element of D4"),
        (lambda: D4.multiply("r", "zzz"), "`zzz` is not an element of D4. Known names: `e`, `r`"),
        (lambda: D4.cosets(["e"], side="up"), "side must be 'left' .* got 'up'"),
        (lambda: st.cyclic(0), r"cyclic\(n\) takes a whole number n ≥ 1, got 0"),
        (
            lambda: st.cyclic(10**9),
            r"cyclic\(n\) lists .*n may be at most 1000; got 1000000000. Use so2\(\), which has every",
        ),
        (
            lambda: st.dihedral(1001),
            r"dihedral\(n\) lists .*n may be at most 1000; got 1001. Use o2\(\), which has every",
        ),
        (lambda: st.FiniteGroup([], []), "at least one element"),
        (lambda: st.FiniteGroup(["e", "e"], [[0, 1], [1, 0]]), "distinct; given more than once: `e`"),
        (lambda: st.FiniteGroup(["e", "a"], [[0, 1]]), r"has shape \(2, 2\), got \(1, 2\)"),
        (lambda: st.FiniteGroup(["e", "a"], [[0, 1], [1, 1]]), "each row and each column contains every element once"),
        (lambda: st.FiniteGroup("abc", [[0, 2, 1], [1, 0, 2], [2, 1, 0]]), "has no identity"),
        (lambda: st.FiniteGroup("eabcd", LOOP), r"not associative: \(`a`·`a`\)·`b` differs from `a`·\(`a`·`b`\)"),
        (lambda: st.FiniteGroup(["e"], [[0]], action=[[1]]), r"an action has shape \(1, k, k\)"),
        (lambda: st.FiniteGroup(["e"], [[0]], action=[[[2]]]), "its matrices are orthogonal"),
        (
            lambda: st.FiniteGroup(["e", "a"], [[0, 1], [1, 0]], action=[np.eye(2), [[0, -1], [1, 0]]]),
            "not a homomorphism: action\\(`a`\\) @ action\\(`a`\\) is not action\\(`e`\\)",
        ),
    ],
)
def test_bad_values_are_refused(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: D4.subgroup("e"), "expected a sequence of elements of D4 .* got a single string, `e`"),
        (lambda: st.dihedral(2.5), r"dihedral\(n\) takes a whole number n ≥ 1, got 2.5"),
        (lambda: st.cyclic(True), "got True"),
    ],
)
def test_bad_types_are_refused(build, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()
