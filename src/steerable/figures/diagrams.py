"""The paper's figures 2 and 3: a commutative diagram, and an equivariant filter bank at work."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.group_interface import Group
from steerable.figures.pictures import letter_picture
from steerable.figures.steering import Steering, chosen, random_bank
from steerable.figures.style import ACCENT, INK, QUIET, arrow, axes_at, caption, house_style, show, show_tiles, text_at
from steerable.filters.pixel_patches import pixel_patch

__all__ = ["filter_bank_figure", "steering_figure"]

_PATCH = 1.5  # the side of a patch in the figure of a filter bank, in inches


@house_style
def steering_figure(
    group: Group, element: str | None = None, capsule: Capsule | None = None, *, picture_size: int = 15
) -> Figure:
    """Figure 2: f, π(g)f, π(gg)f above; Φ of each below, each also reached by π'(g) alone.

    The axes are labelled ``"f 0"``, ``"f 1"``, ``"f 2"`` and ``"Φ 0"`` …; the largest difference between the two paths
    is computed and printed.
    """
    g, capsule = chosen(group, element, capsule)
    steering = Steering(letter_picture(picture_size), random_bank(capsule, 5), capsule)
    places = [group.identity, g, group.multiply(g, g)]
    across = math.ceil(math.sqrt(capsule.dim))
    down = -(-capsule.dim // across)
    side, gap, left, top = 1.9, 1.15, 0.4, 1.25
    tall = side * down / across
    figure = Figure(figsize=(left + 3 * side + 2 * gap + 0.6, top + side + 0.75 + tall + 0.75))
    height = figure.get_size_inches()[1]
    caption(
        figure,
        "Steering: every path ends in the same place",
        f"Φ is a 5×5 filter bank from images to {capsule} of {group.name}",
    )
    upper, lower = height - top - side, height - top - side - 0.75 - tall
    largest = 1.1 * float(np.abs(steering.features()).max())
    for k, place in enumerate(places):
        x = left + k * (side + gap)
        axes = axes_at(figure, x, upper, side, side)
        show(axes, steering.moved_picture(place), f"f {k}", picture=True)
        axes.set_title(("f", f"π({g}) f", f"π({g}) π({g}) f")[k], size=11)
        axes = axes_at(figure, x, lower, side, tall)
        maps = steering.features(place)
        blank = np.full((down * across - capsule.dim, *maps.shape[1:]), np.nan)
        tiles = np.concatenate([maps, blank]).reshape(down, across, *maps.shape[1:])
        show_tiles(axes, tiles, f"Φ {k}", largest=largest)
        arrow(figure, (x + side / 2, upper - 0.08), (x + side / 2, lower + tall + 0.08), "Φ")
        if k < 2:
            start, end = x + side + 0.1, x + side + gap - 0.1
            arrow(figure, (start, upper + side / 2), (end, upper + side / 2), f"π({g})")
            arrow(figure, (start, lower + tall / 2), (end, lower + tall / 2), f"π'({g})", colour=ACCENT)
    worst = max(steering.difference(place) for place in places)
    note = f"largest difference between Φ π({g}) f and π'({g}) Φ f: {worst:.1e}"
    text_at(figure, left, 0.35, note, size=9.5, color=QUIET)
    return figure


@house_style
def filter_bank_figure(
    group: Group, element: str | None = None, capsule: Capsule | None = None, *, size: int = 5
) -> Figure:
    """Figure 3: Ψ on a patch gives a fibre; on the moved patch it gives ρ(g) times that fibre.

    The axes are labelled ``"patch e"``, ``"patch g"``, ``"filter k"``, ``"fibre e"``, ``"fibre g"``.
    """
    g, capsule = chosen(group, element, capsule)
    bank = random_bank(capsule, size, seed=4)
    patch = letter_picture(size)
    moved = (pixel_patch(group, size)(g) @ patch.ravel()).reshape(size, size)
    fibres = {"e": np.tensordot(bank[:, 0], patch), "g": np.tensordot(bank[:, 0], moved)}
    left, top, filter_side = 0.4, 1.35, 0.85
    rows = capsule.dim * (filter_side + 0.12)
    body = max(rows, 2 * _PATCH + 1.1)
    figure = Figure(figsize=(8.6, top + body + 0.5))
    height = figure.get_size_inches()[1]
    caption(
        figure,
        f"An equivariant filter bank: Ψ π({g}) = ρ({g}) Ψ",
        f"from a {size}×{size} patch to the {capsule.dim} channels of {capsule} of {group.name}",
    )
    bottoms = height - top - _PATCH, height - top - body
    _show_patches(figure, {"f": patch, f"π({g}) f": moved}, left, bottoms, f"π({g})")
    largest = 1.1 * float(np.abs(bank).max())
    for k in range(capsule.dim):
        y = height - top - (body - rows) / 2 - (k + 1) * (filter_side + 0.12) + 0.12
        axes = axes_at(figure, 3.0, y, filter_side, filter_side)
        show(axes, bank[k, 0], f"filter {k}", largest=largest)
        if k == 0:
            axes.set_title("Ψ", size=12)
    scale = 1.1 * max(float(np.abs(fibre).max()) for fibre in fibres.values())
    for x, name, title in ((5.1, "e", "Ψ f"), (7.3, "g", f"Ψ π({g}) f")):
        axes = axes_at(figure, x, height - top - (body + rows) / 2, 0.6, rows)
        _show_fibre(axes, fibres[name], f"fibre {name}", scale)
        axes.set_title(title, size=11)
    # ρ(g) as arrows, from each channel to those to which it contributes.
    middles = [height - top - (body - rows) / 2 - (k + 0.5) * rows / capsule.dim for k in range(capsule.dim)]
    for i, j in np.argwhere(np.abs(capsule.representation(g)) > 1e-9):
        arrow(figure, (5.75, middles[j]), (7.25, middles[i]), colour=ACCENT)
    above = height - top + (0.12 if body == rows else 0.0)
    text_at(figure, 6.5, above, f"ρ({g})", ha="center", va="baseline", size=12, color=ACCENT)
    worst = float(np.abs(fibres["g"] - capsule.representation(g) @ fibres["e"]).max())
    text_at(figure, left, 0.25, f"largest difference: {worst:.1e}", size=9.5, color=QUIET)
    return figure


def _show_patches(
    figure: Figure, patches: dict[str, FloatArray], left: float, bottoms: tuple[float, float], element: str
) -> None:
    """The patch above, the moved patch below it, and an arrow from one to the other."""
    for (title, patch), bottom, name in zip(patches.items(), bottoms, "eg", strict=True):
        axes = axes_at(figure, left, bottom, _PATCH, _PATCH)
        show(axes, patch, f"patch {name}", picture=True)
        axes.set_title(title, size=11)
    middle = left + _PATCH / 2
    arrow(figure, (middle, bottoms[0] - 0.08), (middle, bottoms[1] + _PATCH + 0.33), element)


def _show_fibre(axes: Axes, fibre: FloatArray, label: str, largest: float) -> None:
    """One square per channel, with its value written into it."""
    show(axes, fibre[:, None], label, largest=largest)
    axes.set_aspect("auto")
    for k, value in enumerate(fibre):
        on_dark = abs(value) > 0.6 * largest
        axes.text(0, k, f"{value:.2f}", ha="center", va="center", size=9, color="white" if on_dark else INK)
