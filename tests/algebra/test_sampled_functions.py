"""Spaces of functions: which representations are, and how the group exchanges the values at their points."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from group_zoo import SMALL_GROUPS, group, random_invertible, random_orthogonal
from planar_zoo import PLANAR_GROUPS, function_values

import steerable as st
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.sampled_functions import common_domain, why_not_functions

EXACT = 1e-11


def _sums(G: st.Group, irreps: tuple[st.Representation, ...]) -> list[st.Representation]:
    """Sums of up to two copies of each irrep, in a basis that mixes them."""
    copies = itertools.islice(itertools.product(range(3), repeat=len(irreps)), 1, 60)
    sums = [st.direct_sum([n * irrep for n, irrep in zip(c, irreps, strict=True)]) for c in copies]
    return [rho.change_basis(random_invertible(rho.dim, seed=1)) for rho in sums]


def _told_apart(rho: st.Representation, elements: tuple[object, ...]) -> bool:
    """Whether the values of f(g) = ℓρ(g)v at all elements determine v, for a functional ℓ that is drawn at random."""
    functional = np.random.default_rng(5).normal(size=rho.dim)
    values = np.stack([functional @ rho(g) for g in elements])
    return bool(np.linalg.matrix_rank(values, tol=1e-8 * np.linalg.norm(values)) == rho.dim)


def _elements(G: st.Group) -> tuple[object, ...]:
    return G.random(60, seed=0) if isinstance(G, PlanarGroup) else G.elements


def _cases() -> list[tuple[st.Group, tuple[st.Representation, ...]]]:
    finite = [(group(name), group(name).irreps[:4]) for name in ("C1", "C4", "C5", "D3", "D4", "Q8", "A4")]
    return [*finite, *((G, G.irreps_of((1,) * 4)) for G in PLANAR_GROUPS.values())]


@pytest.mark.parametrize(("G", "irreps"), _cases(), ids=lambda value: getattr(value, "name", ""))
def test_a_space_of_functions_has_constants_and_a_functional_that_tells_vectors_apart(
    G: st.Group, irreps: tuple[st.Representation, ...]
):
    found = set()
    for rho in _sums(G, irreps):
        expected = rho.type[0] > 0 and _told_apart(rho, _elements(G))
        assert (why_not_functions(rho) is None) == expected, rho.type
        found.add(expected)
    assert found == {True, False}


def _spaces(G: st.Group) -> list[st.Representation]:
    """Spaces of functions on finite groups: quotients as they are and in other bases, and parts of them."""
    quotients = [capsule.representation for capsule in G.capsules.values() if capsule.admits("pointwise")]
    turned = [rho.change_basis(random_orthogonal(rho.dim)) for rho in quotients]
    skewed = [rho.change_basis(random_invertible(rho.dim, seed=2)) for rho in quotients]
    return [*quotients, *turned, *skewed, *(G.trivial + irrep for irrep in G.irreps[1:])]


@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_finite_groups_exchange_the_values_at_all_points(name: str):
    G = group(name)
    for rho in _spaces(G):
        values = common_domain([rho]).values(rho, 0)
        assert np.linalg.matrix_rank(values) == rho.dim
        assert np.square(values).sum() == pytest.approx(len(values))
        for g in G.elements:
            _assert_exchanged(values, values @ rho(g))


@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_a_quotient_in_another_basis_has_as_many_points_as_cosets_and_an_orthonormal_basis_of_them(name: str):
    G = group(name)
    for capsule in G.capsules.values():
        if capsule.admits("pointwise"):
            rho = capsule.representation.change_basis(random_orthogonal(capsule.dim))
            values = common_domain([rho]).values(rho, 0)
            np.testing.assert_allclose(values @ values.T, np.eye(capsule.dim), atol=EXACT)


def _assert_exchanged(values: np.ndarray, moved: np.ndarray) -> None:
    """The rows of one array are those of the other, in another order."""
    distance = np.abs(values[:, None] - moved[None]).max(axis=2)
    assert distance.min(axis=1).max() <= EXACT * np.abs(values).max()
    assert len(set(distance.argmin(axis=1))) == len(values)


PLANAR_SPACES = [
    *((st.so2(), name) for name in ("regular(3)", "qC2(4)", "qC3(6)", "qC4(8)")),
    *((st.o2(), name) for name in ("regular(3)", "qm(3)", "qC2(4)", "qD2(4)", "qD3(6)", "qD4(8)")),
]


@pytest.mark.parametrize(("G", "name"), PLANAR_SPACES, ids=lambda value: getattr(value, "name", value))
def test_samples_of_planar_groups_are_exchanged_by_the_finite_group_that_they_are_taken_on(G: PlanarGroup, name: str):
    straight = G.capsule(name).representation
    for rho in (straight, straight.change_basis(random_invertible(straight.dim, seed=4))):
        domain = common_domain([rho])
        for samples in (domain.fewest, domain.fewest + domain.step):
            values = domain.values(rho, samples)
            assert np.linalg.matrix_rank(values) == rho.dim
            assert np.square(values).sum() == pytest.approx(len(values))
            for turn in range(samples):
                _assert_exchanged(values, values @ rho(G.rotation(360 * turn / samples)))
            if G.reflections:
                _assert_exchanged(values, values @ rho(G.reflection(180 / samples)))
            assert samples % 4 == 0  # so that quarter turns are among these


@pytest.mark.parametrize(("G", "name"), PLANAR_SPACES, ids=lambda value: getattr(value, "name", value))
def test_named_spaces_have_the_values_that_their_definition_gives(G: PlanarGroup, name: str):
    """The functional is found from the matrices, and is the evaluation by which the capsule was defined."""
    rho = G.capsule(name).representation
    domain = common_domain([rho])
    values = domain.values(rho, domain.fewest)
    period = max(1, math.gcd(*(wave.frequency for wave in rho.waves)))
    turns = [G.rotation(360 * j / domain.fewest) for j in range(domain.fewest // period)]
    two_circles = len(values) == 2 * len(turns)
    points = [*turns, *(G.multiply(G.reflection(0), g) for g in turns)] if two_circles else turns
    np.testing.assert_allclose(values, function_values(rho, points) / math.sqrt(rho.dim), atol=EXACT)


def test_one_sample_less_would_not_tell_waves_apart():
    rho = st.so2().regular(4)
    domain = common_domain([rho])
    assert domain.fewest == 12
    assert np.linalg.matrix_rank(domain.values(rho, 8)) < rho.dim


def test_two_spaces_share_points_that_fit_both():
    G = st.o2()
    circle, cosets = G.capsule("qm(4)").representation, G.capsule("qD4(8)").representation
    both = common_domain([circle, cosets])
    assert both.values(cosets, 20).shape == (20, 5)
    assert common_domain([circle, G.regular(1)]).values(circle, 20).shape == (40, 9)
