"""Capsules: a representation in a fixed basis, with a name and the nonlinearities that its matrices admit.

The catalogue of a group holds its irreps and its quotients by name. For subgroups of D_n a quotient by K is called
after K's generators, as in appendix C: ``qmr`` for {e, mr}, ``r2`` for the rotations by r2, ``r2m`` for both; K = {e}
gives ``regular`` and K = G the trivial irrep. For other groups, where conjugate subgroups give the same capsule up to
the order of its channels, there is one per class: ``q6a`` is the quotient by the first class of subgroups of order 6.
SO(2), O(2), SO(3) and O(3) have functions up to a frequency or degree in place of quotients: ``regular(3)`` holds those
on the group, and ``sphere(3)`` those on the sphere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, final, get_args

import numpy as np

from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.induction import quotient
from steerable.algebra.irreps import real_irreps, trivial_aliases
from steerable.algebra.monomials import Monomial
from steerable.algebra.recognition import RotationStructure, rotation_structure
from steerable.algebra.representations import Representation
from steerable.errors import did_you_mean, listing

__all__ = ["Capsule", "Nonlinearity", "capsule_by_name", "catalogue", "quotient_name"]

Nonlinearity = Literal["pointwise", "odd", "concatenated", "scale-free concatenated", "norm"]

_NAME = re.compile(r"[A-Za-z_]\w*(\(\d+\))?(\[[^][]+\])*|act\(.+\)")


@final
class Capsule:
    """A feature vector that transforms by ρ, in the basis in which ρ's matrices are given.

    Args:
        representation: how it transforms.
        name: how it is written in a field type; by default the representation's own name.

    >>> from steerable import dihedral
    >>> E = dihedral(4).capsule("E")
    >>> E.kind, E.nonlinearities
    ('signed permutation', ('odd', 'concatenated', 'scale-free concatenated', 'norm'))
    """

    def __init__(self, representation: Representation, name: str | None = None) -> None:
        if not isinstance(representation, Representation):
            raise TypeError(f"a capsule is made from a Representation, got {type(representation).__name__}.")
        name = name if name is not None else representation.name
        if name is None or not _NAME.fullmatch(name):
            raise ValueError(
                "a capsule needs a name made of letters, digits and _ that does not start with a digit, since it is "
                f"written in field types; got {name!r}. Pass name=..."
            )
        if representation.dim == 0:
            raise ValueError(f"capsule `{name}` has no channels; a capsule has at least one.")
        self.representation = representation
        self.name = name

    @property
    def group(self) -> Group:
        return self.representation.group

    @property
    def dim(self) -> int:
        return self.representation.dim

    @property
    def type(self) -> tuple[int, ...]:
        """How often each irrep of the group occurs."""
        return self.representation.type

    @property
    def kind(self) -> str:
        """The narrowest of permutation, signed permutation, monomial, orthogonal and general that its matrices are."""
        return self.representation.kind

    def admits(self, nonlinearity: Nonlinearity) -> bool:
        """Whether this kind of nonlinearity commutes with the capsule's matrices.

        - ``"pointwise"``: any ν on each channel; needs permutation matrices.
        - ``"odd"``: ν(-a) = -ν(a) on each channel; needs signed permutations.
        - ``"concatenated"``: a ↦ (ν(a), ν(-a)) for any ν; needs signed permutations.
        - ``"scale-free concatenated"``: the same with ν(ca) = cν(a) for c > 0, like CReLU; needs monomial matrices.
        - ``"norm"``: any function of the capsule's length; needs orthogonal matrices.
        """
        rho = self.representation
        if nonlinearity == "pointwise":
            return rho.is_permutation
        if nonlinearity in ("odd", "concatenated"):
            return rho.is_signed_permutation
        if nonlinearity == "scale-free concatenated":
            return rho.is_monomial
        if nonlinearity == "norm":
            return rho.is_orthogonal
        raise ValueError(
            f"unknown kind of nonlinearity {nonlinearity!r}. {did_you_mean(str(nonlinearity), get_args(Nonlinearity))}"
        )

    @property
    def nonlinearities(self) -> tuple[Nonlinearity, ...]:
        """All kinds of nonlinearity that are admissible."""
        return tuple(kind for kind in get_args(Nonlinearity) if self.admits(kind))

    def after_concatenation(self) -> tuple[Capsule, ...]:
        """Act_ν ρ: the capsules that a ↦ (ν(a), ν(-a)) makes of this one; 2·dim channels, ν(a) of all channels first.

        A sign in ρ(g) swaps ν(a) and ν(-a), so the result is a permutation (for monomial ρ: positive monomial, and ν
        must be scale-free). A permutation capsule gives two of itself.

        >>> from steerable import dihedral
        >>> [str(c) for name in ("A1", "A2", "E") for c in dihedral(4).capsule(name).after_concatenation()]
        ['A1', 'A1', 'r', 'qmr2']
        """
        monomial = self.representation.monomial
        if monomial is None:
            raise TypeError(
                f"a concatenated nonlinearity is not admissible for capsule `{self}` of {self.group.name}: its "
                f"matrices are {_described(self.kind)}. It admits: {listing(self.nonlinearities) or 'none'}."
            )
        if (monomial.scale > 0).all():
            return (self, self)
        swap = self.dim * (monomial.scale < 0)
        image = np.concatenate([monomial.image + swap, monomial.image + (self.dim - swap)], axis=1)
        scale = np.abs(np.concatenate([monomial.scale, monomial.scale], axis=1))
        result = self.representation._of(self.group, monomial=Monomial(image, scale))
        return (_known_capsule(result) or Capsule(result, f"act({self.name})"),)

    def __eq__(self, other: object) -> bool:
        """Whether two capsules have equal matrices of the same group; names do not count."""
        return isinstance(other, Capsule) and self.representation == other.representation

    def __hash__(self) -> int:
        return hash(self.representation)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<capsule {self.name} of {self.group.name}: dim {self.dim}, {self.kind}>"


def _described(kind: str) -> str:
    return {"orthogonal": "orthogonal but not monomial", "general": "not monomial"}.get(kind, f"{kind}s")


def catalogue(group: Group) -> Mapping[str, Capsule]:
    """All capsules of a finite group by name: its irreps, then its quotients, smallest subgroup first."""
    group = finite_group(group)
    names = [*(str(irrep) for irrep in real_irreps(group)), *_quotients(group)]
    return MappingProxyType({name: capsule_by_name(group, name) for name in names})


def capsule_by_name(group: Group, name: str) -> Capsule:
    """One capsule of the catalogue; ``trivial``, ``A`` and ``A1`` name the trivial irrep in every group."""
    if not isinstance(name, str):
        raise TypeError(f"a capsule of {group.name} is named by text such as 'regular'; got {type(name).__name__}.")
    if isinstance(group, CompactGroup):
        return _compact_capsule_by_name(group, name)
    return _capsule_by_name(finite_group(group), group.name, name)


@lru_cache(maxsize=4096)
def _compact_capsule_by_name(group: CompactGroup, name: str) -> Capsule:
    wave, functions = group.wave_named(name), group.functions_named(name)
    if wave is None and functions is None:
        raise ValueError(f"unknown capsule `{name}` of {group.name}. It has {group.capsules_in_words}.")
    return Capsule(functions or group.irrep(name))


@lru_cache(maxsize=4096)
def _capsule_by_name(group: FiniteGroup, group_name: str, name: str) -> Capsule:
    if name in trivial_aliases(group) or (group.order == 1 and name == "regular"):
        return Capsule(real_irreps(group)[0])
    irreps = {str(irrep): irrep for irrep in real_irreps(group)}
    if name in irreps:
        return Capsule(irreps[name])
    quotients = _quotients(group)
    if name in quotients:
        return Capsule(quotient(group, quotients[name], name=name))
    raise ValueError(f"unknown capsule `{name}` of {group.name}. {did_you_mean(str(name), [*irreps, *quotients])}")


def quotient_name(group: Group, subgroup: Iterable[str]) -> str | None:
    """The name of the quotient by a subgroup; None if the catalogue lists only that of a conjugate subgroup."""
    group, members = finite_group(group), tuple(subgroup)
    if len(members) == group.order:
        return str(real_irreps(group)[0])
    return next((name for name, elements in _quotients(group).items() if set(elements) == set(members)), None)


@lru_cache(maxsize=256)
def _quotients(group: FiniteGroup) -> Mapping[str, tuple[str, ...]]:
    """The proper subgroup that belongs to each quotient's name."""
    structure = rotation_structure(group)
    names = None if structure is None else _quotients_by_generators(group, structure)
    return MappingProxyType(_quotients_by_order(group) if names is None else names)


def _quotients_by_generators(group: FiniteGroup, structure: RotationStructure) -> dict[str, tuple[str, ...]] | None:
    """The proper subgroup of each name, or None if names of elements such as ``(r,e)`` give no usable names."""
    names: dict[str, tuple[str, ...]] = {}
    proper = [members for members in group.subgroups() if len(members) < group.order]
    for members in proper:
        indices = group.indices(members)
        rotations = [i for i in indices if not structure.mirrored[i] and structure.power[i]]
        mirrors = [i for i in indices if structure.mirrored[i]]
        turn = group.elements[min(rotations, key=lambda i: structure.power[i])] if rotations else ""
        flip = group.elements[mirrors[0]] if mirrors else ""
        names[f"{turn}{flip}" if turn else (f"q{flip}" if flip else "regular")] = members
    irreps = {*(str(irrep) for irrep in real_irreps(group)), *trivial_aliases(group)}
    usable = len(names) == len(proper) and all(_NAME.fullmatch(name) and name not in irreps for name in names)
    return names if usable else None


def _quotients_by_order(group: FiniteGroup) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    seen: dict[int, int] = {}
    for members in group.subgroups(up_to_conjugacy=True):
        size = len(members)
        if size == group.order:
            continue
        seen[size] = seen.get(size, 0) + 1
        names["regular" if size == 1 else f"q{size}{_letters(seen[size])}"] = members
    return names


def _letters(number: int) -> str:
    """1, 2 … 26, 27 … as a, b … z, aa …"""
    text = ""
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def _known_capsule(representation: Representation) -> Capsule | None:
    """The quotient in the catalogue that has exactly these matrices, if there is one."""
    group = representation.group
    if not isinstance(group, FiniteGroup):  # only `r` of O(2) and O(3) is a permutation
        exchanged = representation.dim == 2 and not representation.is_trivial
        return capsule_by_name(group, "r") if exchanged and representation.is_permutation else None
    for name, members in _quotients(group).items():
        if group.order == representation.dim * len(members):
            capsule = capsule_by_name(group, name)
            if capsule.representation == representation:
                return capsule
    return None
