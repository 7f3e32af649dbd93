"""Label images as files: PNG with 8 or 16 bits or with colours, or TIFF with 32 bits."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steerable.data.mask_files import COLOUR

__all__ = ["label_file"]


def label_file(labels: npt.NDArray[Any], values: Sequence[int] = (), *, kind: Literal["PNG", "TIFF"] = "PNG") -> bytes:
    """The bytes of a file with the numbers of a label image, (height, width).

    Args:
        labels: uint8 or uint16 for a PNG, int32 for a TIFF.
        values: what to write in place of the numbers 0, 1, …, such as the numbers or colours that masks had; those that
            no PNG can hold are not written.
        kind: of the file.
    """
    from PIL import Image

    picture = labels
    if values and max(values) >= COLOUR:
        colours = np.array(values, np.int64)[labels] - COLOUR
        picture = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=2).astype(np.uint8)
    elif values and max(values) < 2**16:
        picture = np.array(values, np.uint8 if max(values) < 256 else np.uint16)[labels]
    file = io.BytesIO()
    compression = {"compression": "tiff_lzw"} if kind == "TIFF" else {}
    Image.fromarray(picture).save(file, kind, **compression)
    return file.getvalue()
