"""From parameters to filter banks: ψΘ for every pair of capsule kinds (the paper's section 2.8).

A plan is made once, from the types alone; it knows how many coefficients each pair of kinds has and where they lie in
the layer's one parameter vector. Expansion is one matrix product per pair of kinds, whatever the number of copies.
Where products are small or, on a GPU, wait for each other, there are quicker ways for the usual capsules: a lookup,
and :mod:`steerable.nn.triton.bank`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.algebra.capsules import Capsule
from steerable.algebra.intertwiners import hom_basis
from steerable.filters.kernel_bases import sparse_kernel_basis
from steerable.filters.space_arguments import Filters, as_filter_space
from steerable.nn.channels import take
from steerable.types.field_types import FieldType

__all__ = ["BankPlan", "InvariantPlan", "PairBlock"]


@dataclass(frozen=True)
class PairBlock:
    """The superblock H_ij: all filters from one kind of capsule to another.

    Its coefficients Θ_ij have the shape (groups · out_copies, in_copies, count), copies counted within one of the
    convolution's groups, and lie at ``start`` in the parameter vector.
    """

    out_capsule: Capsule
    in_capsule: Capsule
    out_copies: int
    in_copies: int
    count: int
    energy: float  # Σ ‖ψ_k‖² of its filters, as sampled
    start: int
    basis_start: int

    @property
    def coefficients(self) -> int:
        """The number of coefficients in one of the convolution's groups."""
        return self.out_copies * self.in_copies * self.count


class BankPlan:
    """How the filter bank of a layer is put together from its parameters.

    Args:
        in_type, out_type: the types of the fields.
        filters: a filter space, or the size of a pixel patch.
        groups: into how many equal shares both types are divided.

    Attributes:
        space: the filter space.
        basis: the sampled filters of all pairs, one after the other, each (count, dim out, dim in, taps).
    """

    def __init__(self, in_type: FieldType, out_type: FieldType, filters: Filters, groups: int = 1) -> None:
        if in_type.group != out_type.group:
            raise TypeError(
                f"a layer maps between fields of one group; got in_type `{in_type}` of {in_type.group.name} and "
                f"out_type `{out_type}` of {out_type.group.name}. Put snn.Restrict in between."
            )
        self.in_type, self.out_type, self.groups = in_type, out_type, groups
        self.space = as_filter_space(in_type.group, filters)
        self.taps = self.space.taps
        self.weights = out_type.channels * (in_type.channels // groups) * self.taps
        out_share, in_share = _share(out_type, groups, "out_type"), _share(in_type, groups, "in_type")
        self.blocks: list[PairBlock] = []
        bases: list[NDArray[np.float64]] = []
        start = basis_start = 0
        for (out_capsule, out_copies), (in_capsule, in_copies) in itertools.product(out_share, in_share):
            basis = sparse_kernel_basis(in_capsule.representation, out_capsule.representation, self.space)
            energy = round(float(basis.value @ basis.value), 9)  # of an orthonormal basis it is the count, exactly
            self.blocks.append(
                PairBlock(out_capsule, in_capsule, out_copies, in_copies, basis.count, energy, start, basis_start)
            )
            bases.append(basis.dense().ravel())
            start += groups * self.blocks[-1].coefficients
            basis_start += bases[-1].size
        self.in_kinds = len(in_share)
        self.parameters = start
        self.basis: NDArray[np.float64] = np.concatenate(bases) if bases else np.zeros(0)

    @cached_property
    def bank_shape(self) -> tuple[int, ...]:
        """(out channels, in channels / groups, *size)."""
        return (self.out_type.channels, self.in_type.channels // self.groups, *self.space.size)

    def theta(self, weight: Tensor, block: PairBlock) -> Tensor:
        """Θ_ij as a view of the parameter vector: (groups · out_copies, in_copies, count)."""
        flat = weight.narrow(0, block.start, self.groups * block.coefficients)
        return flat.view(self.groups * block.out_copies, block.in_copies, block.count)

    def expand(self, weight: Tensor, basis: Tensor) -> Tensor:
        """The filter bank, of shape ``bank_shape``, group by group."""
        rows = []
        for start in range(0, len(self.blocks), self.in_kinds):
            row = [self._superblock(weight, basis, block) for block in self.blocks[start : start + self.in_kinds]]
            rows.append(torch.cat(row, dim=2) if len(row) > 1 else row[0])
        bank = torch.cat(rows, dim=1) if len(rows) > 1 else rows[0]
        return bank.reshape(self.bank_shape)

    def _superblock(self, weight: Tensor, basis: Tensor, block: PairBlock) -> Tensor:
        """H_ij of shape (groups, out_copies · dim out, in_copies · dim in, taps)."""
        out_dim, in_dim = block.out_capsule.dim, block.in_capsule.dim
        size = out_dim * in_dim * self.taps
        psi = basis.narrow(0, block.basis_start, block.count * size).view(block.count, size)
        filters = self.theta(weight, block) @ psi  # (groups · out_copies, in_copies, out_dim · in_dim · taps)
        filters = filters.view(self.groups, block.out_copies, block.in_copies, out_dim, in_dim, self.taps).transpose(
            2, 3
        )
        return filters.reshape(self.groups, block.out_copies * out_dim, block.in_copies * in_dim, self.taps)

    @cached_property
    def one_parameter_per_weight(self) -> bool:
        """Whether each weight of the bank is one parameter times a factor, as it is where all capsules are signed."""
        capsules = [capsule for t in (self.in_type, self.out_type) for capsule, _ in t.terms]
        return self.space.has_one_coefficient_per_tap and all(
            capsule.representation.is_signed_permutation for capsule in capsules
        )

    def lookup(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(index, factor), flat, such that ``expand(θ)`` is θ[index] · factor; one parameter per weight.

        Expanding ones gives the factors, expanding the parameters' numbers gives the numbers, times the factors.
        """
        basis = torch.tensor(self.basis, dtype=torch.float64, device="cpu")
        numbers = torch.arange(self.parameters, dtype=torch.float64, device="cpu")
        factor = self.expand(torch.ones_like(numbers), basis).flatten().numpy()
        scaled = self.expand(numbers, basis).flatten().numpy()
        return np.rint(scaled / np.where(factor == 0, 1, factor)).astype(np.int64), factor

    def project(self, bank: Tensor, basis: Tensor) -> Tensor:
        """The parameters of the equivariant bank nearest to ``bank``: the inverse of ``expand`` on its range."""
        parts = []
        full = bank.reshape(self.groups, -1, self.in_type.channels // self.groups, self.taps)
        row = 0
        for start in range(0, len(self.blocks), self.in_kinds):
            column = 0
            for block in self.blocks[start : start + self.in_kinds]:
                height, width = block.out_copies * block.out_capsule.dim, block.in_copies * block.in_capsule.dim
                piece = full[:, row : row + height, column : column + width].reshape(
                    self.groups, block.out_copies, block.out_capsule.dim, block.in_copies, block.in_capsule.dim, -1
                )
                flat = piece.transpose(2, 3).reshape(self.groups * block.out_copies, block.in_copies, -1)
                psi = basis.narrow(0, block.basis_start, block.count * flat.shape[-1]).view(block.count, flat.shape[-1])
                theta = flat @ psi.T
                if not self.space.is_isometric:  # the sampled filters are not orthonormal
                    theta = torch.linalg.solve(psi @ psi.T, theta, left=False)
                parts.append(theta.reshape(-1))
                column += width
            row += height
        return torch.cat(parts)


class InvariantPlan:
    """Vectors of a type's fibre that no element moves: where a bias may point.

    Each capsule contributes ``dim Hom(trivial, ρ)`` coefficients. Their directions are scaled to a mean square of 1
    over the channels that they touch: a permutation capsule's bias is added to each of its channels as it is.
    """

    def __init__(self, field_type: FieldType) -> None:
        trivial = field_type.group.trivial
        self.kinds: list[tuple[int, NDArray[np.float64]]] = []
        for capsule, copies in field_type.terms:
            directions = hom_basis(trivial, capsule.representation).dense()[:, :, 0]
            support = np.count_nonzero(directions, axis=1, keepdims=True)
            self.kinds.append((copies, directions * np.sqrt(support)))
        self.parameters = sum(copies * len(directions) for copies, directions in self.kinds)
        self.most = max((len(directions) for _, directions in self.kinds), default=0)

    def lookup(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(index, factor), each (channels, ``most``): which coefficients make a channel; filled up with factors 0."""
        index, factor, first = [np.zeros((0, self.most))], [np.zeros((0, self.most))], 0
        for copies, directions in self.kinds:
            count, dim = directions.shape
            missing = ((0, 0), (0, self.most - count))
            numbers = first + np.arange(copies * count).reshape(copies, 1, count)
            index.append(np.pad(np.broadcast_to(numbers, (copies, dim, count)).reshape(copies * dim, count), missing))
            factor.append(np.pad(np.tile(directions.T, (copies, 1)), missing))
            first += copies * count
        return np.concatenate(index).astype(np.int64), np.concatenate(factor)

    def expand(self, coefficients: Tensor, index: Tensor, factor: Tensor) -> Tensor:
        """(channels,): the invariant vector with these coefficients; ``index`` and ``factor`` are the lookup's."""
        if self.most == 1:
            return take(coefficients, 0, index.flatten()) * factor.flatten()
        return (take(coefficients, 0, index.flatten()).view_as(factor) * factor).sum(1)


def _share(field_type: FieldType, groups: int, role: str) -> Sequence[tuple[Capsule, int]]:
    """Each kind with its number of copies in one of ``groups`` equal shares."""
    if groups < 1:
        raise ValueError(f"groups is a whole number ≥ 1, got {groups}.")
    for capsule, copies in field_type.terms:
        if copies % groups:
            raise ValueError(
                f"groups={groups} divides a type into equal shares, but {role} `{field_type}` has {copies} copies of "
                f"`{capsule}`, which {groups} does not divide. Change the number of copies or of groups."
            )
    return [(capsule, copies // groups) for capsule, copies in field_type.terms]
