"""A run's confusion matrix: its cells, row by row, and the most frequent mistakes."""

from __future__ import annotations

from typing import Any

from steerable.reporting.run_records import RunRecord

__all__ = ["confusion_rows", "confusion_shares", "most_frequent_mistakes"]

LISTED = 8  # mistakes

Shares = list[list[float]]


def confusion_shares(run: RunRecord) -> Shares:
    """How often class i was mistaken for class j, as a share of class i."""
    return [[count / max(1, sum(row)) for count in row] for row in run.confusion]


def confusion_rows(run: RunRecord, shares: Shares) -> list[dict[str, Any]]:
    """For each true class, its name, the share that was right, and a cell for each answer."""
    rows = []
    for i, (counts, row) in enumerate(zip(run.confusion, shares, strict=True)):
        cells = [
            {"count": count, "share": share, "kind": ("right" if i == j else "wrong") if count else "none"}
            for j, (count, share) in enumerate(zip(counts, row, strict=True))
        ]
        rows.append({"name": run.classes[i], "cells": cells, "right": row[i]})
    return rows


def most_frequent_mistakes(run: RunRecord, shares: Shares) -> list[dict[str, Any]]:
    """The true class, the answer, how often and with which share, most frequent first."""
    pairs = [
        (count, i, j) for i, row in enumerate(run.confusion) for j, count in enumerate(row) if i != j and count > 0
    ]
    return [
        {"true": run.classes[i], "answer": run.classes[j], "count": count, "share": shares[i][j]}
        for count, i, j in sorted(pairs, key=lambda pair: (-pair[0], pair[1:]))[:LISTED]
    ]
