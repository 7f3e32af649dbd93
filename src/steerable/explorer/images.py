"""Arrays and figures as images that are part of the page itself, without files."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from steerable.algebra.arrays import FloatArray
from steerable.figures.style import ACCENT, house_style, signed

__all__ = ["InlineImage", "TintedCell", "figure_image", "picture_image", "shown_number", "signed_image", "tinted"]


@dataclass(frozen=True)
class InlineImage:
    """An image for a template.

    Args:
        png: the file's content.
        alt: what it shows, in words.
        width: in pixels of the page.
    """

    png: bytes
    alt: str
    width: int

    @property
    def source(self) -> str:
        """The address of the image: the image itself."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"


@dataclass(frozen=True)
class TintedCell:
    """A number in print, and the colour behind it."""

    text: str
    colour: str


@house_style
def figure_image(figure: Figure, alt: str) -> InlineImage:
    """A matplotlib figure, sharp on fine screens."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=144, metadata={"Software": None})
    return InlineImage(file.getvalue(), alt, round(96 * figure.get_size_inches()[0]))


def picture_image(picture: FloatArray, alt: str, width: int = 120) -> InlineImage:
    """An array (height, width) in grey or (height, width, 3) in colour, from 0 to 1; each pixel is a square."""
    colours = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    return InlineImage(_png(Image.fromarray(np.rint(255 * np.clip(colours, 0, 1)).astype(np.uint8))), alt, width)


def signed_image(
    array: FloatArray, alt: str, *, largest: float, scale: int = 3, mark: tuple[int, int] | None = None
) -> InlineImage:
    """An array (height, width): red for positive, blue for negative, white for zero, between ±``largest``.

    Each number is a square of ``scale`` screen pixels; ``mark`` frames the one at (row, column).
    """
    image = Image.fromarray(np.kron(_coloured(array, largest), np.ones((scale, scale, 1), np.uint8)))
    if mark is not None:
        row, column = mark
        start, end = (scale * (column - 1), scale * (row - 1)), (scale * (column + 2) - 1, scale * (row + 2) - 1)
        ImageDraw.Draw(image).rectangle((start, end), outline=ACCENT)
    return InlineImage(_png(image), alt, image.width)


def shown_number(value: float) -> str:
    """An entry of a matrix or a character as text; rounded to a whole number if it is one up to rounding errors."""
    return f"{round(value)}" if abs(value - round(value)) < 1e-9 else f"{value:.3f}"


def tinted(value: float, largest: float, text: str) -> TintedCell:
    """A table cell in the colour of its number."""
    red, green, blue = _coloured(np.array([[value]]), largest * 1.6)[0, 0]
    return TintedCell(text, f"rgb({red} {green} {blue})")


def _coloured(array: FloatArray, largest: float) -> NDArray[np.uint8]:
    scale = largest if largest > 0 else 1.0
    colours = np.asarray(signed()(np.clip(0.5 + array / (2 * scale), 0, 1)))
    on_white = colours[..., :3] * colours[..., 3:] + 1 - colours[..., 3:]  # gaps are transparent
    return np.asarray(np.rint(255 * on_white), dtype=np.uint8)


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, format="png")
    return file.getvalue()
