"""Matrices of one size, one for each element of a group, and their kind."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.metrics import is_orthogonal
from steerable.algebra.monomials import Monomial

__all__ = ["MatrixFamily"]


class MatrixFamily:
    """Square matrices, one per element, in monomial form if they have one; the base of `Representation`.

    Where a group has infinitely many elements, those of its generators are kept: they determine all others, and all
    are permutations, monomial or orthogonal as soon as those of generators are.

    Args:
        dense: (order, d, d); may be left out where ``monomial`` is given.
        monomial: the same matrices in compact form; by default it is looked for.
    """

    def __init__(self, dense: FloatArray | None = None, monomial: Monomial | None = None) -> None:
        if monomial is None and dense is not None:
            monomial = Monomial.of(dense)
        self.monomial = monomial
        # Monomial matrices are rebuilt exactly.
        self._dense = None if monomial is not None or dense is None else read_only(dense)

    @property
    def matrices(self) -> FloatArray:
        """(order, dim, dim), read-only, in the order of ``group.elements``."""
        return self.known_matrices

    @property
    def known_matrices(self) -> FloatArray:
        """(number, dim, dim): the matrices of all elements, or of generators if there are infinitely many."""
        if self._dense is not None:
            return self._dense
        if self.monomial is None:
            raise RuntimeError("a representation has matrices or a monomial form")
        matrices = read_only(self.monomial.dense())
        if matrices.nbytes <= 1 << 24:
            self._dense = matrices
        return matrices

    @property
    def dim(self) -> int:
        if self.monomial is not None:
            return int(self.monomial.image.shape[1])
        return int(self.known_matrices.shape[1])

    @cached_property
    def character(self) -> FloatArray:
        """(order,): χ(g) = Tr ρ(g)."""
        if self.monomial is not None:
            return read_only(self.monomial.character())
        return read_only(np.trace(self.matrices, axis1=1, axis2=2))

    @property
    def is_monomial(self) -> bool:
        """Whether each matrix has one non-zero entry in each row and column."""
        return self.monomial is not None

    @property
    def is_signed_permutation(self) -> bool:
        """Whether the matrices are monomial with entries ±1."""
        return self.monomial is not None and bool((np.abs(self.monomial.scale) == 1).all())

    @property
    def is_permutation(self) -> bool:
        """Whether the matrices are monomial with entries 1."""
        return self.monomial is not None and bool((self.monomial.scale == 1).all())

    @cached_property
    def is_orthogonal(self) -> bool:
        """Whether ρ(g)ᵀρ(g) = 1 for all g."""
        if self.monomial is not None:
            return self.is_signed_permutation
        return is_orthogonal(self.known_matrices)

    @property
    def is_trivial(self) -> bool:
        """Whether ρ(g) = 1 for all g."""
        return self.monomial is not None and self.monomial.is_identity

    @property
    def kind(self) -> str:
        """The narrowest of permutation, signed permutation, monomial, orthogonal, general."""
        if self.is_permutation:
            return "permutation"
        if self.is_signed_permutation:
            return "signed permutation"
        if self.is_monomial:
            return "monomial"
        return "orthogonal" if self.is_orthogonal else "general"
