"""Figures of basis filters: those of a patch (table 1 of the paper), those between two capsules, one in every pose.

Capsules of a group that the pixel grid does not carry, such as C8, have the most steerable filters of the size, or
those of a given filter space. Below each are its angular frequency m and its leak. A filter of
volumes is drawn as its slices, side by side.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from matplotlib.figure import Figure

from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.decomposition import decompose
from steerable.algebra.examples import elements_to_show
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.representations import Representation
from steerable.errors import expect
from steerable.figures.style import (
    QUIET,
    axes_at,
    caption,
    card_at,
    house_style,
    mosaic,
    share,
    show,
    show_tiles,
    text_at,
)
from steerable.filters import FilterSpace, kernel_basis, pixel_patch
from steerable.filters.pixel_grids import size_text
from steerable.filters.space_arguments import Filters, as_filter_space

__all__ = [
    "check_grid",
    "check_planar",
    "filter_poses_figure",
    "kernel_basis_figure",
    "moved_filter",
    "patch_basis_figure",
]

ABREAST = 16  # poses in a row


def check_planar(group: Group) -> None:
    """Raise ValueError unless the group moves the plane."""
    expect(group, Group, "a group that moves the plane, such as dihedral(4)")
    if group.axes == 3:
        raise ValueError(
            f"{group.name} acts on space, and a figure shows filters of the plane. Use cyclic(n) or dihedral(n)."
        )


def check_grid(group: Group, *, planar: bool = True) -> None:
    """Raise ValueError unless the group maps a pixel grid onto itself; unless ``planar``, a grid of voxels will do."""
    expect(group, FiniteGroup, "a group that moves pixels, such as dihedral(4)")
    if planar:
        check_planar(group)
    pixel_patch(group, 3)  # raises an error for rotations that no pixel grid has


@house_style
def patch_basis_figure(group: Group, size: int = 3) -> Figure:
    """The left half of table 1: the basis filters of an image patch, one row per irrep.

    They are the columns of ``decompose(pixel_patch(group, size))``; filters that turn into each other share a card.
    """
    check_grid(group, planar=False)
    multiplicities, basis = decompose(pixel_patch(group, size))
    columns = max(m * irrep.dim for m, irrep in zip(multiplicities, group.irreps, strict=True))
    slices = 1 if group.axes == 2 else size
    side, gap, left, top, row_height = 1.0 / math.sqrt(slices), 0.28, 2.3, 1.15, 1.0 / math.sqrt(slices) + 0.42
    long = side * (slices * (size + 1) - 1) / size
    width = max(left + columns * (long + gap) + 0.25, 5.8)
    height = top + len(group.irreps) * row_height + 0.75
    figure = Figure(figsize=(width, height))
    caption(
        figure,
        f"Basis filters of a {'×'.join([str(size)] * (group.axes or 2))} patch under {group.name}",
        f"type {multiplicities}: one row per irrep",
    )
    column = 0
    for row, (irrep, copies) in enumerate(zip(group.irreps, multiplicities, strict=True)):
        bottom = height - top - (row + 1) * row_height + 0.42
        text_at(figure, 0.25, bottom + side / 2, str(irrep), size=17, weight="bold")
        count = f"{copies} × dim {irrep.dim}" if copies else "absent"
        text_at(figure, 1.0, bottom + side / 2, count, color=QUIET)
        for copy in range(copies):
            start = left + copy * irrep.dim * (long + gap)
            card_at(figure, start, bottom, irrep.dim * (long + gap) - gap, side)
            for k in range(irrep.dim):
                x = start + k * (long + gap)
                axes = axes_at(figure, x, bottom, long, side)
                show(axes, mosaic(basis[:, column].reshape(1, slices, size, size)), f"{irrep} {copy} {k}")
                column += 1
    note = "red: positive, blue: negative, white: zero. Filters on one card turn into each other."
    if slices > 1:
        note = f"{note} Each is drawn as {slices} slices, from the front to the back."
    text_at(figure, 0.25, 0.3, note, size=9, color=QUIET)
    return figure


@house_style
def kernel_basis_figure(source: Capsule, target: Capsule, size: Filters = 3, *, limit: int = 48) -> Figure:
    """All equivariant filter banks from one capsule to another, up to ``limit``: the elements of ``kernel_basis``.

    A bank with d' output and d input channels is drawn as d' rows of d filters; the axes of number k is labelled
    ``"ψ k"``. ``size`` is that of the filters, or a filter space. A filter of volumes is a row of slices.
    """
    space, basis = _basis(source, target, size)
    drawn = basis[:limit]
    tall, wide = _taps(space, source, target)
    unit = min(0.28, 3.2 / max(tall, wide))  # inches per tap: large banks are drawn smaller
    box_width, box_height = max(wide * unit, 1.15 if space.harmonics else 0.5), max(tall * unit, 0.35)
    columns = max(1, min(len(drawn), int(10.5 // (box_width + 0.3))))
    rows = max(1, math.ceil(len(drawn) / columns))
    left, top = 0.25, 1.35
    width = max(left + columns * (box_width + 0.3), 6.4)
    height = top + rows * (box_height + 0.4)
    figure = Figure(figsize=(width, height))
    count = f"{len(basis)} of them" if len(drawn) == len(basis) else f"{len(basis)} of them, the first {limit} drawn"
    bank = f"each has {target.dim} × {source.dim} filters: rows are output, columns input channels"
    bank += f", each of {space.size[0]} slices" if len(space.size) == 3 else ""
    title = f"Equivariant {size_text(space.size)} filters from {source} to {target} of {source.group.name}"
    caption(figure, title, f"{count}; {bank}" if len(basis) else "there are none: no irrep is shared")
    for k, kernel in enumerate(drawn):
        row, column = divmod(k, columns)
        x = left + column * (box_width + 0.3)
        y = height - top - (row + 1) * (box_height + 0.4) + 0.4
        axes = axes_at(figure, x, y, box_width, box_height)
        show_tiles(axes, _tiles(kernel), f"ψ {k}", card=True)
        axes.set_title(f"ψ{k + 1}  {_turning(space, kernel)}".strip(), size=8, color=QUIET, pad=2)
    return figure


@house_style
def filter_poses_figure(source: Capsule, target: Capsule, size: Filters = 3, number: int = 0) -> Figure:
    """One basis filter bank Ψ under every element: Ψ π(g)⁻¹, moved like a picture, and ρ(g)⁻¹ Ψ, its channels mixed.

    Of SO(2) and O(2) some elements are shown. Equivariance says that both rows are the same. Filters are moved in the
    coefficients of their filter space, where every turn is exact, and sampled afterwards. The axes are labelled
    ``"moved g"`` and ``"mixed g"``.
    """
    space, basis = _basis(source, target, size)
    if not 0 <= number < len(basis):
        raise ValueError(
            f"there are {len(basis)} filters from `{source}` to `{target}`, numbered from 0; got number {number}."
        )
    kernel, group = basis[number], source.group
    tall, wide = _taps(space, source, target)
    unit = min(0.3, 2.4 / max(tall, wide))
    box_width, box_height, left, top = max(wide * unit, 0.6), tall * unit, 1.5, 1.55
    elements = list(elements_to_show(group).items())
    abreast = min(len(elements), ABREAST)
    lines_of_poses = math.ceil(len(elements) / abreast)
    width = max(left + abreast * (box_width + 0.25), 7.6)
    height = top + 2 * lines_of_poses * (box_height + 0.3) + 0.1
    figure = Figure(figsize=(width, height))
    subtitle = "above: turned and mirrored like a picture; below: only its output channels mixed. Both are the same."
    turning = _turning(space, kernel)
    lines = [f"angular frequency {turning}"] if turning else []
    caption(figure, f"Filter ψ{number + 1} from {source} to {target} in every pose", subtitle, *lines)
    largest = 1.25 * float(np.abs(kernel).max())
    for row, (line, name) in enumerate(itertools.product(range(lines_of_poses), ("Ψ π(g)⁻¹", "ρ(g)⁻¹ Ψ"))):
        y = height - top - (row + 1) * (box_height + 0.3) + 0.3
        text_at(figure, 0.25, y + box_height / 2, name, size=12)
        for k, (shown_name, element) in enumerate(elements[line * abreast : (line + 1) * abreast]):
            x = left + k * (box_width + 0.25)
            axes = axes_at(figure, x, y, box_width, box_height)
            if row % 2 == 0:
                array = moved_filter(kernel, source.representation, element, space)
                axes.set_title(shown_name, size=11 if isinstance(group, FiniteGroup) else 7, pad=4)
            else:
                array = np.tensordot(target.representation(group.inverse(element)), kernel, axes=1)
            label = f"{'mixed' if row % 2 else 'moved'} {shown_name}"
            show_tiles(axes, _tiles(array), label, largest=largest, card=True)
    return figure


def _taps(space: FilterSpace, source: Capsule, target: Capsule) -> tuple[int, int]:
    """How many taps a drawn bank is high and wide, gaps included; slices of volumes lie side by side."""
    *slices, high, wide = space.size
    return target.dim * (high + 1), source.dim * math.prod(slices) * (wide + 1)


def _tiles(kernel: FloatArray) -> FloatArray:
    """The tiles (out, in, s, s) of a bank; for volumes, (out, in, s, s, s), its slices as (out, in · s, s, s)."""
    return kernel.reshape(len(kernel), -1, *kernel.shape[-2:])


def moved_filter(
    kernel: FloatArray, rho_in: Representation, element: Element, space: FilterSpace | None = None
) -> FloatArray:
    """Ψ π(g)⁻¹ of a bank (out, in, s, s), or for volumes (out, in, s, s, s).

    The filters are turned by ρ_V(g), and their input channels mixed by ρ_in(g)⁻¹.

    On pixels that is κ(g⁻¹x) ρ_in(g)⁻¹ at each tap x.
    """
    space = as_filter_space(rho_in.group, kernel.shape[2:]) if space is None else space
    turned = space.sample(_coefficients(space, kernel) @ space.representation(element).T)
    mixed: FloatArray = np.einsum("oi...,ij->oj...", turned, rho_in(rho_in.group.inverse(element)))
    return mixed


def _coefficients(space: FilterSpace, kernel: FloatArray) -> FloatArray:
    """The coefficients (out, in, dim V) of a bank (out, in, s, s); they are unique."""
    taps = kernel.reshape(*kernel.shape[:2], -1)
    return taps if space.is_pixel_patch else np.asarray(taps @ np.linalg.pinv(space.sampling).T)


def _turning(space: FilterSpace, kernel: FloatArray) -> str:
    """The angular frequencies of a bank's filters and their largest leak, in words; nothing for pixels."""
    if space.frequencies is None or space.leaks is None:
        return ""
    used = np.abs(_coefficients(space, kernel)).max(axis=(0, 1)) > 1e-9 * np.abs(kernel).max()
    frequencies = ", ".join(map(str, sorted(set(space.frequencies[used].tolist()))))
    return f"m = {frequencies}, leak {share(float(space.leaks[used].max()))}"


def _basis(source: Capsule, target: Capsule, size: Filters) -> tuple[FilterSpace, FloatArray]:
    for given in (source, target):
        expect(given, Capsule, "a capsule, such as dihedral(4).capsule('E')")
    space = as_filter_space(source.group, size)
    return space, kernel_basis(source.representation, target.representation, space)
