"""Points and rotations that the cube exchanges, and weights that make means exact."""

from __future__ import annotations

import numpy as np
import pytest

import steerable as st
from steerable.algebra.sampled_functions import common_domain
from steerable.algebra.spherical_harmonics import spherical_harmonics
from steerable.algebra.spread_rotations import orbit_weights, spread_motions


@pytest.mark.parametrize("reflections", [False, True])
@pytest.mark.parametrize(("directions", "turns"), [(2, 1), (1, 3)])
def test_the_cube_exchanges_all_motions(directions: int, turns: int, reflections: bool):
    motions = spread_motions(directions, turns, reflections=reflections)
    assert len(motions) == directions * turns * (48 if reflections else 24)
    np.testing.assert_allclose(
        motions @ motions.transpose(0, 2, 1), np.broadcast_to(np.eye(3), motions.shape), atol=1e-12
    )
    for g in st.octahedral(reflections=reflections).action:
        distance = np.abs((g @ motions)[:, None] - motions[None]).max(axis=(2, 3))
        assert distance.min(axis=1).max() < 1e-12
        assert len(set(distance.argmin(axis=1))) == len(motions)


@pytest.mark.parametrize("reflections", [False, True])
@pytest.mark.parametrize(("directions", "degree"), [(1, 3), (4, 7), (8, 9)])
def test_weighted_means_are_exact_up_to_a_degree_that_grows(directions: int, degree: int, reflections: bool):
    weights = orbit_weights(directions, reflections=reflections)
    assert weights.min() > 0
    points = spread_motions(directions, reflections=reflections)[:, :, 2].reshape(directions, -1, 3)
    for d in range(1, degree + 1):
        mean = np.einsum("k,kpm->m", weights, spherical_harmonics(d, points)) / points.shape[1]
        assert np.abs(mean).max() < 1e-9, d


@pytest.mark.parametrize(
    ("group", "name"),
    [(st.so3(), "sphere(3)"), (st.so3(), "regular(1)"), (st.o3(), "sphere(2)"), (st.o3(), "regular(1)")],
    ids=str,
)
def test_samples_in_space_tell_functions_apart_and_are_exchanged_by_the_cube(group: st.Group, name: str):
    straight = group.capsule(name).representation
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(straight.dim, straight.dim)))[0]
    for rho in (straight, straight.change_basis(turn)):
        domain = common_domain([rho])
        values = domain.values(rho, domain.fewest)
        assert np.linalg.cond(values) < 3
        assert np.square(values).sum() == pytest.approx(len(values))
        for g in group.grid_elements[::5]:
            distance = np.abs(values[:, None] - (values @ rho(g))[None]).max(axis=2)
            assert distance.min(axis=1).max() < 1e-10
