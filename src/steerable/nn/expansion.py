"""The map from parameters to filter banks: ψΘ for every pair of capsule kinds (the paper's section 2.8).

A plan is made once, from the types alone; it knows how many coefficients each pair of kinds has and where they lie in
the layer's one parameter vector. Expansion is one matrix product per pair of kinds, whatever the number of copies.
If products are small or, on a GPU, wait for each other, there are faster ways for the usual capsules: a lookup,
and :mod:`steerable.nn.triton.bank`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.algebra.capsules import Capsule
from steerable.algebra.intertwiners import hom_basis
from steerable.filters.free_kernels import free_kernels
from steerable.filters.kernel_bases import sparse_kernel_basis
from steerable.filters.space_arguments import Filters, as_filter_space
from steerable.nn.channels import take
from steerable.types.field_types import FieldType
from steerable.types.unfolding import unfolded

__all__ = ["BankPlan", "InvariantPlan", "PairFilters"]


@dataclass(frozen=True)
class PairFilters:
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
    orbits: int = 1  # parts of the basis that differ in nothing but their place in the bank; kept once
    order_start: int | None = None  # where the order of a bank's entries lies, if the basis has another one

    @property
    def coefficients(self) -> int:
        """The number of coefficients in one of the convolution's groups."""
        return self.out_copies * self.in_copies * self.count

    @property
    def entries(self) -> int:
        """The number of entries of one filter bank between two capsules, each with as many taps."""
        return self.out_capsule.dim * self.in_capsule.dim

    def psi(self, basis: Tensor, taps: int) -> Tensor:
        """The basis of one orbit as a matrix: (count / orbits, entries / orbits · taps)."""
        rows, columns = self.count // self.orbits, self.entries // self.orbits * taps
        return basis.narrow(0, self.basis_start, rows * columns).view(rows, columns)


class BankPlan:
    """The way in which the filter bank of a layer is put together from its parameters.

    Args:
        in_type, out_type: the types of the fields.
        filters: a filter space, or the size of a pixel patch.
        groups: into how many equal shares both types are divided.

    Attributes:
        space: the filter space.
        basis: the sampled filters of all pairs, one after the other, each (count, dim out, dim in, taps), or the table
            of :class:`~steerable.filters.free_kernels.FreeKernels` where there is one.
        order: the orders of such tables' entries, one after the other, and then, where capsules are counted by their
            irreps, the places of the bank's rows and columns.
    """

    order: NDArray[np.intp] = np.zeros(0, dtype=np.intp)

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
        shares = _share(out_type, groups, "out_type"), _share(in_type, groups, "in_type")
        out_parts, in_parts = (unfolded(share, self.taps) for share in shares)
        out_share, in_share = out_parts.terms, in_parts.terms
        self.pairs: list[PairFilters] = []
        bases: list[NDArray[np.float64]] = [np.zeros(0)]
        orders: list[NDArray[np.intp]] = [np.zeros(0, dtype=np.intp)]
        start = basis_start = order_start = 0
        for (out_capsule, out_copies), (in_capsule, in_copies) in itertools.product(out_share, in_share):
            kinds = out_capsule, in_capsule, out_copies, in_copies
            rho_in, rho_out = in_capsule.representation, out_capsule.representation
            free = free_kernels(rho_in, rho_out, self.space)
            if free is not None:
                pair = PairFilters(*kinds, free.count, free.energy, start, basis_start, free.orbits, order_start)
                bases.append(free.table.ravel())
                orders.append(free.order)
                order_start += free.order.size
            else:
                basis = sparse_kernel_basis(rho_in, rho_out, self.space)
                energy = round(float(basis.value @ basis.value), 9)  # of an orthonormal basis it is the count, exactly
                pair = PairFilters(*kinds, basis.count, energy, start, basis_start)
                bases.append(basis.dense().ravel())
            self.pairs.append(pair)
            start += groups * pair.coefficients
            basis_start += bases[-1].size
        self.in_kinds = len(in_share)
        self.parameters = start
        self.basis: NDArray[np.float64] = np.concatenate(bases)
        self.turns = tuple((k, p.order) for k, p in ((1, out_parts), (2, in_parts)) if p.order is not None)
        self.order = np.concatenate(orders + [order for _, order in self.turns])

    @cached_property
    def bank_shape(self) -> tuple[int, ...]:
        """(out channels, in channels / groups, *size)."""
        return (self.out_type.channels, self.in_type.channels // self.groups, *self.space.size)

    def theta(self, weight: Tensor, pair: PairFilters) -> Tensor:
        """Θ_ij as a view of the parameter vector: (groups · out_copies, in_copies, count)."""
        flat = weight.narrow(0, pair.start, self.groups * pair.coefficients)
        return flat.view(self.groups * pair.out_copies, pair.in_copies, pair.count)

    def expand(self, weight: Tensor, basis: Tensor, order: Tensor | None = None) -> Tensor:
        """The filter bank, of shape ``bank_shape``, group by group; ``basis`` and ``order`` are the plan's."""
        if order is None and self.order.size:
            order = torch.as_tensor(self.order, device=weight.device)
        rows = []
        for start in range(0, len(self.pairs), self.in_kinds):
            row = [self._superblock(weight, basis, order, pair) for pair in self.pairs[start : start + self.in_kinds]]
            rows.append(torch.cat(row, dim=2) if len(row) > 1 else row[0])
        bank = torch.cat(rows, dim=1) if len(rows) > 1 else rows[0]
        end = self.order.size
        for axis, places in reversed(self.turns):
            end -= places.size
            bank = take(bank, axis, cast(Tensor, order).narrow(0, end, places.size))
        return bank.reshape(self.bank_shape)

    def _superblock(self, weight: Tensor, basis: Tensor, order: Tensor | None, pair: PairFilters) -> Tensor:
        """H_ij of shape (groups, out_copies · dim out, in_copies · dim in, taps)."""
        out_dim, in_dim = pair.out_capsule.dim, pair.in_capsule.dim
        theta, copies = self.theta(weight, pair), (self.groups, pair.out_copies, pair.in_copies)
        if pair.order_start is None:
            filters = theta @ pair.psi(basis, self.taps)
        else:
            product = theta.unflatten(-1, (pair.orbits, -1)) @ pair.psi(basis, self.taps)
            entries = product.reshape(*copies, pair.entries, self.taps)
            filters = take(entries, 3, cast(Tensor, order).narrow(0, pair.order_start, pair.entries))
        filters = filters.view(*copies, out_dim, in_dim, self.taps).transpose(2, 3)
        return filters.reshape(self.groups, pair.out_copies * out_dim, pair.in_copies * in_dim, self.taps)

    @cached_property
    def one_parameter_per_weight(self) -> bool:
        """Whether each weight is one parameter times a factor, as it is if all capsules are signed."""
        capsules = [capsule for t in (self.in_type, self.out_type) for capsule, _ in t.terms]
        return self.space.has_one_coefficient_per_tap and all(
            capsule.representation.is_signed_permutation for capsule in capsules
        )

    @cached_property
    def takes_kernels(self) -> bool:
        """Whether this holds in the order of the bank's channels, so that kernels write it from small tables."""
        return self.one_parameter_per_weight and self.parameters > 0 and not self.turns

    def lookup(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(index, factor), flat, such that ``expand(θ)`` is θ[index] · factor; for one parameter per weight.

        Expanding ones gives the factors, expanding the parameters' numbers gives the numbers, times the factors.
        """
        basis = torch.tensor(self.basis, dtype=torch.float64, device="cpu")
        numbers = torch.arange(self.parameters, dtype=torch.float64, device="cpu")
        factor = self.expand(torch.ones_like(numbers), basis).flatten().numpy()
        scaled = self.expand(numbers, basis).flatten().numpy()
        return np.rint(scaled / np.where(factor == 0, 1, factor)).astype(np.int64), factor

    def project(self, bank: Tensor, basis: Tensor) -> Tensor:
        """The parameters of the equivariant bank nearest to ``bank``: the inverse of ``expand`` on its range."""
        return self._coefficients(bank, basis, nearest=not self.space.is_isometric)

    def adjoint(self, bank: Tensor, basis: Tensor) -> Tensor:
        """The gradient of the parameters from that of the bank: the transpose of ``expand``."""
        return self._coefficients(bank, basis, nearest=False)

    def _coefficients(self, bank: Tensor, basis: Tensor, *, nearest: bool) -> Tensor:
        """ψ applied to each pair's part of the bank; after that (ψψᵀ)⁻¹ for the nearest bank."""
        parts = []
        full = bank.reshape(self.groups, -1, self.in_type.channels // self.groups, self.taps)
        for axis, places in self.turns:
            full = full.index_select(axis, torch.as_tensor(np.argsort(places), device=bank.device))
        row = 0
        for start in range(0, len(self.pairs), self.in_kinds):
            column = 0
            for pair in self.pairs[start : start + self.in_kinds]:
                height, width = pair.out_copies * pair.out_capsule.dim, pair.in_copies * pair.in_capsule.dim
                part = full.narrow(1, row, height).narrow(2, column, width)
                dims = pair.out_copies, pair.out_capsule.dim, pair.in_copies, pair.in_capsule.dim
                piece = part.reshape(self.groups, *dims, self.taps)
                copies = self.groups * pair.out_copies, pair.in_copies
                entries = piece.transpose(2, 3).reshape(*copies, pair.entries, self.taps)
                if pair.order_start is not None:
                    back = np.argsort(self.order[pair.order_start : pair.order_start + pair.entries])
                    entries = take(entries, 2, torch.as_tensor(back, device=bank.device))
                psi = pair.psi(basis, self.taps)
                theta = entries.reshape(*copies, pair.orbits, -1) @ psi.T
                if nearest:
                    theta = torch.linalg.solve(psi @ psi.T, theta, left=False)
                parts.append(theta.reshape(-1))
                column += width
            row += height
        return torch.cat(parts)


class InvariantPlan:
    """The vectors of a type's fibre that no element moves: the directions of a bias.

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

    def project(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coefficients of the invariant vector nearest to one of the fibre: the inverse of ``expand``."""
        found, start = [np.zeros(0)], 0
        for copies, directions in self.kinds:
            count, dim = directions.shape
            if count:
                capsules = vector[start : start + copies * dim].reshape(copies, dim)
                found.append((capsules @ np.linalg.pinv(directions)).ravel())
            start += copies * dim
        return np.concatenate(found)


def _share(field_type: FieldType, groups: int, role: str) -> Sequence[tuple[Capsule, int]]:
    """Each kind with its number of copies in one of ``groups`` equal shares."""
    if groups < 1:
        raise ValueError(f"groups must be a whole number ≥ 1, got {groups}.")
    for capsule, copies in field_type.terms:
        if copies % groups:
            raise ValueError(
                f"groups={groups} divides a type into equal shares, but {role} `{field_type}` has {copies} copies of "
                f"`{capsule}`, which {groups} does not divide. Change the number of copies or of groups."
            )
    return [(capsule, copies // groups) for capsule, copies in field_type.terms]
