"""Intertwiners from symmetric squares: as many as characters say, orthonormal, and equivariant as quadratic maps."""

from __future__ import annotations

import numpy as np
import pytest
from group_zoo import SMALL_GROUPS, group, is_orthonormal, sample_representations
from planar_zoo import KINDS, PLANAR_GROUPS, planar_representation
from spatial_zoo import KINDS as SPATIAL_KINDS
from spatial_zoo import SPATIAL_GROUPS, spatial_representation

import steerable as st
from steerable.algebra.symmetric_squares import square_basis


def _coordinates(x: np.ndarray) -> np.ndarray:
    a, b = np.triu_indices(len(x))
    return np.where(a == b, 1.0, np.sqrt(2)) * x[a] * x[b]


def _assert_equivariant(rho: st.Representation, target: st.Representation, elements: tuple[object, ...]) -> None:
    basis = square_basis(rho, target).dense()
    assert is_orthonormal(basis)
    x = np.random.default_rng(0).normal(size=rho.dim)
    for g in elements:
        moved, expected = basis @ _coordinates(rho(g) @ x), basis @ _coordinates(x) @ target(g).T
        assert np.abs(moved - expected).max(initial=0) <= 1e-10 * max(1.0, np.abs(expected).max(initial=0))


@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_quadratic_maps_of_finite_groups(name: str):
    G = group(name)
    representations = sample_representations(G)
    for rho in representations.values():
        square = np.array([G.table[g, g] for g in range(G.order)])
        character = (rho.character**2 + rho.character[square]) / 2
        for target in representations.values():
            count = float(character @ target.dual().character) / G.order
            assert square_basis(rho, target).count == round(count) == pytest.approx(count)
            _assert_equivariant(rho, target, G.generators)


@pytest.mark.parametrize("group", PLANAR_GROUPS.values(), ids=PLANAR_GROUPS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nothing"])
def test_quadratic_maps_of_planar_groups_agree_with_those_of_a_large_finite_group(group, kind: str):
    """With frequencies up to 5, those of C_32 and D_32 up to 10 are the same."""
    rho = planar_representation(group, kind)
    finite = st.dihedral(32) if group.reflections else st.cyclic(32)
    restricted = rho.restrict(finite)
    squares = finite.table[np.arange(finite.order), np.arange(finite.order)]
    character = (restricted.character**2 + restricted.character[squares]) / 2
    for other in ("trivial", "E3", "regular(2)", "turned", "skewed"):
        target = planar_representation(group, other)
        count = float(character @ target.restrict(finite).character) / finite.order
        assert square_basis(rho, target).count == round(count) == pytest.approx(count)
        _assert_equivariant(rho, target, group.random(4, seed=0))


@pytest.mark.parametrize("group", SPATIAL_GROUPS.values(), ids=SPATIAL_GROUPS)
@pytest.mark.parametrize("kind", [kind for kind in SPATIAL_KINDS if kind != "nothing"])
def test_quadratic_maps_of_spatial_groups_are_the_symmetric_part_of_all_bilinear_ones(group, kind: str):
    """Odd scalars too, which reflections alone change: the square of one is even."""
    rho, scalars = spatial_representation(group, kind), ("L0e", "L0o", "r") if group.reflections else ("L0",)
    targets = [group.capsule(name).representation for name in scalars]
    for target in (*targets, spatial_representation(group, "turned")):
        basis = st.intertwiner_basis(rho @ rho, target)
        products = basis.reshape(len(basis), target.dim, rho.dim, rho.dim)
        symmetric = (products + products.swapaxes(2, 3)).reshape(len(basis), target.dim * rho.dim**2)
        assert square_basis(rho, target).count == np.linalg.matrix_rank(symmetric, tol=1e-8)
        _assert_equivariant(rho, target, group.random(4, seed=0))


@pytest.mark.parametrize("name", ["L0e", "L0o", "r", "L1o"])
def test_the_square_of_an_odd_scalar_is_even(name: str):
    rho = st.o3().capsule(name).representation
    for target in ("L0e", "L0o", "r"):
        _assert_equivariant(rho, st.o3().capsule(target).representation, st.o3().random(6, seed=0))
