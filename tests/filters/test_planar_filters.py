"""Filter spaces of SO(2) and O(2), and the kernels on them: those of C_n and D_n for every n that is large enough."""

from __future__ import annotations

import numpy as np
import pytest
from group_zoo import random_invertible
from planar_zoo import HIGHEST, KINDS, PLANAR_GROUPS, error, planar_representation

import steerable as st
from steerable.algebra.planar_groups import PlanarGroup

SO2, O2 = st.so2(), st.o2()
every_group = pytest.mark.parametrize("group", PLANAR_GROUPS.values(), ids=PLANAR_GROUPS)
SPACES = {
    "steerable": lambda g: st.filter_space(g, 5, leak=0.02),
    "even": lambda g: st.filter_space(g, 4, leak=0.05),
    "rings": lambda g: st.ring_space(g, 5),
    "one tap": lambda g: st.pixel_space(g, 1),
}
every_space = pytest.mark.parametrize("make", SPACES.values(), ids=SPACES)

# No sum of a filter's frequency and those of two capsules reaches it, so that C_n and D_n see no more than SO(2), O(2).
LARGE = 2 * HIGHEST + 5


def finite(group: PlanarGroup) -> st.FiniteGroup:
    return st.dihedral(LARGE) if group.reflections else st.cyclic(LARGE)


@every_group
@every_space
def test_filters_are_those_of_a_finite_group(group: PlanarGroup, make) -> None:
    space, other = make(group), make(finite(group))
    assert error(space.sampling, other.sampling) == 0
    assert np.array_equal(space.leaks, other.leaks)
    assert np.array_equal(space.frequencies, other.frequencies)
    for element in finite(group).random(6, seed=0):
        turned = space.representation(group.element(finite(group).motion(element)))
        assert error(turned, other.representation(element)) < 1e-12


@every_group
@every_space
def test_the_grid_carries_the_symmetries_of_the_square(group: PlanarGroup, make) -> None:
    space = make(group)
    assert space.carried == group.grid_elements
    assert len(space.carried) == (8 if group.reflections else 4)
    assert space.exact == (space.taps == 1)
    for element in space.carried:
        filters = space.sampling.T.reshape(space.dim, *space.size)
        turned = np.rot90(filters, round(element.angle / 90), axes=(1, 2))
        turned = turned[:, :, ::-1] if element.mirrored else turned
        by_coefficients = space.sample(space.representation(element).T)
        assert error(turned, by_coefficients) < 1e-12


@every_group
@every_space
@pytest.mark.parametrize("target", ["regular(2)", "skewed"])
@pytest.mark.parametrize("source", KINDS)
def test_kernels_span_the_same_as_those_of_a_large_finite_group(
    group: PlanarGroup, make, source: str, target: str
) -> None:
    rho_in, rho_out = planar_representation(group, source), planar_representation(group, target)
    smaller = finite(group)
    found = st.kernel_basis(rho_in, rho_out, make(group))
    expected = st.kernel_basis(rho_in.restrict(smaller), rho_out.restrict(smaller), make(smaller))
    assert found.shape == expected.shape
    if found.size == 0:
        return
    flat, other = found.reshape(len(found), -1), expected.reshape(len(expected), -1)
    assert np.linalg.matrix_rank(flat) == len(flat)
    combined = np.linalg.lstsq(other.T, flat.T, rcond=None)[0]
    assert error(other.T @ combined, flat.T) < 1e-9 * np.abs(flat).max()


@every_group
def test_every_kernel_commutes_with_the_square(group: PlanarGroup) -> None:
    """κ(hx) = ρ_out(h) κ(x) ρ_in(h)⁻¹ at the taps x that h moves onto taps."""
    rho_in, rho_out = planar_representation(group, "turned"), planar_representation(group, "product")
    kernels = st.kernel_basis(rho_in, rho_out, 5)
    for element in group.grid_elements:
        turned = np.rot90(kernels, round(element.angle / 90), axes=(3, 4))
        turned = turned[..., ::-1] if element.mirrored else turned
        a, b = rho_out(element), rho_in(group.inverse(element))
        assert error(np.einsum("oj,kjiyx,ic->kocyx", a, turned, b), kernels) < 1e-10


@every_group
def test_a_space_of_ones_own_has_the_same_kernels(group: PlanarGroup) -> None:
    space = st.filter_space(group, 3)
    basis = random_invertible(space.dim)
    own = st.FilterSpace(space.representation.change_basis(basis), 3, space.sampling @ basis, name="own")
    assert (own.harmonics, own.leaks) == ((), None)
    rho_in, rho_out = group.regular(1), group.irrep("E2")
    found, expected = st.kernel_basis(rho_in, rho_out, own), st.kernel_basis(rho_in, rho_out, space)
    assert found.shape == expected.shape
    both = np.concatenate([found, expected]).reshape(2 * len(found), -1)
    assert np.linalg.matrix_rank(both, tol=1e-9) == len(found)


@every_group
def test_a_space_of_ones_own_that_the_group_leaves_as_it_is(group: PlanarGroup) -> None:
    centre = st.FilterSpace(2 * group.trivial, 3, np.stack([np.eye(9)[4], np.ones(9)], axis=1))
    assert st.kernel_basis(group.irrep("E1"), group.irrep("E1"), centre).shape[0] == (2 if group.reflections else 4)


@every_group
def test_costs_are_those_of_a_large_finite_group(group: PlanarGroup) -> None:
    a, b = st.FieldType(group, "3*A1 + 2*regular(2)"), st.FieldType(group, "regular(3) + 2*E1")
    smaller = finite(group)
    cost = st.parameter_cost(a, b, 5)
    assert cost == st.parameter_cost(st.restriction(a, smaller)[0], st.restriction(b, smaller)[0], 5) > 0
    assert st.parameter_utilization(a, b, 5) == st.filter_space(group, 5).dim * a.channels * b.channels / cost
    assert st.parameter_cost(a, b, 5, filters=st.filter_space(group, 5, highest=0)) < cost


@every_group
def test_bad_input(group: PlanarGroup) -> None:
    for make in (st.filter_space, st.ring_space):
        with pytest.raises(ValueError, match=r"`rotation\(90\)` of S?O2 exchanges height and width, .* got 3×5"):
            make(group, (3, 5))
    with pytest.raises(ValueError, match=r"`rotation\(45\)` of S?O2 does not map the 3×3 pixel grid onto itself"):
        st.pixel_space(group, 3)
    with pytest.raises(ValueError, match="cannot carry the angular frequency 9; the largest that they can carry is 2"):
        st.filter_space(group, 3, highest=9)
    with pytest.raises(ValueError, match=r"`leak` must be a number above 0 and at most 1"):
        st.filter_space(group, 3, leak=0)
    with pytest.raises(ValueError, match="does not commute with `rotation\\(180\\)` of"):
        st.FilterSpace(group.trivial, 3, np.arange(9.0)[:, None])
    with pytest.raises(TypeError, match="belongs to C8, but the fields to"):
        st.kernel_basis(group.trivial, group.trivial, st.filter_space(st.cyclic(8), 3))
    with pytest.raises(TypeError, match="a filter bank maps between fields of one group"):
        st.kernel_basis(group.trivial, st.cyclic(8).trivial, 3)
