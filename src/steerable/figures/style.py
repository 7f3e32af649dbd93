"""The style of all figures: one set of colours, one way to draw an array, and files that are the same each time.

matplotlib's own state is left alone: figures are plain ``Figure`` objects, drawn under settings that end with the call.
"""

from __future__ import annotations

import functools
import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from steerable.algebra.arrays import FloatArray
from steerable.atomic import write_bytes

__all__ = [
    "ACCENT",
    "CARD",
    "INK",
    "LINE",
    "QUIET",
    "arrow",
    "axes_at",
    "caption",
    "card_at",
    "house_style",
    "mosaic",
    "save",
    "settings",
    "share",
    "show",
    "show_tiles",
    "signed",
    "text_at",
]

INK, QUIET, LINE, CARD, ACCENT = "#1f2430", "#667085", "#c9ced6", "#eef0f3", "#d9822b"
_SETTINGS: Any = {
    "font.size": 10,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a figure is the same on every machine
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "steerable",
    "svg.fonttype": "path",
    "text.parse_math": False,
}

# All threads share matplotlib's settings.
_ONE_AT_A_TIME = threading.RLock()

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def settings(chosen: Any) -> Iterator[None]:
    """A context with these settings and else matplotlib's defaults, whatever the user's own settings are."""
    with _ONE_AT_A_TIME, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(chosen)
        yield


def house_style(function: Callable[P, T]) -> Callable[P, T]:
    """A decorator that makes a function run under the settings of all figures."""

    @functools.wraps(function)
    def styled(*args: P.args, **kwargs: P.kwargs) -> T:
        with settings(_SETTINGS):
            return function(*args, **kwargs)

    return styled


@house_style
def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG or SVG, by the file's ending; the same figure gives the same bytes."""
    path = Path(path)
    if path.suffix not in (".png", ".svg"):
        raise ValueError(f"a figure is written as .png or .svg; got `{path.name}`. Give the file one of these endings.")
    metadata: dict[str, None] = (
        dict.fromkeys(("Date", "Creator"), None) if path.suffix == ".svg" else {"Software": None}
    )
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix[1:], dpi=150, metadata=metadata)
    write_bytes(path, content.getbuffer())
    return path


def signed() -> Colormap:
    """Red for positive, blue for negative, white for zero; cells that are not numbers are transparent."""
    return matplotlib.colormaps["RdBu_r"].with_extremes(bad=(1.0, 1.0, 1.0, 0.0))


def show(axes: Axes, array: FloatArray, label: str, *, largest: float | None = None, picture: bool = False) -> None:
    """Draw a 2-dimensional array with one square per number, or a picture in grey or (height, width, 3) in colour.

    ``axes.get_label()`` is ``label``, so that a drawing can be found again. The scale is balanced around zero:
    ±``largest``, by default a little more than the array's own largest value, so that no square is black.
    """
    if picture:
        axes.imshow(array, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    else:
        finite = np.abs(array[np.isfinite(array)])
        top = largest if largest is not None else 1.25 * float(finite.max(initial=0.0))
        top = top if top > 1e-9 else 1.0  # rounding errors are not blown up into a pattern
        axes.imshow(array, cmap=signed(), vmin=-top, vmax=top, interpolation="nearest")
    axes.set_label(label)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(LINE)


def mosaic(tiles: FloatArray) -> FloatArray:
    """(rows, columns, height, width) tiles as one (…, …) array, with gaps of NaN between them.

    >>> mosaic(np.ones((1, 2, 1, 1)))
    array([[ 1., nan,  1.]])
    """
    rows, columns, height, width = tiles.shape
    framed = np.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    return framed.swapaxes(1, 2).reshape(rows * (height + 1), columns * (width + 1))[:-1, :-1]


def show_tiles(axes: Axes, tiles: FloatArray, label: str, *, largest: float | None = None, card: bool = False) -> None:
    """Draw (rows, columns, height, width) tiles as one mosaic with gaps of one, each in a frame of its own.

    ``card`` puts all of them on a tinted card, so that they are seen as one thing.
    """
    show(axes, mosaic(tiles), label, largest=largest)
    axes.set_facecolor(CARD if card else "none")
    rows, columns, height, width = tiles.shape
    frames = [
        Rectangle((j * (width + 1) - 0.5, i * (height + 1) - 0.5), width, height)
        for i in range(rows)
        for j in range(columns)
    ]
    axes.add_collection(PatchCollection(frames, facecolor="none", edgecolor=LINE, linewidth=0.8))
    edge = 0.4  # in numbers: room for the frames, and the card's own edge
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()  # rows are counted downwards, so that bottom > top
    axes.set_xlim(left - edge, right + edge)
    axes.set_ylim(bottom + edge, top - edge)
    for spine in axes.spines.values():
        spine.set_visible(False)


def share(part: float) -> str:
    """A small part of a whole in percent, with two digits.

    >>> share(0.0123), share(4e-6), share(0)
    ('1.2 %', '0.0004 %', '0 %')
    """
    digits = f"{100 * part:.2g}" if part > 1e-5 else f"{100 * part:.4f}".rstrip("0").rstrip(".")
    return f"{digits or '0'} %"


def axes_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """New axes at a place and of a size that are given in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def card_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> None:
    """A tinted card, a little larger than the place and size, in inches, of its contents."""
    across, up = figure.get_size_inches()
    corner = (left - 0.1) / across, (bottom - 0.1) / up
    size = (width + 0.2) / across, (height + 0.2) / up
    figure.add_artist(Rectangle(corner, *size, color=CARD, transform=figure.transFigure, zorder=-1))


def text_at(figure: Figure, x: float, y: float, text: str, **options: Any) -> None:
    """Text beside a place in inches, upright in its middle; ``options`` are those of matplotlib."""
    width, height = figure.get_size_inches()
    figure.text(x / width, y / height, text, **{"va": "center", **options})


def caption(figure: Figure, title: str, *lines: str) -> None:
    """A title and quiet lines below it, at the top left."""
    top = figure.get_size_inches()[1]
    text_at(figure, 0.25, top - 0.38, title, size=14, weight="bold")
    for k, line in enumerate(lines):
        text_at(figure, 0.25, top - 0.72 - 0.23 * k, line, size=9.5, color=QUIET)


def arrow(
    figure: Figure, start: tuple[float, float], end: tuple[float, float], text: str = "", *, colour: str = INK
) -> None:
    """An arrow between two places in inches, with its name beside the middle."""
    width, height = figure.get_size_inches()
    ends = [(x / width, y / height) for x, y in (start, end)]
    figure.add_artist(
        FancyArrowPatch(
            *ends, transform=figure.transFigure, arrowstyle="-|>", mutation_scale=14, color=colour, linewidth=1.3
        )
    )
    if text:
        upright = abs(end[0] - start[0]) < abs(end[1] - start[1])
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
        place = (x + 0.1, y) if upright else (x, y + 0.14)
        text_at(figure, *place, text, ha="left" if upright else "center", size=12, color=colour)
