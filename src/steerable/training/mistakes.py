"""The mistakes worth looking at: test images that were most surely taken for something else, as small pictures."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from torch import Tensor

from steerable.data.labelled_images import LabelledImages

__all__ = ["thumbnail", "worst_mistakes"]

LARGEST_SIDE = 96


def worst_mistakes(scores: Tensor, data: LabelledImages, *, limit: int = 48) -> dict[str, Any]:
    """The wrong answers with the highest probability, most certain first.

    Args:
        scores: (n, classes), those of the test images.
        data: the test images.
        limit: how many to keep.

    Returns:
        Plain values for JSON: how many mistakes there are in all (``count``), and for each of the ``worst`` its true
        and its predicted class, the probability of the latter, the file, and the picture as base64 of a PNG.
    """
    probability, answer = scores.float().cpu().softmax(1).max(1)
    wrong = (answer != data.labels.cpu()).nonzero().flatten()
    order = wrong[probability[wrong].argsort(descending=True, stable=True)]
    return {
        "count": len(wrong),
        "worst": [
            {
                "true": data.classes[int(data.labels[k])],
                "predicted": data.classes[int(answer[k])],
                "probability": float(probability[k]),
                "file": data.files[k] if data.files else None,
                "png": thumbnail(data.images[k]),
            }
            for k in order[:limit].tolist()
        ],
    }


def thumbnail(image: Tensor, largest: int = LARGEST_SIDE) -> str:
    """uint8 (channels, height, width) as base64 of a PNG whose sides are at most ``largest`` pixels.

    The first three channels are shown as red, green and blue.
    """
    from PIL import Image

    pixels = image.cpu().numpy()[:3]
    if len(pixels) == 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    picture.thumbnail((largest, largest))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()
