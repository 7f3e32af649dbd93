"""Figures of filter spaces for groups that the pixel grid does not carry: how each filter turns, and how it leaks."""

from __future__ import annotations

from itertools import groupby

from matplotlib.figure import Figure

from steerable.algebra.groups import FiniteGroup
from steerable.errors import expect
from steerable.figures.filters import check_planar
from steerable.figures.style import QUIET, axes_at, caption, card_at, house_style, share, show, text_at
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
    height = figure.get_size_inches()[1]
    kind = f"{space}: {space.dim} of them; exact for {_carried(space)}"
    caption(figure, f"{size_text(space.size)} filters of {space.group.name}, by angular frequency", kind)
    for row, (m, filters) in enumerate(rows.items()):
        bottom = height - _TOP - (row + 1) * _ROW + 0.55
        text_at(figure, 0.25, bottom + _SIDE / 2, f"m = {m}", size=15, weight="bold")
        count = f"{len(filters)} {'pair' if m else 'filter'}{'s' if len(filters) > 1 else ''}"
        text_at(figure, 1.15, bottom + _SIDE / 2, count, color=QUIET)
        start = _LEFT
        for k, found in enumerate(filters):
            start = _card(figure, space, found, (start, bottom), f"{m} {k}")
    note = (
        "red: positive, blue: negative. Leak: the part of what a filter does to images that does not turn as it should."
    )
    text_at(figure, 0.25, 0.3, note, size=9, color=QUIET)
    return figure


def _carried(space: FilterSpace) -> str:
    """The elements that turn the filters exactly; for an infinite group, in words."""
    if isinstance(space.group, FiniteGroup):
        return ", ".join(map(str, space.carried))
    return "turns by 90° and their mirror images" if len(space.carried) > 4 else "turns by 90°"


def _card(figure: Figure, space: FilterSpace, found: HarmonicFilter, place: tuple[float, float], label: str) -> float:
    """Draw one filter or pair with its leak below it, and return where the next one begins."""
    left, bottom = place
    span: float = found.taps.shape[1] * (_SIDE + _GAP) - _GAP
    card_at(figure, left, bottom, span, _SIDE)
    for c, taps in enumerate(found.taps.T):
        axes = axes_at(figure, left + c * (_SIDE + _GAP), bottom, _SIDE, _SIDE)
        show(axes, taps.reshape(space.size), f"{label} {c}")
    text_at(figure, left + span / 2, bottom - 0.24, f"leak {share(found.leak)}", size=9, color=QUIET, ha="center")
    return left + span + _GAP


def _frequency(found: HarmonicFilter) -> int:
    return found.frequency
