"""Images stretched to their own range, so that dim and bright ones look alike, and the test that decides about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from steerable.data.images import read_counts
from steerable.data.pixel_formats import PixelFormat, own_ranges
from steerable.errors import check_choice

__all__ = ["Stretching", "with_stretching"]

Stretching = Literal["auto", "yes", "no"]

LOOKED_AT = 64  # training images, at most
FAR_APART = 2.0  # times, by which the ranges of images may differ before each is stretched by itself
LEAST = 1 / 8  # of the usual range: what has less of it shows noise, which is not stretched to the full


def with_stretching(pixels: PixelFormat, training: Sequence[Path], wanted: Stretching = "auto") -> PixelFormat:
    """The same pixels, or pixels with each image stretched to its own range.

    By default that depends on the training images: it is done where the ranges of their counts, without the tenth that
    is widest and the tenth that is narrowest, differ by more than a factor of two.

    Args:
        pixels: how the numbers of the files become bytes.
        training: the files of training images.
        wanted: ``"yes"`` and ``"no"`` decide it.
    """
    check_choice("stretch", wanted, get_args(Stretching))
    if wanted == "no" or not pixels.depth:
        return pixels
    some = training[:: max(1, -(-len(training) // LOOKED_AT))]
    found = read_counts(some, None, pixels)
    ranges = [_width(one[0], pixels) for one in found if not isinstance(one, str)]
    ranges = [width for width in ranges if width > 0]
    if not ranges:
        return pixels
    narrow, usual, wide = np.percentile(ranges, (10, 50, 90))
    if wanted == "auto" and wide <= FAR_APART * narrow:
        return pixels
    return replace(pixels, low=(), high=(), stretch=float(LEAST * usual))


def _width(counts: np.ndarray, pixels: PixelFormat) -> float:
    low, high = own_ranges(counts, pixels.shares_range)
    return float((high - low).max())
