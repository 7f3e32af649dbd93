"""Groups that move the plane, cyclic and dihedral ones, SO(2) and O(2), and every group by name.

r turns an image by 360°/n counter-clockwise as you see it, m mirrors left and right: in coordinates (x to the right,
y up) the matrices E(r) and E(m) of the paper's table 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from steerable.algebra.actions import planar_matrix
from steerable.algebra.arrays import is_whole
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.lines_in_space import axis_in
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.space_families import about_axis, icosahedral, o3, octahedral, so3, tetrahedral
from steerable.errors import check_choice

__all__ = ["cyclic", "dihedral", "group_named", "group_on", "is_named", "o2", "planar_matrix", "so2", "trivial"]

_LARGEST = 1000  # a table of products has n² entries, 4n² with reflections
DEFAULT_GROUPS = {2: "D4", 3: "O"}  # of a network where none is named, by the number of axes


def trivial() -> FiniteGroup:
    """The group of the identity alone; over it every layer is an ordinary one."""
    return cyclic(1)


@lru_cache(maxsize=256)
def cyclic(n: int) -> FiniteGroup:
    """C_n, the rotations by multiples of 360°/n: ``e r r2 … r{n-1}``.

    >>> cyclic(3).elements
    ('e', 'r', 'r2')
    """
    _check_n("cyclic", n)
    k = np.arange(n)
    action = np.stack([planar_matrix(j, n) for j in range(n)])
    return FiniteGroup(_rotation_names(n), (k[:, None] + k) % n, action=action, name=f"C{n}")


@lru_cache(maxsize=256)
def dihedral(n: int) -> FiniteGroup:
    """D_n, rotations and reflections: ``e r … r{n-1} m mr … mr{n-1}``, with mr = m after r. It has 2n elements.

    >>> dihedral(4).elements
    ('e', 'r', 'r2', 'r3', 'm', 'mr', 'mr2', 'mr3')
    """
    _check_n("dihedral", n)
    power, mirrored = np.tile(np.arange(n), 2), np.repeat([0, 1], n)
    # r^i m = m r^-i, hence (m^a r^i)(m^b r^j) = m^(a+b) r^(±i + j) with a minus where b = 1.
    sign = 1 - 2 * mirrored
    product_power = (power[:, None] * sign[None, :] + power[None, :]) % n
    table = product_power + n * ((mirrored[:, None] + mirrored[None, :]) % 2)
    rotations = _rotation_names(n)
    names = [*rotations, *("m" if name == "e" else f"m{name}" for name in rotations)]
    action = np.stack([planar_matrix(j, n, mirrored=bool(a)) for a, j in zip(mirrored, power, strict=True)])
    return FiniteGroup(names, table, action=action, name=f"D{n}")


def so2() -> PlanarGroup:
    """SO(2), the rotations of the plane by any angle. Its irreps are ``A``, ``E1``, ``E2`` …, one per frequency.

    >>> G = so2()
    >>> G.multiply(G.rotation(30), G.rotation(45))
    rotation(75)
    >>> G.irrep("E2")(G.rotation(30)).round(3).tolist()
    [[0.5, -0.866], [0.866, 0.5]]
    """
    return PlanarGroup(reflections=False)


def o2() -> PlanarGroup:
    """O(2), all rotations and reflections of the plane. Its irreps are ``A1``, ``A2``, ``E1``, ``E2`` …

    >>> G = o2()
    >>> G.multiply(G.reflection(10), G.reflection(0))
    rotation(20)
    """
    return PlanarGroup(reflections=True)


def group_named(name: str) -> Group:
    """The group of that name: C1, C2, … D1, D2, … T, T_d, O, O_h, I, I_h, SO2, O2, SO3, O3. ``SO(2)`` is SO2, too.

    ``"C4 about z"`` and ``"C3 about (1, 1, 1)"`` move volumes, see :func:`~steerable.about_axis`.

    >>> group_named("D4") == dihedral(4)
    True
    >>> group_named("Ih"), group_named("SO(2)") == so2()
    (<I_h, order 120>, True)
    """
    named = _NAMED.get(name) if isinstance(name, str) else None
    if named is not None:
        return named()
    if isinstance(name, str) and (about := re.fullmatch(rf"(.+) about ([xyz]|{_VECTOR})( with flips)?", name)):
        return about_axis(group_named(about[1]), axis_in(about[2]), flips=about[3] is not None)  # type: ignore[call-overload,no-any-return]
    match = re.fullmatch(r"([CD])([1-9]\d{0,3})", name) if isinstance(name, str) else None
    if match is None:
        raise ValueError(
            f"there is no group called {name!r}. Known groups are C1, C2, C3 …, D1, D2, D3 …, T, T_d, O, O_h, I, I_h, "
            "SO2, O2, SO3 and O3."
        )
    return (cyclic if match[1] == "C" else dihedral)(int(match[2]))


def is_named(group: Group) -> bool:
    """Whether a group is the one that its name stands for, so that files can store it as text."""
    try:
        return group_named(group.name) == group
    except ValueError:
        return False


def group_on(name: str | None, axes: int) -> Group:
    """The group of that name on images (2 axes) or volumes (3); groups of the plane move volumes about z.

    Without a name it is D4, or O on volumes.

    >>> group_on("C4", 3).name, group_on(None, 3).name
    ('C4 about z', 'O')
    """
    check_choice("axes", axes, tuple(DEFAULT_GROUPS))
    group = group_named(DEFAULT_GROUPS[axes] if name is None else name)
    if group.axes == axes:
        return group
    if axes == 2:
        raise ValueError(
            f"{group.name} moves volumes, and this network sees images. Give axes=3, or a group such as D4."
        )
    return group_named(f"{group.name} about z")


_NUMBER = r"\s*-?\d+(?:\.\d+)?(?:e-?\d+)?\s*"
_VECTOR = rf"\({_NUMBER},{_NUMBER},{_NUMBER}\)"
_NAMED: dict[str, Callable[[], Group]] = {
    **dict.fromkeys(("SO2", "SO(2)"), so2),
    **dict.fromkeys(("O2", "O(2)"), o2),
    **dict.fromkeys(("SO3", "SO(3)"), so3),
    **dict.fromkeys(("O3", "O(3)"), o3),
    "T": tetrahedral,
    "O": octahedral,
    "I": icosahedral,
    **dict.fromkeys(("T_d", "Td"), partial(tetrahedral, reflections=True)),
    **dict.fromkeys(("O_h", "Oh"), partial(octahedral, reflections=True)),
    **dict.fromkeys(("I_h", "Ih"), partial(icosahedral, reflections=True)),
}


def _rotation_names(n: int) -> list[str]:
    return ["e", "r", *(f"r{k}" for k in range(2, n))][:n]


def _check_n(family: str, n: int) -> None:
    if not is_whole(n):
        raise TypeError(f"{family}(n) takes a whole number n ≥ 1, got {n!r}.")
    if n < 1:
        raise ValueError(f"{family}(n) takes a whole number n ≥ 1, got {n}.")
    if n > _LARGEST:
        every = (
            "so2(), which has every angle" if family == "cyclic" else "o2(), which has every rotation and reflection"
        )
        raise ValueError(
            f"{family}(n) lists all products of its elements, so n may be at most {_LARGEST}; got {n}. Use {every}."
        )
