"""Spherical harmonics against scipy, Wigner matrices and Clebsch–Gordan coefficients against sympy. Recipes::

    scipy.special.sph_harm_y(degree, m, polar, azimuth)  # complex, with Condon and Shortley's sign, area 4π
    sympy.physics.wigner.wigner_d(degree, alpha, beta, gamma)  # complex, of the rotation Rz(alpha) Ry(beta) Rz(gamma)
    sympy.physics.wigner.clebsch_gordan(a, b, degree, m, n, m + n)

Real harmonics are √2 (-1)^m times the real part of the complex ones for m > 0, and the imaginary part of those of |m|
for m < 0; those of degree 1 are counted as x, y, z.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.special
import sympy.physics.wigner
from planar_zoo import error
from scipy.spatial.transform import Rotation

import steerable as st
from steerable.algebra.clebsch_gordan import complex_clebsch_gordan, real_clebsch_gordan, real_from_complex
from steerable.algebra.motions_in_space import rotation_matrix
from steerable.algebra.spherical_harmonics import orders, quadrature_on_sphere
from steerable.algebra.wigner_matrices import wigner_matrix

POINTS = np.random.default_rng(0).standard_normal((20, 3))
ROTATIONS = Rotation.random(6, rng=np.random.default_rng(1)).as_matrix()
degrees = pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7, 12, 30, 60])


def by_scipy(degree: int, points: np.ndarray) -> np.ndarray:
    polar = np.arccos(points[:, 2] / np.linalg.norm(points, axis=1))
    azimuth = np.arctan2(points[:, 1], points[:, 0])
    columns = []
    for m in orders(degree):
        value = math.sqrt(4 * math.pi) * scipy.special.sph_harm_y(degree, abs(m), polar, azimuth)
        sign = math.sqrt(2) * (-1) ** abs(m) if m else 1
        columns.append(sign * (value.imag if m < 0 else value.real))
    return np.stack(columns, axis=1)


@degrees
def test_harmonics_are_those_of_scipy(degree: int) -> None:
    assert error(st.spherical_harmonics(degree, POINTS), by_scipy(degree, POINTS)) < 1e-11
    assert error(st.spherical_harmonics(degree, 7 * POINTS), st.spherical_harmonics(degree, POINTS)) < 1e-12


@degrees
def test_harmonics_are_orthonormal_and_of_constant_length(degree: int) -> None:
    points, weights = quadrature_on_sphere(2 * degree)
    values = st.spherical_harmonics(degree, points)
    assert error((values * weights[:, None]).T @ values, np.eye(2 * degree + 1)) < 1e-12
    assert error((values**2).sum(axis=1), np.full(len(points), 2 * degree + 1)) < 1e-10
    assert error(st.spherical_harmonics(degree, -points), (-1) ** degree * values) < 1e-12
    if degree:
        assert error(weights @ values, np.zeros(2 * degree + 1)) < 1e-13


def test_harmonics_of_low_degree_are_known_polynomials() -> None:
    x, y, z = (POINTS / np.linalg.norm(POINTS, axis=1, keepdims=True)).T
    first = np.stack([x, y, z], axis=1) * math.sqrt(3)
    second = np.stack([x * y, y * z, (3 * z**2 - 1) / math.sqrt(12), x * z, (x**2 - y**2) / 2], axis=1)
    assert error(st.spherical_harmonics(1, POINTS), first) < 1e-14
    assert error(st.spherical_harmonics(2, POINTS), math.sqrt(15) * second) < 1e-14
    assert st.spherical_harmonics(0, [[1, 2, 3]]).tolist() == [[1.0]]
    assert st.spherical_harmonics(3, np.zeros((4, 0, 3))).shape == (4, 0, 7)


@degrees
def test_rotations_of_the_sphere_turn_harmonics_by_wigner_matrices(degree: int) -> None:
    """Y(Rx) = D(R) Y(x), D is orthogonal, and D(R)D(S) = D(RS)."""
    for r, s in itertools.pairwise(ROTATIONS[: 2 if degree > 20 else 6]):
        d = wigner_matrix(degree, r)
        moved = st.spherical_harmonics(degree, POINTS @ r.T)
        assert error(moved, st.spherical_harmonics(degree, POINTS) @ d.T) < 1e-11
        assert error(d.T @ d, np.eye(2 * degree + 1)) < 1e-12
        assert error(d @ wigner_matrix(degree, s), wigner_matrix(degree, r @ s)) < 1e-12


def test_degree_one_is_the_rotation_matrix_itself() -> None:
    for r in ROTATIONS:
        assert np.array_equal(wigner_matrix(1, r), r)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_wigner_matrices_are_those_of_sympy(degree: int) -> None:
    alpha, beta, gamma = 0.3, 0.8, -1.1
    turns = [("z", alpha), ("y", beta), ("z", gamma)]
    rotation = np.linalg.multi_dot([rotation_matrix(axis, math.degrees(angle)) for axis, angle in turns])
    complex_matrix = np.array(sympy.physics.wigner.wigner_d(degree, alpha, beta, gamma).evalf(), dtype=complex)
    u = real_from_complex(degree).conj()  # coefficients transform by the conjugate of what the functions do
    assert error(u @ complex_matrix @ u.conj().T, wigner_matrix(degree, rotation)) < 1e-14 * 4**degree


@pytest.mark.parametrize("degree", range(6))
def test_symmetries_of_the_cube_have_exact_entries(degree: int) -> None:
    """Where an entry vanishes at a turn by 90°, it is exactly 0."""
    for matrix in st.octahedral().action:
        d = wigner_matrix(degree, matrix)
        assert (np.abs(d[d != 0]) > 0.05).all()


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 1), (1, 2), (2, 1), (2, 3), (3, 3)])
def test_coefficients_are_those_of_sympy(a: int, b: int) -> None:
    for degree, found in enumerate(complex_clebsch_gordan(a, b), start=abs(a - b)):
        expected = np.zeros_like(found)
        for m, n in itertools.product(range(-a, a + 1), range(-b, b + 1)):
            if abs(m + n) <= degree:
                value = sympy.physics.wigner.clebsch_gordan(a, b, degree, m, n, m + n)
                expected[m + a, n + b, m + n + degree] = float(value)
        assert error(found, expected) < 1e-14


@pytest.mark.parametrize(("a", "b"), [*itertools.product(range(4), repeat=2), (5, 2), (4, 7), (12, 12)])
def test_products_of_irreps_fall_apart(a: int, b: int) -> None:
    """C is orthogonal, and Cᵀ (L_a ⊗ L_b) C is the direct sum of L_|a-b| … L_(a+b)."""
    c = real_clebsch_gordan(a, b)
    assert error(c.T @ c, np.eye((2 * a + 1) * (2 * b + 1))) < 1e-13
    parts = range(abs(a - b), a + b + 1)
    starts = np.cumsum([0, *(2 * degree + 1 for degree in parts)])
    for r in ROTATIONS[:2]:
        expected = np.zeros_like(c)
        for degree, low, high in zip(parts, starts, starts[1:], strict=False):
            expected[low:high, low:high] = wigner_matrix(degree, r)
        assert error(c.T @ np.kron(wigner_matrix(a, r), wigner_matrix(b, r)) @ c, expected) < 1e-12


def test_the_vector_product_and_the_scalar_product_are_coefficients() -> None:
    """L1 ⊗ L1 holds v·w and v×w, up to their lengths: the coordinates are x, y, z."""
    v, w = POINTS[:2]
    coupled = np.outer(v, w).ravel() @ real_clebsch_gordan(1, 1)
    assert abs(abs(coupled[0]) - abs(v @ w) / math.sqrt(3)) < 1e-14
    cross = np.cross(v, w) / math.sqrt(2)
    assert min(error(coupled[1:4], cross), error(coupled[1:4], -cross)) < 1e-14


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: st.spherical_harmonics(1.5, [0, 0, 1]),
            TypeError,
            "a degree must be a whole number ≥ 0; got float 1.5",
        ),
        (
            lambda: st.spherical_harmonics(True, [0, 0, 1]),
            TypeError,
            "a degree must be a whole number ≥ 0; got bool True",
        ),
        (
            lambda: st.spherical_harmonics(-1, [0, 0, 1]),
            ValueError,
            "a degree must be a whole number from 0 to 60; got -1",
        ),
        (lambda: st.spherical_harmonics(1, [0, 0, 0]), ValueError, r"the point \(0, 0, 0\) has no direction"),
        (lambda: st.spherical_harmonics(1, [0, 1]), ValueError, r"of shape \(…, 3\); got shape \(2,\)"),
        (lambda: st.spherical_harmonics(1, 5), ValueError, r"of shape \(…, 3\); got shape \(\)"),
        (lambda: st.spherical_harmonics(1, [0, 0, math.nan]), ValueError, "finite numbers"),
    ],
)
def test_bad_input_is_refused_with_words(call, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
