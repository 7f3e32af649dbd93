"""Kernels over spaces of harmonics: all of them, for groups that no pixel grid carries, also in compact form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from group_zoo import group, random_invertible, random_orthogonal, same_span

import steerable as st
from steerable.filters.free_kernels import free_kernels
from steerable.filters.kernel_bases import _by_orbits

GROUPS = ("C3", "C5", "C8", "D3", "D6", "D8")
SPACES = {"steerable": st.filter_space, "rings": st.ring_space}


def brute_force(space: st.FilterSpace, rho_in: st.Representation, rho_out: st.Representation) -> np.ndarray:
    """All κ (n, out, in, dim V) with ρ_V ⊗ ρ_out ⊗ ρ_in* κ = κ: the range of the average over the group."""
    dim = rho_out.dim * rho_in.dim * space.dim
    average = np.zeros((dim, dim))
    for g in space.group.elements:
        fibre = np.kron(rho_out(g), np.linalg.inv(rho_in(g)).T)
        average += np.kron(fibre, space.representation(g)) / space.group.order
    left, values, _ = np.linalg.svd(average)
    return left[:, values > 1e-6].T.reshape(-1, rho_out.dim, rho_in.dim, space.dim)


def pairs(g: st.FiniteGroup) -> list[tuple[st.Representation, st.Representation]]:
    """Irreps, permutations that are free and not free, and capsules in other bases."""
    vector, half = g.irreps[-1], g.quotient(g.subgroups(up_to_conjugacy=True)[-2])
    turned = vector.change_basis(random_orthogonal(vector.dim))
    skewed = (vector + g.trivial).change_basis(random_invertible(1 + vector.dim))
    small = [(vector, vector), (half, half), (g.irreps[1], vector), (turned, skewed), (g.trivial, g.regular)]
    return [*small, (half, g.regular), *([(g.regular, g.regular)] if g.order < 9 else []), (g.regular, vector)]


@pytest.mark.parametrize("make", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("name", GROUPS)
def test_kernels_are_all_the_invariant_banks_sampled(name: str, make) -> None:
    g = group(name)
    space = make(g, 3)
    for rho_in, rho_out in pairs(g):
        expected, found = space.sample(brute_force(space, rho_in, rho_out)), st.kernel_basis(rho_in, rho_out, space)
        assert found.shape == expected.shape
        size = math.prod(found.shape[1:])
        flat, all_of_them = found.reshape(-1, size), expected.reshape(-1, size)
        assert np.linalg.matrix_rank(flat, tol=1e-9) == len(found)
        assert np.linalg.matrix_rank(np.concatenate([flat, all_of_them]), tol=1e-9) == len(found)


@pytest.mark.parametrize("name", GROUPS)
def test_the_compact_form_is_the_same_basis(name: str) -> None:
    g = group(name)
    space, half = st.filter_space(g, 5), g.quotient(g.subgroups(up_to_conjugacy=True)[-2])
    for rho_in, rho_out in ((g.regular, g.trivial), (g.trivial, g.regular), (half, g.regular), (g.regular, half)):
        free = free_kernels(rho_in, rho_out, space)
        assert free is not None
        assert free.count == round(
            float(np.mean(space.representation.character * rho_in.character * rho_out.character))
        )
        dense = st.kernel_basis(rho_in, rho_out, space)
        for parameter, kernel in enumerate(dense):
            theta = np.zeros(free.count)
            theta[parameter] = 1
            product = np.tensordot(theta.reshape(free.orbits, -1), free.table, axes=1)
            entries = product.reshape(-1, space.taps)[free.order]
            np.testing.assert_allclose(entries.reshape(kernel.shape), kernel, atol=1e-13)
        assert free.energy == pytest.approx((dense**2).sum())
    assert free_kernels(g.irreps[-1], g.regular, space) is None
    assert free_kernels(g.trivial, g.trivial, space) is None
    assert free_kernels(g.regular, g.regular, st.filter_space(g, 1)) is None


def test_the_compact_form_is_small() -> None:
    g = st.dihedral(16)
    free = free_kernels(g.regular, g.regular, st.filter_space(g, 7))
    assert free is not None
    assert free.count == 28 * 32
    assert free.table.size == 28 * 32 * 49  # written out, the basis would have 45 million numbers


@pytest.mark.parametrize("name", ["T", "O"])
def test_the_compact_form_of_voxels_has_the_span_of_the_orbits(name: str) -> None:
    """Written out, the kernels of 5×5×5 voxels between regular capsules of O would have 216 million numbers."""
    g = group(name)
    voxels, rho = st.pixel_space(g, 2), g.quotient(g.subgroups(up_to_conjugacy=True)[1])
    assert free_kernels(g.regular, rho, voxels) is not None
    by_orbits = _by_orbits(g.regular, rho, voxels.representation)
    assert same_span(st.kernel_basis(g.regular, rho, voxels), by_orbits.dense())
    large = free_kernels(g.regular, g.regular, st.pixel_space(g, 5))
    assert large is not None
    assert large.table.size == 125 * g.order * 125


def test_a_size_stands_for_the_default_space() -> None:
    C8, D4 = st.cyclic(8), st.dihedral(4)
    np.testing.assert_array_equal(
        st.kernel_basis(C8.regular, C8.irrep("E1"), 3),
        st.kernel_basis(C8.regular, C8.irrep("E1"), st.filter_space(C8, 3)),
    )
    assert len(st.kernel_basis(D4.regular, D4.regular, 3)) == 9 * 8  # all pixels, where the grid is exact
    assert len(st.kernel_basis(C8.regular, C8.regular, 1)) == 8
    with pytest.raises(ValueError, match="of D4 does not map the 3×5 pixel grid onto itself"):
        st.kernel_basis(D4.regular, D4.regular, (3, 5))
    with pytest.raises(ValueError, match="of C8 exchanges height and width"):
        st.kernel_basis(C8.regular, C8.regular, (3, 5))
