"""Tiles and their masks: they move together, depend on the seed alone, and come from everywhere in an image."""

from __future__ import annotations

import pytest
import torch

from steerable.data.augmentation import Augmentation
from steerable.data.masked_images import MaskedImages
from steerable.data.tile_batches import TileBatches


def coded(sizes: list[tuple[int, int]], tile: int = 32) -> MaskedImages:
    """Images whose first channel says which class a pixel has: smooth stripes, so that interpolation keeps them."""
    images, masks = [], []
    for number, (height, width) in enumerate(sizes):
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        mask = ((rows // 12 + columns // 15 + number) % 3).int()
        images.append(torch.stack([(100 * mask).byte(), torch.full_like(mask, 10 * number).byte()]))
        masks.append(mask)
    return MaskedImages(tuple(images), tuple(masks), ("a", "b", "c"), tile)


AUGMENTATIONS = {
    "none": None,
    "flips": Augmentation(0, padding="reflect"),
    "quarter turns": Augmentation(0, dihedral=True, padding="reflect"),
    "any angle": Augmentation(0, angle=180.0, scale=1.3, padding="reflect"),
    "levels": Augmentation(0, angle=45.0, padding="reflect", contrast=0.0, brightness=0.0),
}


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_masks_move_with_their_images(name: str) -> None:
    data = coded([(64, 80), (40, 33), (20, 24)])
    batches = TileBatches(data, 4, seed=3, device="cpu", augment=AUGMENTATIONS[name])
    for images, masks in batches:
        assert images.shape[1:] == (2, 32, 32)
        assert masks.shape[1:] == (32, 32)
        assert masks.dtype == torch.int64
        # The colour says the class, but for pixels between two of them, which are interpolated.
        error = (images[:, 0].float() - 100 * masks).abs()
        if name in ("none", "flips", "quarter turns"):
            assert error.max() == 0
        else:
            assert (error > 101).float().mean() < 0.01  # half of the largest step, but for corners
            assert (error == 0).float().mean() > 0.6


def test_a_batch_depends_on_seed_epoch_and_number_alone() -> None:
    data = coded([(64, 80), (40, 48)])
    augment = AUGMENTATIONS["any angle"]
    first, second = (TileBatches(data, 4, seed=1, device="cpu", augment=augment) for _ in range(2))
    for batches in (first, second):
        batches.set_epoch(2)
    list(first)
    for a, b in zip(first.batch(1), second.batch(1), strict=True):
        assert torch.equal(a, b)
    second.set_epoch(3)
    assert not torch.equal(first.batch(0)[0], second.batch(0)[0])
    other = TileBatches(data, 4, seed=2, device="cpu", augment=augment)
    assert not torch.equal(first.batch(0)[0], other.batch(0)[0])


def test_processes_share_a_batch() -> None:
    data = coded([(64, 80), (40, 48)])
    whole = TileBatches(data, 4, seed=1, device="cpu")
    parts = [TileBatches(data, 4, seed=1, device="cpu", rank=rank, world_size=2) for rank in range(2)]
    together = torch.cat([part.batch(0)[0] for part in parts])
    assert torch.equal(whole.batch(0)[0], together)


def test_an_epoch_shows_each_image_and_all_of_it() -> None:
    data = coded([(320, 320), (32, 32)])
    assert data.samples == 101
    assert data.samples_per_epoch == 101
    shown = torch.cat([images[:, 1, 0, 0] for images, _ in TileBatches(data, 16, seed=0, device="cpu")])
    assert (shown == 10).sum() >= 1
    assert (shown == 0).sum() > 80
    # Every pixel of a large image may be seen: the corners, too.
    place = torch.arange(40 * 40).view(40, 40)
    image = torch.stack([place // 256, place % 256]).byte()
    large = MaskedImages((image,), (torch.zeros(40, 40, dtype=torch.int32),), ("a", "b"), 32)
    seen: set[int] = set()
    batches = TileBatches(large, 9, seed=0, device="cpu")
    for epoch in range(400):
        batches.set_epoch(epoch)
        images, _ = batches.batch(0)
        corners = images[:, :, [0, 0, -1, -1], [0, -1, 0, -1]].long()
        seen.update((256 * corners[:, 0] + corners[:, 1]).flatten().tolist())
    assert {0, 39, 39 * 40, 39 * 40 + 39} <= seen
