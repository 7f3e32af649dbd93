"""Batches of tiles: squares at random places of large images, turned and scaled together with their masks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from steerable.data.augmentation import Augmentation
from steerable.data.batches import Batches, fits
from steerable.data.masked_images import MaskedImages
from steerable.data.regions import connected_regions
from steerable.models.tiling import mirrored_indices

__all__ = ["TileBatches"]

Plan = tuple[Tensor, Tensor, Tensor | None]


class TileBatches(Batches):
    """Batches of uint8 tiles (b, channels, tile, tile) and the numbers in their masks, int64 (b, tile, tile).

    An epoch has ``data.samples_per_epoch`` tiles: one of each image, and further ones of images in proportion to their
    pixels. A tile lies anywhere in its image, and what sticks out is continued as in a mirror. Image and mask are
    sampled at the same places: bilinearly, and by the nearest pixel. Where masks hold objects, an object and its image
    in the mirror have numbers of their own, unless they touch.

    Args:
        data: the images with their masks; they lie on the device where they take at most half of its free memory.
        batch_size: tiles in a batch of all processes together.
        seed, device, rank, world_size: see :class:`~steerable.data.batches.Batches`.
        augment: what is done to the tiles at random, or None.
    """

    def __init__(
        self,
        data: MaskedImages,
        batch_size: int,
        *,
        seed: int,
        device: torch.device | str,
        augment: Augmentation | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        samples = data.samples_per_epoch
        super().__init__(samples, batch_size, seed=seed, device=device, rank=rank, world_size=world_size)
        self.augment, self.tile, self.classes = augment, data.tile, data.classes
        size = sum(image.numel() + 4 * image[0].numel() for image in data.images)
        home = self.device if fits(size, self.device) else torch.device("cpu")
        self._images = [image.to(home) for image in data.images]
        self._numbered = data.kind == "instances"
        self._masks = [mask.to("cpu" if self._numbered else home) for mask in data.masks]
        self._areas = torch.tensor([float(mask.numel()) for mask in data.masks])
        self._side = self.tile
        if augment is not None and augment.interpolates:
            # What a turned and shrunk tile may show, and the mirror of `grid_sample` never gets to see.
            turned = math.sqrt(2) if augment.angle % 90 else 1.0
            reach = math.ceil(self.tile * turned * augment.scale) + 2
            self._side = reach + (reach - self.tile) % 2  # both have the same centre

    def _draw(self, generator: torch.Generator) -> Plan:
        count = len(self._images)
        more = self.samples - count
        numbers = torch.arange(count)
        if more > 0:
            numbers = torch.cat([numbers, torch.multinomial(self._areas, more, replacement=True, generator=generator)])
        numbers = numbers[torch.randperm(self.samples, generator=generator)]
        places = torch.rand(self.samples, 2, generator=generator)
        return numbers, places, None if self.augment is None else self.augment.draw(self.samples, generator)

    def _cut(self, plan: Plan, part: slice) -> tuple[Tensor, Tensor]:
        numbers, places, draws = plan
        cut = [self._crop(int(k), place.tolist()) for k, place in zip(numbers[part], places[part], strict=True)]
        images = torch.stack([image for image, _ in cut]).to(self.device, non_blocking=True)
        masks = torch.stack([mask for _, mask in cut]).to(self.device, non_blocking=True)
        if self.augment is not None and draws is not None:
            size = self.tile, self.tile
            images = self.augment.apply(images, draws[part], size=size)
            masks = self.augment.apply_to_labels(masks, draws[part], size)
        return images, masks.long()

    def _crop(self, number: int, place: list[float]) -> tuple[Tensor, Tensor]:
        """The surroundings of a tile, (channels, side, side) and (side, side)."""
        image, mask = self._images[number], self._masks[number]
        indices, sticks_out = [], False
        for length, share in zip(mask.shape, place, strict=True):
            free = max(0, length - self.tile)
            start = int(share * (free + 1)) if free else (length - self.tile) // 2
            around = (self._side - self.tile) // 2
            indices.append(mirrored_indices(start - around, self._side, length))
            sticks_out |= start < around or start + self.tile + around > length
        rows, columns = (each.to(image.device) for each in indices)
        picture = image.index_select(1, rows).index_select(2, columns)
        rows, columns = (each.to(mask.device) for each in indices)
        labels = mask.index_select(0, rows).index_select(1, columns)
        if self._numbered and sticks_out:
            labels = torch.from_numpy(connected_regions(labels.numpy())[0])
        return picture, labels
