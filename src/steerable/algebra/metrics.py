"""Invariant metrics: the size of a group's matrices in any units of the basis, and so which errors are small.

In its invariant metric every representation of a finite group is orthogonal, so that its entries are at most 1 and an
error means the same everywhere. In the basis in which a user gives it, there may be entries of 10⁶ next to entries of
1, and no single number is small for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steerable.algebra.arrays import FloatArray

__all__ = [
    "TOLERANCE",
    "InvariantMetric",
    "basis_scales",
    "generator_scales",
    "in_own_units",
    "invariant_metric",
    "is_orthogonal",
    "snap",
]

# Errors up to this size, where matrices are of size 1, count as rounding errors of whoever wrote them down.
TOLERANCE = 1e-9

# What arithmetic adds, for each unit of the products that were summed.
_ROUNDING = 100 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class InvariantMetric:
    """An upper triangular C for which Cρ(g)C⁻¹ is orthogonal, and the precision that is left of these matrices.

    Attributes:
        factor: C; ‖Cv‖ is a length that the group does not change.
        inverse: C⁻¹.
        orthogonal: (order, d, d), the matrices Cρ(g)C⁻¹.
        tolerance: the error of an entry of ``orthogonal`` that rounding explains.
    """

    factor: FloatArray
    inverse: FloatArray
    orthogonal: FloatArray
    tolerance: float


def basis_scales(matrices: FloatArray) -> FloatArray:
    """(d,): w_j = max |ρ(g)_ij| over g and i, as powers of two: the size that the group gives to basis vector j.

    An entry ρ(g)_ij is large or small in comparison with w_j / w_i. All are 1 for orthogonal matrices.
    """
    largest = np.abs(matrices).max(axis=(0, 1), initial=0)
    # 0.3, so that rounding errors of neither 1 nor √2 decide between two powers.
    exponents = np.floor(np.log2(np.where(largest > 0, largest, 1)) + 0.3)
    return np.asarray(np.exp2(exponents.clip(-1022, 1023)))


def generator_scales(matrices: FloatArray) -> FloatArray:
    """(d,): powers of two w for which max_g |ρ(g)_ij| w_i / w_j is as large along row j as along column j.

    It is meant for generators, when the group's other matrices are not known yet.
    """
    sizes = np.abs(matrices).max(axis=0) * (1 - np.eye(matrices.shape[1]))
    scales = np.ones(len(sizes))
    for _ in range(100 * len(sizes)):
        own = sizes * scales[:, None] / scales
        row, column = own.max(axis=1, initial=0), own.max(axis=0, initial=0)
        j = int(np.argmax(np.abs(_half_ratio(column, row))))
        step = float(_half_ratio(column, row)[j])
        if step == 0:
            break
        scales[j] *= 2**step
    return scales


def _half_ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """log₂ √(a/b), as a whole number; 0 if one of them is 0."""
    both = (a > 0) & (b > 0)
    return np.asarray(np.trunc(np.log2(np.where(both, a, 1) / np.where(both, b, 1)) / 2))


def in_own_units(matrices: FloatArray, scales: FloatArray | None = None) -> FloatArray:
    """ρ(g)_ij · w_i / w_j: the matrices in the basis whose vectors the group finds equally large, up to a factor 2."""
    scales = basis_scales(matrices) if scales is None else scales
    return np.asarray((matrices / scales) * scales[:, None])


def snap(values: FloatArray, tolerance: float = TOLERANCE) -> FloatArray:
    """Entries within rounding error of 0, ±1/2 and ±1 made exact, so that pixel grids are moved exactly."""
    halves = np.round(values * 2) / 2
    return np.asarray(np.where(np.abs(values - halves) < tolerance, halves, values) + 0.0)


def is_orthogonal(matrices: FloatArray) -> bool:
    """Whether each of the matrices (order, d, d) is orthogonal up to rounding error."""
    gram = matrices.transpose(0, 2, 1) @ matrices
    return bool(np.abs(gram - np.eye(matrices.shape[1])).max(initial=0) < TOLERANCE)


def invariant_metric(matrices: FloatArray) -> InvariantMetric | None:
    """The metric (1/|G|) Σ ρ(g)ᵀρ(g) of matrices (order, d, d), or None if it is lost in rounding errors.

    It is factored by Cholesky's method, whose precision does not depend on the units of the basis vectors.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        factor, moved = np.diag(basis_scales(matrices)), in_own_units(matrices)
        for _ in range(2):  # the second time removes what rounding left of the first
            gram = np.mean(moved.transpose(0, 2, 1) @ moved, axis=0)
            try:
                factor = np.linalg.cholesky(gram).T @ factor
            except np.linalg.LinAlgError:
                return None
            if not np.isfinite(factor).all() or not factor.diagonal().all():
                return None
            inverse = np.asarray(np.linalg.inv(factor), dtype=np.float64)
            moved = factor @ matrices @ inverse
        summed = (np.abs(factor) @ np.abs(matrices) @ np.abs(inverse)).max(initial=0)
    if not np.isfinite(summed):
        return None
    return InvariantMetric(factor, inverse, moved, TOLERANCE + _ROUNDING * float(summed))
