"""Representations of SO(2), O(2), SO(3) and O(3): laws at random elements that hold for all of them."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import planar_zoo
import pytest
import spatial_zoo
from group_zoo import random_invertible
from planar_zoo import PLANAR_GROUPS, error, planar_representation
from spatial_zoo import SPATIAL_GROUPS, spatial_representation

import steerable as st
from steerable.algebra.characters import inner_product, multiplicities
from steerable.algebra.compact_groups import CompactGroup

GROUPS = {**PLANAR_GROUPS, **SPATIAL_GROUPS}
REPRESENTATIONS = {
    f"{name} {kind}": make(g, kind)
    for groups, kinds, make in (
        (PLANAR_GROUPS, planar_zoo.KINDS, planar_representation),
        (SPATIAL_GROUPS, spatial_zoo.KINDS, spatial_representation),
    )
    for name, g in groups.items()
    for kind in kinds
}
every_group = pytest.mark.parametrize("g", GROUPS.values(), ids=GROUPS)
every_representation = pytest.mark.parametrize("rho", REPRESENTATIONS.values(), ids=REPRESENTATIONS)


@every_representation
def test_representations_are_homomorphisms(rho: st.Representation) -> None:
    g = rho.group
    for a, b in zip(g.random(10, seed=0), g.random(10, seed=1), strict=True):
        assert error(rho(a) @ rho(b), rho(g.multiply(a, b))) < 1e-12
        assert error(rho(a) @ rho(g.inverse(a)), np.eye(rho.dim)) < 1e-12
        assert abs(np.trace(rho(a)) - rho.character(a)) < 1e-12
    assert error(rho(g.identity), np.eye(rho.dim)) < 1e-14
    assert rho.at(g.random(3, seed=0)).shape == (3, rho.dim, rho.dim)
    assert rho.restrict(g) is rho


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        *itertools.product(("SO2", "O2"), [("mixed", "E3"), ("skewed", "turned"), ("regular(2)", "skewed")]),
        *itertools.product(("SO3", "O3"), [("mixed", "irrep"), ("skewed", "turned"), ("regular(1)", "sphere(2)")]),
    ],
)
def test_algebra_acts_on_the_matrices(name: str, kinds: tuple[str, str]) -> None:
    a, b = (REPRESENTATIONS[f"{name} {kind}"] for kind in kinds)
    basis = random_invertible(a.dim, seed=7)
    for x in a.group.random(5, seed=0):
        total = np.zeros((a.dim + b.dim,) * 2)
        total[: a.dim, : a.dim], total[a.dim :, a.dim :] = a(x), b(x)
        assert error((a + b)(x), total) < 1e-12
        assert error((a @ b)(x), np.kron(a(x), b(x))) < 1e-12
        assert error(basis @ a.change_basis(basis)(x), a(x) @ basis) < 1e-12
        assert error(a.dual()(x), np.linalg.inv(a(x)).T) < 1e-12
    assert 2 * a == a + a == st.direct_sum([a, a])
    assert a.change_basis(basis).type == a.type == a.dual().type
    assert a.renamed("other") == a
    assert str(a.renamed("other")) == "other"


@every_representation
def test_types_and_intertwining_numbers_follow_from_the_character(rho: st.Representation) -> None:
    assert rho.type == multiplicities(rho.group, rho.character)
    assert rho.dim == sum(n * irrep.dim for n, irrep in zip(rho.type, rho.group.irreps_of(rho.type), strict=True))
    assert st.intertwining_number(rho, rho) == inner_product(rho.character, rho.character)


@every_group
def test_characters_of_sums_and_products_are_sums_and_products(g: CompactGroup) -> None:
    for a, b in itertools.product(g.irreps_of((0,) * 6), repeat=2):
        assert (a @ b).character == a.character * b.character
        assert (a + b).character == a.character + b.character


@every_representation
def test_decomposition_makes_it_block_diagonal(rho: st.Representation) -> None:
    g = rho.group
    multiplicity, a = st.decompose(rho)
    assert multiplicity == rho.type
    parts = [irrep for irrep, n in zip(g.irreps_of(multiplicity), multiplicity, strict=True) for _ in range(n)]
    blocks = st.direct_sum(parts, group=g)
    for x in g.random(5, seed=0):
        assert error(np.linalg.solve(a, rho(x) @ a) if rho.dim else a, blocks(x)) < 1e-12
    if rho.is_orthogonal:
        assert error(a.T @ a, np.eye(rho.dim)) < 1e-12


@every_representation
def test_representations_are_pickled_and_compared_by_content(rho: st.Representation) -> None:
    again = pickle.loads(pickle.dumps(rho))
    assert again == rho
    assert hash(again) == hash(rho)
    assert again != rho + rho.group.trivial
    x = rho.group.random(1, seed=0)[0]
    assert error(again(x), rho(x)) == 0
