"""The numbers in image files, and the way in which they become the bytes that a network is trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steerable.data.files import Unusable
from steerable.errors import shown

__all__ = ["EARLIER", "LARGEST_REDUCTION", "PixelFormat", "Selection", "own_ranges"]

MOST_RANGES = 4  # that are written out in a sentence
DARKEST, BRIGHTEST = 1.0, 99.8  # per cent of an image's pixels that become 0, and that do not become 255
LARGEST_REDUCTION = 16  # of an image after it has been read; the sum of 16² bytes fits into 16 bits


@dataclass(frozen=True)
class Selection:
    """The pictures and channels of a file that are used.

    Args:
        page: the number of a page, counted from 0, or ``"all"``, which makes the pages channels of one image. None is
            the first page.
        channels: the numbers of the channels, counted from 0, in the order in which they are used. Empty means all but
            transparency, and red, green and blue of an image that has them.
        axes: 2 where the files hold images, 3 where they hold volumes, whose slices the pages of a file are.
    """

    page: int | str | None = None
    channels: tuple[int, ...] = ()
    axes: int = 2

    @staticmethod
    def parse(page: str | None, channels: str | None, axes: int = 2) -> Selection:
        """The selection that a user writes, such as ``("all", "0,2")``.

        >>> Selection.parse(None, "0,2")
        Selection(page=None, channels=(0, 2), axes=2)
        """
        if page is not None and page != "all" and not _is_number(page):
            raise ValueError(
                f"page is {page!r}, expected the number of a page, counted from 0, or `all`, which makes the pages "
                "channels of one image."
            )
        if page is not None and axes == 3:
            raise ValueError(
                f"page is {page!r}, and a volume has no pages to choose from: they are its slices. Leave it out."
            )
        numbers = [] if channels is None else [part.strip() for part in channels.split(",")]
        if not all(map(_is_number, numbers)) or len(set(map(int, numbers))) < len(numbers):
            raise ValueError(
                f"channels is {channels!r}, expected different numbers with commas between them, counted from 0, such "
                "as `1` or `0,2`."
            )
        return Selection(page if page in (None, "all") else int(page), tuple(map(int, numbers)), axes)

    def __bool__(self) -> bool:
        """Whether a page or channels are chosen."""
        return self.page is not None or bool(self.channels)

    def in_words(self) -> list[str]:
        """The choices, in a few words each."""
        page = [] if self.page is None else ["all pages" if self.page == "all" else f"page {self.page}"]
        which = "channel" if len(self.channels) == 1 else "channels"
        return [*page, *([f"{which} {_enumerated(list(map(str, self.channels)))}"] if self.channels else [])]


@dataclass(frozen=True)
class PixelFormat:
    """The way in which the numbers in the files of one data set become bytes.

    Bytes stay as they are. Other numbers, called counts here, go through one affine map for each channel,
    ``255 · (count - low) / (high - low)``, rounded and cut to 0 … 255. Where images are stretched, low and high are
    those of each image, see :func:`own_ranges`.

    Args:
        depth: what the numbers are: ``"8-bit"``, ``"16-bit"``, ``"32-bit"``, ``"64-bit"`` or ``"floating-point"``.
            Empty means any of these, each file being scaled by its own depth, as models without a format do it.
        channels: how many channels the images have.
        low, high: for each channel the counts that become 0 and 255; empty for bytes.
        selection: which pages and channels of the files are used.
        reduction: by how much the images are reduced after they have been read: the bytes of so many by so many pixels
            are averaged, see :func:`~steerable.data.squares.reduced`.
        stretch: 0, or the least difference of high and low where each image is stretched to its own range; one that has
            less shows nothing but noise. Low and high are empty then.
    """

    depth: str = ""
    channels: int = 0
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    selection: Selection = Selection()
    reduction: int = 1
    stretch: float = 0.0

    @property
    def shares_range(self) -> bool:
        """Whether all channels of an image have one range, so that its colours stay: red, green and blue do."""
        return self.channels == 3 and not self.selection

    @property
    def has_counts(self) -> bool:
        """Whether the files hold other numbers than bytes, which one range takes to bytes in all images."""
        return bool(self.low)

    def to_bytes(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Counts (…, channels, height, width), or those of volumes (…, channels, depth, height, width), as bytes."""
        values = counts.astype(np.float32)
        if self.stretch:
            low, high = own_ranges(values, self.shares_range)
            values = (values - low) * (255 / np.maximum(high - low, np.float32(self.stretch)))
        elif self.has_counts:
            low, factor = (value.reshape(-1, *[1] * self.selection.axes) for value in self.map())
            values = (values - low) * factor
        found: npt.NDArray[np.uint8] = np.rint(values.clip(0, 255)).astype(np.uint8)
        return found

    def map(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """(low, factor) for each channel: a count becomes the byte (count - low) · factor."""
        low, high = np.array(self.low), np.array(self.high)
        return low.astype(np.float32), (255 / (high - low)).astype(np.float32)

    def check(self, depth: str, channels: int) -> None:
        """Refuse an image of another depth or number of channels; grey and colours become each other."""
        if depth != self.depth:
            raise Unusable(
                f"its pixels are {depth}, expected {self.depth} as in the training images, because one scale does not "
                "fit both; give all images as the camera wrote them, or convert all of them"
            )
        if channels != self.channels and not {channels, self.channels} <= {1, 3}:
            raise Unusable(f"it has {_channels(channels)}, expected {self.channels} as in the training images")

    def in_words(self) -> str:
        """The kind of the images, for the line that a run begins with.

        >>> PixelFormat("16-bit", 1, (290.0,), (420.0,)).in_words()
        '16-bit grey, counts 290 … 420 shown as 0 … 255'
        """
        colours = {1: "grey", 3: "colour"}.get(self.channels, _channels(self.channels))
        chosen = "".join(f", {words}" for words in self.selection.in_words())
        if self.stretch:
            depth = "" if self.depth == "8-bit" else f"{self.depth} "
            return f"{depth}{colours}{chosen}, each image stretched to its own range"
        if not self.has_counts:
            return f"{colours}{chosen}"
        ranges = [f"{low:.6g} … {high:.6g}" for low, high in zip(self.low, self.high, strict=True)]
        if len(ranges) > MOST_RANGES:
            ranges[MOST_RANGES - 1 :] = ["so on"]
        numbers = "values" if self.depth == "floating-point" else "counts"
        return f"{self.depth} {colours}{chosen}, {numbers} {_enumerated(ranges)} shown as 0 … 255"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = {**asdict(self), "low": list(self.low), "high": list(self.high)}
        chosen = {"page": self.selection.page, "channels": list(self.selection.channels), "axes": self.selection.axes}
        return {**values, "selection": chosen}

    @staticmethod
    def from_dict(values: Mapping[str, Any] | None) -> PixelFormat:
        """A format from JSON; None is :data:`EARLIER`. A ValueError for anything else."""
        if values is None:
            return EARLIER
        try:
            page, chosen = values["selection"]["page"], ",".join(map(str, values["selection"]["channels"]))
            axes = int(values["selection"].get("axes", 2))  # which earlier models do not have
            selection = Selection.parse(None if page is None else str(page), chosen or None, axes)
            low, high = (tuple(float(count) for count in values[end]) for end in ("low", "high"))
            reduction = int(values.get("reduction", 1))  # which earlier models do not have
            stretch = float(values.get("stretch", 0.0))  # which earlier models do not have
            found = PixelFormat(str(values["depth"]), int(values["channels"]), low, high, selection, reduction, stretch)
        except (KeyError, TypeError, ValueError, OverflowError):
            found = EARLIER
        expected = 0 if found.depth == "8-bit" or found.stretch else found.channels
        is_scaled = _is_scale(found.low, found.high) and len(found.low) == expected and 0 <= found.stretch < np.inf
        is_known = bool(found.depth) and found.selection.axes in (2, 3)
        if not is_known or not is_scaled or not 1 <= found.reduction <= LARGEST_REDUCTION:
            raise ValueError(
                f"got {shown(values)} for the pixels of image files, expected their depth, their channels, and the "
                "counts that become 0 and 255."
            )
        return found


EARLIER = PixelFormat()
"""Each file by its own depth: 16 bits are divided by 257, floating-point numbers go to 1 or to 255."""


def own_ranges(counts: npt.NDArray[Any], together: bool) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(low, high) of an image (channels, height, width), (channels, 1, 1) each, or (1, 1, 1) of all channels together.

    They leave out the darkest 1 % of the pixels and the brightest 0.2 %. Turning the image does not change them.
    """
    ends = np.percentile(counts, (DARKEST, BRIGHTEST), axis=None if together else (1, 2), keepdims=True)
    low, high = ends.astype(np.float32)
    return low, high


def _channels(number: int) -> str:
    return f"{number} channel{'s' if number != 1 else ''}"


def _enumerated(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _is_scale(low: Sequence[float], high: Sequence[float]) -> bool:
    return len(low) == len(high) and all(np.isfinite([a, b]).all() and a < b for a, b in zip(low, high, strict=True))
