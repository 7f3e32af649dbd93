"""The difference of two networks in words, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ComparedFigure", "basis", "compared_figures", "figures_of", "interval_in_words", "verdict"]

FIGURES = {
    "classify": {
        "upright": "accuracy, upright",
        "all_poses": "accuracy, mean over poses",
        "agreement": "same answer in all poses",
    },
    "segment": {
        "upright_precision": "mean average precision, upright",
        "posed_precision": "mean average precision, mean over poses",
        "upright": "Dice, upright",
        "all_poses": "Dice, mean over poses",
        "agreement": "pixels alike in all poses",
    },
}
"""The figures that are compared, by task: fields of :class:`~steerable.training.evaluation.posed_values.PosedValues`.

Only numbered objects have an average precision, and comparisons of earlier versions do not have it.
"""


@dataclass(frozen=True)
class ComparedFigure:
    """One figure of both networks and their difference, in words, with the probability of it by chance."""

    name: str
    steerable: str
    plain: str
    difference: str
    p: str
    beyond_chance: bool


def figures_of(comparison: Mapping[str, Any]) -> dict[str, str]:
    """The figures that ``comparison.json`` holds, in words."""
    return {key: name for key, name in FIGURES[comparison["task"]].items() if key in comparison["figures"]}


def compared_figures(comparison: Mapping[str, Any]) -> Iterator[ComparedFigure]:
    """The rows of a table of what ``comparison.json`` holds."""
    for key, name in figures_of(comparison).items():
        found = comparison["figures"][key]
        apart = found["difference"]
        yield ComparedFigure(
            name,
            interval_in_words(found["steerable"]),
            interval_in_words(found["plain"]),
            interval_in_words(apart, signed=True),
            _p(apart["p"]).removeprefix("= "),
            beyond_chance=apart["p"] < 0.05,
        )


def verdict(comparison: Mapping[str, Any]) -> str:
    """One sentence on the mean over poses: which network is better, by how much, and whether that may be chance.

    Networks that number objects are judged by how well they find them. If the steerable one may use which way up images
    are, both are judged by upright images.
    """
    known = figures_of(comparison)
    key = comparison.get("judged_by") or ("posed_precision" if "posed_precision" in known else "all_poses")
    found, name = comparison["figures"][key], known[key]
    apart = found["difference"]
    first, second = ("steerable", "plain") if apart["value"] >= 0 else ("plain", "steerable")
    values = f"{found[first]['value']:.1%} against {found[second]['value']:.1%}"
    ends = f"{100 * apart['low']:+.1f} to {100 * apart['high']:+.1f} points"
    if apart["p"] < 0.05:
        return (
            f"The {first} network is better, {values} ({name}): the difference is beyond chance (p {_p(apart['p'])}; "
            f"steerable minus plain {ends})."
        )
    return (
        f"The {first} network has {values} ({name}), but {comparison['images']:,} test images are too few "
        f"to tell this from chance (p {_p(apart['p'])}; steerable minus plain {ends})."
    )


def basis(comparison: Mapping[str, Any]) -> str:
    """A sentence or two on what the intervals of a comparison come from."""
    images, posed, specimens = comparison["images"], comparison["posed"], comparison["specimens"]
    tried = "" if posed == images else f", {posed:,} of them in all poses"
    whose = f" of {specimens:,} specimens, which count as one observation each" if specimens else ""
    return (
        f"95 % intervals from {images:,} test images{whose}{tried}. They say how much the choice of test images "
        "matters; training with another seed adds to the uncertainty."
    )


def interval_in_words(found: Mapping[str, Any], *, signed: bool = False) -> str:
    """A share, or a difference of shares, with the ends of its interval in percent.

    >>> interval_in_words({"value": 0.96, "low": 0.94, "high": 0.975})
    '96.0 % (94.0 to 97.5)'
    """
    value, low, high = (f"{100 * found[key]:{'+' if signed else ''}.1f}" for key in ("value", "low", "high"))
    return f"{value}{'' if signed else ' %'} ({low} to {high})"


def _p(value: float) -> str:
    return f"= {value:.2g}" if value >= 1e-4 else "< 0.0001"
