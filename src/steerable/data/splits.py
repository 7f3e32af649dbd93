"""A data set as training and test images, and validation images where it has some."""

from __future__ import annotations

from dataclasses import dataclass, replace

from steerable.data.labelled_images import LabelledImages
from steerable.data.pixel_formats import PixelFormat

__all__ = ["Splits"]


@dataclass(frozen=True, eq=False)
class Splits:
    """A data set: training and test images of the same classes, channels and size.

    Args:
        train, test: the images.
        name: what reports call the data set.
        skipped: (path, reason) of files that could not be read.
        validation: validation images, where the data set comes with some.
        notes: what was noticed about the files, one sentence or two each.
        pixels: how the numbers in the files became bytes, for a folder or a table.
    """

    train: LabelledImages
    test: LabelledImages
    name: str
    skipped: tuple[tuple[str, str], ...] = ()
    validation: LabelledImages | None = None
    notes: tuple[str, ...] = ()
    pixels: PixelFormat | None = None

    def __post_init__(self) -> None:
        for other in (self.test, self.validation or self.test):
            for what in ("classes", "channels", "image_size"):
                ours, theirs = getattr(self.train, what), getattr(other, what)
                if ours != theirs:
                    raise ValueError(
                        f"training and test images of `{self.name}` must have the same classes, channels and size, "
                        f"because one network reads both; got {what} {ours} and {theirs}."
                    )

    def resized(self, size: int) -> Splits:
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
        """(height, width), or (depth, height, width) of volumes"""
        return self.train.image_size
