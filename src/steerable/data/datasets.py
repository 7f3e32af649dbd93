"""Data sets by name, or from a folder or table of one's own images."""

from __future__ import annotations

import warnings
from pathlib import Path

from steerable.data.cifar import CIFAR10, CIFAR100, load_cifar
from steerable.data.digits import load_digits
from steerable.data.folders import load_image_folder
from steerable.data.images import Progress
from steerable.data.label_tables import load_label_table
from steerable.data.labelled_images import LabelledImages, Splits
from steerable.errors import listing

__all__ = ["DATASETS", "LabelledImages", "Splits", "check_source", "load_dataset"]

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
        name_or_path: ``"digits"``, ``"cifar10"``, ``"cifar100"``, a folder with one sub-folder of images per class,
            or a .csv file with the columns ``file`` and ``label``.
        data_dir: where CIFAR lies, unpacked or as the official archive; by default a cache folder of this user.
        download: fetch CIFAR where it is not found.
        image_size: scale all images to this height and width; by default their own.
        seed: of the test split, where the data have none of their own.
        progress: called with (images read, all images) for folders and tables.
    """
    if name_or_path == "digits":
        return load_digits(image_size, seed=seed)
    for cifar in (CIFAR10, CIFAR100):
        if name_or_path == cifar.name:
            splits = load_cifar(cifar, data_dir, download=download)
            if image_size is None:
                return splits
            return Splits(splits.train.resized(image_size), splits.test.resized(image_size), splits.name)
    path = Path(name_or_path).expanduser()
    check_source(name_or_path)
    load = load_image_folder if path.is_dir() else load_label_table
    return load(path, image_size=image_size, seed=seed, progress=progress)


def check_source(name_or_path: str | Path) -> None:
    """Refuse what is neither a known data set nor a folder or table, before anything is read."""
    path = Path(name_or_path).expanduser()
    if not str(name_or_path).strip():
        raise ValueError("the data set's name is empty; give a folder with one sub-folder of images per class.")
    if name_or_path in DATASETS and path.is_dir():
        warnings.warn(
            f"`{name_or_path}` is the known data set of that name, not the folder here; write ./{name_or_path} for the "
            "folder.",
            stacklevel=2,
        )
    if name_or_path in DATASETS or path.is_dir() or (path.is_file() and path.suffix.lower() == ".csv"):
        return
    if path.is_file():
        raise ValueError(
            f"`{path}` is a file, expected a folder with one sub-folder of images per class, or a .csv file with the "
            "columns `file` and `label`."
        )
    raise ValueError(
        f"`{name_or_path}` is neither a known data set nor an existing folder. Known names: {listing(DATASETS)}; or "
        "give the path of a folder with one sub-folder of images per class, or of a .csv file with the columns `file` "
        "and `label`."
    )
