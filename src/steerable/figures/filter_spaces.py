"""Figures of filter spaces for groups that the pixel grid does not carry: how each filter turns, and how it leaks."""

from __future__ import annotations

from itertools import groupby

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from steerable.algebra.groups import FiniteGroup
from steerable.errors import expect
from steerable.figures.filters import check_planar
from steerable.figures.style import CARD, QUIET, axes_at, caption, house_style, share, show
from steerable.filters import FilterSpace
from steerable.filters.harmonics import HarmonicFilter
from steerable.filters.pixel_grids import size_text

__all__ = ["filter_space_figure"]

_SIDE, _GAP, _LEFT, _TOP, _ROW = 1.0, 0.28, 2.1, 1.4, 1.62  # inches


@house_style
def filter_space_figure(space: FilterSpace) -> Figure:
    """The filters of a space by angular frequency: one row per frequency m, and under each filter its leak.

    A filter of frequency m > 0 is a pair, which a rotation by α turns by mα; both share a card. The axes are labelled
    ``"m k c"``: the frequency, the number of the filter in its row, and 0 or 1 in its pair.
    """
    expect(space, FilterSpace, "a filter space, such as filter_space(cyclic(8), 5)")
    check_planar(space.group)
    if not space.harmonics:
        raise ValueError(
            f"the filters of `{space}` of {space.group.name} have no angular frequencies. Draw spaces that are made by "
            "`filter_space` or `ring_space`; `patch_basis_figure` draws the filters of a patch of pixels."
        )
    rows = {m: list(filters) for m, filters in groupby(sorted(space.harmonics, key=_frequency), _frequency)}
    columns = max(sum(f.taps.shape[1] for f in filters) for filters in rows.values())
    figure = Figure(figsize=(max(_LEFT + columns * (_SIDE + _GAP) + 0.25, 7.4), _TOP + len(rows) * _ROW + 0.55))
    width, height = figure.get_size_inches()
    kind = f"{space}: {space.dim} of them; exact for {_carried(space)}"
    caption(figure, f"{size_text(space.size)} filters of {space.group.name}, by angular frequency", kind)
    for row, (m, filters) in enumerate(rows.items()):
        bottom = height - _TOP - (row + 1) * _ROW + 0.55
        middle = (bottom + _SIDE / 2) / height
        figure.text(0.25 / width, middle, f"m = {m}", size=15, weight="bold", va="center")
        count = f"{len(filters)} {'pair' if m else 'filter'}{'s' if len(filters) > 1 else ''}"
        figure.text(1.15 / width, middle, count, color=QUIET, va="center")
        start = _LEFT
        for k, found in enumerate(filters):
            start = _card(figure, space, found, (start, bottom), f"{m} {k}")
    note = (
        "red: positive, blue: negative. Leak: the part of what a filter does to images that does not turn as it should."
    )
    figure.text(0.25 / width, 0.3 / height, note, size=9, color=QUIET, va="center")
    return figure


def _carried(space: FilterSpace) -> str:
    """The elements that turn the filters exactly, in words for an infinite group."""
    if isinstance(space.group, FiniteGroup):
        return ", ".join(map(str, space.carried))
    return "turns by 90° and their mirror images" if len(space.carried) > 4 else "turns by 90°"


def _card(figure: Figure, space: FilterSpace, found: HarmonicFilter, place: tuple[float, float], label: str) -> float:
    """One filter or pair with its leak below it; returns where the next one begins."""
    width, height = figure.get_size_inches()
    left, bottom = place
    span: float = found.taps.shape[1] * (_SIDE + _GAP) - _GAP
    corner = (left - 0.1) / width, (bottom - 0.1) / height
    size = (span + 0.2) / width, (_SIDE + 0.2) / height
    figure.add_artist(Rectangle(corner, *size, color=CARD, transform=figure.transFigure, zorder=-1))
    for c, taps in enumerate(found.taps.T):
        axes = axes_at(figure, left + c * (_SIDE + _GAP), bottom, _SIDE, _SIDE)
        show(axes, taps.reshape(space.size), f"{label} {c}")
    text = f"leak {share(found.leak)}"
    figure.text(
        (left + span / 2) / width, (bottom - 0.24) / height, text, size=9, color=QUIET, ha="center", va="center"
    )
    return left + span + _GAP


def _frequency(found: HarmonicFilter) -> int:
    return found.frequency
