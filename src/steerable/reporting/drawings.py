"""The report's drawings: matplotlib figures as SVG that sits inside a page and takes the page's text colour."""

from __future__ import annotations

import colorsys
import html
import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DRIFT_FLOOR",
    "colours",
    "confusion_figure",
    "curve_figure",
    "grouped_bars",
    "interval_figure",
    "power_of_ten",
]

DRIFT_FLOOR = 1e-8
"""Below float32's rounding error; an exact zero has no place on a logarithmic axis and is drawn here."""

_PALETTE = ("#3b7dd8", "#e0762f", "#2f9e6e", "#b455c4", "#c9a227", "#d1495b", "#3aa6b9", "#8a6d4f")
# Stands for the page's own text colour, which is only known where the page is shown.
_INK = "#010203"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def colours(count: int) -> list[str]:
    """This number of colours that can be told apart on a light and on a dark page."""
    if count <= len(_PALETTE):
        return list(_PALETTE[:count])
    shades = [colorsys.hls_to_rgb(i / count, (0.45, 0.62)[i % 2], 0.6) for i in range(count)]
    return ["#" + "".join(f"{round(255 * part):02x}" for part in shade) for shade in shades]


def curve_figure(
    panels: Sequence[tuple[str, Sequence[tuple[str, bool, Mapping[int, float]]]]],
    label: str,
    *,
    over: Literal["epoch", "angle"] = "epoch",
) -> Markup:
    """Curves over epochs, or over angles, one panel for each (title, [(colour, dashed, value by epoch or angle)])."""
    with _figure(4.8 * max(2, len(panels)), 3.1) as (figure, svg):
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, (title, curves) in zip(axes, panels, strict=True):
            for colour, dashed, curve in curves:
                style = "--" if dashed else "-"
                # A single epoch would be a line of length zero.
                marker = "o" if len(curve) == 1 else None
                values = [_finite(value) for value in curve.values()]
                ax.plot(list(curve), values, style, color=colour, marker=marker, linewidth=1.5)
            ax.set_title(title, fontsize=10, loc="left")
            if over == "angle":
                ax.set_xticks(range(0, 361, 90), labels=[f"{angle}°" for angle in range(0, 361, 90)])
                ax.set_ylim(0, None)
            else:
                ax.xaxis.get_major_locator().set_params(integer=True)
            ax.set_xlabel(over)
            _tidy(ax)
        return svg(label)


def grouped_bars(
    groups: Sequence[str], series: Sequence[tuple[str, Mapping[str, float]]], label: str, *, log: bool = False
) -> Markup:
    """Bars of all series (colour, value by group) side by side in each group; missing values leave a gap.

    With ``log``, values below ``DRIFT_FLOOR`` are drawn as stubs at the floor. Otherwise values are shares of 1.
    """
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    with _figure(min(14.0, max(9.6, 0.13 * len(groups) * len(series))), 2.9) as (figure, svg):
        ax = figure.add_subplot()
        width = 0.8 / len(series)
        bottom = DRIFT_FLOOR / 2 if log else 0.0
        for i, (colour, values) in enumerate(series):
            heights = [_finite(values.get(group, math.nan)) for group in groups]
            if log:
                heights = [max(height, DRIFT_FLOOR) - bottom if height == height else height for height in heights]
            places = [k + (i - (len(series) - 1) / 2) * width for k in range(len(groups))]
            ax.bar(places, heights, width * 0.9, bottom=bottom, color=colour)
        ax.set_xticks(range(len(groups)), labels=list(groups))
        ax.tick_params(axis="x", length=0)
        if log:
            ax.set_yscale("log")
            # Up to 1 at least, so that rounding errors look as small as they are.
            ax.set_ylim(bottom, max(1.0, ax.get_ylim()[1]))
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
            ax.yaxis.minorticks_off()
        else:
            ax.set_ylim(0, 1)
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        _tidy(ax)
        return svg(label)


def interval_figure(
    names: Sequence[str], series: Sequence[tuple[str, Sequence[tuple[float, float, float]]]], label: str
) -> Markup:
    """Shares with their intervals, (value, low, high), as points on lines: one row per name, one line per series."""
    from matplotlib.ticker import PercentFormatter

    with _figure(9.6, 0.5 + 0.55 * len(names)) as (figure, svg):
        ax = figure.add_subplot()
        for number, (colour, values) in enumerate(series):
            places = [row + 0.26 * (number - (len(series) - 1) / 2) for row in range(len(names))]
            for place, (value, low, high) in zip(places, values, strict=True):
                ax.plot([low, high], [place, place], color=colour, linewidth=2)
                ax.plot([value], [place], "o", color=colour, markersize=5)
        ax.set_yticks(range(len(names)), labels=list(names))
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        _tidy(ax)
        ax.grid(visible=False, axis="y")
        ax.grid(axis="x")
        return svg(label)


def confusion_figure(shares: Sequence[Sequence[float]], label: str) -> Markup:
    """Many classes as an image: how often class i (row) was mistaken for class j (column), as a share of i."""
    with _figure(5.2, 4.4) as (figure, svg):
        ax = figure.add_subplot()
        # The square root lifts the rare mistakes, which are what a reader looks for.
        image = ax.imshow([[math.sqrt(s) for s in row] for row in shares], cmap="viridis", vmin=0, vmax=1)
        bar = figure.colorbar(image, ax=ax, ticks=[0, math.sqrt(0.05), math.sqrt(0.2), math.sqrt(0.5), 1])
        bar.ax.set_yticklabels(["0", "5%", "20%", "50%", "100%"])
        bar.outline.set_visible(False)
        ax.set_xlabel("predicted class number")
        ax.set_ylabel("class number")
        return svg(label)


@contextmanager
def _figure(width: float, height: float) -> Iterator[tuple[Figure, Callable[[str], Markup]]]:
    """A figure and a function that turns it into SVG; without pyplot and the user's own matplotlib settings."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    from steerable.figures.style import settings

    ink = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color")
    chosen: Any = {
        **dict.fromkeys(ink, _INK),
        "font.size": 9,
        "grid.alpha": 0.15,
        "grid.linewidth": 0.8,
        "svg.fonttype": "none",
        "svg.hashsalt": "steerable",  # the same runs give the same bytes
        "text.parse_math": False,
    }
    with settings(chosen):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)

        def svg(label: str) -> Markup:
            text = io.StringIO()
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure.savefig(text, format="svg", transparent=True, metadata=nothing)
            return _inline(text.getvalue(), label)

        yield figure, svg


def _inline(svg: str, label: str) -> Markup:
    """A stand-alone SVG file as part of a page: no prologue, no document-wide style, ids that are its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", svg, count=2)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    prefix = "".join(c if c.isascii() and c.isalnum() else "-" for c in label)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", svg)
    svg = svg.replace(_INK, "currentColor")
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1).strip())


def _tidy(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y")
    ax.set_axisbelow(True)


def _finite(value: float) -> float:
    """The value, or NaN, which matplotlib leaves out, if it has no place on an axis."""
    return value if math.isfinite(value) else math.nan


def power_of_ten(value: float) -> str:
    """The nearest power of ten, as text.

    >>> power_of_ten(1e-8)
    '10⁻⁸'
    """
    return "10" + str(round(math.log10(value))).translate(_SUPERSCRIPTS) if value > 0 else ""
