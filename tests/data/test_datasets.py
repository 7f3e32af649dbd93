"""Labelled images, their subsets and splits, the digits, and data sets by name."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from steerable import data, training
from steerable.data import DATASETS, LabelledImages, Splits, load_dataset, load_digits
from steerable.lazy import resolve

CLASSES = ("a", "b", "c")


def numbered(*counts: int) -> LabelledImages:
    """Images whose pixels are their own number; ``counts[c]`` of class c, classes mixed."""
    n = sum(counts)
    labels = torch.cat([torch.full((count,), c) for c, count in enumerate(counts)])
    labels = labels[torch.randperm(n, generator=torch.Generator().manual_seed(0))]
    images = torch.arange(n, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 2, 3, 4).contiguous()
    return LabelledImages(images, labels, CLASSES[: len(counts)])


def numbers(data: LabelledImages) -> list[int]:
    return data.images[:, 0, 0, 0].tolist()


def test_what_it_says_of_itself() -> None:
    data = numbered(5, 3, 2)
    assert (len(data), data.channels, data.image_size, data.counts) == (10, 2, (3, 4), (5, 3, 2))


@pytest.mark.parametrize(
    ("images", "labels", "error", "message"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2).long(), TypeError, r"uint8 tensor \(n, channels, height, width\)"),
        (torch.zeros(2, 4, 4).byte(), torch.zeros(2).long(), TypeError, r"got torch.uint8 of shape \(2, 4, 4\)"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.zeros(2), TypeError, r"int64 tensor \(n,\).*labels.long\(\)"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.zeros(3).long(), ValueError, "got 2 images and 3 labels"),
        (torch.zeros(0, 1, 4, 4).byte(), torch.zeros(0).long(), ValueError, "nothing to learn from"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.tensor([0, 3]), ValueError, "from 0 to 2 for 3 classes; got 0 to 3"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.tensor([-1, 1]), ValueError, "got -1 to 1"),
    ],
)
def test_wrong_tensors_are_refused(
    images: torch.Tensor, labels: torch.Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        LabelledImages(images, labels, CLASSES)


def test_a_subset_keeps_images_with_their_labels() -> None:
    data = numbered(5, 3, 2)
    part = data.subset([7, 0, 7])
    assert numbers(part) == [7, 0, 7]
    assert part.labels.tolist() == data.labels[[7, 0, 7]].tolist()


@pytest.mark.parametrize("size", [3, 6, 7, 8, 30])
def test_balanced_subsets(size: int) -> None:
    data = numbered(20, 12, 10)
    part = data.balanced_subset(size, seed=4)
    assert part.counts == tuple(size // 3 + (c < size % 3) for c in range(3))
    assert part.labels.tolist() == data.labels[numbers(part)].tolist()
    assert numbers(part) == sorted(set(numbers(part)))
    assert numbers(part) == numbers(data.balanced_subset(size, seed=4))
    if size < 30:
        assert numbers(part) != numbers(data.balanced_subset(size, seed=5))
        assert set(numbers(part)) <= set(numbers(data.balanced_subset(size + 1, seed=4)))


@pytest.mark.parametrize("each", [1, 4, 11, 30])
def test_at_most_so_many_of_each_class(each: int) -> None:
    data = numbered(20, 12, 10)
    part = data.at_most(each, seed=4)
    assert part.counts == tuple(min(each, count) for count in data.counts)
    assert part.labels.tolist() == data.labels[numbers(part)].tolist()
    assert numbers(part) == sorted(set(numbers(part)))
    assert set(numbers(part)) <= set(numbers(data.at_most(each + 1, seed=4)))
    with pytest.raises(ValueError, match="at least one image of each class, got 0"):
        data.at_most(0)


def test_a_class_with_too_few_images_is_named() -> None:
    with pytest.raises(ValueError, match=r"12 images takes 4 of each class.*`c \(2 of 4\)`.*Take at most 6 images"):
        numbered(5, 4, 2).balanced_subset(12)
    with pytest.raises(ValueError, match="at least one image, got size 0"):
        numbered(5, 4).balanced_subset(0)
    with pytest.raises(ValueError, match="`seed` must not be negative, got -1"):
        numbered(5, 4).balanced_subset(2, seed=-1)


@pytest.mark.parametrize(("part", "count"), [(0.25, 10), (10, 10), (1, 1), (37, 37), (0.001, 1)])
def test_splits_are_stratified_and_complete(part: float, count: int) -> None:
    data = numbered(20, 12, 8)
    rest, chosen = data.split(part, seed=3)
    assert len(chosen) == count
    assert sorted(numbers(rest) + numbers(chosen)) == list(range(40))
    assert min(rest.counts) >= 1
    assert all(abs(k - count * n / 40) < 1 for k, n in zip(chosen.counts, data.counts, strict=True))
    assert numbers(data.split(part, seed=3)[1]) == numbers(chosen)


def test_small_classes_keep_an_image() -> None:
    rest, chosen = numbered(9, 1, 1).split(8)
    assert (rest.counts, chosen.counts) == ((1, 1, 1), (8, 0, 0))


@pytest.mark.parametrize("part", [0, 0.0, 1.5, -0.1, -3, 38, 40])
def test_impossible_splits(part: float) -> None:
    with pytest.raises(ValueError, match=f"fraction between 0 and 1, or 1 to 37 of these 40 images.*got {part}"):
        numbered(20, 12, 8).split(part)


def test_resizing_keeps_symmetric_images_symmetric() -> None:
    data = LabelledImages(torch.arange(64).view(1, 1, 8, 8).byte(), torch.zeros(1).long(), ("a",))
    turned = LabelledImages(data.images.rot90(1, (-2, -1)), data.labels, ("a",))
    assert data.resized(8) is data
    assert data.resized((4, 6)).image_size == (4, 6)
    difference = data.resized(20).images.rot90(1, (-2, -1)).int() - turned.resized(20).images.int()
    assert difference.abs().max() <= 1
    with pytest.raises(ValueError, match=r"at least one pixel, got the size \(0, 0\)"):
        data.resized(0)


def test_training_and_test_images_must_fit() -> None:
    data = numbered(5, 3, 2)
    with pytest.raises(ValueError, match=r"`mine` must have the same.*got image_size \(3, 4\) and \(8, 8\)"):
        Splits(data, data.resized(8), "mine")
    splits = Splits(data, data.subset([0]), "mine")
    assert (splits.classes, splits.channels, splits.image_size, splits.skipped) == (CLASSES, 2, (3, 4), ())


def test_digits() -> None:
    splits = load_dataset("digits")
    assert (len(splits.train), len(splits.test), splits.image_size, splits.channels) == (1438, 359, (8, 8), 1)
    assert splits.classes == tuple("0123456789")
    assert (int(splits.train.images.min()), int(splits.train.images.max())) == (0, 255)
    assert max(splits.test.counts) - min(splits.test.counts) <= 2
    again = load_digits()
    assert torch.equal(splits.test.images, again.test.images)
    assert not torch.equal(splits.test.labels, load_digits(seed=1).test.labels)


def test_digits_of_other_sizes() -> None:
    small, large, padded = load_digits(), load_dataset("digits", image_size=16), load_digits(11, fit="pad")
    assert (large.image_size, padded.image_size) == ((16, 16), (11, 11))
    assert torch.equal(padded.train.images[:, :, 1:9, 1:9], small.train.images)
    assert int(padded.train.images.sum()) == int(small.train.images.sum())
    with pytest.raises(ValueError, match="cannot be padded to 4×4"):
        load_digits(4, fit="pad")
    with pytest.raises(ValueError, match="`fit` must be one of resize, pad; got 'crop'"):
        load_digits(fit="crop")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["cifar", "no/such/folder", Path("digits")])
def test_unknown_names_come_with_the_known_ones(
    name: str | Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ", ".join(f"`{known}`" for known in DATASETS)
    with pytest.raises(ValueError, match=f"neither a known data set nor an existing folder.*{names}"):
        load_dataset(name)
    assert {"digits", "cifar10", "cifar100"} <= set(DATASETS)


@pytest.mark.parametrize("name", DATASETS)
def test_every_entry_says_what_its_loader_gives(name: str) -> None:
    """CIFAR's and ModelNet's files are not here: the loader is only found, and the names of the classes are counted."""
    entry = DATASETS[name]
    assert callable(resolve(entry.loader))
    if name.startswith(("cifar", "modelnet")):
        assert len(set(entry.classes)) == int("".join(filter(str.isdigit, name)))
    else:
        found = entry.load(None, download=False, seed=0)
        assert (found.classes, found.channels, found.name) == (entry.classes, entry.channels, name)


def test_the_names_are_known_without_torch() -> None:
    code = "import sys; from steerable.data.datasets import DATASETS, SOURCES; print(SOURCES, 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.endswith(f"or one of {', '.join(DATASETS)} False\n")


def test_names_of_data_are_still_found_where_they_were() -> None:
    assert all(getattr(training, name) is getattr(data, name) for name in data.__all__)
