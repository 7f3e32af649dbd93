"""Augmentation: symmetries, shifts, and that the same draw moves images alike."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from smooth_images import images, turns

from steerable.data import Augmentation, augment

PADDINGS = {"zero": "constant", "reflect": "reflect"}


@pytest.mark.parametrize("padding", ["zero", "reflect"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_augmentation_is_symmetry_then_shift(padding: str, dtype: torch.dtype) -> None:
    """Against pad and crop of every image by itself, for every draw there is."""
    chosen = Augmentation(2, dihedral=True, padding=padding)  # type: ignore[arg-type]
    draws = torch.tensor(list(itertools.product((-2, 0, 1), (-1, 0, 2), range(8))))
    data = images(len(draws), 2, 5, 5).to(dtype)
    moved = chosen.apply(data, draws)
    for image, (down, right, symmetry), result in zip(data, draws.tolist(), moved, strict=True):
        x = image.flip(-1) if symmetry & 1 else image
        x = x.flip(-2) if symmetry & 2 else x
        x = x.mT if symmetry & 4 else x
        padded = F.pad(x[None].float(), (2, 2, 2, 2), PADDINGS[padding])[0].to(dtype)
        assert torch.equal(result, padded[:, 2 - down : 7 - down, 2 - right : 7 - right])


def test_the_eight_symmetries_are_all_different() -> None:
    x = images(1, 1, 5, 5).expand(8, -1, -1, -1)
    moved = Augmentation(0, dihedral=True).apply(x, torch.tensor([[0, 0, g] for g in range(8)]))
    assert {y.numpy().tobytes() for y in moved} == {y.contiguous().numpy().tobytes() for y in turns(x[0])}


def test_draws_cover_everything_evenly() -> None:
    draws = Augmentation(1, dihedral=True).draw(7200, torch.Generator().manual_seed(0))
    values, counts = draws.unique(dim=0, return_counts=True)
    assert len(values) == 9 * 8
    assert counts.min() > 60
    assert counts.max() < 150
    assert Augmentation(1).draw(100, torch.Generator())[:, 2].unique().tolist() == [0, 1]
    assert Augmentation(0, flip=False).draw(100, torch.Generator()).unique().tolist() == [0]


def test_rows_pick_images() -> None:
    data, rows = images(6, 3, 5, 4), torch.tensor([4, 0, 4, 5])
    chosen = Augmentation(1)
    draws = chosen.draw(4, torch.Generator().manual_seed(0))
    assert torch.equal(chosen.apply(data, draws, rows), chosen.apply(data[rows], draws))


def test_augment_is_reproducible_and_leaves_its_input_alone() -> None:
    data = images(40, 3, 9, 9)
    before = data.clone()
    first, again, other = (augment(data, torch.Generator().manual_seed(s), shift=2) for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(data, before)
    assert torch.equal(augment(data, torch.Generator(), shift=0, flip=False), data)
    assert augment(data, torch.Generator(), dihedral=True).shape == data.shape
    assert augment(images(3, 1, 8, 6), torch.Generator(), padding="reflect").dtype == torch.uint8


def test_wrong_augmentations() -> None:
    with pytest.raises(ValueError, match="`shift` must not be negative, got -1"):
        Augmentation(-1)
    with pytest.raises(ValueError, match="`padding` must be one of zero, reflect; got 'wrap'"):
        Augmentation(padding="wrap")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shift by 4 moves a 4×8 image out of sight"):
        augment(images(1, 1, 4, 8), torch.Generator())
    with pytest.raises(ValueError, match="quarter turns need square images, got 5×8"):
        augment(images(1, 1, 5, 8), torch.Generator(), dihedral=True)
