"""Pixel patches: the filter space whose coefficients are the taps themselves, exact for groups that keep the grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from steerable.algebra.actions import turn
from steerable.algebra.arrays import IntArray
from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation
from steerable.filters.pixel_grids import (
    Spacing,
    grid_size,
    grid_spacing,
    is_carried,
    movers,
    size_text,
    spacing_text,
    tap_images,
)
from steerable.filters.spaces import FilterSpace

__all__ = ["pixel_patch", "pixel_space"]


def pixel_patch(
    group: Group, size: int | Sequence[int], *, spacing: float | Sequence[float] | None = None
) -> Representation:
    """The action of the group on the taps of an s×s patch (s×s×s for groups of space): [π(g)f](x) = f(g⁻¹x).

    Args:
        group: a group that maps the grid onto itself; C1 C2 C4 D1 D2 D4 and the octahedral groups do.
        size: odd or even, one number or one per axis (height, width) or (depth, height, width).
        spacing: how far apart pixels or voxels are along each axis, if not equally far; fewer groups then keep the
            grid.

    Returns:
        A permutation representation; taps are counted row by row from the top left, as ``array.ravel()`` does.

    >>> from steerable import dihedral
    >>> pixel_patch(dihedral(4), 3).type
    (3, 0, 1, 1, 2)
    """
    shape = grid_size(group, size)
    apart = grid_spacing(shape, spacing)
    image = tap_images(group, shape, apart)
    if not is_carried(group, shape, apart):
        raise ValueError(
            f"`{_lost(group, image)}` of {group.name} does not map the {size_text(shape)} pixel grid"
            f"{spacing_text(apart)} onto itself. Pixel filters are exact for C1, C2, C4, D1, D2, D4 (square patches "
            "for C4 and D4) and for the octahedral groups (cubes), where pixels are equally far apart along the axes "
            "that are exchanged; restrict to such a subgroup, or use `filter_space`, whose filters turn by any angle "
            "up to a leak."
        )
    name = f"{size_text(shape)} patch" if shape else "single tap"
    if not isinstance(group, FiniteGroup):
        return group.trivial.renamed(name)
    return Representation._of(group, monomial=Monomial(image, np.ones(image.shape)), name=name)


def _lost(group: Group, image: IntArray) -> Element:
    """An element that does not map the grid onto itself, the first one of a finite group."""
    missing = [g for g, row in zip(movers(group), image, strict=True) if row[0] < 0]
    if missing or not isinstance(group, CompactGroup):
        return missing[0]
    return group.element(group.embedded(turn(45)))  # type: ignore[arg-type]


def pixel_space(
    group: Group, size: int | Sequence[int], *, spacing: float | Sequence[float] | None = None
) -> FilterSpace:
    """The filter space of all filters on a patch of pixels, which is the default of every convolution.

    >>> from steerable import dihedral
    >>> pixel_space(dihedral(4), 3)
    <FilterSpace 3×3 patch of D4: 9 coefficients, 3×3 taps>
    """
    shape = grid_size(group, size)
    return _pixel_space(group, shape, grid_spacing(shape, spacing))


@lru_cache(maxsize=256)
def _pixel_space(group: Group, shape: tuple[int, ...], spacing: Spacing) -> FilterSpace:
    patch = pixel_patch(group, shape, spacing=spacing)
    return FilterSpace(patch, shape, spacing=spacing, name=patch.name)
