"""Specimens: images of one patient, plate or rock belong together, and are all trained on or all tested on.

Two crops of one specimen are alike. A network that was trained on one of them recognises the other, and a test on it
says nothing about specimens that the network has never seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steerable.errors import listing

__all__ = ["BY_FOLDER", "check_apart", "whole_specimens"]

BY_FOLDER = "folder"
"""What ``group_by`` is for a folder of images: the folders inside a class folder are the specimens."""


def whole_specimens(
    specimens: Sequence[str], labels: NDArray[np.int64], wanted: Sequence[float], seed: int
) -> NDArray[np.int64]:
    """The sorted numbers of the images of some specimens, about ``wanted[c]`` images of class c.

    Specimens are looked at in random order, and one is taken where it brings the classes nearer to what is wanted,
    Σ_c |taken_c - wanted_c| / n_c, and leaves each class an image. Where all are too large for that, each class that
    can spare one gives its smallest.

    Args:
        specimens: of each image.
        labels: the number of its class.
        wanted: how many images of each class to take.
        seed: the seed of the order.
    """
    classes = len(wanted)
    total = np.bincount(labels, minlength=classes)
    images: defaultdict[str, list[int]] = defaultdict(list)
    for number, specimen in enumerate(specimens):
        images[specimen].append(number)
    names = sorted(images)
    taken: list[str] = []
    have, weight = np.zeros(classes), 1 / np.maximum(total, 1)
    order = [names[k] for k in np.random.default_rng(seed).permutation(len(names))]
    shown = {name: np.bincount(labels[images[name]], minlength=classes) for name in names}
    for name in order:
        more = have + shown[name]
        nearer = (np.abs(more - wanted) * weight).sum() < (np.abs(have - wanted) * weight).sum()
        if nearer and (more < total)[total > 0].all():
            taken.append(name)
            have = more
    for c in range(classes) if not taken else ():
        fitting = [name for name in order if shown[name][c] and (have + shown[name] < total)[total > 0].all()]
        if not have[c] and fitting:
            taken.append(min(fitting, key=lambda name: len(images[name])))
            have = have + shown[taken[-1]]
    if not taken:
        raise ValueError(
            f"no whole specimen can be held out: there are {len(names)}, {listing(names, 5)}, and without any of them "
            "a class would have no images left. Add specimens, give test images of your "
            "own, or leave out --group-by."
        )
    return np.sort(np.concatenate([images[name] for name in taken]))


def check_apart(parts: dict[str, Sequence[str]], source: object) -> None:
    """Refuse test images of specimens that are trained on, if somebody else has divided the images."""
    train = set(parts.get("train", ()))
    for part, specimens in parts.items():
        if part != "train" and (both := sorted(train & set(specimens))):
            raise ValueError(
                f"`{source}` has images of {listing(both, 5)} for training and for {part}, which would make the "
                "figures too good. Put all images of a specimen into one part."
            )
