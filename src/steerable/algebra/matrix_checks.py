"""Matrices and permutations given by users: completed from generators, and checked to be a representation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray, read_only, real_numbers
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.metrics import TOLERANCE, in_own_units, invariant_metric
from steerable.algebra.monomials import Monomial
from steerable.errors import shown

__all__ = ["check_homomorphism", "matrices_of", "permutations_of"]

# Larger errors in the metric in which a representation is orthogonal are not excused by rounding.
_LARGEST_ERROR = 1e-3


def matrices_of(group: FiniteGroup, matrices: ArrayLike | Mapping[str, ArrayLike]) -> FloatArray:
    """(order, d, d): the matrices of all elements, multiplied out if only those of a generating set are given."""
    if not isinstance(group, FiniteGroup):
        raise TypeError(
            "a Representation is made from the matrices of a finite group such as cyclic(8); got "
            f"{getattr(group, 'name', repr(group))}. Those of so2() and o2() are made from irreps: "
            "G.irrep('E1') + 2 * G.irrep('E2'), in any basis with change_basis."
        )
    if isinstance(matrices, Mapping):
        return _complete(
            group, {g: real_numbers(m, f"the matrix of `{g}` has real numbers") for g, m in matrices.items()}
        )
    dense = real_numbers(matrices, f"a representation of {group.name} has one matrix of real numbers per element")
    if dense.ndim != 3 or dense.shape[0] != group.order or dense.shape[1] != dense.shape[2]:
        raise ValueError(
            f"a representation of {group.name} is an array of shape ({group.order}, d, d), one square matrix per "
            f"element; got shape {dense.shape}."
        )
    return _finite(group, dense)


def _complete(group: FiniteGroup, given: dict[str, FloatArray]) -> FloatArray:
    shapes = {g: m.shape for g, m in given.items()}
    generators = group.indices(given)  # unknown names are refused here
    if not given or len(set(shapes.values())) != 1 or len(next(iter(shapes.values()))) != 2:
        raise ValueError(f"expected square matrices of one size, at least one; got the shapes {shapes}.")
    dim = next(iter(shapes.values()))[0]
    dense = np.full((group.order, dim, dim), np.nan)
    for g, m in given.items():
        if m.shape != (dim, dim):
            raise ValueError(f"expected square matrices of one size; `{g}` has shape {m.shape}.")
        dense[group.index(g)] = m
    known = {group.identity_index, *generators}
    if group.identity not in given:
        dense[group.identity_index] = np.eye(dim)
    for element, parent, step in group.words(generators):
        if element not in known:
            dense[element] = dense[parent] @ dense[generators[step]]
            known.add(element)
    if len(known) < group.order:
        missing = next(g for g in group.elements if group.index(g) not in known)
        raise ValueError(
            f"the matrices given for {', '.join(given)} do not determine `{missing}` of {group.name}: these elements "
            "generate a smaller group. Give a matrix for it too."
        )
    return _finite(group, dense)


def _finite(group: FiniteGroup, dense: FloatArray) -> FloatArray:
    bad = ~np.isfinite(dense).all(axis=(1, 2))
    if bad.any():
        raise ValueError(f"the matrix of `{group.elements[int(np.argmax(bad))]}` has entries that are not finite.")
    return read_only(dense)


def check_homomorphism(group: FiniteGroup, dense: FloatArray) -> None:
    """Raise ValueError unless ρ(g)ρ(h) = ρ(gh) for all g and h.

    Errors are judged in the metric in which a representation is orthogonal, so that no part can hide another's.
    """
    identity = in_own_units(dense)[group.identity_index]
    if np.abs(identity - np.eye(len(identity))).max(initial=0) > TOLERANCE:
        raise ValueError(
            f"the matrix of the identity `{group.identity}` of {group.name} is not the identity matrix; a "
            "representation maps one to the other."
        )
    metric = invariant_metric(dense)
    if metric is None:
        _raise_too_inexact(group)
    rho = metric.orthogonal
    for s in group.indices(group.generators):
        error = np.abs(rho @ rho[s] - rho[group.table[:, s]]).max(axis=(1, 2), initial=0)
        if error.max() > min(metric.tolerance, _LARGEST_ERROR):
            if error.max() <= metric.tolerance:
                _raise_too_inexact(group)
            g = int(np.argmax(error > metric.tolerance))
            difference = dense[g] @ dense[s] - dense[group.table[g, s]]
            _raise_not_a_homomorphism(group, g, int(s), float(np.abs(difference).max()))


def permutations_of(group: FiniteGroup, images: ArrayLike | Mapping[str, Sequence[int]]) -> Monomial:
    """The permutation action that sends point j to ``images[g][j]``, checked to be one."""
    group = finite_group(group)
    if isinstance(images, Mapping):
        missing = [g for g in group.elements if g not in images]
        if missing:
            raise ValueError(f"no permutation was given for `{missing[0]}` of {group.name}; give one per element.")
        images = [images[g] for g in group.elements]
    given = real_numbers(images, f"a permutation action of {group.name} has one list of points per element")
    image = np.rint(given).astype(np.intp)
    if not np.array_equal(image, given):
        raise ValueError(f"points are numbered from 0 on, by whole numbers; got {shown(images)}.")
    if image.ndim != 2 or image.shape[0] != group.order:
        raise ValueError(
            f"a permutation action of {group.name} is an array of shape ({group.order}, points); got {image.shape}."
        )
    points = np.arange(image.shape[1])
    for g, row in zip(group.elements, image, strict=True):
        if not np.array_equal(np.sort(row), points):
            raise ValueError(f"the images of `{g}` are not a permutation of 0 … {len(points) - 1}: {row.tolist()}.")
    if not np.array_equal(image[group.identity_index], points):
        raise ValueError(f"the identity `{group.identity}` of {group.name} moves points; it must leave all in place.")
    for s in group.indices(group.generators):
        wrong = (image[:, image[s]] != image[group.table[:, s]]).any(axis=1)
        if wrong.any():
            _raise_not_a_homomorphism(group, int(np.argmax(wrong)), int(s), 1.0)
    return Monomial(image, np.ones(image.shape))


def _raise_too_inexact(group: FiniteGroup) -> NoReturn:
    raise ValueError(
        f"these matrices cannot be distinguished from ones that are not a representation of {group.name}: rounding "
        "errors are too large to tell. Give them in a basis whose vectors are further from parallel."
    )


def _raise_not_a_homomorphism(group: FiniteGroup, g: int, s: int, error: float) -> NoReturn:
    a, b, ab = group.elements[g], group.elements[s], group.elements[group.table[g, s]]
    raise ValueError(
        f"not a representation of {group.name}: ρ(`{a}`) ρ(`{b}`) differs from ρ(`{ab}`) by {error:.2g}, but "
        f"`{a}`·`{b}` = `{ab}` (the right factor acts first). Check these matrices, or give those of a generating set "
        "only."
    )
