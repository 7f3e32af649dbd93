"""Images with masks as they are evaluated: whole, in their own size, one after another."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from steerable.data.masked_images import MaskedImages

__all__ = ["WholeImages"]


class WholeImages:
    """Iterates over (uint8 (1, channels, height, width), int64 numbers (1, height, width)), on the device.

    Every one of several processes goes through all images, and all say the same.

    Args:
        data: the images with their masks.
        device: where they are needed.
    """

    def __init__(self, data: MaskedImages, device: torch.device | str) -> None:
        self.data, self.device = data, torch.device(device)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for number, image in enumerate(self.data.images):
            yield image[None].to(self.device), self.data.masks[number].long()[None].to(self.device)
