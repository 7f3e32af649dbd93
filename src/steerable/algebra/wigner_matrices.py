"""Wigner's matrices for real spherical harmonics: the action of a rotation of space on functions of one degree."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.metrics import snap
from steerable.algebra.spherical_harmonics import quadrature_on_sphere, spherical_harmonics

__all__ = ["wigner_matrix"]


def wigner_matrix(degree: int, rotation: FloatArray) -> FloatArray:
    """(2ℓ+1, 2ℓ+1): the orthogonal D with Y(Rx) = D Y(x) for the real spherical harmonics Y of that degree.

    >>> wigner_matrix(2, np.diag([-1.0, -1.0, 1.0])).diagonal().astype(int).tolist()
    [1, -1, 1, -1, 1]
    """
    return _wigner_matrix(degree, np.asarray(rotation, dtype=np.float64).tobytes())


@lru_cache(maxsize=4096)
def _wigner_matrix(degree: int, content: bytes) -> FloatArray:
    rotation = np.frombuffer(content).reshape(3, 3)
    if degree < 2:
        return read_only(rotation.copy() if degree else np.ones((1, 1)))
    # D is the mean of Y(Rx) Y(x)ᵀ over the sphere, and a quadrature gives it exactly.
    points, weights = quadrature_on_sphere(2 * degree)
    moved, still = spherical_harmonics(degree, points @ rotation.T), spherical_harmonics(degree, points)
    return read_only(snap((moved * weights[:, None]).T @ still, 1e-13))
