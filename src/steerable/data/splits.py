"""A data set as training and test images, and validation images if it has some."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from steerable.data.labelled_images import LabelledImages
from steerable.data.masked_images import MaskedImages
from steerable.data.pixel_formats import PixelFormat

__all__ = ["TEST_FRACTION", "Splits"]

TEST_FRACTION = 0.2
"""The share of test images, where none are marked."""

Images = TypeVar("Images", LabelledImages, MaskedImages)


@dataclass(frozen=True, eq=False)
class Splits(Generic[Images]):
    """A data set: training and test images of the same classes, channels and size, labelled or with masks.

    Args:
        train, test: the images.
        name: what reports call the data set.
        skipped: (path, reason) of files that could not be read.
        validation: validation images, where the data set comes with some.
        notes: what was noticed about the files, one sentence or two each.
        pixels: how the numbers in the files became bytes, for a folder or a table.
        values: the numbers in mask files that the classes stand for; empty if there are none, or they hold objects.
    """

    train: Images
    test: Images
    name: str
    skipped: tuple[tuple[str, str], ...] = ()
    validation: Images | None = None
    notes: tuple[str, ...] = ()
    pixels: PixelFormat | None = None
    values: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for other in (self.test, self.validation or self.test):
            for what in ("classes", "channels", "image_size"):
                ours, theirs = getattr(self.train, what), getattr(other, what)
                if ours != theirs:
                    raise ValueError(
                        f"training and test images of `{self.name}` must have the same classes, channels and size, "
                        f"because one network reads both; got {what} {ours} and {theirs}."
                    )

    def resized(self: Splits[LabelledImages], size: int) -> Splits[LabelledImages]:
        """The same images, scaled to this height and width."""
        validation = None if self.validation is None else self.validation.resized(size)
        return replace(self, train=self.train.resized(size), test=self.test.resized(size), validation=validation)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.train.classes

    @property
    def channels(self) -> int:
        return self.train.channels

    @property
    def image_size(self) -> tuple[int, ...]:
        """(height, width), or (depth, height, width) for volumes"""
        return self.train.image_size
