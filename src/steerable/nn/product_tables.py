"""The products of channels that a quadratic layer forms, and the way in which its parameters combine them.

Capsules are dealt into *hands*: hand t holds copy t of every kind, counted cyclically where a kind has fewer copies.
Within a hand every capsule is multiplied by itself and by those of the other kinds. A basis of Hom(ρ_i ⊗ ρ_j, ρ_out)
for each pair of kinds, and of Hom(Sym²ρ_i, ρ_out) for each kind, says which combinations of products are equivariant;
each hand has a parameter for each of them. The number of products is proportional to that of hands.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from steerable.algebra.arrays import FloatArray, IntArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.intertwiners import SparseBasis, hom_basis
from steerable.algebra.symmetric_squares import square_basis
from steerable.types.field_types import FieldType

__all__ = ["ProductTables"]


class ProductTables:
    """The tables of a layer y_o = Σ w_k Q_k(x_i ⊗ x_j), made from its types alone.

    Attributes:
        hands: the number of hands.
        count: the number of parameters of a hand.
        shape: (channels of a hand that come out, products in a hand).
        left, right: (hands · products,), the channels whose product each is.
        number, factor: (channels · products, most): the parameters of which each entry of a hand's matrix is made, and
            what they are multiplied with; filled up with factors 0.
        places: (out_type.channels, hands of the fullest copy): where in the hands' results the terms of a channel are.
        present: of the same shape, 1 where there is a term and 0 where there is none.
        deviation: (hands, count): the standard deviation of a parameter with which the output has variance 1.
    """

    def __init__(self, in_type: FieldType, out_type: FieldType) -> None:
        self.in_type, self.out_type = in_type, out_type
        self.hands = max(copies for _, copies in (*in_type.terms, *out_type.terms))
        pairs = [_PairOfKinds(in_type, i, j) for i, j in _pairs_of_kinds(in_type)]
        starts = np.cumsum([0, *(len(pair.left) for pair in pairs)])
        rows, columns, numbers, kinds = ([np.zeros(0, dtype=np.intp)] for _ in range(4))
        values = [np.zeros(0)]
        first_row = self.count = 0
        for o, (capsule, _) in enumerate(out_type.terms):
            for pair, start in zip(pairs, starts, strict=False):
                basis, scale = pair.basis(capsule)
                row, column = np.divmod(basis.position, len(pair.left))
                rows.append(first_row + row)
                columns.append(start + column)
                numbers.append(self.count + basis.number)
                values.append(basis.value * scale[column])
                kinds.append(np.full(basis.count, o, dtype=np.intp))
                self.count += basis.count
            first_row += capsule.dim
        self._kind_of_parameter = np.concatenate(kinds)
        used, column = np.unique(np.concatenate(columns), return_inverse=True)
        self.shape = (first_row, len(used))
        position = np.concatenate(rows) * len(used) + column
        self.number, self.factor = _lookup(
            position, np.concatenate(numbers), np.concatenate(values), math.prod(self.shape)
        )
        factors = np.concatenate([np.stack([pair.left, pair.right, pair.kinds], axis=1) for pair in pairs])[used]
        self.left = self._dealt(factors[:, 0], factors[:, 2] // len(in_type.terms))
        self.right = self._dealt(factors[:, 1], factors[:, 2] % len(in_type.terms))
        self.places, self.present = self._gathered()
        self.deviation = self._deviations()

    def makes(self, kind: int) -> bool:
        """Whether some product has a part in that kind of capsule of the output."""
        return bool((self._kind_of_parameter == kind).any())

    def _dealt(self, channel: IntArray, kind: IntArray) -> IntArray:
        """The channels of the input in each hand, for channels of a kind's first copy."""
        copies = np.array([n for _, n in self.in_type.terms])[kind]
        dims = np.array([capsule.dim for capsule, _ in self.in_type.terms])[kind]
        return np.concatenate([channel + t % copies * dims for t in range(self.hands)])

    def _gathered(self) -> tuple[IntArray, FloatArray]:
        """The hands' results that are added up in each channel of the output."""
        terms: list[list[int]] = []
        first = 0
        for capsule, copies in self.out_type.terms:
            for copy, channel in itertools.product(range(copies), range(capsule.dim)):
                terms.append([t * self.shape[0] + first + channel for t in range(copy, self.hands, copies)])
            first += capsule.dim
        most = max(map(len, terms))
        present = np.array([[1.0] * len(term) + [0.0] * (most - len(term)) for term in terms])
        return np.array([term + [term[0]] * (most - len(term)) for term in terms]), present

    def _deviations(self) -> FloatArray:
        copies = np.array([n for _, n in self.out_type.terms])[self._kind_of_parameter]
        own = np.bincount(self._kind_of_parameter, minlength=1)[self._kind_of_parameter]
        hand = np.arange(self.hands)[:, None]
        sharing = np.ceil((self.hands - hand % copies) / copies)  # hands that add to the same copy
        return np.asarray(1 / np.sqrt(own * sharing))


class _PairOfKinds:
    """The products of one kind of capsule with itself, or with another kind."""

    def __init__(self, in_type: FieldType, i: int, j: int) -> None:
        self._same = i == j
        (a, _), (b, _) = in_type.terms[i], in_type.terms[j]
        self._factors = a.representation, b.representation
        left, right = np.triu_indices(a.dim) if i == j else np.indices((a.dim, b.dim)).reshape(2, -1)
        starts = [channels.start for channels in in_type.term_slices]
        self.left, self.right = starts[i] + left, starts[j] + right
        self.kinds = np.full(len(left), i * len(in_type.terms) + j)

    def basis(self, target: Capsule) -> tuple[SparseBasis, FloatArray]:
        """The equivariant combinations of the products, and by what each product is multiplied.

        Each combination of independent normal channels then has variance 1, on average over the target's channels:
        that of x_a x_b is 1 and that of x_a² is 2.
        """
        unit = math.sqrt(target.dim)
        if not self._same:
            rho, sigma = self._factors
            return hom_basis(rho @ sigma, target.representation), np.full(len(self.left), unit)
        scale = np.where(self.left == self.right, math.sqrt(0.5), 1.0)
        return square_basis(self._factors[0], target.representation), unit * scale


def _pairs_of_kinds(field_type: FieldType) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(len(field_type.terms)), 2))


def _lookup(position: IntArray, number: IntArray, value: FloatArray, size: int) -> tuple[IntArray, FloatArray]:
    """(size, most) twice: the numbers and values at each position, filled up with values 0."""
    order = np.argsort(position, kind="stable")
    position, number, value = position[order], number[order], value[order]
    counts = np.bincount(position, minlength=size)
    rank = np.arange(len(position)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers, values = (np.zeros((size, max(1, counts.max(initial=0)))) for _ in range(2))
    numbers[position, rank], values[position, rank] = number, value
    return numbers.astype(np.intp), values
