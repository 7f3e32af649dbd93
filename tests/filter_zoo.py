"""Filter spaces that are not pixel patches: some as a user would define them, and the library's own."""

from __future__ import annotations

import numpy as np
from group_zoo import random_invertible

import steerable as st

CROSS = [1, 3, 4, 5, 7]  # the taps of a 3×3 patch that touch its centre, and the centre


def cross(group: st.FiniteGroup) -> st.FilterSpace:
    """Five coefficients that a group of the square permutes; S puts them onto the cross of a 3×3 patch."""
    patch = st.pixel_patch(group, 3)
    assert patch.monomial is not None
    moved = [[CROSS.index(image[tap]) for tap in CROSS] for image in patch.monomial.image]
    return st.FilterSpace(st.Representation.from_permutations(group, moved), 3, np.eye(9)[:, CROSS], name="cross")


def stencils(group: st.FiniteGroup) -> st.FilterSpace:
    """The first seven or eight symmetric stencils of a 3×3 patch: coefficients that turn by irreps."""
    kind, columns = st.decompose(st.pixel_patch(group, 3))
    irreps = [irrep for irrep, copies in zip(group.irreps, kind, strict=True) for _ in range(copies)]
    while sum(irrep.dim for irrep in irreps) > 8:
        irreps.pop()
    rho = st.direct_sum(irreps, group=group)
    return st.FilterSpace(rho, 3, columns[:, : rho.dim], name="stencils")


def slanted(group: st.FiniteGroup) -> st.FilterSpace:
    """The stencils in a basis that is not orthogonal, so that neither ρ_V nor S keeps lengths and angles."""
    straight = stencils(group)
    basis = random_invertible(straight.dim)
    return st.FilterSpace(straight.representation.change_basis(basis), 3, straight.sampling @ basis, name="slanted")


def ring(group: st.FiniteGroup) -> st.FilterSpace:
    """C8 moves the eight outer taps of a 3×3 patch around the centre; the grid carries its quarter turns only."""
    taps = [5, 2, 1, 0, 3, 6, 7, 8]  # counter-clockwise from the right
    turns = [[(k + g) % 8 for k in range(8)] for g in range(8)]
    return st.FilterSpace(st.Representation.from_permutations(group, turns), 3, np.eye(9)[:, taps], name="ring")


def steerable(group: st.FiniteGroup) -> st.FilterSpace:
    """The six most steerable filters of a 3×3 patch, which turn with frequencies from 0 to 2."""
    return st.filter_space(group, 3)


def rings(group: st.FiniteGroup) -> st.FilterSpace:
    """Six circular harmonics on two Gaussian rings of a 3×3 patch."""
    return st.ring_space(group, 3)


PLANAR = {"cross": cross, "stencils": stencils, "slanted": slanted, "steerable": steerable, "rings": rings}


def voxels(group: st.Group) -> st.FilterSpace:
    """The most steerable voxel filters of a 3×3×3 patch: ten, of degrees from 0 to 2; in layers about an axis."""
    return st.filter_space(group, 3)


def even_voxels(group: st.Group) -> st.FilterSpace:
    """Those of a patch whose centre lies between voxels."""
    return st.filter_space(group, 4, leak=0.01)


def shells(group: st.Group) -> st.FilterSpace:
    """Spherical harmonics on two Gaussian shells of a 3×3×3 patch, or rings in layers."""
    return st.ring_space(group, 3, highest=[0, 2])


SPATIAL = {"voxels": voxels, "even voxels": even_voxels, "shells": shells}
