"""The real irreps of any finite group, computed from its multiplication table.

One generic symmetric element of the right group algebra is diagonalised: it commutes with left multiplication, so each
of its eigenspaces is one irrep. If an irrep is induced by a sign character of a subgroup, it is written as exact
signed permutation matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.algebra.characters import inner_product
from steerable.algebra.families import cyclic
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.homomorphisms import homomorphisms
from steerable.algebra.induction import induce
from steerable.algebra.representations import Representation

__all__ = ["computed_irreps"]

_COMMUTANT_DIMS = (1, 2, 4)
"""⟨χ, χ⟩ of a real irrep: real, complex or quaternionic."""


def computed_irreps(group: FiniteGroup) -> list[tuple[str, FloatArray]]:
    """(name, matrices) of every irrep, smallest first, the trivial one before all others."""
    for seed in range(10):
        spaces = _eigenspaces(group, seed)
        if spaces is not None:
            break
    else:
        raise ArithmeticError(f"the irreps of {group.name} could not be separated numerically.")
    found = [(_character(group, v), v) for v in spaces]
    found.sort(key=lambda pair: (pair[1].shape[1], *(-c for c in np.round(pair[0], 6))))
    exact = _signed_permutation_irreps(group, [character for character, v in found if v.shape[1] > 1])
    matrices = []
    for character, v in found:
        match = next((m for m in exact if np.abs(m.character - character).max() < 1e-6), None)
        matrices.append(_matrices_on(group, v) if match is None else match.matrices)
    return list(zip(_names([m.shape[1] for m in matrices]), matrices, strict=True))


def _eigenspaces(group: FiniteGroup, seed: int) -> list[FloatArray] | None:
    """One invariant subspace of functions on G, (order, d), for each real irrep; None if two were not separated."""
    coefficients = np.random.default_rng(seed).standard_normal(group.order)
    coefficients += coefficients[group.inverses]
    generic = coefficients[group.table[group.inverses]]  # [a, b] -> c(a⁻¹b), symmetric since c(g) = c(g⁻¹)
    values, vectors = np.linalg.eigh(generic)
    gaps = np.diff(values) / np.abs(values).max()
    if ((gaps > 1e-10) & (gaps < 1e-6)).any():
        return None  # eigenspaces this close would be known to few digits; another draw keeps them apart
    borders = np.flatnonzero(gaps > 1e-7) + 1
    spaces: list[FloatArray] = []
    characters: list[FloatArray] = []
    for v in np.split(vectors, borders, axis=1):
        character = _character(group, v)
        if not any(np.abs(character - other).max() < 1e-5 for other in characters):
            characters.append(character)
            spaces.append(v)
    norms = [inner_product(c, c) for c in characters]
    separated = all(min(abs(s - t) for t in _COMMUTANT_DIMS) < 1e-5 for s in norms)
    total = sum(v.shape[1] ** 2 / s for v, s in zip(spaces, norms, strict=True))
    return spaces if separated and abs(total - group.order) < 1e-3 else None


def _character(group: FiniteGroup, v: FloatArray) -> FloatArray:
    """χ(g) of left translation on the columns of v, whose projector depends on a⁻¹b alone."""
    projector = v @ v[group.identity_index]  # p(a⁻¹b) at a = e
    conjugates = group.table[group.table[group.inverses], np.arange(group.order)[:, None]]  # [k, g] -> k⁻¹ g k
    return np.asarray(projector[group.inverses[conjugates]].sum(axis=0))


def _matrices_on(group: FiniteGroup, v: FloatArray) -> FloatArray:
    """φ(g) = Vᵀ L(g) V in a basis that does not depend on how LAPACK chose V."""
    dim = v.shape[1]
    rotation = np.zeros((dim, dim))
    residual = v.copy()
    for k in range(dim):  # Gram–Schmidt on the projections of group elements
        pivot = int(np.argmax(np.round(np.linalg.norm(residual, axis=1), 6)))
        rotation[k] = residual[pivot] / np.linalg.norm(residual[pivot])
        residual = residual - np.outer(residual @ rotation[k], rotation[k])
    v = v @ rotation.T
    return np.stack([v.T @ v[group.table[group.inverses[g]]] for g in range(group.order)])


def _signed_permutation_irreps(group: FiniteGroup, characters: Sequence[FloatArray]) -> list[Representation]:
    """For each character that some sign character of a subgroup induces: that exact induced representation."""
    found: list[Representation] = []
    dims = {round(float(c[group.identity_index])) for c in characters}
    if not dims or (classes := group.few_subgroups(limit=400)) is None:
        return found
    for elements in classes:
        index = group.order // len(elements)
        if index not in dims:
            continue
        subgroup = group.subgroup(elements)
        for sign in homomorphisms(subgroup, cyclic(2)):
            induced = induce(cyclic(2).irrep("B").pullback(sign), group)
            new = not any(np.abs(induced.character - f.character).max() < 1e-6 for f in found)
            if new and any(np.abs(induced.character - c).max() < 1e-6 for c in characters):
                found.append(induced)
    return found


def _names(dims: Sequence[int]) -> list[str]:
    """Mulliken's letters by dimension (A, E, T, G, H, I …), numbered if a dimension occurs more than once."""
    letters = dict(enumerate("AETGHIJKLMN", start=1))
    names = []
    for k, dim in enumerate(dims):
        letter = letters.get(dim, f"V{dim}_")
        number = dims[:k].count(dim) + 1
        names.append(f"{letter}{number}" if dims.count(dim) > 1 or dim not in letters else letter)
    return names
