"""Figures in which every class counts alike, from a confusion matrix: balanced accuracy and F1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["balanced_accuracy", "class_figures", "macro_f1"]


def balanced_accuracy(confusion: Sequence[Sequence[int]]) -> float:
    """The mean over the classes that have images of the share that was recognised, n_cc / Σ_j n_cj.

    Args:
        confusion: (classes, classes), row c the images of class c by what they were taken for.

    >>> balanced_accuracy([[90, 10], [5, 5]])
    0.7
    """
    counts = np.array(confusion, dtype=np.float64)
    present = counts.sum(1) > 0
    return float((np.diag(counts)[present] / counts.sum(1)[present]).mean()) if present.any() else 0.0


def macro_f1(confusion: Sequence[Sequence[int]]) -> float:
    """The mean over classes of F1 = 2 n_cc / (Σ_j n_cj + Σ_j n_jc), the harmonic mean of precision and recall.

    Classes that have no images and were named for none are left out.

    >>> round(macro_f1([[90, 10], [5, 5]]), 4)
    0.6615
    """
    counts = np.array(confusion, dtype=np.float64)
    total = counts.sum(0) + counts.sum(1)
    present = total > 0
    return float((2 * np.diag(counts)[present] / total[present]).mean()) if present.any() else 0.0


def class_figures(confusion: Sequence[Sequence[int]]) -> dict[str, float]:
    """Both, by the names that ``results.json`` has for them."""
    return {"balanced_accuracy": balanced_accuracy(confusion), "macro_f1": macro_f1(confusion)}
