"""The part of a report about two networks that were compared: a sentence, a drawing of intervals, and a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from steerable.reporting.drawings import colours, interval_figure
from steerable.reporting.run_records import RunRecord
from steerable.training.evaluation.comparison_in_words import (
    ComparedFigure,
    basis,
    compared_figures,
    figures_of,
    verdict,
)

__all__ = ["ComparisonSection", "comparison_section"]

NETWORKS = ("steerable", "plain")


@dataclass(frozen=True)
class ComparisonSection:
    """A comparison: the sentence that sums it up, its drawing and rows, what both networks are, and its basis."""

    verdict: str
    drawing: Markup
    rows: tuple[ComparedFigure, ...]
    networks: tuple[Mapping[str, Any], ...]
    basis: str


def comparison_section(run: RunRecord, number: int = 1) -> ComparisonSection:
    """A page's section on a run's comparison; ``number`` tells its drawing from others on the page."""
    found, names = run.comparison, figures_of(run.comparison)
    series = [
        (colour, [_ends(found["figures"][key][network]) for key in names])
        for network, colour in zip(NETWORKS, colours(2), strict=True)
    ]
    drawing = interval_figure(list(names.values()), series, f"comparison {number}")
    networks = tuple(found["networks"][network] for network in NETWORKS)
    return ComparisonSection(verdict(found), drawing, tuple(compared_figures(found)), networks, basis(found))


def _ends(found: Mapping[str, Any]) -> tuple[float, float, float]:
    return float(found["value"]), float(found["low"]), float(found["high"])
