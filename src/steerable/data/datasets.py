"""Data sets by name, or from a folder or table of people's own images.

A new data set is a file that loads it and an entry of ``DATASETS``. Nothing here imports torch before it loads images,
so that help texts can list the names.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steerable.data.cifar_archives import CIFAR10, CIFAR100
from steerable.data.files import is_run_folder
from steerable.data.pixel_formats import PixelFormat, Selection
from steerable.errors import listing
from steerable.lazy import resolve

if TYPE_CHECKING:
    from steerable.data.images import Progress
    from steerable.data.labelled_images import LabelledImages
    from steerable.data.splits import Splits

__all__ = ["DATASETS", "SOURCES", "KnownDataSet", "check_selection_for", "check_source", "load_dataset"]


@dataclass(frozen=True)
class KnownDataSet:
    """A data set that has a name.

    Args:
        classes: the names of the classes, by label.
        channels: 1 for grey images, 3 for RGB.
        loader: the function that reads it, ``"module:name"``. It takes ``data_dir``, the folder with the data set's
            files or None, ``download``, whether it may fetch them, and ``seed``, that of the test split for data sets
            that come without one; it returns :class:`~steerable.data.splits.Splits`.
        axes: 2 for images, 3 for volumes.
    """

    classes: tuple[str, ...]
    channels: int
    loader: str
    axes: int = 2

    def load(self, data_dir: str | Path | None, *, download: bool, seed: int) -> Splits[LabelledImages]:
        """Read the images."""
        found: Splits[LabelledImages] = resolve(self.loader)(data_dir=data_dir, download=download, seed=seed)
        return found


MODELNET10 = (*("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet"),)

DATASETS = {
    "digits": KnownDataSet(tuple("0123456789"), 1, "steerable.data.digits:load_digits_by_name"),
    "cifar10": KnownDataSet(CIFAR10.classes, 3, "steerable.data.cifar:load_cifar10"),
    "cifar100": KnownDataSet(CIFAR100.classes, 3, "steerable.data.cifar:load_cifar100"),
    # Files of the official sizes in another order, for example; runs record the name, and which files differ.
    "cifar10-unchecked": KnownDataSet(CIFAR10.classes, 3, "steerable.data.cifar:load_unchecked_cifar10"),
    "cifar100-unchecked": KnownDataSet(CIFAR100.classes, 3, "steerable.data.cifar:load_unchecked_cifar100"),
    "modelnet10": KnownDataSet(MODELNET10, 1, "steerable.data.modelnet:load_modelnet10", axes=3),
}
"""The data sets that have a name."""

OWN_IMAGES = "a folder with one sub-folder of images per class, or a .csv file with the columns `file` and `label`"
SOURCES = f"{OWN_IMAGES}, or one of {', '.join(DATASETS)}"
"""What the images may come from, in words."""


def load_dataset(
    name_or_path: str | Path,
    data_dir: str | Path | None = None,
    download: bool = True,
    image_size: int | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    pixels: PixelFormat | Selection = Selection(),  # noqa: B008 - a frozen value
    group_by: str | None = None,
) -> Splits[LabelledImages]:
    """A data set, ready to train on.

    Args:
        name_or_path: a name from ``DATASETS``, a folder with one sub-folder of images per class, or a .csv file with
            the columns ``file`` and ``label``.
        data_dir: the folder with CIFAR, unpacked or as the official archive; by default a cache folder of this user.
            For ModelNet10 the folder with ``modelnet10.npz``.
        download: whether to fetch CIFAR where it is not found.
        image_size: scale all images to this height and width; by default their own.
        seed: the seed of the test split, for data that come without one.
        progress: called with (images read, all images) for folders and tables.
        pixels: for folders and tables, which pages and channels of the files to use, or all that is known about their
            pixels.
        group_by: what says which specimen an image belongs to, so that none is both trained and tested on: a column of
            a .csv file, or ``"folder"`` for the folders inside the class folders.
    """
    if isinstance(name_or_path, str) and name_or_path in DATASETS:
        check_selection_for(name_or_path, pixels)
        if group_by is not None:
            raise ValueError(
                f"`{name_or_path}` is a known data set, which has no specimens to group by; got group_by={group_by!r}. "
                "Leave that out."
            )
        found = DATASETS[name_or_path].load(data_dir, download=download, seed=seed)
        return found if image_size is None else found.resized(image_size)
    from steerable.data.folders import load_image_folder
    from steerable.data.label_tables import load_label_table

    path = Path(name_or_path).expanduser()
    check_source(name_or_path)
    load = load_image_folder if path.is_dir() else load_label_table
    return load(path, image_size=image_size, seed=seed, progress=progress, pixels=pixels, group_by=group_by)


def check_selection_for(name_or_path: str, pixels: PixelFormat | Selection) -> None:
    """Refuse a selection of pages or channels for a data set that is not made of people's own files."""
    if name_or_path in DATASETS and isinstance(pixels, Selection) and pixels:
        raise ValueError(
            f"`{name_or_path}` is a known data set, whose images have neither pages nor channels to choose from; got "
            f"{' and '.join(pixels.in_words())}. Leave that out."
        )


def check_source(name_or_path: str | Path) -> None:
    """Refuse anything that is neither a known data set nor a folder or table, before anything is read."""
    path = Path(name_or_path).expanduser()
    if not str(name_or_path).strip():
        raise ValueError(f"the data set's name is empty. Give {SOURCES}.")
    if name_or_path in DATASETS:
        if path.is_dir():
            warnings.warn(
                f"`{name_or_path}` is the known data set of that name, not the folder here; write ./{name_or_path} for "
                "the folder.",
                stacklevel=2,
            )
        return
    if path.is_dir() and is_run_folder(path):
        raise ValueError(
            f"`{path}` is a run folder, expected {OWN_IMAGES}. Give the images that it was trained on; to test its "
            f"network, `steerable evaluate {path}`."
        )
    if path.is_dir() or (path.is_file() and path.suffix.lower() == ".csv"):
        return
    if path.is_file():
        raise ValueError(f"`{path}` is a file, expected {OWN_IMAGES}.")
    raise ValueError(
        f"`{name_or_path}` is neither a known data set nor an existing folder. Known names: {listing(DATASETS)}. Or "
        f"give the path of {OWN_IMAGES}."
    )
