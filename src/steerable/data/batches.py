"""Batches that are cut on the device, in an order that depends on nothing but the seed and the epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steerable.data.augmentation import Augmentation
from steerable.data.labelled_images import LabelledImages

__all__ = ["Batches", "DeviceBatches", "fits"]


class Batches(ABC):
    """Iterates over the batches of an epoch: images (b, channels, height, width) and their labels.

    Batch k of epoch e is a function of (seed, e, k), augmentation included, on any device and whatever was iterated
    before; only if images are turned or scaled may devices differ in the rounding of a grey level. Each of several
    processes gets its part of every batch; together the parts are the batch of one process.

    Args:
        samples: how many images an epoch has.
        batch_size: images in a batch of all processes together.
        seed: the seed of order and augmentation.
        device: where the batches are needed.
        rank: the number of this process.
        world_size: the number of processes, a divisor of ``batch_size``.
    """

    def __init__(
        self,
        samples: int,
        batch_size: int,
        *,
        seed: int,
        device: torch.device | str,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if seed < 0:
            raise ValueError(f"`seed` must not be negative, got {seed}.")
        if not 0 <= rank < world_size:
            raise ValueError(f"`rank` goes from 0 to `world_size` - 1; got rank {rank} of {world_size}.")
        if batch_size < 1 or batch_size % world_size:
            raise ValueError(
                "`batch_size` counts the images of all processes and must be a positive multiple of their number; got "
                f"{batch_size} for {world_size} processes."
            )
        if 0 < (last := samples % batch_size) < world_size:
            raise ValueError(
                f"{samples} images leave a last batch of {last} for {world_size} processes, and each needs an "
                "image. Use another batch_size."
            )
        self.samples, self.batch_size, self.rank, self.world_size = samples, batch_size, rank, world_size
        self.seed = seed
        self.device = torch.device(device)
        self._epoch = 0
        self._plan: Any = None

    @abstractmethod
    def _draw(self, generator: torch.Generator) -> Any:
        """The order of an epoch, and the moves of its images. Drawn at once: one transfer, no waiting."""

    @abstractmethod
    def _cut(self, plan: Any, part: slice) -> tuple[Tensor, Tensor]:
        """The images of the plan in these places, and their labels, on the device."""

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return -(-self.samples // self.batch_size)

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that is iterated next."""
        if epoch < 0:
            raise ValueError(f"epochs are counted from 0, got {epoch}.")
        if epoch != self._epoch:
            self._epoch, self._plan = epoch, None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        # The epoch is settled by the first batch, not by `iter`: a resumed Lightning run calls that before `set_epoch`.
        plan = self._planned()
        for number in range(len(self)):
            yield self._cut(plan, self._part(number))

    def batch(self, number: int) -> tuple[Tensor, Tensor]:
        """This process's part of batch ``number`` of the epoch."""
        self._check(number)
        return self._cut(self._planned(), self._part(number))

    def global_size(self, number: int) -> int:
        """The number of images in batch ``number``, over all processes.

        Where the last batch does not divide evenly, a mean over it is the sum over processes of each one's mean times
        its share of these images.
        """
        self._check(number)
        return min(self.batch_size, self.samples - number * self.batch_size)

    def _check(self, number: int) -> None:
        if not 0 <= number < len(self):
            raise IndexError(f"batches of an epoch are numbered 0 to {len(self) - 1}, got {number}.")

    def _planned(self) -> Any:
        if self._plan is None:
            state = np.random.SeedSequence((self.seed, self._epoch)).generate_state(1, np.uint64)
            # On the CPU: the same numbers for every device.
            self._plan = self._draw(torch.Generator().manual_seed(int(state[0])))
        return self._plan

    def _part(self, number: int) -> slice:
        """The places of this process's part of a batch in the epoch."""
        each, more = divmod(self.global_size(number), self.world_size)
        start = number * self.batch_size + self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))


class DeviceBatches(Batches):
    """Batches of uint8 images (b, channels, height, width) and int64 labels (b,), on the device.

    Args:
        data: the images; they are copied to the device as bytes, once. Where they would take more than half of a
            GPU's free memory, they stay outside and are sent batch by batch.
        batch_size: images in a batch of all processes together.
        shuffle: whether each epoch has a new order.
        seed, device, rank, world_size: see :class:`Batches`.
        augment: what is done to the images at random, or None.
    """

    def __init__(
        self,
        data: LabelledImages,
        batch_size: int,
        *,
        shuffle: bool,
        seed: int,
        device: torch.device | str,
        augment: Augmentation | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(len(data), batch_size, seed=seed, device=device, rank=rank, world_size=world_size)
        if augment is not None:
            augment.check(*data.image_size)
        self.shuffle, self.augment = shuffle, augment
        self.classes = data.classes
        home = self.device if data.images.is_cuda or fits(data.images.numel(), self.device) else "cpu"
        self._images, self._labels = data.images.to(home), data.labels.to(home)

    def _draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        order = torch.randperm(self.samples, generator=generator) if self.shuffle else torch.arange(self.samples)
        draws = None if self.augment is None else self.augment.draw(self.samples, generator).to(self._images.device)
        return order.to(self._images.device), draws

    def _cut(self, plan: tuple[Tensor, Tensor | None], part: slice) -> tuple[Tensor, Tensor]:
        order, draws = plan
        rows = order[part]
        if self.augment is None or draws is None:
            images = self._images[rows]
        else:
            images = self.augment.apply(self._images, draws[part], rows)
        return images.to(self.device, non_blocking=True), self._labels[rows].to(self.device, non_blocking=True)


def fits(size: int, device: torch.device) -> bool:
    """Whether this many bytes leave at least half of the free GPU memory to the network."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return size <= free // 2
