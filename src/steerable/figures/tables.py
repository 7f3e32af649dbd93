"""A group as pictures: its multiplication table, its character table, the matrices of its irreps."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from steerable.algebra.characters import character_table
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.errors import expect
from steerable.figures.style import QUIET, axes_at, caption, house_style, show, show_tiles, text_at

__all__ = ["character_table_figure", "irreps_figure", "multiplication_table_figure"]

_MOST_WITH_TEXT = 16  # elements; beyond that names do not fit into the cells


@house_style
def multiplication_table_figure(group: Group) -> Figure:
    """Row g, column h: the product gh (h acts first), each element in a colour of its own."""
    _check(group)
    cell = 0.46 if group.order <= _MOST_WITH_TEXT else 0.2
    side = cell * group.order
    figure = Figure(figsize=(max(side + 1.1, 5.2), side + 1.75))
    caption(figure, f"Multiplication in {group.name}", "row g, column h: the product gh, h acts first")
    axes = axes_at(figure, 0.75, 0.25, side, side)
    axes.imshow(group.table, cmap="turbo", alpha=0.45, interpolation="nearest")
    axes.set_label("products")
    size = 9 if group.order <= _MOST_WITH_TEXT else 5
    axes.set_xticks(range(group.order), labels=group.elements, size=size, rotation=0 if group.order <= 8 else 90)
    axes.set_yticks(range(group.order), labels=group.elements, size=size)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    if group.order <= _MOST_WITH_TEXT:
        for i, row in enumerate(group.table):
            for j, product in enumerate(row):
                axes.text(j, i, group.elements[product], ha="center", va="center", size=9)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


@house_style
def character_table_figure(group: Group) -> Figure:
    """χ of every real irrep (rows) on every conjugacy class (columns)."""
    _check(group)
    table = character_table(group)
    rows, columns = table.values.shape
    figure = Figure(figsize=(max(0.95 * columns + 1.3, 6.0), 0.46 * rows + 1.7))
    caption(
        figure,
        f"Characters of {group.name}",
        "one row per real irrep, one column per conjugacy class: its size × one member",
    )
    axes = axes_at(figure, 0.9, 0.25, 0.95 * columns, 0.46 * rows)
    show(axes, table.values, "characters", largest=1.6 * float(np.abs(table.values).max()))
    axes.set_aspect("auto")
    heads = [f"{len(c)} × {c[0]}" if len(c) > 1 else c[0] for c in table.classes]
    axes.set_xticks(range(columns), labels=heads)
    axes.set_yticks(range(rows), labels=table.irreps, weight="bold", size=12)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    for i, row in enumerate(table.values):
        for j, value in enumerate(row):
            axes.text(j, i, f"{value:g}" if value == round(value) else f"{value:.3f}", ha="center", va="center")
    return figure


@house_style
def irreps_figure(group: Group) -> Figure:
    """The right half of the paper's table 1 in colours: one row per irrep, one matrix per element."""
    _check(group)
    left, top, cell = 1.5, 1.35, min(0.7, 11.0 / group.order)
    heights = [max(cell * 0.5, cell * (1.0 if irrep.dim > 1 else 0.55)) for irrep in group.irreps]
    gap = 0.22
    figure = Figure(figsize=(max(left + cell * group.order + 0.25, 5.6), top + sum(heights) + gap * len(heights) + 0.2))
    caption(figure, f"Irreps of {group.name}", "one matrix per element: red is positive, blue negative, white zero")
    y = figure.get_size_inches()[1] - top
    for irrep, tall in zip(group.irreps, heights, strict=True):
        y -= tall
        axes = axes_at(figure, left, y, cell * group.order, tall)
        show_tiles(axes, irrep.matrices[None], str(irrep), largest=1.25)
        axes.set_aspect("auto")
        if irrep is group.irreps[0]:
            middles = np.arange(group.order) * (irrep.dim + 1) + (irrep.dim - 1) / 2
            small = group.order > _MOST_WITH_TEXT
            axes.set_xticks(middles, labels=group.elements, size=6 if small else 9, rotation=90 if small else 0)
            axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
        text_at(figure, 0.25, y + tall / 2, str(irrep), size=13, weight="bold")
        text_at(figure, 0.85, y + tall / 2, f"dim {irrep.dim}", size=9, color=QUIET)
        y -= gap
    return figure


def _check(group: Group) -> None:
    expect(group, FiniteGroup, "a group, such as dihedral(4)")
