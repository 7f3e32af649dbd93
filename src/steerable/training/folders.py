"""Image folders with one sub-folder per class: people's own data, of any size, colour or grey."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from steerable.errors import listing
from steerable.training.images import Pixels, Progress, image_files, image_sizes, read_squares
from steerable.training.labelled import LabelledImages, Splits

__all__ = ["load_image_folder"]

TEST_FOLDERS = ("test", "val")
LARGEST_DEFAULT = 128


def load_image_folder(
    root: str | Path,
    *,
    image_size: int | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    progress: Progress | None = None,
) -> Splits:
    """All images under ``root``, as squares (n, channels, image_size, image_size).

    The sub-folders of ``root/train`` and ``root/test`` (or ``root/val``) are the classes; without these two, those of
    ``root``, and a share of each class becomes the test images. Images keep their aspect, and lose what sticks out of
    the middle square; see :func:`~steerable.training.images.read_squares`. They are grey (1 channel) if all are,
    else RGB. Files that cannot be read are left out, named in one warning and listed in ``skipped``.

    Args:
        root: the folder.
        image_size: height and width. By default the images' own, where all are squares of one size up to 128; else the
            median of their shorter sides, at most 128, rounded down to a multiple of 4, which halves twice.
        test_fraction: the share of test images, where there is no test folder.
        seed: which images these are.
        progress: called with (images read, all images) after each image.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise FileNotFoundError(f"`{root}` is not a folder. Give a folder with one sub-folder of images per class.")
    test_folder = next((root / name for name in TEST_FOLDERS if (root / name).is_dir()), None)
    parts = [root] if test_folder is None or not (root / "train").is_dir() else [root / "train", test_folder]
    classes = _classes(parts[0])
    files = [(part, label, path) for part in parts for label, path in _files(part, classes, required=part == parts[0])]
    paths = [path for _, _, path in files]
    size = _common_size(paths, root) if image_size is None else image_size
    good, skipped = [], []
    for (part, label, path), pixels in zip(files, read_squares(paths, size, progress), strict=True):
        if isinstance(pixels, str):
            skipped.append((path.relative_to(root).as_posix(), pixels))
        else:
            good.append((part, label, pixels))
    _check_all_present(parts, classes, [(part, label) for part, label, _ in good], skipped)
    if skipped:
        warnings.warn(
            f"{len(skipped)} of {len(paths)} files in `{root}` cannot be read and are left out: {_reasons(skipped)}",
            stacklevel=2,
        )
    channels = max(len(pixels) for _, _, pixels in good)
    data = [_stacked([item[1:] for item in good if item[0] == part], channels, classes) for part in parts]
    train, test = data if len(data) == 2 else data[0].split(test_fraction, seed)
    return Splits(train, test, root.resolve().name, tuple(skipped))


def _classes(folder: Path) -> tuple[str, ...]:
    """The sub-folders, sorted by name."""
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not names:
        raise ValueError(
            f"`{folder}` has no sub-folders, expected one for each class: its name is the label of the images in it. "
            "Sort the images into such folders."
        )
    if len(names) == 1:
        raise ValueError(
            f"`{folder}` has one class only, {listing(names)}; expected at least two sub-folders, else there is "
            "nothing to tell apart. Give the folder above the classes, or above `train` and `test`."
        )
    return tuple(names)


def _files(folder: Path, classes: Sequence[str], *, required: bool) -> list[tuple[int, Path]]:
    """(label, path) of every file below the class folders."""
    there = {entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")}
    if unknown := sorted(there - set(classes)):
        raise ValueError(
            f"`{folder}` has {listing(unknown)}, expected only the training classes {listing(classes)}. Rename or "
            "remove these folders."
        )
    found = []
    for label, name in enumerate(classes):
        paths = image_files(folder / name)
        if required and not paths:
            raise ValueError(
                f"class `{name}` in `{folder}` has no images, expected some in every class. Add images, or remove the "
                "folder if it is no class."
            )
        found += [(label, path) for path in paths]
    return found


def _common_size(paths: Sequence[Path], root: Path) -> int:
    sizes = image_sizes(paths)
    if not sizes:
        raise ValueError(
            f"none of the {len(paths)} files in `{root}` can be read, expected images such as PNG, JPEG or TIFF."
        )
    median = int(np.median([min(size) for size in sizes]))
    if len(set(sizes)) == 1 and len(set(sizes[0])) == 1 and median <= LARGEST_DEFAULT:
        return median
    return max(4, min(median, LARGEST_DEFAULT) // 4 * 4)


def _check_all_present(
    parts: Sequence[Path],
    classes: Sequence[str],
    good: Sequence[tuple[Path, int]],
    skipped: Sequence[tuple[str, str]],
) -> None:
    """Every class has training images, and there are test images, among those that could be read."""
    present = set(good)
    if empty := [name for label, name in enumerate(classes) if (parts[0], label) not in present]:
        raise ValueError(
            f"no image of {listing(empty)} in `{parts[0]}` can be read, expected some in every class: "
            f"{_reasons(skipped)} Replace these files or remove the class."
        )
    if not any(part == parts[-1] for part, _ in good):
        raise ValueError(
            f"no image in `{parts[-1]}` can be read, expected test images there: {_reasons(skipped)} Add some, or "
            "remove the folder and let training images be held out."
        )


def _reasons(skipped: Sequence[tuple[str, str]]) -> str:
    if not skipped:
        return "there are none."
    more = f"; and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    return "; ".join(f"`{name}` ({reason})" for name, reason in skipped[:5]) + more + "."


def _stacked(images: Sequence[tuple[int, Pixels]], channels: int, classes: tuple[str, ...]) -> LabelledImages:
    """Labels and pixels as one data set; grey images among coloured ones have their channel repeated."""
    size = images[0][1].shape[1:]
    pixels = np.stack([np.broadcast_to(pixels, (channels, *size)) for _, pixels in images])
    return LabelledImages(torch.from_numpy(pixels), torch.tensor([label for label, _ in images]), classes)
