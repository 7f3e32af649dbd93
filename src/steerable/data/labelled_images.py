"""Labelled images or volumes in memory, their subsets and splits."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.data.cubes import middle_cube
from steerable.data.specimens import whole_specimens
from steerable.data.squares import reduced
from steerable.errors import listing

__all__ = ["LabelledImages"]


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images or volumes with the numbers of their classes.

    Args:
        images: uint8, (n, channels, height, width), or (n, channels, depth, height, width) for volumes.
        labels: int64, (n,), each from 0 to ``len(classes) - 1``.
        classes: the names of the classes.
        files: where each image came from, or empty.
        specimens: what each image shows a part of, or empty; images of one specimen are never divided by ``split``.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    files: tuple[str, ...] = ()
    specimens: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim not in (4, 5):
            raise TypeError(
                "images are a uint8 tensor (n, channels, height, width), or with a depth for volumes; got "
                f"{self.images.dtype} of shape {tuple(self.images.shape)}. Keep them as bytes: `Normalisation` makes "
                "floats of each batch."
            )
        if self.labels.dtype != torch.int64 or self.labels.ndim != 1:
            raise TypeError(
                f"labels are an int64 tensor (n,) of class numbers; got {self.labels.dtype} of shape "
                f"{tuple(self.labels.shape)}. Convert them with `labels.long()`."
            )
        if len(self.images) != len(self.labels):
            raise ValueError(f"every image has one label; got {len(self.images)} images and {len(self.labels)} labels.")
        for what, known in (("file", self.files), ("specimen", self.specimens)):
            if known and len(known) != len(self.labels):
                raise ValueError(f"every image has one {what}, or none has; got {len(known)} for {len(self)} images.")
        if not self.images.numel():
            raise ValueError(f"there is nothing to learn from: images have the shape {tuple(self.images.shape)}.")
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= len(self.classes):
            raise ValueError(
                f"labels go from 0 to {len(self.classes) - 1} for {len(self.classes)} classes; got {low} to {high}."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def channels(self) -> int:
        return self.images.shape[1]

    @property
    def image_size(self) -> tuple[int, ...]:
        """(height, width), or (depth, height, width)"""
        return tuple(self.images.shape[2:])

    @property
    def counts(self) -> tuple[int, ...]:
        """How many images each class has."""
        return tuple(torch.bincount(self.labels, minlength=len(self.classes)).tolist())

    @property
    def samples(self) -> float:
        """How many images a network sees when it sees everything once."""
        return len(self)

    @property
    def samples_per_epoch(self) -> int:
        """How many images an epoch of training has."""
        return len(self)

    @property
    def comfortable_batch(self) -> int:
        """The number of images per batch outside training: 500 of 32×32 pixels, fewer of larger ones."""
        return max(1, min(500, 500 * 32 * 32 // math.prod(self.image_size)))

    @property
    def digest(self) -> str:
        """SHA-256 of the pixels, labels and class names; equal digests mean equal data sets."""
        found = hashlib.sha256(repr((self.classes, tuple(self.images.shape))).encode())
        found.update(self.labels.cpu().numpy().tobytes())
        for chunk in self.images.split(4096):  # a copy of everything might not fit
            found.update(chunk.cpu().numpy().tobytes())
        return found.hexdigest()

    def subset(self, indices: Sequence[int] | Tensor) -> LabelledImages:
        """The images with these numbers, in this order."""
        chosen = torch.as_tensor(indices, dtype=torch.int64, device=self.labels.device)
        about = [tuple(known[int(i)] for i in chosen) if known else () for known in (self.files, self.specimens)]
        return LabelledImages(self.images[chosen], self.labels[chosen], self.classes, *about)

    def balanced_subset(self, size: int, seed: int = 0) -> LabelledImages:
        """``size`` images, the same number of each class, in their original order.

        Where the classes do not divide ``size``, the first classes have one image more. With the same seed a smaller
        subset lies inside a larger one.
        """
        if size < 1:
            raise ValueError(f"a subset has at least one image, got size {size}.")
        each, rest = divmod(size, len(self.classes))
        wanted = [each + (c < rest) for c in range(len(self.classes))]
        lacking = [
            f"{name} ({have} of {want})"
            for name, have, want in zip(self.classes, self.counts, wanted, strict=True)
            if have < want
        ]
        if lacking:
            raise ValueError(
                f"a balanced subset of {size} images takes {each + bool(rest)} of each class, and these have fewer: "
                f"{listing(lacking)}. Take at most {min(self.counts) * len(self.classes)} images."
            )
        return self.subset(self._sample(wanted, seed))

    def at_most(self, each: int, seed: int = 0) -> LabelledImages:
        """``each`` images of every class, or all of a class that has fewer, in their original order.

        With the same seed a smaller subset lies inside a larger one.
        """
        if each < 1:
            raise ValueError(f"a subset has at least one image of each class, got {each}.")
        return self.subset(self._sample([min(each, count) for count in self.counts], seed))

    def split(self, part: float | int, seed: int = 0) -> tuple[LabelledImages, LabelledImages]:
        """Return (the rest, the part): each class gives the same share to the part, and keeps at least one image.

        Where images belong to specimens, whole specimens go to the part, and the shares are as near as these allow.

        Args:
            part: a number of images, or a fraction between 0 and 1, which is cut to what there is to give.
            seed: the seed by which images are chosen.
        """
        room = [max(0, n - 1) for n in self.counts]
        share = isinstance(part, float) and 0 < part < 1
        count = min(max(1, round(part * len(self))), sum(room)) if share else part
        if count != int(count) or not 1 <= count <= sum(room):
            raise ValueError(
                f"a split takes a fraction between 0 and 1, or 1 to {sum(room)} of these {len(self)} images, since "
                f"every class keeps one; got {part}."
            )
        ideal = [count * n / len(self) for n in self.counts]
        if self.specimens:
            chosen = torch.from_numpy(whole_specimens(self.specimens, self.labels.cpu().numpy(), ideal, seed))
            return self._without(chosen), self.subset(chosen)
        quota = [min(int(share), free) for share, free in zip(ideal, room, strict=True)]
        # Largest remainders first; again and again, because small classes may have no room.
        by_remainder = sorted(range(len(ideal)), key=lambda c: quota[c] - ideal[c])
        while sum(quota) < count:
            for c in by_remainder:
                quota[c] += quota[c] < room[c] and sum(quota) < count
        chosen = self._sample(quota, seed)
        return self._without(chosen), self.subset(chosen)

    def _without(self, chosen: Tensor) -> LabelledImages:
        rest = torch.ones(len(self), dtype=torch.bool)
        rest[chosen] = False
        return self.subset(rest.nonzero().flatten())

    def resized(self, size: int | tuple[int, ...]) -> LabelledImages:
        """The same images, scaled to (height, width) with antialiased bilinear interpolation.

        Volumes become cubes; see :func:`~steerable.data.cubes.middle_cube`.
        """
        target = (size,) * len(self.image_size) if isinstance(size, int) else size
        if min(target) < 1:
            raise ValueError(f"an image has at least one pixel, got the size {target}.")
        if target == self.image_size:
            return self
        if len(target) == 3:
            cubes = (middle_cube(volume.astype(np.float32), target[0]) for volume in self.images.cpu().numpy())
            bytes_ = np.stack([np.rint(cube).clip(0, 255).astype(np.uint8) for cube in cubes])
            return replace(self, images=torch.from_numpy(bytes_))
        scaled = [
            F.interpolate(chunk.float(), target, mode="bilinear", antialias=True).round_().clamp_(0, 255).byte()
            for chunk in self.images.split(1024)  # in pieces: floats take four times the memory
        ]
        return replace(self, images=torch.cat(scaled))

    def reduced(self, factor: int) -> LabelledImages:
        """The same images with sides that are ``factor`` times smaller, each pixel the mean of a block of them."""
        smaller = torch.from_numpy(reduced(self.images.cpu().numpy(), factor)).to(self.images.device)
        return replace(self, images=smaller)

    def _sample(self, wanted: Sequence[int], seed: int) -> Tensor:
        """The sorted numbers of ``wanted[c]`` random images of each class c, drawn class by class."""
        if seed < 0:
            raise ValueError(f"`seed` must not be negative, got {seed}.")
        labels = self.labels.cpu().numpy()
        chosen = [
            np.random.default_rng((seed, c)).permutation(np.flatnonzero(labels == c))[:count]
            for c, count in enumerate(wanted)
        ]
        return torch.from_numpy(np.sort(np.concatenate(chosen)))
