"""Arrays and figures as images that are part of the page itself: no file is written for them."""

from __future__ import annotations

import base64
import io

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from steerable.algebra.arrays import FloatArray
from steerable.figures.style import ACCENT, house_style, signed
from steerable.reporting.markup import Html, tag

__all__ = ["figure_image", "head_cell", "picture_image", "signed_image", "tinted"]


@house_style
def figure_image(figure: Figure, alt: str) -> Html:
    """A matplotlib figure, sharp on fine screens."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=144, metadata={"Software": None})
    width = round(96 * figure.get_size_inches()[0])
    return tag("div", _image(file.getvalue(), alt, width=width), class_="st-figure")


def picture_image(picture: FloatArray, alt: str, width: int = 120) -> Html:
    """(height, width) in grey or (height, width, 3), from 0 to 1; one square per pixel."""
    colours = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    return _image(_png(np.rint(255 * np.clip(colours, 0, 1)).astype(np.uint8)), alt, width=width, class_="st-pixels")


def signed_image(
    array: FloatArray, alt: str, *, largest: float, scale: int = 3, mark: tuple[int, int] | None = None
) -> Html:
    """(height, width): red for positive, blue for negative, white for zero, between ±``largest``.

    Each number is a square of ``scale`` screen pixels; ``mark`` frames the one at (row, column).
    """
    enlarged = np.kron(_coloured(array, largest), np.ones((scale, scale, 1), np.uint8))
    if mark is not None:
        top, left = (scale * (k - 1) for k in mark)
        bottom, right = (scale * (k + 2) for k in mark)
        frame = np.array([int(ACCENT[k : k + 2], 16) for k in (1, 3, 5)], np.uint8)
        for rows, columns in (((top, top + 1), (left, right)), ((bottom - 1, bottom), (left, right))):
            enlarged[max(rows[0], 0) : max(rows[1], 0), max(columns[0], 0) : columns[1]] = frame
        for columns in ((left, left + 1), (right - 1, right)):
            enlarged[max(top, 0) : bottom, max(columns[0], 0) : max(columns[1], 0)] = frame
    return _image(_png(enlarged), alt, width=enlarged.shape[1], class_="st-pixels")


def head_cell(*parts: object) -> Html:
    """The first cell of a row, which names it."""
    return tag("td", *parts, class_="st-head")


def tinted(value: float, largest: float, text: str) -> Html:
    """A table cell in the colour of its number."""
    red, green, blue = _coloured(np.array([[value]]), largest * 1.6)[0, 0]
    return tag("td", text, class_="st-tinted", style=f"background:rgb({red} {green} {blue})")


def _coloured(array: FloatArray, largest: float) -> NDArray[np.uint8]:
    scale = largest if largest > 0 else 1.0
    colours = np.asarray(signed()(np.clip(0.5 + array / (2 * scale), 0, 1)))
    on_white = colours[..., :3] * colours[..., 3:] + 1 - colours[..., 3:]  # gaps are transparent
    return np.asarray(np.rint(255 * on_white), dtype=np.uint8)


def _png(colours: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(colours).save(file, format="png")
    return file.getvalue()


def _image(png: bytes, alt: str, *, width: int, class_: str | None = None) -> Html:
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    # An image element has no end tag, so that it is not made by ``tag``; the text is escaped there.
    attributes = tag("a", src=source, alt=alt, width=width, class_=class_).removeprefix("<a").removesuffix("></a>")
    return Html(f"<img{attributes}>")
