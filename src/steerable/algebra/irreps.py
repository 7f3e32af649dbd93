"""The real irreducible representations of any finite group, and the decomposition of any representation into them.

C_n, D_n, O and O_h have closed forms with fixed names. For every other group one generic symmetric element of the
right group algebra is diagonalised: it commutes with left multiplication, so each of its eigenspaces is one irrep.
Where an irrep is induced by a sign character of a subgroup it is written as exact signed permutation matrices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steerable.algebra.characters import inner_product, whole_number
from steerable.algebra.families import cyclic, planar_matrix
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.homomorphisms import homomorphisms
from steerable.algebra.intertwiners import hom_basis, metric_of
from steerable.algebra.recognition import RotationStructure, is_octahedral, rotation_structure
from steerable.algebra.representations import Representation, induce
from steerable.errors import did_you_mean, expect

__all__ = ["Irrep", "decompose", "irrep_by_name", "real_irreps"]

FloatArray = NDArray[np.float64]

_SCHUR_TYPES = {1: "real", 2: "complex", 4: "quaternionic"}


@final
class Irrep(Representation):
    """A real irreducible representation φ in orthogonal matrices.

    ``commutant_dim`` is s = ⟨χ, χ⟩ = dim Hom(φ, φ): 1, 2 or 4; ``schur_type`` says the same in words, real, complex or
    quaternionic.
    """

    def __init__(self, group: FiniteGroup, matrices: ArrayLike, *, name: str) -> None:
        super().__init__(group, matrices, name=name)
        self.commutant_dim = whole_number(inner_product(self.character, self.character))
        # ⟨χ, χ⟩ = 2 also for a sum of two irreps; the mean of χ(g²) tells them apart.
        indicator = whole_number(float(self.character[group.table.diagonal()].mean()))
        if (self.commutant_dim, indicator) not in ((1, 1), (2, 0), (4, -2)):
            raise ArithmeticError(
                f"{name} of {group.name} is not irreducible: ⟨χ, χ⟩ = {self.commutant_dim} and the mean of χ(g²) is "
                f"{indicator}."
            )
        self.schur_type = _SCHUR_TYPES[self.commutant_dim]


def real_irreps(group: FiniteGroup) -> tuple[Irrep, ...]:
    """All real irreps, the trivial one first, then by dimension (for O_h: even ones, then odd ones)."""
    return _real_irreps(group, group.name)


@lru_cache(maxsize=512)
def _real_irreps(group: FiniteGroup, name: str) -> tuple[Irrep, ...]:
    """Remembered by content, and by name too: equal groups may be called differently, and messages say which one."""
    structure = rotation_structure(group)
    if structure is not None:
        named = _dihedral_irreps(structure) if structure.has_mirrors else _cyclic_irreps(structure)
    elif is_octahedral(group):
        named = _octahedral_irreps(group)
    else:
        named = _computed_irreps(group)
    irreps = tuple(Irrep(group, matrices, name=name) for name, matrices in named)
    if sum(irrep.dim**2 // irrep.commutant_dim for irrep in irreps) != group.order:
        raise ArithmeticError(f"the irreps of {group.name} are incomplete: Σ d²/s is not {group.order}.")
    return irreps


def irrep_by_name(group: FiniteGroup, name: str) -> Irrep:
    """The irrep of that name; ``trivial``, ``A`` and ``A1`` name the trivial one in every group."""
    irreps = {str(irrep): irrep for irrep in real_irreps(group)}
    if name in irreps:
        return irreps[name]
    if name in trivial_aliases(group):
        return real_irreps(group)[0]
    raise ValueError(f"{group.name} has no irrep `{name}`. {did_you_mean(str(name), irreps)}")


def trivial_aliases(group: FiniteGroup) -> tuple[str, ...]:
    """Names under which the trivial irrep is also found, where no other irrep bears them."""
    taken = {str(irrep) for irrep in real_irreps(group)}
    return tuple(alias for alias in ("trivial", "A", "A1") if alias not in taken)


def decompose(rho: Representation) -> tuple[tuple[int, ...], FloatArray]:
    """(type, A) with A⁻¹ρ(g)A block-diagonal for all g: the irreps in order, copies in the same matrices.

    A is orthogonal whenever ρ is.

    >>> from steerable import dihedral, pixel_patch
    >>> kind, basis = decompose(pixel_patch(dihedral(4), 3))
    >>> kind, basis.shape
    ((3, 0, 1, 1, 2), (9, 9))
    """
    expect(rho, Representation, "a Representation to decompose, such as G.regular")
    kind, basis = rho.type, np.eye(rho.dim)
    if not rho.is_orthogonal:
        basis = metric_of(rho.matrices).inverse  # C ρ C⁻¹ is orthogonal, and is change_basis(C⁻¹) of ρ
        rho = rho.change_basis(basis)
    columns = [np.zeros((rho.dim, 0))]
    for irrep, copies in zip(rho.group.irreps, kind, strict=True):
        if copies:
            columns.extend(_copies(hom_basis(irrep, rho).dense(), copies))
    return kind, basis @ np.concatenate(columns, axis=1)


def _copies(maps: FloatArray, copies: int) -> list[FloatArray]:
    """``copies`` isometric intertwiners φ → ρ with orthogonal images, from a basis of Hom(φ, ρ).

    Tᵀ T is symmetric and commutes with φ, hence a multiple of 1 (also for complex and quaternionic φ), so that each T
    is an isometry up to scale, and T - C Cᵀ T is again an intertwiner, orthogonal to the copy C.
    """
    dim = maps.shape[2]
    chosen: list[FloatArray] = []
    while len(chosen) < copies:
        norms = np.linalg.norm(maps, axis=(1, 2))
        best = int(np.argmax(np.round(norms, 9)))
        copy = maps[best] * (math.sqrt(dim) / norms[best])
        chosen.append(copy)
        for _ in range(2):
            maps = maps - copy @ (copy.T @ maps)
    return chosen


# -------------------------------------------------------------------- closed forms


def _cyclic_irreps(structure: RotationStructure) -> list[tuple[str, FloatArray]]:
    n, power = structure.n, structure.power
    named: list[tuple[str, FloatArray]] = [("A", np.ones((len(power), 1, 1)))]
    if n % 2 == 0:
        named.append(("B", np.asarray((-1.0) ** power[:, None, None], dtype=np.float64)))
    return named + _planar_irreps(structure)


def _dihedral_irreps(structure: RotationStructure) -> list[tuple[str, FloatArray]]:
    turn, flip = (-1.0) ** structure.power[:, None, None], (-1.0) ** structure.mirrored[:, None, None]
    named = [("A1", np.ones_like(turn)), ("A2", flip)]
    if structure.n % 2 == 0:
        named += [("B1", turn), ("B2", turn * flip)]
    return named + _planar_irreps(structure)


def _planar_irreps(structure: RotationStructure) -> list[tuple[str, FloatArray]]:
    """The two-dimensional irreps E_k: r turns by k·360°/n, and m is diag(-1, 1)."""
    count = (structure.n - 1) // 2
    pairs = list(zip(structure.power, structure.mirrored, strict=True))
    return [
        (
            "E" if count == 1 else f"E{k}",
            np.stack([planar_matrix(k * int(p), structure.n, mirrored=bool(m)) for p, m in pairs]),
        )
        for k in range(1, count + 1)
    ]


def _octahedral_irreps(group: FiniteGroup) -> list[tuple[str, FloatArray]]:
    """A1, A2, E, T1 (the vectors), T2 of O; for O_h each twice, even (g) and odd (u) under the inversion."""
    if group.action is None:
        raise RuntimeError("is_octahedral looked at the action")
    parity = np.round(np.linalg.det(group.action))[:, None, None]
    proper = group.action * parity
    axes = np.abs(proper)  # how the three axes are permuted
    sign = np.round(np.linalg.det(axes))[:, None, None]
    # 2z²-x²-y² and x²-y², normalised: the part of the axis permutation that is orthogonal to x²+y²+z².
    quadratic = np.array([[-1, 1 * math.sqrt(3)], [-1, -math.sqrt(3)], [2, 0]]) / math.sqrt(6)
    even = [
        ("A1", np.ones_like(sign)),
        ("A2", sign),
        ("E", quadratic.T @ axes @ quadratic),
        ("T1", proper),
        ("T2", proper * sign),
    ]
    if group.order == 24:
        return even
    return [(f"{name}{suffix}", m * p) for suffix, p in (("g", 1.0), ("u", parity)) for name, m in even]


# -------------------------------------------------------------------- any other group


def _computed_irreps(group: FiniteGroup) -> list[tuple[str, FloatArray]]:
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
    """One invariant subspace of functions on G, (order, d), for each real irrep; None when two were not separated."""
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
    separated = all(min(abs(s - t) for t in _SCHUR_TYPES) < 1e-5 for s in norms)
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
    """Mulliken's letters by dimension (A, E, T, G, H, I …), numbered where a dimension occurs more than once."""
    letters = dict(enumerate("AETGHIJKLMN", start=1))
    names = []
    for k, dim in enumerate(dims):
        letter = letters.get(dim, f"V{dim}_")
        number = dims[:k].count(dim) + 1
        names.append(f"{letter}{number}" if dims.count(dim) > 1 or dim not in letters else letter)
    return names
