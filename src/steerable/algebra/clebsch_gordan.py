"""Clebsch–Gordan coefficients of SO(3): the basis in which a product of two irreps decomposes into irreps.

Those of complex harmonics are eigenvectors of the total angular momentum J², a tridiagonal matrix for each total
M = m₁ + m₂, whose eigenvalues l(l+1) lie far apart, so that every coefficient is known to rounding error at any degree.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.spherical_harmonics import orders

__all__ = ["complex_clebsch_gordan", "real_clebsch_gordan", "real_from_complex"]


@lru_cache(maxsize=1024)
def real_clebsch_gordan(a: int, b: int) -> FloatArray:
    """((2a+1)(2b+1),)²: an orthogonal matrix whose columns are the basis vectors of L_|a-b| … L_(a+b) in L_a ⊗ L_b.

    The columns are in the bases of the real spherical harmonics, and so are the rows, those of a slower.
    """
    columns = []
    u, v = real_from_complex(a).conj(), real_from_complex(b).conj()
    for degree, coefficients in enumerate(complex_clebsch_gordan(a, b), start=abs(a - b)):
        coupled = np.einsum("pm,qn,mnk,rk->pqr", u, v, coefficients, real_from_complex(degree), optimize=True)
        # The coupling is real, or i times real, since complex conjugation changes its sign with that of (-1)^(a+b-l).
        own = coupled.imag if (a + b - degree) % 2 else coupled.real
        columns.append(own.reshape(len(u) * len(v), 2 * degree + 1))
    return read_only(np.concatenate(columns, axis=1))


def complex_clebsch_gordan(a: int, b: int) -> list[FloatArray]:
    """For each degree l from |a-b| to a+b: (2a+1, 2b+1, 2l+1), the coefficients ⟨a m₁ b m₂ | l M⟩, m from -l to l.

    Signs are those of Condon and Shortley: lowering M gives positive factors, and ⟨a a b l-a | l l⟩ > 0.
    """
    low, high = abs(a - b), a + b
    found = [np.zeros((2 * a + 1, 2 * b + 1, 2 * degree + 1)) for degree in range(low, high + 1)]
    previous: dict[int, FloatArray] = {}
    for total in range(high, -high - 1, -1):
        m = np.arange(max(-a, total - b), min(a, total + b) + 1)  # m₁; m₂ is the rest
        vectors = _eigenvectors_of_total(a, b, m, total - m)
        current = {}
        for degree, vector in zip(range(max(low, abs(total)), high + 1), vectors.T, strict=True):
            lowered = _lowered(a, b, total + 1, previous[degree], m) if degree in previous else None
            # At M = l the vector with the largest m₁ has the sign that Condon and Shortley agreed on.
            sign = np.sign(vector[-1] if lowered is None else vector @ lowered)
            current[degree] = sign * vector
            found[degree - low][m + a, total - m + b, total + degree] = sign * vector
        previous = current
    return found


def _eigenvectors_of_total(a: int, b: int, m: NDArray[np.intp], n: NDArray[np.intp]) -> FloatArray:
    """The eigenvectors of J² = J₁² + J₂² + 2 J₁z J₂z + J₁₊J₂₋ + J₁₋J₂₊ on the states (m, n), smallest l first."""
    diagonal = a * (a + 1) + b * (b + 1) + 2.0 * m * n
    up = np.sqrt((a * (a + 1) - m[:-1] * (m[:-1] + 1.0)) * (b * (b + 1) - n[:-1] * (n[:-1] - 1.0)))
    return np.asarray(np.linalg.eigh(np.diag(diagonal) + np.diag(up, 1) + np.diag(up, -1))[1], dtype=np.float64)


def _lowered(a: int, b: int, total: int, vector: FloatArray, m: NDArray[np.intp]) -> FloatArray:
    """J₁₋ + J₂₋ applied to a vector on the states of total M, as a vector on those of M - 1 with these m₁."""
    own = np.arange(max(-a, total - b), min(a, total + b) + 1)
    result = np.zeros(2 * a + 3)
    result[own - 1 + a + 1] += vector * np.sqrt(a * (a + 1) - own * (own - 1.0))
    n = total - own
    result[own + a + 1] += vector * np.sqrt(b * (b + 1) - n * (n - 1.0))
    return result[m + a + 1]


@lru_cache(maxsize=128)
def real_from_complex(degree: int) -> NDArray[np.complex128]:
    """(2ℓ+1, 2ℓ+1): the unitary U with Y_real = U Y_complex, where complex harmonics have Condon–Shortley's sign."""
    u = np.zeros((2 * degree + 1, 2 * degree + 1), dtype=np.complex128)
    u[degree, degree] = 1
    for m in range(1, degree + 1):
        plus, minus = degree + m, degree - m
        u[plus, [minus, plus]] = np.array([1, (-1) ** m]) / math.sqrt(2)
        u[minus, [minus, plus]] = np.array([1j, -1j * (-1) ** m]) / math.sqrt(2)
    u = u[orders(degree) + degree]
    u.setflags(write=False)
    return u
