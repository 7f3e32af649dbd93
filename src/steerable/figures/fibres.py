"""The paper's figures 1 and 4: a field as a stack of maps or a bundle of fibres, and the induced representation."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.group_interface import Group
from steerable.figures.pictures import letter_picture
from steerable.figures.steering import Steering, chosen, random_bank
from steerable.figures.style import ACCENT, LINE, arrow, caption, house_style, signed
from steerable.filters.pixel_patches import pixel_patch

__all__ = ["feature_maps_figure", "induced_figure"]

_SLANT = 0.42  # how far each row of pixels is moved to the right: the plane is seen from the side


@house_style
def feature_maps_figure(group: Group, capsule: Capsule | None = None, *, size: int = 5) -> Figure:
    """Figure 1: one field, as a stack of feature maps and as a bundle of fibres.

    The collection of the axes ``"maps"`` and ``"fibres"`` holds the field's values, channel by channel.
    """
    _, capsule = chosen(group, None, capsule)
    field = _field(capsule, size)
    figure = Figure(figsize=(9.6, 5.4))
    caption(
        figure,
        "One field, seen in two ways",
        f"the {capsule.dim} channels of {capsule} of {group.name} on {size}×{size} pixels",
    )
    for left, name, title in ((0.03, "maps", "a stack of feature maps"), (0.53, "fibres", "a bundle of fibres")):
        axes = figure.add_axes((left, 0.03, 0.44, 0.74))
        _draw(axes, field, name, together=name == "fibres", marked=(size // 2, size // 4))
        axes.set_title(title, size=11)
    return figure


@house_style
def induced_figure(
    group: Group, element: str | None = None, capsule: Capsule | None = None, *, size: int = 5
) -> Figure:
    """Figure 4: π(g) moves each fibre to a new place, x to gx, and there ρ(g) acts on it.

    The axes are labelled ``"f"``, ``"f moved"`` and ``"π(g) f"``; one fibre is marked in all of them.
    """
    g, capsule = chosen(group, element, capsule)
    field = _field(capsule, size)
    patch = pixel_patch(group, size)(g)
    moved = (field.reshape(capsule.dim, -1) @ patch.T).reshape(field.shape)
    steered = np.tensordot(capsule.representation(g), moved, axes=1)
    place = (size // 2) * size + size // 4  # on the letter's stem
    end = int(np.argmax(patch[:, place]))
    figure = Figure(figsize=(12.6, 4.3))
    text = f"[π({g}) f](x) = ρ({g}) f({g}⁻¹x): the marked fibre is carried to its place, then ρ({g}) mixes its channels"
    caption(figure, f"The representation induced from {capsule} of {group.name}", text)
    panels = (
        (field, place, "f", "f"),
        (moved, end, "f moved", f"f({g}⁻¹x)"),
        (steered, end, "π(g) f", f"π({g}) f"),
    )
    for k, (values, marked, name, title) in enumerate(panels):
        axes = figure.add_axes((0.02 + k * 0.34, 0.04, 0.27, 0.66))
        _draw(axes, values, name, together=True, marked=divmod(marked, size), largest=float(np.abs(field).max()))
        axes.set_title(title, size=11)
    width, height = figure.get_size_inches()
    for k, name in enumerate((f"{g}", f"ρ({g})")):
        start, end, y = (0.292 + k * 0.34) * width, (0.352 + k * 0.34) * width, 0.36 * height
        arrow(figure, (start, y), (end, y), name, colour=ACCENT)
    return figure


def _field(capsule: Capsule, size: int) -> FloatArray:
    """The response of an equivariant bank to a letter, (dim, size, size)."""
    return Steering(letter_picture(size), random_bank(capsule, 3, seed=2), capsule).features()


def _draw(
    axes: Axes, field: FloatArray, label: str, *, together: bool, marked: tuple[int, int], largest: float | None = None
) -> None:
    """Every number as a slanted tile, in the order (channel, row, column). Channels of one map lie together, or those
    of one fibre do.
    """
    channels, rows, columns = field.shape
    # Fibres stand apart from each other, so that none covers its neighbour; maps lie one below the other.
    row_step, channel_step = (1.25, 0.95 / channels) if together else (0.5, rows * 0.5 + 0.55)
    half_width, half_height = (0.3, 0.4 * channel_step) if together else (0.5, 0.25)
    slant = half_height * 2 * _SLANT
    tiles, edges = [], []
    for c in range(channels):
        for i in range(rows):
            for j in range(columns):
                x = j + _SLANT * (rows - 1 - i)
                y = row_step * (rows - 1 - i) + channel_step * (channels - 1 - c)
                low, high = y - half_height, y + half_height
                left, right = x - half_width, x + half_width
                tiles.append([(left - slant, low), (right - slant, low), (right + slant, high), (left + slant, high)])
                edges.append(ACCENT if (i, j) == marked else LINE)
    top = float(np.abs(field).max()) if largest is None else largest
    collection = PolyCollection(
        tiles,
        array=field.ravel(),
        cmap=signed(),
        edgecolors=edges,
        linewidths=[2.0 if edge == ACCENT else 0.6 for edge in edges],
    )
    collection.set_clim(-1.1 * top, 1.1 * top)
    axes.add_collection(collection)
    axes.set_label(label)
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.axis("off")
