"""Monomial representations, with one non-zero entry in each row and column, as two small arrays.

Their matrices are written out only when they are needed. A patch of 27 taps times a capsule of 48 channels would
otherwise take 0.6 GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray, read_only
from steerable.algebra.metrics import TOLERANCE, in_own_units

__all__ = ["Monomial"]


@dataclass(frozen=True)
class Monomial:
    """ρ(g) e_j = scale[g, j] · e_{image[g, j]}, for all g at once; both arrays are (order, dim)."""

    image: IntArray
    scale: FloatArray

    def __post_init__(self) -> None:
        read_only(self.image)
        read_only(self.scale)

    @staticmethod
    def of(matrices: FloatArray) -> Monomial | None:
        """The compact form of monomial matrices, or None; entries within rounding error of 0 or ±1 are made exact."""
        nonzero = np.abs(in_own_units(matrices)) > TOLERANCE
        if not ((nonzero.sum(axis=1) == 1).all() and (nonzero.sum(axis=2) == 1).all()):
            return None
        image = nonzero.argmax(axis=1) if nonzero.size else np.zeros(nonzero.shape[:2], dtype=np.intp)
        scale = np.take_along_axis(matrices, image[:, None, :], axis=1)[:, 0, :]
        signs = np.sign(scale)
        return Monomial(image, np.where(np.abs(scale - signs) < TOLERANCE, signs, scale))

    @staticmethod
    def trivial(order: int, dim: int) -> Monomial:
        """The identity matrix for every element."""
        return Monomial(np.tile(np.arange(dim), (order, 1)), np.ones((order, dim)))

    @staticmethod
    def direct_sum(parts: Sequence[Monomial]) -> Monomial:
        """Block-diagonal matrices of at least one part."""
        offsets = np.cumsum([0, *(part.image.shape[1] for part in parts[:-1])])
        image = np.concatenate([part.image + o for part, o in zip(parts, offsets, strict=True)], axis=1)
        return Monomial(image, np.concatenate([part.scale for part in parts], axis=1))

    def dense(self) -> FloatArray:
        """(order, dim, dim): the matrices."""
        order, dim = self.image.shape
        matrices = np.zeros((order, dim, dim))
        matrices[np.arange(order)[:, None], self.image, np.arange(dim)] = self.scale
        return matrices

    @property
    def is_identity(self) -> bool:
        """Whether every element is the identity matrix."""
        return bool((self.image == np.arange(self.image.shape[1])).all() and (self.scale == 1).all())

    def character(self) -> FloatArray:
        """(order,): the traces."""
        fixed = self.image == np.arange(self.image.shape[1])
        return np.asarray((self.scale * fixed).sum(axis=1))

    def at(self, elements: IntArray) -> Monomial:
        """The matrices of these elements, in this order."""
        return Monomial(self.image[elements], self.scale[elements])

    def dual(self) -> Monomial:
        """The matrices ρ(g⁻¹)ᵀ."""
        return Monomial(self.image, 1 / self.scale)

    def __matmul__(self, other: Monomial) -> Monomial:
        """Kronecker products, this factor's index running slower."""
        order, dim = self.image.shape[0], self.image.shape[1] * other.image.shape[1]
        image = self.image[:, :, None] * other.image.shape[1] + other.image[:, None, :]
        scale = self.scale[:, :, None] * other.scale[:, None, :]
        return Monomial(image.reshape(order, dim), scale.reshape(order, dim))

    def induced(self, to: IntArray, within: IntArray) -> Monomial:
        """One copy of this representation per coset: g maps copy i to copy ``to[g, i]`` by ρ(``within[g, i]``)."""
        order, dim = len(to), to.shape[1] * self.image.shape[1]
        image = to[:, :, None] * self.image.shape[1] + self.image[within]
        return Monomial(image.reshape(order, dim), self.scale[within].reshape(order, dim))
