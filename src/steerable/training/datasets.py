"""Data sets by name, or from a folder of one's own images."""

from __future__ import annotations

from pathlib import Path

from steerable.errors import listing
from steerable.training.cifar import CIFAR10, CIFAR100, load_cifar
from steerable.training.digits import load_digits
from steerable.training.folders import load_image_folder
from steerable.training.images import Progress
from steerable.training.labelled import LabelledImages, Splits

__all__ = ["DATASETS", "LabelledImages", "Splits", "load_dataset"]

DATASETS = ("digits", "cifar10", "cifar100")


def load_dataset(
    name_or_path: str | Path,
    data_dir: str | Path | None = None,
    download: bool = True,
    image_size: int | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Splits:
    """A data set, ready to train on.

    Args:
        name_or_path: ``"digits"``, ``"cifar10"``, ``"cifar100"``, or a folder with one sub-folder of images per class.
        data_dir: where CIFAR lies, unpacked or as the official archive; by default a cache folder of this user.
        download: fetch CIFAR where it is not found.
        image_size: scale all images to this height and width; by default their own.
        seed: of the test split, where the data have none of their own.
        progress: called with (images read, all images) for folders.
    """
    if name_or_path == "digits":
        return load_digits(image_size, seed=seed)
    for cifar in (CIFAR10, CIFAR100):
        if name_or_path == cifar.name:
            splits = load_cifar(cifar, data_dir, download=download)
            if image_size is None:
                return splits
            return Splits(splits.train.resized(image_size), splits.test.resized(image_size), splits.name)
    if Path(name_or_path).is_dir():
        return load_image_folder(name_or_path, image_size=image_size, seed=seed, progress=progress)
    raise ValueError(
        f"`{name_or_path}` is neither a known data set nor an existing folder. Known names: {listing(DATASETS)}; or "
        "give the path of a folder with one sub-folder of images per class."
    )
