"""Images of any size with a class, or an object, for each pixel; their subsets and splits."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from steerable.errors import check_choice

__all__ = ["MaskKind", "MaskedImages"]

MaskKind = Literal["classes", "instances"]

MOST_TILES = 512  # of an epoch, where there are not more images: validation comes often enough


@dataclass(frozen=True, eq=False)
class MaskedImages:
    """Images with one label for each pixel.

    Args:
        images: uint8, (channels, height, width) each, with heights and widths of their own.
        masks: int32, (height, width) each: the number of a class, 0 to ``len(classes) - 1``, or where ``kind`` is
            ``"instances"`` 0 for the background and one number for each object.
        classes: the names of the classes; two where the masks hold objects.
        tile: the side of the squares that a network is trained on.
        kind: what the numbers of the masks mean.
        files: where each image came from, or empty.
    """

    images: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]
    classes: tuple[str, ...]
    tile: int
    kind: MaskKind = "classes"
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(MaskKind))
        if self.tile < 1:
            raise ValueError(f"a tile has a side of at least 1 pixel, got tile={self.tile}.")
        if not self.images:
            raise ValueError("there is nothing to learn from: no image was given.")
        if len(self.images) != len(self.masks) or (self.files and len(self.files) != len(self.images)):
            raise ValueError(
                f"every image has one mask, and one file or none; got {len(self.images)} images, {len(self.masks)} "
                f"masks and {len(self.files)} files."
            )
        for image, mask in zip(self.images, self.masks, strict=True):
            if image.dtype != torch.uint8 or image.ndim != 3 or len(image) != self.channels:
                raise TypeError(
                    f"images are uint8 tensors ({self.channels}, height, width); got {image.dtype} of shape "
                    f"{tuple(image.shape)}."
                )
            if mask.dtype != torch.int32 or mask.shape != image.shape[1:]:
                raise TypeError(
                    f"the mask of an image {tuple(image.shape)} is an int32 tensor {tuple(image.shape[1:])}; got "
                    f"{mask.dtype} of shape {tuple(mask.shape)}."
                )
        if self.kind == "classes" and (highest := max(int(mask.max()) for mask in self.masks)) >= len(self.classes):
            raise ValueError(f"masks hold 0 to {len(self.classes) - 1}, the numbers of the classes; got {highest}.")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def channels(self) -> int:
        return len(self.images[0])

    @property
    def image_size(self) -> tuple[int, int]:
        """(height, width) of what a network is trained on."""
        return self.tile, self.tile

    def class_map(self, number: int) -> Tensor:
        """The class number of each pixel of an image, int64 (height, width); all objects have the same class."""
        mask = self.masks[number].long()
        return mask if self.kind == "classes" else (mask > 0).long()

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many images show each class."""
        found = np.zeros(len(self.classes), np.int64)
        for number in range(len(self)):
            found[self.class_map(number).unique().numpy()] += 1
        return tuple(found.tolist())

    @cached_property
    def objects(self) -> int:
        """How many objects the masks number."""
        return sum(len(torch.unique(mask[mask > 0])) for mask in self.masks)

    @property
    def samples(self) -> float:
        """How many tiles cover all pixels: the work of looking at everything once."""
        return sum(mask.numel() for mask in self.masks) / self.tile**2

    @property
    def samples_per_epoch(self) -> int:
        """How many tiles an epoch draws: enough to cover the images, at most 512, at least one for each image."""
        return max(len(self), min(MOST_TILES, math.ceil(self.samples)))

    @property
    def digest(self) -> str:
        """SHA-256 of the pixels, masks, tile and class names; equal digests mean equal data sets."""
        found = hashlib.sha256(repr((self.classes, self.kind, self.tile)).encode())
        for image, mask in zip(self.images, self.masks, strict=True):
            found.update(repr(tuple(image.shape)).encode())
            found.update(image.contiguous().numpy().tobytes())
            found.update(mask.contiguous().numpy().tobytes())
        return found.hexdigest()

    def subset(self, indices: Sequence[int] | Tensor) -> MaskedImages:
        """The images with these numbers, in this order."""
        chosen = [int(number) for number in indices]
        return replace(
            self,
            images=tuple(self.images[k] for k in chosen),
            masks=tuple(self.masks[k] for k in chosen),
            files=tuple(self.files[k] for k in chosen) if self.files else (),
        )

    def balanced_subset(self, size: int, seed: int = 0) -> MaskedImages:
        """``size`` random images in their original order; smaller subsets lie inside larger ones."""
        if not 1 <= size <= len(self):
            raise ValueError(f"a subset has 1 to {len(self)} of these images, got size {size}.")
        return self.subset(sorted(self._shuffled(seed)[:size]))

    def split(self, part: float | int, seed: int = 0) -> tuple[MaskedImages, MaskedImages]:
        """Return (the rest, the part), each with at least one image.

        Args:
            part: a number of images, or a fraction between 0 and 1, which is cut to what there is to give.
            seed: the seed by which images are chosen.
        """
        share = isinstance(part, float) and 0 < part < 1
        count = min(max(1, round(part * len(self))), len(self) - 1) if share else part
        if count != int(count) or not 1 <= count < len(self):
            raise ValueError(
                f"a split takes a fraction between 0 and 1, or 1 to {len(self) - 1} of these {len(self)} images, since "
                f"one has to stay; got {part}."
            )
        order = self._shuffled(seed)
        return self.subset(sorted(order[int(count) :])), self.subset(sorted(order[: int(count)]))

    def middles(self, most: float) -> MaskedImages:
        """The middle of each image, so that all together cover at most this many tiles; or the whole images."""
        if self.samples <= most:
            return self
        # Images that are smaller than their share leave more to the others.
        side, areas = 0.0, sorted(mask.numel() for mask in self.masks)
        left = most * self.tile**2
        for number, area in enumerate(areas):
            side = math.sqrt(left / (len(areas) - number))
            if area > side**2:
                break
            left -= area
        cuts = [_middle(mask.shape[0], mask.shape[1], max(self.tile, int(side))) for mask in self.masks]
        return replace(
            self,
            images=tuple(image[:, rows, columns] for image, (rows, columns) in zip(self.images, cuts, strict=True)),
            masks=tuple(mask[rows, columns] for mask, (rows, columns) in zip(self.masks, cuts, strict=True)),
        )

    def _shuffled(self, seed: int) -> list[int]:
        if seed < 0:
            raise ValueError(f"`seed` must not be negative, got {seed}.")
        return [int(k) for k in np.random.default_rng(seed).permutation(len(self))]


def _middle(height: int, width: int, side: int) -> tuple[slice, slice]:
    """Rows and columns of the middle square with this side, or of as much as there is."""
    top, left = max(0, (height - side) // 2), max(0, (width - side) // 2)
    return slice(top, top + side), slice(left, left + side)
