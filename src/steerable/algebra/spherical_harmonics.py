"""Real spherical harmonics: an orthonormal basis of the functions on the sphere, degree by degree.

They are normalised so that the mean of each squared over the sphere is 1; then Σ_m Y_m(x)² = 2ℓ + 1 at every point.
With the polar angle θ from z and the azimuth φ from x towards y, Y_m is √2 P(θ) cos mφ for m > 0 and √2 P(θ) sin |m|φ
for m < 0, where P has the sign that makes it positive near θ = 0. Those of degree ℓ are counted from m = -ℓ to ℓ,
except that those of degree 1 are √3 x, √3 y and √3 z in this order, so that vectors have their usual coordinates.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray, IntArray, read_only, real_numbers, whole_number_up_to

__all__ = ["HIGHEST_DEGREE", "checked_degree", "orders", "quadrature_on_sphere", "spherical_harmonics"]

HIGHEST_DEGREE = 60
"""Beyond this degree matrices have more than 100 rows, and no voxel filter tells such functions apart."""


def checked_degree(value: int, highest: int = HIGHEST_DEGREE) -> int:
    """A degree; an error unless it is a whole number from 0 to ``highest``."""
    return whole_number_up_to(highest, value, "a degree")


def orders(degree: int) -> IntArray:
    """(2ℓ+1,): m of each basis function, in order."""
    return np.array([1, -1, 0]) if degree == 1 else np.arange(-degree, degree + 1)


def spherical_harmonics(degree: int, points: ArrayLike) -> FloatArray:
    """(…, 2ℓ+1): the real spherical harmonics of a degree in the directions of points (…, 3), of any length but 0.

    >>> spherical_harmonics(1, [0, 0, 5]).round(3).tolist()
    [0.0, 0.0, 1.732]
    >>> spherical_harmonics(2, [1, 1, 0]).round(3).tolist()  # xy, yz, 3z² - 1, xz, x² - y²
    [1.936, 0.0, -1.118, 0.0, 0.0]
    """
    degree = checked_degree(degree)
    given = real_numbers(points, "points of the sphere are numbers of shape (…, 3)")
    if given.ndim == 0 or given.shape[-1] != 3 or not np.isfinite(given).all():
        raise ValueError(f"points of the sphere are finite numbers of shape (…, 3); got shape {given.shape}.")
    largest = np.abs(given).max(axis=-1, initial=0, keepdims=True)
    if (largest == 0).any():
        raise ValueError("the point (0, 0, 0) has no direction, and so no value of a spherical harmonic.")
    scaled = given / largest
    return _at_directions(degree, scaled / np.linalg.norm(scaled, axis=-1, keepdims=True))


def _at_directions(degree: int, points: FloatArray) -> FloatArray:
    """The harmonics at unit vectors. For m ≥ 0, sin^m θ e^{imφ} is (x + iy)^m, and the rest is a polynomial in z."""
    around, z = points[..., 0] + 1j * points[..., 1], points[..., 2]
    values = np.zeros((*points.shape[:-1], 2 * degree + 1))
    power, diagonal = np.ones_like(around), 1.0
    for m in range(degree + 1):
        if m:
            power = power * around
            diagonal *= math.sqrt((2 * m + 1) / (2 * m))
        before, legendre = np.zeros_like(z), np.full_like(z, diagonal)
        for n in range(m + 1, degree + 1):  # from degree m, where the polynomial is constant, to the degree in question
            scale = math.sqrt((4 * n * n - 1) / (n * n - m * m))
            back = math.sqrt(((n - 1) ** 2 - m * m) / (4 * (n - 1) ** 2 - 1))
            before, legendre = legendre, scale * (z * legendre - back * before)
        wave = legendre * power * (math.sqrt(2) if m else 1)
        values[..., degree - m] = wave.imag
        values[..., degree + m] = wave.real
    return values[..., orders(degree) + degree]


@lru_cache(maxsize=64)
def quadrature_on_sphere(degree: int) -> tuple[FloatArray, FloatArray]:
    """(points (n, 3), weights (n,)): Σ w f(x) is the mean over the sphere of every polynomial up to that degree."""
    heights, weights = np.polynomial.legendre.leggauss(degree // 2 + 1)
    angles = 2 * math.pi * (np.arange(degree + 1) + 0.5) / (degree + 1)
    radius = np.sqrt(1 - heights**2)
    points = np.stack(
        [np.outer(radius, np.cos(angles)), np.outer(radius, np.sin(angles)), np.outer(heights, np.ones(degree + 1))],
        axis=-1,
    ).reshape(-1, 3)
    return read_only(points), read_only(np.repeat(weights / 2 / (degree + 1), degree + 1))
