"""Figures from a confusion matrix: balanced accuracy, F1, and whether anything was learnt at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from steerable.training.evaluation.intervals import wilson

__all__ = ["balanced_accuracy", "class_figures", "counted_thing", "macro_f1", "nothing_learnt"]


def balanced_accuracy(confusion: Sequence[Sequence[int]]) -> float:
    """The share of a class that was recognised, n_cc / Σ_j n_cj, averaged over the classes that have images.

    Args:
        confusion: (classes, classes), row c counts the images of class c by the class that was predicted.

    >>> balanced_accuracy([[90, 10], [5, 5]])
    0.7
    """
    counts = np.array(confusion, dtype=np.float64)
    present = counts.sum(1) > 0
    return float((np.diag(counts)[present] / counts.sum(1)[present]).mean()) if present.any() else 0.0


def macro_f1(confusion: Sequence[Sequence[int]]) -> float:
    """The mean over classes of F1 = 2 n_cc / (Σ_j n_cj + Σ_j n_jc), the harmonic mean of precision and recall.

    Classes that have no images and were never predicted are left out.

    >>> round(macro_f1([[90, 10], [5, 5]]), 4)
    0.6615
    """
    counts = np.array(confusion, dtype=np.float64)
    total = counts.sum(0) + counts.sum(1)
    present = total > 0
    return float((2 * np.diag(counts)[present] / total[present]).mean()) if present.any() else 0.0


def class_figures(confusion: Sequence[Sequence[int]]) -> dict[str, float]:
    """Both figures, by their names in ``results.json``."""
    return {"balanced_accuracy": balanced_accuracy(confusion), "macro_f1": macro_f1(confusion)}


def counted_thing(results: Mapping[str, Any]) -> str:
    """The word for what a run's figures count."""
    if "test_dice" in results:
        return "pixel"
    return "volume" if len(results.get("image_size") or ()) == 3 else "image"


def nothing_learnt(confusion: Sequence[Sequence[int]], classes: Sequence[str], thing: str = "image") -> str:
    """A sentence if the answers are not clearly better than one answer for everything, else "".

    If classes are uneven, the most frequent one is nearly always right. A network that finds the others, so that its
    balanced accuracy is clearly above that of guessing, 1 / classes, has learnt something nevertheless. Pixels are
    nearly always uneven, so for them the sentence only says when there is a single answer.

    >>> nothing_learnt([[90, 10], [5, 95]], ("cat", "dog"))
    ''
    >>> nothing_learnt([[80, 0], [3, 0]], ("cat", "dog")).partition(".")[0]
    'Nothing useful was learnt: the answer is `cat` for every image'
    """
    counts = np.array(confusion)
    total, named = int(counts.sum()), np.flatnonzero(counts.sum(0))
    if not total or len(counts) == 1:
        return ""
    most = int(counts.sum(1).argmax())
    share = counts.sum(1)[most] / total
    remedy = "More minutes or more images may help, unless the classes look alike."
    if len(named) == 1:
        return f"Nothing useful was learnt: the answer is `{classes[named[0]]}` for every {thing}. {remedy}"
    present = [(float(row[label]), int(row.sum())) for label, row in enumerate(counts) if row.sum()]
    recalled = sum(wilson(right, images).low for right, images in present) / len(present)
    known = recalled > 1 / len(present) or wilson(float(np.diag(counts).sum()), total).low > share
    if known or thing == "pixel":
        return ""
    return (
        f"The accuracy is not clearly better than answering `{classes[most]}` for every {thing}, which is right in "
        f"{share:.1%} of cases. {remedy}"
    )
