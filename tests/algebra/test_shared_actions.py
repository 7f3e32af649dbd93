"""Groups in which several elements move the plane alike: contrast inversion beside D4, D4 acting through a quotient."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from group_zoo import NOT_FAITHFUL, group, is_orthonormal, same_span, sample_representations

import steerable as st

D4, C2 = st.dihedral(4), st.cyclic(2)
everywhere = pytest.mark.parametrize("name", NOT_FAITHFUL)
planar = pytest.mark.parametrize("name", [name for name in NOT_FAITHFUL if group(name).action.shape[1] == 2])


@everywhere
def test_the_zoo_says_what_it_holds(name: str) -> None:
    assert not group(name).acts_faithfully
    assert not any(g.acts_faithfully for g in (st.FiniteGroup(["e"], [[0]]), C2.direct_product(D4)))
    assert all(g.acts_faithfully for g in (st.trivial(), D4, st.octahedral(), st.cyclic(12)))


@everywhere
def test_irreps_are_those_of_the_group_without_its_action(name: str) -> None:
    g = group(name)
    abstract = st.FiniteGroup(g.elements, g.table)
    assert g != abstract

    def characters(of: st.FiniteGroup) -> list[tuple[float, ...]]:
        return sorted(tuple(np.round(irrep.character, 9) + 0.0) for irrep in of.irreps)

    assert characters(g) == characters(abstract)
    assert g.irreps[0].is_trivial
    assert g.regular.type == tuple(irrep.dim // irrep.commutant_dim for irrep in g.irreps)


def test_a_familiar_group_keeps_its_names() -> None:
    assert [str(irrep) for irrep in group("D4|D2").irreps] == ["A1", "A2", "B1", "B2", "E"]
    assert {"regular", "qm", "qmr2", "r2m"} <= set(group("D4|D2").capsules)


@everywhere
def test_every_subgroup_is_found_again(name: str) -> None:
    g = group(name)
    for members in g.subgroups():
        smaller = g.subgroup(members)
        assert st.inclusion(smaller, g).images == members
        assert np.array_equal(g.regular.restrict(smaller).matrices, g.regular.matrices[g.indices(members)])
        assert st.induce(smaller.trivial, g) == g.quotient(members)
    assert pickle.loads(pickle.dumps(g)) == g


@everywhere
def test_the_catalogue_can_be_written_and_read(name: str) -> None:
    g = group(name)
    for capsule in g.capsules.values():
        kind = st.FieldType(g, [(2, capsule), (1, g.trivial)])
        assert st.FieldType(g, str(kind)) == kind


@planar
@pytest.mark.parametrize("size", [1, 2, 3])
def test_kernels_are_the_intertwiners_of_the_whole_group(name: str, size: int) -> None:
    """Also of those elements that move no pixel: from patch ⊗ ρ_in itself, which the library never forms."""
    g = group(name)
    patch = st.pixel_patch(g, size)
    reps = [*g.irreps, sample_representations(g)["quotient"], sample_representations(g)["skewed"]]
    for a, b in itertools.product(reps, reps):
        kernels = st.kernel_basis(a, b, size)
        expected = st.intertwiner_basis(patch @ a, b).reshape(-1, b.dim, size, size, a.dim).transpose(0, 1, 4, 2, 3)
        assert is_orthonormal(kernels)
        assert len(kernels) == len(expected)
        if len(kernels):
            assert same_span(kernels, expected)


def test_a_sign_that_moves_no_pixel_is_kept() -> None:
    """Nothing leads from an image that contrast inversion leaves alone to one whose sign it changes."""
    g = group("C2xD4|D4")
    sign = st.Representation(g, {"(r,e)": [[-1]], "(e,r)": [[1]], "(e,m)": [[1]]}, name="sign")
    image, inverted = st.FieldType(g, "A1"), st.FieldType(g, [(1, st.Capsule(sign))])
    assert [st.parameter_cost(image, inverted, k) for k in (1, 3, 5)] == [0, 0, 0]
    assert [st.parameter_cost(inverted, inverted, k) for k in (1, 3, 5)] == [1, 3, 6]
    assert st.parameter_cost(st.FieldType(D4, "A1"), st.FieldType(D4, "A1"), 5) == 6


# ---------------------------------------------------------------- how a group is given its action


@pytest.mark.parametrize("acting", ["first", "second"])
def test_one_factor_of_a_product_moves_the_plane(acting: str) -> None:
    a, b = st.dihedral(2), st.cyclic(4)
    product = a.direct_product(b, acting=acting)
    for x, y in itertools.product(a.elements, b.elements):
        element = "e" if (x, y) == ("e", "e") else f"({x},{y})"
        expected = a.action[a.index(x)] if acting == "first" else b.action[b.index(y)]
        assert np.array_equal(product.action[product.index(element)], expected)
    by_hand = a.direct_product(b)
    assert product == st.FiniteGroup(by_hand.elements, by_hand.table, action=product.action)
    assert a.direct_product(b).action is None


@pytest.mark.parametrize("target", [D4, st.dihedral(2), C2, st.octahedral()])
def test_a_group_acts_through_any_homomorphism(target: st.FiniteGroup) -> None:
    for phi in st.homomorphisms(D4, target):
        through = D4.acting_through(phi)
        assert (through.elements, through.name) == (D4.elements, f"D4 through {target.name}")
        for g in D4.elements:
            assert np.array_equal(through.action[D4.index(g)], target.action[target.index(phi(g))])
        assert through.acts_faithfully == phi.is_injective
        assert sum(irrep.dim**2 // irrep.commutant_dim for irrep in through.irreps) == 8
    assert D4.acting_through(st.homomorphisms(D4, target)[0], name="mine").name == "mine"


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda: C2.direct_product(D4, acting="both"),
            ValueError,
            "acting must be 'first', 'second' or None.*got 'both'",
        ),
        (
            lambda: group("Q8").direct_product(D4, acting="first"),
            ValueError,
            "acting='first' names a factor that moves the plane or space, but Q8 is abstract",
        ),
        (
            lambda: D4.acting_through(st.homomorphisms(C2, D4)[0]),
            TypeError,
            "D4 acts through a homomorphism that starts from it; this one starts from C2",
        ),
        (
            lambda: D4.acting_through(st.homomorphisms(D4, group("Q8"))[0]),
            ValueError,
            "D4 cannot act through Q8, which is abstract and moves nothing",
        ),
        (
            lambda: st.inclusion(st.cyclic(4), group("C2xD4|D4")),
            ValueError,
            "C4 is not recognised as a subgroup of C2 x D4: .* several elements move the plane or space alike. Take it "
            r"from C2 x D4.subgroup\(\[...\]\), or pass embedding=",
        ),
    ],
)
def test_what_says_no_action_is_refused(build, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()
