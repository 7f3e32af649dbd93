"""Representations of SO(2), O(2), SO(3) and O(3) in closed form: a sum of irreps in some basis, B (⊕ φᵢ(g)) B⁻¹.

Sums, products and changes of basis have this form again, and everything else follows from the irreps and B:
matrices at any element, characters, types and intertwiners. Nothing is sampled.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NoReturn

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray, read_only
from steerable.algebra.compact_characters import CompactCharacter
from steerable.algebra.compact_groups import AnyWave, CompactGroup
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.metrics import TOLERANCE, is_orthogonal
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation
from steerable.errors import shown

__all__ = ["CompactRepresentation"]


class CompactRepresentation(Representation):
    """A representation of a compact group such as SO(2); made from irreps by ``+``, ``*``, ``@``, ``change_basis``.

    Args:
        group: SO(2), O(2), SO(3) or O(3).
        waves: the irreps of which it is the sum.
        basis: B, whose columns are the basis vectors of the irreps, in order; by default the identity. It is
            replaced by an orthogonal matrix where ρ is orthogonal.
        name: its name in text.

    >>> from steerable import o2, so3
    >>> G = o2()
    >>> (G.irrep("E1") @ G.irrep("E2")).type  # of A1, A2, E1, E2, E3
    (0, 0, 1, 0, 1)
    >>> (so3().irrep("L1") @ so3().irrep("L2")).type  # of L0, L1, L2, L3
    (0, 1, 1, 1)
    """

    group: CompactGroup

    def __init__(
        self, group: CompactGroup, waves: Sequence[AnyWave], basis: FloatArray | None = None, *, name: str | None = None
    ) -> None:
        self.group, self.name, self.waves = group, name, tuple(waves)
        at_generators = np.stack([self._in_irreps(g) for g in group.generators])
        # None stands for the identity, with which large sums of irreps are not multiplied.
        self._basis = None if basis is None else read_only(_straightened(basis, at_generators))
        # The matrices of generators determine all others, and so which kind of matrices these are.
        super(Representation, self).__init__(self._in_own_basis(at_generators))

    @classmethod
    def _of(
        cls,
        group: Group,
        *,
        dense: FloatArray | None = None,
        monomial: Monomial | None = None,
        name: str | None = None,
    ) -> CompactRepresentation:
        """A representation with these monomial matrices at the generators: 1, and an involution at a reflection."""
        if monomial is None or not isinstance(group, CompactGroup):
            raise RuntimeError("only monomial matrices determine a representation of a compact group by themselves")
        unit = np.eye(monomial.image.shape[1])
        waves, columns = [], [np.zeros((len(unit), 0))]
        for j, (image, scale) in enumerate(zip(monomial.image[-1], monomial.scale[-1], strict=True)):
            if image == j:
                waves.append(group.wave_numbered(int(scale < 0)))
                columns.append(unit[:, [j]])
            elif image > j:  # a reflection exchanges e_j and s e_i: their sum is even, their difference odd
                waves += [group.wave_numbered(0), group.wave_numbered(1)]
                columns.append(unit[:, [j]] + unit[:, [image]] * (scale, -scale))
        return CompactRepresentation(group, waves, np.concatenate(columns, axis=1), name=name)

    # ---------------------------------------------------------------- matrices

    def __call__(self, element: Element) -> FloatArray:
        self.group.check_element(element)
        if self.monomial is not None:  # the identity at rotations, and one involution at all reflections
            return self.known_matrices[-1].copy() if element.mirrored else np.eye(self.dim)
        return self._in_own_basis(self._in_irreps(element))

    def at(self, elements: Sequence[Element]) -> FloatArray:
        return np.array([self(g) for g in elements]).reshape(len(elements), self.dim, self.dim)

    @property
    def matrices(self) -> FloatArray:
        """Not available, because there are infinitely many; evaluate ρ at elements instead."""
        raise TypeError(
            f"{self.group.name} has infinitely many elements, so the matrices of {self} cannot be listed. "
            "Evaluate it at elements, as in rho(G.random(1)[0]), or restrict it: "
            f"rho.restrict({self.group.finite_example})."
        )

    @property
    def basis(self) -> FloatArray:
        """B, whose columns are the basis vectors of the irreps."""
        return np.eye(sum(wave.dim for wave in self.waves)) if self._basis is None else self._basis

    @cached_property
    def inverse_basis(self) -> FloatArray:
        """B⁻¹."""
        b = self.basis
        return np.asarray(b.T if is_orthogonal(b[None]) else np.linalg.inv(b), dtype=np.float64)

    @property
    def is_sum_of_irreps(self) -> bool:
        """Whether its matrices are those of the irreps side by side, in no other basis."""
        return self._basis is None or np.array_equal(self._basis, np.eye(self.dim))

    def _in_own_basis(self, in_irreps: FloatArray) -> FloatArray:
        return in_irreps if self._basis is None else self._basis @ in_irreps @ self.inverse_basis

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The columns of B that belong to each irrep."""
        ends = itertools.accumulate((wave.dim for wave in self.waves), initial=0)
        return tuple(slice(low, high) for low, high in itertools.pairwise(ends))

    def _in_irreps(self, element: Element) -> FloatArray:
        """The block-diagonal matrix ⊕ φᵢ(g)."""
        matrix = np.zeros((sum(wave.dim for wave in self.waves),) * 2)
        for wave, place in zip(self.waves, self.slices, strict=True):
            matrix[place, place] = wave.at(element)
        return matrix

    @cached_property
    def character(self) -> CompactCharacter:  # type: ignore[override]
        """χ(g) = Tr ρ(g), as a combination of the characters of irreps."""
        counts = Counter(wave.number(self.group) for wave in self.waves)
        return CompactCharacter(self.group, tuple(counts[k] for k in range(max(counts, default=0) + 1)))

    # ---------------------------------------------------------------- algebra

    def _joined(self, parts: Sequence[Representation]) -> CompactRepresentation:
        known = [part for part in parts if isinstance(part, CompactRepresentation)]
        waves = [wave for part in known for wave in part.waves]
        if all(part._basis is None for part in known):
            return CompactRepresentation(self.group, waves)
        size = sum(part.dim for part in known)
        basis, low = np.zeros((size, size)), 0
        for part in known:
            high = low + part.dim
            basis[low:high, low:high], low = part.basis, high
        return CompactRepresentation(self.group, waves, basis)

    def _tensor(self, other: Representation) -> CompactRepresentation:
        if not isinstance(other, CompactRepresentation):
            raise RuntimeError("representations of compact groups are in closed form")
        waves: list[AnyWave] = []
        start = 0
        columns = np.zeros((self.dim * other.dim,) * 2)
        places = np.arange(len(columns)).reshape(self.dim, other.dim)
        for a, i in zip(self.waves, self.slices, strict=True):
            for b, j in zip(other.waves, other.slices, strict=True):
                parts, coefficients = self.group.clebsch_gordan(a, b)
                columns[places[i, j].ravel(), start : start + len(coefficients)] = coefficients
                waves.extend(parts)
                start += len(coefficients)
        if self._basis is not None or other._basis is not None:
            columns = np.kron(self.basis, other.basis) @ columns
        return CompactRepresentation(self.group, waves, columns)

    def _in_basis(self, basis: FloatArray) -> CompactRepresentation:
        return CompactRepresentation(
            self.group, self.waves, np.asarray(np.linalg.solve(basis, self.basis), dtype=float)
        )

    def dual(self) -> CompactRepresentation:
        return self if self._basis is None else CompactRepresentation(self.group, self.waves, self.inverse_basis.T)

    def renamed(self, name: str | None) -> CompactRepresentation:
        return CompactRepresentation(self.group, self.waves, self._basis, name=name)

    # ---------------------------------------------------------------- subgroups and parts

    def _restricted(self, subgroup: Iterable[str] | Group) -> Representation:
        if subgroup == self.group:
            return self
        if not isinstance(subgroup, Group):
            raise TypeError(
                f"expected a subgroup of {self.group.name}, such as {self.group.finite_example}, got "
                f"{type(subgroup).__name__} {shown(subgroup)}. {self.group.name} has no list of elements to choose "
                "from."
            )
        if isinstance(subgroup, CompactGroup):
            return self._to_compact(subgroup)
        if not isinstance(subgroup, FiniteGroup):
            raise RuntimeError("a group is finite or compact")
        if self._motions(subgroup) is not None and not subgroup.acts_faithfully:
            self._refuse(subgroup, f"several of its elements move {self._space} alike")
        return self.along(subgroup)

    def _to_compact(self, subgroup: CompactGroup) -> CompactRepresentation:
        seen = [self.group.seen_by(subgroup, wave) for wave in self.waves]
        if not self.group.has_subgroup(subgroup):
            self._refuse(subgroup, f"{subgroup.name} is larger than {self.group.name}")
        basis, unchanged = self.basis.copy(), self._basis is None
        for place, (_, change) in zip(self.slices, seen, strict=True):
            if change is not None:
                basis[:, place], unchanged = self.basis[:, place] @ change, False
        waves = [part for parts, _ in seen for part in parts]
        smaller = CompactRepresentation(subgroup, waves, None if unchanged else basis)
        # A monomial result is written in its simplest form.
        return smaller if smaller.monomial is None else self._of(subgroup, monomial=smaller.monomial)

    def along(self, group: FiniteGroup) -> Representation:
        """g ↦ ρ(motion of g), for a finite group, in which several elements may move the plane or space alike."""
        motions = self._motions(group)
        if motions is None:
            does_act = group.axes == self.group.axes  # in ways that a group about one axis does not have
            acts = f"moves {self._space} otherwise" if does_act else f"does not act on {self._space}"
            self._refuse(group, f"it {acts}")
        if not self.group.reflections and (np.linalg.det(motions) < 0).any():
            self._refuse(group, "it has reflections")
        return Representation._of(group, dense=self.at([self.group.element(matrix) for matrix in motions]))

    def _motions(self, group: FiniteGroup) -> FloatArray | None:
        """(order, axes, axes): the elements' motions of this group's plane or space; None if they have none."""
        return None if group.action is None else self.group.embedded(group.action)

    @property
    def _space(self) -> str:
        return "the plane" if self.group.axes == 2 else "space"

    def _refuse(self, subgroup: Group, reason: str) -> NoReturn:
        raise ValueError(
            f"cannot restrict a representation of {self.group.name} to {subgroup.name}: {reason}. Use "
            f"{self.group.subgroups_in_words} or another group that moves {self._space} as a subgroup does."
        )

    def mixing(self) -> FloatArray:
        within = np.zeros((self.dim, self.dim))
        for place in self.slices:
            within[place, place] = 1
        return np.asarray(np.abs(self.basis) @ within @ np.abs(self.inverse_basis))

    def on_channels(self, channels: IntArray) -> CompactRepresentation:
        own = np.abs(self.basis[channels]) > TOLERANCE
        inside = [(w, s) for w, s in zip(self.waves, self.slices, strict=True) if own[:, s].any()]
        columns = np.concatenate([np.arange(s.start, s.stop) for _, s in inside])
        return CompactRepresentation(self.group, [w for w, _ in inside], self.basis[np.ix_(channels, columns)])


def _straightened(basis: FloatArray, in_irreps: FloatArray) -> FloatArray:
    """B, or an orthogonal matrix that gives the same representation, if B(⊕φᵢ)B⁻¹ is orthogonal."""
    if is_orthogonal(basis[None]):
        return np.array(basis, dtype=np.float64)
    gram = basis.T @ basis
    if np.abs(gram @ in_irreps - in_irreps @ gram).max(initial=0) > TOLERANCE * np.abs(gram).max(initial=0):
        return np.array(basis, dtype=np.float64)
    # B = UP with P² = BᵀB, which commutes with the irreps, so that U(⊕φᵢ)U⁻¹ is the same.
    left, _, right = np.linalg.svd(basis)
    return np.asarray(left @ right, dtype=np.float64)
