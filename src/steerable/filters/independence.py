"""Filters that the grid can tell apart: those of a list that are linearly independent after sampling."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from steerable.algebra.arrays import FloatArray
from steerable.filters.harmonics import HarmonicFilter

__all__ = ["independent"]

# The least share of a filter's length that the filters before it must not have in common with it. Between what the
# grid can carry and what it cannot there is a wide gap, except in the largest kernels.
_OWN_SHARE = 0.01


def independent(filters: Iterable[HarmonicFilter]) -> tuple[list[HarmonicFilter], list[HarmonicFilter]]:
    """(kept, dropped): each filter is kept unless most of it is in the span of the filters kept before.

    A pair is dropped where its two filters are multiples of each other, as sin 4φ and cos 4φ are on eight taps.
    """
    kept: list[HarmonicFilter] = []
    dropped: list[HarmonicFilter] = []
    span: FloatArray | None = None
    for candidate in filters:
        taps = candidate.taps / max(float(np.linalg.norm(candidate.taps, axis=0).max()), 1e-300)
        span = np.zeros((len(taps), 0)) if span is None else span
        for _ in range(2):  # twice is enough for orthogonality to rounding error
            taps = taps - span @ (span.T @ taps)
        directions, own, _ = np.linalg.svd(taps, full_matrices=False)
        if own[-1] < _OWN_SHARE:
            dropped.append(candidate)
            continue
        kept.append(candidate)
        span = np.concatenate([span, directions], axis=1)
    return kept, dropped
