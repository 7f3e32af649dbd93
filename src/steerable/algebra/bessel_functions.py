"""Bessel functions: the part of each angular frequency, or degree, in a wave at a distance from the centre.

In the plane e^{-iω·x} = Σ_m (-i)^m J_m(ωr) e^{im(φ-φ')}, in space it is Σ_l (-i)^l j_l(ωr) Σ_m Y_lm(n) Y_lm(x̂). Both
are computed as the integrals over all directions that these expansions imply, by rules that are exact to rounding
error.
"""

from __future__ import annotations

import math

import numpy as np

from steerable.algebra.arrays import FloatArray

__all__ = ["bessel_functions"]


def bessel_functions(axes: int, highest: int, z: FloatArray) -> FloatArray:
    """(highest + 1, *z.shape): J_0 … of the plane (axes = 2), or the spherical j_0 … of space (axes = 3), at z ≥ 0.

    >>> bessel_functions(3, 1, np.array([0.0, math.pi])).round(3).tolist()  # sin z / z, and its derivative's opposite
    [[1.0, 0.0], [0.0, 0.318]]
    """
    count = math.ceil(1.5 * float(np.max(z, initial=0))) + highest + 32  # more nodes than the integrands have waves
    flat = np.ravel(z)
    if axes == 2:
        phi = 2 * math.pi * np.arange(count) / count
        wave = np.exp(1j * np.outer(flat, np.sin(phi)))
        values = (wave @ np.exp(-1j * np.outer(phi, np.arange(highest + 1)))).real / count
    else:
        t, weights = np.polynomial.legendre.leggauss(count // 2 + highest // 2 + 1)
        polynomials = weights[:, None] / 2 * np.polynomial.legendre.legvander(t, highest)
        even, odd = np.cos(np.outer(flat, t)) @ polynomials, np.sin(np.outer(flat, t)) @ polynomials
        signs = np.array([1.0, 1.0, -1.0, -1.0])[np.arange(highest + 1) % 4]
        values = signs * np.where(np.arange(highest + 1) % 2, odd, even)
    return np.ascontiguousarray(values.T).reshape(highest + 1, *np.shape(z))
