"""Functions on SO(3), O(3) and the sphere, up to a degree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from planar_zoo import error, function_values

import steerable as st
from steerable.algebra.spatial_groups import SpatialGroup

SO3, O3 = st.so3(), st.o3()
SPACES = {
    f"{g.name} {kind} {degree}": (g, degree, kind == "sphere")
    for g in (SO3, O3)
    for kind, degree in (("regular", 0), ("regular", 2), ("sphere", 1), ("sphere", 3))
}
every = pytest.mark.parametrize(("g", "degree", "on_sphere"), SPACES.values(), ids=SPACES)


def functions(g: SpatialGroup, degree: int, on_sphere: bool) -> st.Representation:
    return g.sphere(degree) if on_sphere else g.regular(degree)


def elements_of_a_quadrature(g: SpatialGroup, degree: int) -> tuple[list[object], np.ndarray]:
    """Rz(α) Ry(β) Rz(γ) with equally spaced α and γ and Gauss's β, and weights; exact for products of two functions."""
    count = 2 * degree + 1
    heights, weights = np.polynomial.legendre.leggauss(degree + 1)
    around = [g.rotation("z", 360 * k / count) for k in range(count)]
    elements = [
        g.multiply(a, g.rotation("y", math.degrees(math.acos(height))), c)
        for a in around
        for height in heights
        for c in around
    ]
    measure = np.tile(np.repeat(weights / 2 / count**2, count), count)
    if not g.reflections:
        return elements, measure
    return elements + [g.multiply(g.inversion, x) for x in elements], np.concatenate([measure, measure]) / 2


@every
def test_functions_are_moved_by_left_translation(g: SpatialGroup, degree: int, on_sphere: bool) -> None:
    """[ρ(a)f](g) = f(a⁻¹g)."""
    rho = functions(g, degree, on_sphere)
    points = g.random(5, seed=0)
    for a in g.random(3, seed=1):
        back = [g.multiply(g.inverse(a), x) for x in points]
        before, after = (function_values(rho, x, on_sphere=on_sphere) for x in (points, back))
        assert error(before @ rho(a), after) < 1e-12


@every
def test_the_basis_is_orthonormal_over_the_group(g: SpatialGroup, degree: int, on_sphere: bool) -> None:
    elements, weights = elements_of_a_quadrature(g, degree)
    values = function_values(functions(g, degree, on_sphere), elements, on_sphere=on_sphere)
    assert abs(weights.sum() - 1) < 1e-13
    assert error((values * weights[:, None]).T @ values, np.eye(values.shape[1])) < 1e-12


@pytest.mark.parametrize("g", [SO3, O3], ids=str)
def test_functions_on_the_sphere_are_spherical_harmonics(g: SpatialGroup) -> None:
    """The coset of g is the point g(0, 0, 1)."""
    elements = g.random(6, seed=0)
    points = np.array([element.matrix @ [0, 0, 1] for element in elements])
    harmonics = [st.spherical_harmonics(degree, points) for degree in range(5)]
    assert error(function_values(g.sphere(4), elements, on_sphere=True), np.concatenate(harmonics, axis=1)) < 1e-12


def test_dimensions_and_names() -> None:
    assert SO3.regular(3).type == (1, 3, 5, 7)
    assert SO3.regular(3).dim == 84
    assert SO3.sphere(3).type == (1, 1, 1, 1)
    assert O3.regular(1).type == (1, 1, 3, 3)
    assert O3.sphere(3).type == (1, 0, 0, 1, 1, 0, 0, 1)
    assert O3.sphere(3).restrict(SO3) == SO3.sphere(3)
    for g in (SO3, O3):
        assert str(g.regular(2)) == "regular(2)"
        assert g.capsule("sphere(3)").representation == g.sphere(3)
        assert g.capsule("regular(2)").representation == g.regular(2)
