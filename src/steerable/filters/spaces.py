"""Filter spaces: a representation of H on the coefficients of a filter, and the taps that the coefficients become.

A filter is a vector c of coefficients. An element h turns it by ρ_V(h), and the sampling matrix S makes taps of it.
Where the pixel grid carries h, S has to commute with it: a turned filter, sampled, is the sampled filter, turned.
Everything else about a convolution (bases, parameters, costs, initialisation) follows from ρ_V and S.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray, IntArray, read_only, real_numbers
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.representations import Representation, direct_sum
from steerable.errors import expect
from steerable.filters.harmonics import HarmonicFilter
from steerable.filters.pixel_grids import (
    grid_size,
    grid_spacing,
    is_carried,
    is_even,
    movers,
    size_text,
    tap_images,
)

__all__ = ["FilterSpace"]


_TOLERANCE = 1e-9  # of S ρ_V(h) = P(h) S, relative to the entries of S and ρ_V
_NEARLY_DEPENDENT = 1e9  # the condition number of an S whose columns cannot be told apart


@final
class FilterSpace:
    """The filters that a convolution may have: coefficients that H turns, and the taps that they become. Immutable.

    Args:
        representation: ρ_V, how each element of the group turns the coefficients of a filter.
        size: the extents of the grid that the taps fill, one number or one per axis.
        sampling: S, of shape (taps, dim V): the taps that each coefficient adds, counted row by row from the top left.
            By default the coefficients are the taps themselves.
        spacing: how far apart the taps are along each axis, if not equally far; the grid then carries fewer elements.
        name: its name in text.

    Attributes:
        representation: ρ_V.
        size: the extents, such as (3, 3).
        spacing: how far apart the taps are along each axis, such as (1.0, 1.0); the smallest distance is 1.
        taps: the number of taps.

    The cross of five taps, which D4 permutes:

    >>> import numpy as np
    >>> from steerable import dihedral, pixel_patch
    >>> patch = pixel_patch(dihedral(4), 3)
    >>> cross = [1, 3, 4, 5, 7]
    >>> moved = [[cross.index(image[tap]) for tap in cross] for image in patch.monomial.image]
    >>> rho = type(patch).from_permutations(dihedral(4), moved)
    >>> FilterSpace(rho, 3, np.eye(9)[:, cross], name="cross")
    <FilterSpace cross of D4: 5 coefficients, 3×3 taps>
    """

    _harmonics: tuple[HarmonicFilter, ...] = ()

    def __init__(
        self,
        representation: Representation,
        size: int | Sequence[int],
        sampling: ArrayLike | None = None,
        *,
        spacing: float | Sequence[float] | None = None,
        name: str | None = None,
    ) -> None:
        expect(representation, Representation, "a Representation that says how the coefficients of a filter turn")
        self.representation = representation
        self.size = grid_size(representation.group, size)
        self.spacing = grid_spacing(self.size, spacing)
        self.taps: int = math.prod(self.size)
        self.name = name
        if representation.dim == 0:
            raise ValueError("a filter space has at least one coefficient; its representation has dimension 0.")
        self._sampling = self._checked(sampling)  # None if it is the identity, which may be too large to write out
        self._check_commutes()

    @classmethod
    def of_harmonics(
        cls,
        group: Group,
        size: int | Sequence[int],
        filters: Sequence[HarmonicFilter],
        *,
        spacing: float | Sequence[float] | None = None,
        name: str | None = None,
    ) -> FilterSpace:
        """The span of filters that turn with an angular frequency, or a degree, each."""
        representation = direct_sum([f.harmonic.turned_by(group) for f in filters], group=group)
        taps = np.concatenate([f.taps for f in filters], axis=1) if filters else np.zeros((0, 0))
        space = cls(representation, size, taps, spacing=spacing, name=name)
        space._harmonics = tuple(filters)
        return space

    @property
    def harmonics(self) -> tuple[HarmonicFilter, ...]:
        """The filters, if they are grouped by the frequency or degree with which they turn; otherwise empty."""
        return self._harmonics

    @cached_property
    def frequencies(self) -> IntArray | None:
        """(dim V,): the angular frequency, or in space the degree, of each filter; None for pixels, which have none."""
        if not self._harmonics:
            return None
        return np.concatenate([np.full(f.taps.shape[1], f.frequency, dtype=np.intp) for f in self._harmonics])

    @cached_property
    def leaks(self) -> FloatArray | None:
        """(dim V,): the share of each filter's response to band-limited images that does not turn as it should.

        It is 0 for pixels that the group moves exactly, and None for spaces whose leaks were not given.
        """
        if self._harmonics:
            return read_only(np.concatenate([np.full(f.taps.shape[1], f.leak) for f in self._harmonics]))
        return read_only(np.zeros(self.dim)) if self.exact else None

    @property
    def group(self) -> Group:
        """The group H that turns the filters."""
        return self.representation.group

    @property
    def dim(self) -> int:
        """The number of coefficients of one filter."""
        return self.representation.dim

    @property
    def sampling(self) -> FloatArray:
        """S, (taps, dim V)."""
        return np.eye(self.taps) if self._sampling is None else self._sampling

    @cached_property
    def carried(self) -> tuple[Element, ...]:
        """The elements that map the grid onto itself; sampling commutes with them exactly.

        Of SO(2) and O(2) they are the turns by multiples of 90°, and the reflections that go with them; of SO(3) and
        O(3) the motions of the cube, or of what is left of it where voxels are not cubes.
        """
        image = tap_images(self.group, self.size, self.spacing)
        return tuple(g for g, row in zip(movers(self.group), image, strict=True) if row[0] >= 0)

    @cached_property
    def exact(self) -> bool:
        """Whether the grid carries the whole group."""
        return is_carried(self.group, self.size, self.spacing)

    @cached_property
    def turns_constants(self) -> bool:
        """Whether filters respond to constant images as they should: Σ_t S ρ_V(h) = Σ_t S for every element h.

        It holds where the grid carries the group. Otherwise filters of frequencies above 0 have to sum to 0.
        """
        if self.exact:
            return True
        sums = self.sampling.sum(axis=0)
        turned = sums @ self.representation.at(self.group.generators)
        return bool(np.abs(turned - sums).max() < _TOLERANCE * np.abs(self.sampling).sum(axis=0).max())

    @property
    def is_pixel_patch(self) -> bool:
        """Whether the coefficients are the taps themselves, and move as the pixels do."""
        return self._sampling is None and self.exact

    @cached_property
    def is_isometric(self) -> bool:
        """Whether sampling keeps lengths and angles: SᵀS = 1."""
        s = self._sampling
        return s is None or bool(np.abs(s.T @ s - np.eye(self.dim)).max() < 1e-12)

    @cached_property
    def has_one_coefficient_per_tap(self) -> bool:
        """Whether each tap is one coefficient times a factor, also after any turn."""
        one = self._sampling is None or bool((np.count_nonzero(self._sampling, axis=1) <= 1).all())
        return one and self.representation.is_signed_permutation

    def sample(self, coefficients: FloatArray) -> FloatArray:
        """The filters (…, *size) of coefficients (…, dim V)."""
        taps = coefficients if self._sampling is None else coefficients @ self._sampling.T
        return np.asarray(taps.reshape(*coefficients.shape[:-1], *self.size))

    def _checked(self, sampling: ArrayLike | None) -> FloatArray | None:
        matrix = None if sampling is None else _as_array(sampling)
        shape = (self.taps, self.taps) if matrix is None else matrix.shape
        if shape != (self.taps, self.dim):
            given = "no sampling, so its coefficients are its taps" if matrix is None else f"{shape}"
            raise ValueError(
                f"the sampling matrix of a filter space has the shape (taps, coefficients): ({self.taps}, {self.dim}) "
                f"for {size_text(self.size)} taps and a representation of dimension {self.dim}; got {given}."
            )
        if matrix is None or (self.dim == self.taps and np.array_equal(matrix, np.eye(self.taps))):
            return None
        if np.linalg.cond(matrix) > _NEARLY_DEPENDENT:
            raise ValueError(
                "the columns of the sampling matrix are linearly dependent, or nearly so: different coefficients would "
                "give the same taps. Leave out the filters that the grid cannot tell apart."
            )
        return matrix

    def _check_commutes(self) -> None:
        """S ρ_V(h) = P(h) S for each element h that the grid carries; P(h) moves the taps."""
        image = tap_images(self.group, self.size, self.spacing)
        rho, elements = self.representation, movers(self.group)
        permutes = self._sampling is None and rho.is_permutation and isinstance(self.group, FiniteGroup)
        if permutes and rho.monomial is not None:
            errors, scale = ((rho.monomial.image != image) & (image >= 0)).any(axis=1).astype(np.float64), 1.0
        else:
            s, matrices = self.sampling, rho.at(elements)
            errors = np.zeros(len(image))
            for g in np.flatnonzero(image[:, 0] >= 0):
                errors[g] = np.abs((s @ matrices[g])[image[g]] - s).max()
            scale = float(np.abs(s).max() * np.abs(matrices).max())
        worst = int(np.argmax(errors))
        if errors[worst] > _TOLERANCE * scale:
            h = elements[worst]
            raise ValueError(
                f"the sampling matrix does not commute with `{h}` of {self.group.name}: S ρ_V(`{h}`) differs from "
                f"P(`{h}`) S by {errors[worst]:.2g}, where P moves the {size_text(self.size)} taps as `{h}` moves "
                "pixels. A turned filter, sampled, has to be the sampled filter, turned; change the representation or "
                "the sampling matrix."
            )

    # ---------------------------------------------------------------- value semantics

    @cached_property
    def digest(self) -> bytes:
        """A fingerprint of representation, size and sampling, without the name; it is the key of every cache."""
        content = hashlib.blake2b(self.representation.digest, digest_size=16)
        content.update(repr(self.size).encode())
        content.update(b"" if is_even(self.spacing) else repr(self.spacing).encode())
        content.update(repr([f.harmonic for f in self._harmonics]).encode() if self._harmonics else b"")
        if self._sampling is not None:
            largest = np.abs(self._sampling).max()
            content.update(f"{largest:.12e}".encode() + (np.round(self._sampling / largest, 12) + 0.0).tobytes())
        return content.digest()

    def __eq__(self, other: object) -> bool:
        """Whether representations, sizes and sampling matrices are equal; names do not count."""
        return isinstance(other, FilterSpace) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        return self.name or f"{self.dim} filter{'s' if self.dim > 1 else ''} of {size_text(self.size)} taps"

    def __repr__(self) -> str:
        coefficients = "1 coefficient" if self.dim == 1 else f"{self.dim} coefficients"
        return f"<FilterSpace {self} of {self.group.name}: {coefficients}, {size_text(self.size)} taps>"


def _as_array(sampling: ArrayLike) -> FloatArray:
    matrix = real_numbers(sampling, "a sampling matrix is an array of numbers, (taps, coefficients)")
    if matrix.ndim != 2:
        raise ValueError(f"a sampling matrix has two axes, (taps, coefficients); got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ValueError("the sampling matrix has entries that are not finite.")
    matrix.setflags(write=False)
    return matrix
