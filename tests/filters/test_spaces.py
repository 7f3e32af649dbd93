"""Filter spaces as values, the kernels over them, and what they refuse."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from filter_zoo import CROSS, PLANAR, cross, ring, slanted, stencils
from group_zoo import group, is_orthonormal, random_invertible, random_orthogonal, same_span

import steerable as st
from steerable.filters import sparse_kernel_basis
from steerable.filters.kernel_bases import _by_intertwiners, _by_orbits

D4 = st.dihedral(4)
GROUPS = ("C1", "C2", "C4", "D1", "D2", "D4", "C4xC2|C4")


def _pairs(g: st.FiniteGroup) -> list[tuple[st.Representation, st.Representation]]:
    """(ρ_in, ρ_out): signed, turned, and not orthogonal."""
    vector = g.irreps[-1]
    turned = g.regular.change_basis(random_orthogonal(g.order))
    skewed = (vector + g.trivial).change_basis(random_invertible(1 + vector.dim))
    return [(g.regular, vector), (vector, turned), (skewed, g.regular), (turned, skewed)]


def _brute_force(space: st.FilterSpace, rho_in: st.Representation, rho_out: st.Representation) -> np.ndarray:
    """All κ (n, out, in, dim V) with ρ_V ⊗ ρ_out ⊗ ρ_in* κ = κ, from the null space of one large matrix."""
    rows = []
    for g in space.group.elements:
        fibre = np.kron(rho_out(g), np.linalg.inv(rho_in(g)).T)
        moved = np.kron(fibre, space.representation(g))
        rows.append(moved - np.eye(len(moved)))
    _, values, vectors = np.linalg.svd(np.concatenate(rows))
    return vectors[values < 1e-9].reshape(-1, rho_out.dim, rho_in.dim, space.dim)


@pytest.mark.parametrize("make", PLANAR.values(), ids=PLANAR)
@pytest.mark.parametrize("name", GROUPS)
def test_kernels_are_all_the_invariant_banks_sampled(name: str, make) -> None:
    g = group(name)
    space = make(g)
    for rho_in, rho_out in _pairs(g):
        expected = space.sample(_brute_force(space, rho_in, rho_out))
        found = st.kernel_basis(rho_in, rho_out, space)
        assert found.shape == expected.shape == (len(found), rho_out.dim, rho_in.dim, 3, 3)
        assert len(found) == round(
            float(np.mean(space.representation.character * rho_in.character * rho_out.character))
        )
        flat, all_of_them = (a.reshape(len(a), -1) for a in (found, expected))
        assert np.linalg.matrix_rank(flat, tol=1e-9) == len(found) == len(expected)
        assert np.linalg.matrix_rank(np.concatenate([flat, all_of_them]), tol=1e-9) == len(found)
        assert is_orthonormal(found) or not space.is_isometric


@pytest.mark.parametrize("make", PLANAR.values(), ids=PLANAR)
@pytest.mark.parametrize("name", GROUPS)
def test_sampled_kernels_are_kernels_of_the_pixel_patch(name: str, make) -> None:
    """Since S commutes with the grid, the kernels over a space are some of those over all pixels."""
    g = group(name)
    space, rho = make(g), g.regular
    some = st.kernel_basis(rho, rho, space).reshape(-1, g.order * g.order * 9)
    every = st.kernel_basis(rho, rho, 3).reshape(-1, g.order * g.order * 9)
    assert np.abs(some - some @ every.T @ every).max() < 1e-12
    assert g.order == 1 or 0 < len(some) < len(every)


@pytest.mark.parametrize("name", ["C4", "D2", "D4"])
def test_orbits_and_intertwiners_find_the_same_kernels(name: str) -> None:
    """Both solvers, where ρ_V is a permutation and where it has signs."""
    g = group(name)
    signs = [irrep for irrep in g.irreps if irrep.dim == 1][-1]
    for rho_v in (cross(g).representation, cross(g).representation @ signs, st.pixel_patch(g, 3)):
        assert rho_v.is_signed_permutation
        for pair in _pairs(g):
            assert same_span(_by_orbits(*pair, rho_v).dense(), _by_intertwiners(*pair, rho_v).dense())


def test_the_cross_leaves_the_corners_empty() -> None:
    kernels = st.kernel_basis(D4.regular, D4.irrep("E"), cross(D4)).reshape(-1, 2, 8, 9)
    corners = [tap for tap in range(9) if tap not in CROSS]
    assert not kernels[..., corners].any()
    assert len(kernels) == 5 * 8 * 2 // 8
    assert len(sparse_kernel_basis(D4.regular, D4.regular, cross(D4)).value) == 5 * 64


def test_a_space_says_what_it_is() -> None:
    five, nine, skew = cross(D4), st.pixel_space(D4, 3), slanted(D4)
    assert [(s.dim, s.taps, s.size) for s in (five, nine, skew)] == [(5, 9, (3, 3)), (9, 9, (3, 3)), (7, 9, (3, 3))]
    assert [s.is_pixel_patch for s in (five, nine, skew)] == [False, True, False]
    assert [s.is_isometric for s in (five, nine, skew)] == [True, True, False]
    assert [s.has_one_coefficient_per_tap for s in (five, nine, skew)] == [True, True, False]
    assert not stencils(D4).has_one_coefficient_per_tap
    assert all(s.exact and s.carried == D4.elements for s in (five, nine, skew))
    assert (str(five), repr(five)) == ("cross", "<FilterSpace cross of D4: 5 coefficients, 3×3 taps>")
    unnamed = st.FilterSpace(five.representation, 3, five.sampling)
    assert str(unnamed) == "5 filters of 3×3 taps"
    np.testing.assert_array_equal(nine.sampling, np.eye(9))
    assert st.pixel_space(st.cyclic(2), (2, 5)).taps == 10
    assert str(st.pixel_space(group("Q8"), ())) == "single tap"


def test_spaces_are_values() -> None:
    same = st.FilterSpace(cross(D4).representation, (3, 3), cross(D4).sampling, name="another name")
    assert same == cross(D4)
    assert hash(same) == hash(cross(D4))
    assert sparse_kernel_basis(D4.regular, D4.regular, same) is sparse_kernel_basis(D4.regular, D4.regular, cross(D4))
    for twin in (copy.deepcopy(same), pickle.loads(pickle.dumps(same))):
        assert twin == same
        assert twin.name == same.name
    others = [st.pixel_space(D4, 3), stencils(D4), slanted(D4), cross(st.cyclic(4)), "cross"]
    assert all(same != other for other in others)
    for factor in (2, 1e-20):  # a difference of any size counts, rounding errors do not
        scaled = st.FilterSpace(same.representation, 3, factor * same.sampling)
        assert scaled not in (same, st.FilterSpace(same.representation, 3, 2 * scaled.sampling))
        assert scaled == st.FilterSpace(same.representation, 3, scaled.sampling * (1 + 1e-15))
    for patch in (st.FilterSpace(st.pixel_patch(D4, 3), 3), st.FilterSpace(st.pixel_patch(D4, 3), 3, np.eye(9))):
        assert patch == st.pixel_space(D4, 3)
        assert patch.is_pixel_patch
    with pytest.raises(ValueError, match="read-only"):
        same.sampling[0, 0] = 1.0


def test_what_the_grid_does_not_carry_is_known() -> None:
    C8 = st.cyclic(8)
    space = ring(C8)
    assert space.carried == ("e", "r2", "r4", "r6")
    assert not space.exact
    assert not space.is_pixel_patch
    assert st.kernel_basis(C8.regular, C8.regular, space).shape == (64, 8, 8, 3, 3)
    at_rest = st.FilterSpace(st.direct_sum([C8.regular, C8.trivial]), 3, np.eye(9)[:, [5, 2, 1, 0, 3, 6, 7, 8, 4]])
    assert not at_rest.is_pixel_patch


E = D4.irrep("E")
SELECTION = np.eye(9)[:, CROSS]
RHO = cross(D4).representation


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda: st.FilterSpace("D4", 3),
            TypeError,
            r"expected a Representation that says how the coefficients of a filter turn, got str 'D4'\.",
        ),
        (
            lambda: st.FilterSpace(RHO, 3, SELECTION.T),
            ValueError,
            r"has the shape \(taps, coefficients\): \(9, 5\) for 3×3 taps and a representation of dimension 5; got "
            r"\(5, 9\)\.",
        ),
        (
            lambda: st.FilterSpace(RHO, 5, SELECTION),
            ValueError,
            r"\(25, 5\) for 5×5 taps and a representation of dimension 5; got \(9, 5\)\.",
        ),
        (lambda: st.FilterSpace(RHO, 3), ValueError, "got no sampling, so its coefficients are its taps"),
        (lambda: st.FilterSpace(RHO, 3, SELECTION[:, 0]), ValueError, r"has two axes, .*; got shape \(9,\)\."),
        (lambda: st.FilterSpace(RHO, 3, "taps"), TypeError, "is an array of numbers, .*; got 'taps'"),
        (lambda: st.FilterSpace(RHO, 3, SELECTION * np.nan), ValueError, "entries that are not finite"),
        (lambda: st.FilterSpace(RHO, 3, SELECTION * 0), ValueError, "columns of the sampling matrix are linearly"),
        (
            lambda: st.FilterSpace(2 * E, 3, np.eye(9)[:, [1, 3, 1, 3]]),
            ValueError,
            "linearly dependent, or nearly so: different coefficients would give the same taps. Leave out",
        ),
        (
            lambda: st.FilterSpace(RHO, 3, np.eye(9)[:, [0, 3, 4, 5, 7]]),
            ValueError,
            r"does not commute with `\w+` of D4: S ρ_V\(`\w+`\) differs from P\(`\w+`\) S by 1, where P moves the 3×3 "
            r"taps as `\w+` moves pixels. A turned filter, sampled, has to be the sampled filter, turned; change the",
        ),
        (lambda: st.FilterSpace(E, 3, np.eye(9)[:, [1, 3]]), ValueError, "does not commute with"),
        (lambda: st.FilterSpace(st.pixel_patch(D4, 3) @ D4.irrep("A2"), 3), ValueError, "commute with `m` of D4"),
        (
            lambda: st.FilterSpace(st.Representation.from_permutations(D4, [list(range(9))] * 8), 3),
            ValueError,
            "does not commute with `r` of D4: .* by 1,",
        ),
        (lambda: st.FilterSpace(0 * E, 3, np.zeros((9, 0))), ValueError, "at least one coefficient"),
        (lambda: st.FilterSpace(group("Q8").regular, 3), ValueError, "Q8 is abstract: nothing says how it moves"),
        (lambda: st.FilterSpace(RHO, (3, 3, 3)), ValueError, r"D4 acts on 2 dimensions; a patch has 2 extents"),
        (lambda: st.pixel_space(st.cyclic(8), 3), ValueError, "`r` of C8 does not map the 3×3 pixel grid onto itself"),
        (
            lambda: st.kernel_basis(st.cyclic(4).regular, st.cyclic(4).regular, cross(D4)),
            TypeError,
            "the filter space `cross` belongs to D4, but the fields to C4: nothing says how C4 turns these filters. "
            "Make a filter space of C4.",
        ),
    ],
)
def test_bad_spaces_are_refused(build, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()
