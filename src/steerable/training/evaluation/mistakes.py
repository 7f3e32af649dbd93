"""The mistakes worth looking at: test images with the surest wrong answers, as small pictures."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from steerable.data.labelled_images import LabelledImages

__all__ = ["as_png", "thumbnail", "worst_mistakes"]

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


def _slices(volume: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(channels, side, 3 sides and a gap between them) of (channels, depth, height, width)."""
    middles = [volume.take(volume.shape[axis] // 2, axis) for axis in (1, 2, 3)]
    highest = max(picture.shape[1] for picture in middles)
    columns = []
    for picture in middles:
        above = (highest - picture.shape[1]) // 2
        gap = ((0, 0), (above, highest - picture.shape[1] - above), (0, 1))
        columns.append(np.pad(picture, gap, constant_values=255))
    return np.concatenate(columns, axis=2)[:, :, :-1]


def thumbnail(image: Tensor, largest: int = LARGEST_SIDE) -> str:
    """uint8 (channels, height, width) as base64 of a PNG whose sides are at most ``largest`` pixels.

    The first three channels are shown as red, green and blue. Of a volume (channels, depth, height, width) the three
    slices through the middle are shown side by side: across its depth, its height and its width.
    """
    from PIL import Image

    pixels = _slices(image.cpu().numpy()[:3]) if image.ndim == 4 else image.cpu().numpy()[:3]
    if len(pixels) == 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    picture.thumbnail((largest if image.ndim == 3 else 3 * largest, largest))
    return as_png(picture)


def as_png(picture: Any) -> str:
    """One of Pillow's images as base64 of a PNG."""
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()
