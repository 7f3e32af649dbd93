"""The maps between a layer's parameters and the matrices of its Fourier form, one per irrep.

A filter bank Ψ becomes V⁻¹ Ψ U⁻¹ = ⊕_k Σ_b W_k^b ⊗ B_b in the isotypic bases U of patch ⊗ ρ_in and V of ρ_out, where
the B_b are the matrices that commute with irrep k (only 1 for real irreps). Per pair of capsule kinds this is an
invertible map of the coefficients Θ, one small matrix product; no expressive power is lost and nothing is averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.algebra.intertwiners import SparseBasis
from steerable.algebra.representations import Representation
from steerable.filters.kernel_bases import sparse_kernel_basis
from steerable.filters.space_arguments import default_space
from steerable.filters.spaces import FilterSpace
from steerable.nn.backends.fourier.spectrum import IsotypicBasis, commutant, isotypic_basis
from steerable.nn.expansion import BankPlan

__all__ = ["Direction", "IrrepBlock", "IrrepBlockPlan", "PairMap"]

FloatArray = NDArray[np.float64]
Size = tuple[int, ...]


@dataclass(frozen=True)
class IrrepBlock:
    """All of W_k: (s, n, m), with s = dim Hom(k, k), n and m the occurrences of irrep k in ρ_out and patch ⊗ ρ_in.

    Its coefficients lie at ``start`` in the flat vector of all blocks, transposed as (s, m, n) where the plan says so.
    """

    irrep: int
    dim: int
    algebra: FloatArray
    n: int
    m: int
    start: int

    @property
    def size(self) -> int:
        return len(self.algebra) * self.n * self.m


@dataclass(frozen=True)
class Placement:
    """Coefficients of one pair of kinds and one irrep: (s, j, μ) rows of the pair's product, and where they go."""

    block: int
    first: int
    row: int
    column: int
    out_occurrences: int
    in_occurrences: int


@dataclass(frozen=True)
class PairMap:
    """One pair of kinds: its Θ lies at ``start`` as (copies, copies', count); ``matrix`` is (count, count)."""

    start: int
    shape: tuple[int, int, int]
    matrix: FloatArray
    placements: tuple[Placement, ...]


class Direction:
    """One way through the layer: a convolution from ``in_kinds`` to ``out_kinds`` by blocks.

    Args:
        in_kinds, out_kinds: (ρ, copies) of each kind of capsule.
        space: the filters, whose taps are their coefficients.
    """

    def __init__(
        self,
        in_kinds: Sequence[tuple[Representation, int]],
        out_kinds: Sequence[tuple[Representation, int]],
        space: FilterSpace,
    ) -> None:
        self.kernel_size, self.taps = space.size, space.taps
        self.in_copies, self.out_copies = [n for _, n in in_kinds], [n for _, n in out_kinds]
        self.in_bases = [isotypic_basis(rho, space) for rho, _ in in_kinds]
        self.out_bases = [isotypic_basis(rho, default_space(rho.group, ())) for rho, _ in out_kinds]
        self.in_channels = sum(rho.dim * n for rho, n in in_kinds)
        self.out_channels = sum(rho.dim * n for rho, n in out_kinds)
        self.blocks: list[IrrepBlock] = []
        start = 0
        for k, irrep in enumerate(in_kinds[0][0].group.irreps):
            m, n = (
                self.occurrences(self.in_bases, self.in_copies, k),
                self.occurrences(self.out_bases, self.out_copies, k),
            )
            if m and n:
                self.blocks.append(IrrepBlock(k, irrep.dim, commutant(irrep), n, m, start))
                start += self.blocks[-1].size

    def output_size(self, shape: Sequence[int], padding: Size, dilation: Size) -> Size:
        """The size of the output's grid for an input of shape (batch, channels, *grid), stride 1."""
        axes = zip(shape[2:], padding, dilation, self.kernel_size, strict=True)
        return tuple([n + 2 * p - d * (k - 1) for n, p, d, k in axes])

    def used_columns(self, out_kind: int) -> FloatArray:
        """The columns of A that belong to blocks: an irrep of the output that no patch contains stays zero."""
        basis = self.out_bases[out_kind]
        columns = [np.zeros((len(basis.fibre_back), 0))]
        for block in self.blocks:
            row = basis.first_row(block.irrep)
            columns.append(basis.fibre_back[:, row : row + basis.multiplicity[block.irrep] * block.dim])
        return np.concatenate(columns, axis=1)

    @staticmethod
    def occurrences(bases: Sequence[IsotypicBasis], copies: Sequence[int], irrep: int) -> int:
        """How often an irrep occurs in all copies of all kinds."""
        return sum(basis.multiplicity[irrep] * n for basis, n in zip(bases, copies, strict=True))

    def coefficients(self, psi: SparseBasis, out_kind: int, in_kind: int) -> FloatArray:
        """(coefficients, count): each filter of one pair of kinds, of shape (D_out, D_in, *size), in blocks.

        Rows are (k, b, j, μ): block, matrix of its algebra, occurrence in the output and in the patch. A filter takes
        occurrence μ of irrep k to occurrence j by Σ_b W_b B_b, of which one row says all, because the rows of one
        number in the B_b are orthonormal.
        """
        into, out = self.in_bases[in_kind], self.out_bases[out_kind]
        patch = len(into.coupling)  # D_in · taps
        row, column = np.divmod(psi.position, patch)
        place = psi.number * patch + column
        parts = [np.zeros((0, psi.count))]
        for block in self.blocks:
            start, mu = into.first_row(block.irrep), into.multiplicity[block.irrep]
            back = into.back[:, start : start + mu * block.dim].reshape(patch, mu, block.dim) @ block.algebra[:, 0].T
            part = np.empty((len(block.algebra), out.multiplicity[block.irrep], mu, psi.count))
            for j in range(part.shape[1]):
                factors = out.fibre[out.first_row(block.irrep) + j * block.dim, row] * psi.value
                filters = np.bincount(place, factors, psi.count * patch).reshape(psi.count, patch)
                part[:, j] = (filters @ back.reshape(patch, mu * len(part))).reshape(psi.count, mu, len(part)).T
            parts.append(part.reshape(-1, psi.count))
        return np.concatenate(parts)

    def placements(self, out_kind: int, in_kind: int) -> tuple[Placement, ...]:
        """The places of the rows of ``coefficients``."""
        into, out = self.in_bases[in_kind], self.out_bases[out_kind]
        found, first = [], 0
        for number, block in enumerate(self.blocks):
            j, mu = out.multiplicity[block.irrep], into.multiplicity[block.irrep]
            if j and mu:
                row = self.occurrences(self.out_bases[:out_kind], self.out_copies[:out_kind], block.irrep)
                column = self.occurrences(self.in_bases[:in_kind], self.in_copies[:in_kind], block.irrep)
                found.append(Placement(number, first, row, column, j, mu))
            first += len(block.algebra) * j * mu
        return tuple(found)


class IrrepBlockPlan:
    """The linear map from a layer's parameters to all blocks of one direction, and its transpose.

    Args:
        bank: how the layer's parameters make a filter bank.
        adjoint: take the filters Ψ(-y)ᵀ of the input gradient. Its blocks are kept transposed, (s, m, n), because then
            the copies of the layer's output and input come in the order of Θ.
    """

    def __init__(self, bank: BankPlan, *, adjoint: bool) -> None:
        self.adjoint, self.parameters = adjoint, bank.parameters
        in_kinds = [(c.representation, n) for c, n in bank.in_type.terms]
        out_kinds = [(c.representation, n) for c, n in bank.out_type.terms]
        if adjoint:
            in_kinds, out_kinds = ([(rho.dual(), n) for rho, n in kinds] for kinds in (out_kinds, in_kinds))
        self.direction = Direction(in_kinds, out_kinds, bank.space)
        self.pairs: list[PairMap] = []
        for number, pair in enumerate(bank.pairs):
            if pair.count == 0:  # the two kinds share no irrep
                continue
            b, a = divmod(number, bank.in_kinds)
            psi = sparse_kernel_basis(pair.in_capsule.representation, pair.out_capsule.representation, bank.space)
            if adjoint:
                psi, b, a = _turned(psi, bank.taps), a, b
            matrix = self.direction.coefficients(psi, b, a)
            self.pairs.append(
                PairMap(
                    pair.start, (pair.out_copies, pair.in_copies, pair.count), matrix, self.direction.placements(b, a)
                )
            )
        self._tensors: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        self._algebras: dict[tuple[int, torch.device, torch.dtype], Tensor] = {}

    def _matrices(self, like: Tensor) -> list[Tensor]:
        key = (like.device, like.dtype)
        if key not in self._tensors:
            self._tensors[key] = [torch.tensor(p.matrix, dtype=like.dtype, device=like.device) for p in self.pairs]
        return self._tensors[key]

    def _algebra(self, block: IrrepBlock, like: Tensor) -> Tensor:
        key = (block.irrep, like.device, like.dtype)
        if key not in self._algebras:
            self._algebras[key] = torch.tensor(block.algebra, dtype=like.dtype, device=like.device)
        return self._algebras[key]

    def expand(self, weight: Tensor) -> Tensor:
        """(parameters,) → (parameters,): all blocks, one after the other."""
        flat = torch.empty_like(weight)
        for pair, matrix in zip(self.pairs, self._matrices(weight), strict=True):
            theta = weight.narrow(0, pair.start, math.prod(pair.shape)).view(-1, pair.shape[2])
            values = matrix @ theta.T  # (coefficients, copies · copies')
            for place in pair.placements:
                target, rows = self._views(flat, pair, place)
                target.copy_(values.narrow(0, place.first, rows).view(target.shape))
        return flat

    def collect(self, blocks: Tensor) -> Tensor:
        """The transpose of ``expand``: gradients of blocks → gradients of parameters."""
        weight = torch.empty_like(blocks)
        for pair, matrix in zip(self.pairs, self._matrices(blocks), strict=True):
            values = blocks.new_zeros(len(matrix), pair.shape[0] * pair.shape[1])
            for place in pair.placements:
                source, rows = self._views(blocks, pair, place)
                values.narrow(0, place.first, rows).view(source.shape).copy_(source)
            theta = weight.narrow(0, pair.start, math.prod(pair.shape)).view(-1, pair.shape[2])
            theta.copy_(values.T @ matrix)
        return weight

    def _views(self, flat: Tensor, pair: PairMap, place: Placement) -> tuple[Tensor, int]:
        """One pair's part of one block as (s, j, μ, copies out, copies in) in Θ's order, and how many (s, j, μ)."""
        block = self.direction.blocks[place.block]
        s, j, mu = len(block.algebra), place.out_occurrences, place.in_occurrences
        whole = flat.narrow(0, block.start, block.size)
        copies, copies_in, _ = pair.shape
        if self.adjoint:
            part = whole.view(s, block.m, block.n)
            part = part[:, place.column : place.column + mu * copies, place.row : place.row + j * copies_in]
            return part.unflatten(2, (j, copies_in)).unflatten(1, (mu, copies)).permute(0, 3, 1, 2, 4), s * j * mu
        part = whole.view(s, block.n, block.m)
        part = part[:, place.row : place.row + j * copies, place.column : place.column + mu * copies_in]
        return part.unflatten(2, (mu, copies_in)).unflatten(1, (j, copies)).permute(0, 1, 3, 2, 4), s * j * mu

    def places(self, pair: PairMap) -> list[tuple[int, int]]:
        """For each row of a pair's matrix where it goes: (begin, step), to begin + a · step + c for copies (a, c)."""
        found = []
        copies, copies_in, _ = pair.shape
        for place in pair.placements:
            block = self.direction.blocks[place.block]
            occurrences = (len(block.algebra), place.out_occurrences, place.in_occurrences)
            for b, j, mu in np.ndindex(*occurrences):
                begin = block.start + b * block.n * block.m
                if self.adjoint:
                    begin += (place.column + mu * copies) * block.n + place.row + j * copies_in
                else:
                    begin += (place.row + j * copies) * block.m + place.column + mu * copies_in
                found.append((begin, block.n if self.adjoint else block.m))
        return found

    def matrix(self, blocks: Tensor, block: IrrepBlock) -> Tensor:
        """W_k of one block as the product applies it: (n, m), or (d·n, d·m) if irrep k is not of real type.

        Transposed, (m, n) or (d·m, d·n), for the adjoint direction.
        """
        rows, columns = (block.m, block.n) if self.adjoint else (block.n, block.m)
        whole = blocks.narrow(0, block.start, block.size).view(len(block.algebra), rows, columns)
        if len(block.algebra) == 1:
            return whole[0]
        algebra = self._algebra(block, blocks)
        algebra = algebra.transpose(1, 2) if self.adjoint else algebra
        wide = torch.einsum("bxy,bnm->xnym", algebra, whole)
        return wide.reshape(block.dim * rows, block.dim * columns)

    def from_matrix(self, gradient: Tensor, block: IrrepBlock) -> Tensor:
        """The transpose of ``matrix``: (s·n·m,)."""
        if len(block.algebra) == 1:
            return gradient.reshape(-1)
        algebra = self._algebra(block, gradient)
        rows, columns = (block.m, block.n) if self.adjoint else (block.n, block.m)
        algebra = algebra.transpose(1, 2) if self.adjoint else algebra
        wide = gradient.view(block.dim, rows, block.dim, columns)
        return torch.einsum("bxy,xnym->bnm", algebra, wide).reshape(-1)


def _turned(psi: SparseBasis, taps: int) -> SparseBasis:
    """The filters Ψ(-y)ᵀ: (D_out, D_in, *size) → (D_in, D_out, *size)."""
    out_dim, in_dim, *size = psi.shape
    row, column, tap = np.unravel_index(psi.position, (out_dim, in_dim, taps))
    position = np.ravel_multi_index((column, row, taps - 1 - tap), (in_dim, out_dim, taps))
    return replace(psi, shape=(in_dim, out_dim, *size), position=position)
