"""Copies of one picture: whether two images are the same, pixel by pixel, and whether test images were trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from steerable.data.squares import Pixels
from steerable.errors import listing

__all__ = ["digest", "trained_and_tested"]


def digest(pixels: Pixels) -> bytes:
    """SHA-256 of the pixels of an image."""
    return hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).digest()


def trained_and_tested(train: Iterable[Pixels], test: Iterable[Pixels], files: Sequence[str]) -> list[str]:
    """A note that names test images of which a copy is among the training images; those of one colour do not count.

    Args:
        train, test: the pixels of the images.
        files: the names of the test images.
    """
    known = set(map(digest, train))
    copies = [
        name
        for name, pixels in zip(files, test, strict=True)
        if np.ptp(pixels.reshape(len(pixels), -1), axis=1).any() and digest(pixels) in known
    ]
    if not copies:
        return []
    count = "1 test image is" if len(copies) == 1 else f"{len(copies):,} test images are"
    return [
        f"{count} among the training images as well, pixel by pixel, which makes the test look better than it is: "
        f"{listing(copies, 5)}. Remove the copies."
    ]
