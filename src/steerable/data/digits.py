"""scikit-learn's handwritten digits: 1797 grey images of 8×8 pixels that come with the package."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F

from steerable.data.labelled_images import LabelledImages
from steerable.data.splits import Splits
from steerable.errors import check_choice
from steerable.extras import require

__all__ = ["load_digits", "load_digits_by_name"]

Fit = Literal["resize", "pad"]


def load_digits(
    image_size: int | None = None, *, fit: Fit = "resize", test_fraction: float = 0.2, seed: int = 0
) -> Splits[LabelledImages]:
    """The digits, (n, 1, 8, 8), split into training and test images with the same share of each class.

    Args:
        image_size: height and width; by default 8, the images' own.
        fit: ``"resize"`` scales the images, ``"pad"`` puts them into the middle of a black square.
        test_fraction: the share of test images.
        seed: the seed by which test images are chosen.
    """
    check_choice("fit", fit, get_args(Fit))
    if fit == "pad" and image_size is not None and image_size < 8:
        raise ValueError(
            f"8×8 digits cannot be padded to {image_size}×{image_size}. Use fit='resize' for smaller images."
        )
    require("sklearn", purpose="the data set `digits`")
    from sklearn import datasets

    raw = datasets.load_digits()
    images = torch.from_numpy(np.rint(raw.images * (255 / 16)).astype(np.uint8)).unsqueeze(1)  # ink is 0 to 16
    data = LabelledImages(images, torch.from_numpy(raw.target.astype(np.int64)), tuple(str(d) for d in range(10)))
    if image_size is not None and fit == "pad":
        before, after = (image_size - 8) // 2, (image_size - 7) // 2
        data = LabelledImages(F.pad(data.images, (before, after, before, after)), data.labels, data.classes)
    elif image_size is not None:
        data = data.resized(image_size)
    return Splits(*data.split(test_fraction, seed), name="digits")


def load_digits_by_name(*, data_dir: object, download: object, seed: int) -> Splits[LabelledImages]:
    """The digits for ``DATASETS``; they come with scikit-learn and need no folder and no download."""
    return load_digits(seed=seed)
