"""Characters: inner products, multiplicities (types), intertwining numbers and the character table.

All representations here are real, and so are their characters: ⟨χ, ψ⟩ = (1/|G|) Σ_g χ(g) ψ(g), an integral over the
group where it is not finite. A character is an array with one value per element, or a `CompactCharacter`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_characters import CompactCharacter
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.representations import Representation
from steerable.errors import expect

__all__ = [
    "Character",
    "CharacterTable",
    "character_table",
    "inner_product",
    "intertwining_number",
    "multiplicities",
    "product",
]


Character = ArrayLike | CompactCharacter


def product(chi: Character, psi: Character) -> FloatArray | CompactCharacter:
    """χψ, the character of the tensor product."""
    if isinstance(chi, CompactCharacter) and isinstance(psi, CompactCharacter):
        return chi * psi
    return np.asarray(chi, dtype=np.float64) * np.asarray(psi, dtype=np.float64)


def inner_product(chi: Character, psi: Character) -> float:
    """⟨χ, ψ⟩ of two characters: the mean of their product over the group."""
    return float(product(chi, psi).mean())


def multiplicities(group: Group, character: Character) -> tuple[int, ...]:
    """How often each real irrep occurs in a representation with this character: m_i = ⟨χ, χ_i⟩ / ⟨χ_i, χ_i⟩.

    For SO(2), O(2), SO(3) and O(3) they are counted up to the last irrep that occurs.
    """
    if isinstance(character, CompactCharacter):
        if character.group != group:
            raise TypeError(f"this is a character of {character.group.name}, not of {group.name}.")
        exact = character.multiplicities
    else:
        chi = np.asarray(character, dtype=np.float64)
        if chi.shape != (group.order,):
            raise ValueError(
                f"a character of {group.name} has {group.order} values, one per element; got shape {chi.shape}."
            )
        exact = tuple(inner_product(chi, irrep.character) / irrep.commutant_dim for irrep in group.irreps)
    rounded = [round(m) for m in exact]
    off = max(abs(m - n) for m, n in zip(exact, rounded, strict=True))
    if off > 1e-6 or min(rounded) < 0:
        raise ValueError(
            f"these values are not the character of a real representation of {group.name}: the multiplicities would be "
            f"{[round(m, 4) for m in exact]}, not whole numbers ≥ 0."
        )
    return tuple(rounded)


def intertwining_number(pi: Representation, rho: Representation) -> int:
    """dim Hom_G(π, ρ) = ⟨χ_π, χ_ρ⟩.

    >>> from steerable import dihedral
    >>> G = dihedral(4)
    >>> intertwining_number(G.regular, G.irrep("E"))
    2
    """
    for given in (pi, rho):
        expect(given, Representation, "two Representations, such as G.regular and G.irrep('E')")
    if pi.group != rho.group:
        raise TypeError(
            f"an intertwiner maps between representations of one group; got {pi.group.name} and {rho.group.name}. "
            "Restrict both to a common subgroup first."
        )
    return whole_number(inner_product(pi.character, rho.character))


def whole_number(value: float) -> int:
    """The integer that an inner product of characters must be; an error if it is not one."""
    nearest = round(value)
    if abs(value - nearest) > 1e-6 * max(1.0, abs(value)):
        raise ArithmeticError(f"an inner product of characters is a whole number, but came out as {value}.")
    return nearest


@dataclass(frozen=True)
class CharacterTable:
    """The characters of the real irreps on the conjugacy classes.

    ``values[i, k]`` is irrep i's character on class k; ``str(table)`` prints it.
    """

    group: FiniteGroup
    irreps: tuple[str, ...]
    classes: tuple[tuple[str, ...], ...]
    values: FloatArray = field(compare=False)  # those of these irreps on these classes

    def __str__(self) -> str:
        heads = [f"{len(c)}·[{c[0]}]" if len(c) > 1 else f"[{c[0]}]" for c in self.classes]
        cells = [[f"{v:g}" if v == round(v) else f"{v:.3f}" for v in row] for row in self.values]
        rows = [[self.group.name, *heads], *([name, *row] for name, row in zip(self.irreps, cells, strict=True))]
        widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)


def character_table(group: Group) -> CharacterTable:
    """The character table of the real irreps of a finite group.

    >>> from steerable import cyclic
    >>> print(character_table(cyclic(4)))
    C4  [e]  [r]  [r2]  [r3]
     A    1    1     1     1
     B    1   -1     1    -1
     E    2    0    -2     0
    """
    group = finite_group(group)
    classes = group.conjugacy_classes()
    first = group.indices(c[0] for c in classes)
    values = np.stack([irrep.character[first] for irrep in group.irreps])
    values = np.where(np.abs(values - np.round(values)) < 1e-9, np.round(values), values) + 0.0
    return CharacterTable(group, tuple(str(irrep) for irrep in group.irreps), classes, values)
