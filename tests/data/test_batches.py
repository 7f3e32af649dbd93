"""Batches: each epoch shows every image once, in an order that depends on the seed and the epoch alone."""

import pytest
import torch

from steerable.data import Augmentation, DeviceBatches, LabelledImages

N = 23


def data(n: int = N) -> LabelledImages:
    images = torch.arange(n * 2 * 6 * 6).remainder(251).view(n, 2, 6, 6).byte()
    images[:, 0, 0, 0] = torch.arange(n)
    return LabelledImages(images, torch.arange(n) % 3, ("a", "b", "c"))


def batches(size: int = 6, *, n: int = N, shuffle: bool = True, seed: int = 0, **options: object) -> DeviceBatches:
    return DeviceBatches(data(n), size, shuffle=shuffle, seed=seed, device="cpu", **options)  # type: ignore[arg-type]


def numbers(loader: DeviceBatches) -> list[list[int]]:
    return [images[:, 0, 0, 0].tolist() for images, _ in loader]


def flat(lists: list[list[int]]) -> list[int]:
    return [k for part in lists for k in part]


def same(first: DeviceBatches, second: DeviceBatches) -> bool:
    pairs = zip(first, second, strict=True)
    return all(torch.equal(x, y) and torch.equal(k, m) for (x, k), (y, m) in pairs)


def test_an_epoch_shows_every_image_once() -> None:
    loader = batches()
    seen = numbers(loader)
    assert [len(batch) for batch in seen] == [6, 6, 6, 5]
    assert len(loader) == 4
    assert sorted(flat(seen)) == list(range(N))
    for images, labels in loader:
        assert labels.tolist() == [int(k) % 3 for k in images[:, 0, 0, 0]]
        assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)


def test_without_shuffling_the_order_is_the_datas() -> None:
    loader = batches(shuffle=False)
    assert flat(numbers(loader)) == list(range(N))
    loader.set_epoch(3)
    assert flat(numbers(loader)) == list(range(N))


@pytest.mark.parametrize("augment", [None, Augmentation(2), Augmentation(1, angle=45, scale=1.2, contrast=0.2)])
def test_a_batch_depends_on_seed_epoch_and_number_alone(augment: Augmentation | None) -> None:
    first, second = batches(augment=augment), batches(augment=augment)
    for epoch in (0, 1, 2):  # one loader runs through all epochs, the other jumps
        first.set_epoch(epoch)
        history = list(first)
    second.set_epoch(2)
    next(iter(second))
    assert same(first, second)
    for k in (3, 0, 2):
        assert torch.equal(second.batch(k)[0], history[k][0])
    torch.manual_seed(1)  # the global generator does not matter, nor is it used
    assert same(first, second)
    second.set_epoch(1)
    assert not same(first, second)
    other = batches(seed=1, augment=augment)
    other.set_epoch(2)
    assert not same(first, other)


def test_no_two_epochs_are_alike() -> None:
    loader, orders = batches(), set()
    for epoch in range(20):
        loader.set_epoch(epoch)
        orders.add(tuple(flat(numbers(loader))))
    assert len(orders) == 20


def test_a_running_epoch_is_not_disturbed() -> None:
    loader = batches(augment=Augmentation(1))
    expected = list(loader)
    running = iter(loader)
    seen = [next(running)]
    loader.set_epoch(7)
    seen += running
    assert all(torch.equal(x, y) for (x, _), (y, _) in zip(seen, expected, strict=True))


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize(
    "augment",
    [None, Augmentation(2, dihedral=True, padding="reflect"), Augmentation(angle=180, scale=1.1, padding="reflect")],
)
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_parts_of_all_processes_are_the_whole(world_size: int, augment: Augmentation | None, shuffle: bool) -> None:
    whole = batches(shuffle=shuffle, augment=augment)
    parts = [batches(shuffle=shuffle, augment=augment, rank=rank, world_size=world_size) for rank in range(world_size)]
    for loader in (whole, *parts):
        loader.set_epoch(5)
    assert {len(part) for part in parts} == {len(whole)}
    for k, ((images, labels), *shares) in enumerate(zip(whole, *parts, strict=True)):
        assert torch.equal(torch.cat([share[0] for share in shares]), images)
        assert torch.equal(torch.cat([share[1] for share in shares]), labels)
        sizes = [len(share[1]) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == whole.global_size(k) == parts[0].global_size(k)


def test_augmentation_moves_images() -> None:
    plain, moved = batches(), batches(augment=Augmentation(2))
    assert [labels.tolist() for _, labels in plain] == [labels.tolist() for _, labels in moved]
    assert not same(plain, moved)


def test_the_epoch_is_settled_by_the_first_batch() -> None:
    """Lightning calls ``iter`` before it says which epoch a resumed run is in."""
    loader = batches()
    early = iter(loader)
    loader.set_epoch(3)
    assert loader.epoch == 3
    assert [images[:, 0, 0, 0].tolist() for images, _ in early] == numbers(loader)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "positive multiple of their number; got 0 for 1 processes"),
        ({"size": 7, "world_size": 2}, "got 7 for 2 processes"),
        ({"rank": 2, "world_size": 2}, "`rank` goes from 0 to `world_size` - 1; got rank 2 of 2"),
        ({"size": 22, "world_size": 2}, "leave a last batch of 1 for 2 processes.*Use another batch_size"),
        ({"seed": -1}, "`seed` must not be negative, got -1"),
        ({"augment": Augmentation(6)}, "shift by 6 moves a 6×6 image out of sight"),
    ],
)
def test_wrong_settings(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(**options)  # type: ignore[arg-type]


def test_wrong_numbers() -> None:
    loader = batches()
    with pytest.raises(ValueError, match="counted from 0, got -1"):
        loader.set_epoch(-1)
    with pytest.raises(IndexError, match="numbered 0 to 3, got 4"):
        loader.batch(4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize(
    "augment", [Augmentation(2, dihedral=True), Augmentation(2, angle=45, scale=1.2, contrast=0.1, padding="reflect")]
)
def test_a_gpu_sees_the_same_batches(fits: bool, augment: Augmentation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pixels are interpolated, to the rounding of a grey level."""
    monkeypatch.setattr("steerable.data.batches.fits", lambda *_: fits)
    on_gpu = DeviceBatches(data(), 6, shuffle=True, seed=0, device="cuda", augment=augment)
    for (x, k), (y, m) in zip(on_gpu, batches(augment=augment), strict=True):
        assert x.device.type == "cuda"
        assert int((x.cpu().int() - y.int()).abs().max()) <= augment.interpolates
        assert torch.equal(k.cpu(), m)
