"""The real irreducible representations of a finite group.

C_n, D_n, T, T_d, O, O_h, I and I_h have closed forms with fixed names; those of every other group are computed.
"""

from __future__ import annotations

from functools import lru_cache

from numpy.typing import ArrayLike

from steerable.algebra.characters import inner_product, whole_number
from steerable.algebra.closed_form_irreps import closed_form_irreps
from steerable.algebra.computed_irreps import computed_irreps
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.representations import Representation
from steerable.errors import did_you_mean, expect

__all__ = ["Irrep", "irrep_by_name", "real_irreps", "trivial_aliases"]

_SCHUR_TYPES = {1: "real", 2: "complex", 4: "quaternionic"}


class Irrep(Representation):
    """A real irreducible representation φ in orthogonal matrices.

    ``commutant_dim`` is s = ⟨χ, χ⟩ = dim Hom(φ, φ): 1, 2 or 4; ``schur_type`` says the same in words, real, complex or
    quaternionic.
    """

    commutant_dim: int

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

    @property
    def schur_type(self) -> str:
        return _SCHUR_TYPES[self.commutant_dim]


def real_irreps(group: FiniteGroup) -> tuple[Irrep, ...]:
    """All real irreps, the trivial one first, then by dimension (for O_h and I_h: even ones, then odd ones)."""
    return _real_irreps(group, group.name)


@lru_cache(maxsize=512)
def _real_irreps(group: FiniteGroup, name: str) -> tuple[Irrep, ...]:
    """Cached by content and by name: equal groups may have different names, and messages use them."""
    named = closed_form_irreps(group) or computed_irreps(group)
    irreps = tuple(Irrep(group, matrices, name=name) for name, matrices in named)
    if sum(irrep.dim**2 // irrep.commutant_dim for irrep in irreps) != group.order:
        raise ArithmeticError(f"the irreps of {group.name} are incomplete: Σ d²/s is not {group.order}.")
    return irreps


def irrep_by_name(group: FiniteGroup, name: str) -> Irrep:
    """The irrep of that name; ``trivial``, ``A`` and ``A1`` name the trivial one in every group."""
    expect(name, str, "the name of an irrep, such as 'E'")
    irreps = {str(irrep): irrep for irrep in real_irreps(group)}
    if name in irreps:
        return irreps[name]
    if name in trivial_aliases(group):
        return real_irreps(group)[0]
    raise ValueError(f"{group.name} has no irrep `{name}`. {did_you_mean(str(name), irreps)}")


def trivial_aliases(group: FiniteGroup) -> tuple[str, ...]:
    """Names under which the trivial irrep is also found, unless another irrep has them."""
    taken = {str(irrep) for irrep in real_irreps(group)}
    return tuple(alias for alias in ("trivial", "A", "A1") if alias not in taken)
