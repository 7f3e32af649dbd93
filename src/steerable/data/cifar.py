"""CIFAR-10 and CIFAR-100 from the official archives, in the python and the binary layout, checked by MD5 or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from steerable.data.cifar_archives import (
    CIFAR10,
    CIFAR10_UNCHECKED,
    CIFAR100,
    CIFAR100_UNCHECKED,
    CifarFile,
    CifarLayout,
    CifarSet,
)
from steerable.data.cifar_reading import PIXELS, URL, CifarReader, cache_dir, find_cifar, other_md5
from steerable.data.labelled_images import LabelledImages
from steerable.data.plain_pickles import read_pickle
from steerable.data.splits import Splits

__all__ = ["CIFAR10", "CIFAR100", "cache_dir", "load_cifar", "load_cifar10", "load_cifar100"]


def load_cifar(cifar: CifarSet, data_dir: str | Path | None = None, *, download: bool = True) -> Splits[LabelledImages]:
    """Read the official files, (n, 3, 32, 32); a wrong number of images, size or MD5 is an error.

    Args:
        cifar: ``CIFAR10`` or ``CIFAR100`` (with its 100 fine labels). ``CIFAR10_UNCHECKED`` and ``CIFAR100_UNCHECKED``
            accept other MD5s, as of images in another order, and say so in the notes.
        data_dir: the folder with the archive, or with the unpacked one; by default :func:`cache_dir`.
        download: whether to fetch the archive into that folder where there is none.
    """
    folder = cache_dir() if data_dir is None else Path(data_dir).expanduser()
    layout, read = find_cifar(cifar, folder, download=download)
    notes: list[str] = []
    train, test = (_read(cifar, layout, files, read, notes) for files in (layout.train, (layout.test,)))
    return Splits(train, test, cifar.name, notes=tuple(notes))


def _by_name(cifar: CifarSet) -> Callable[..., Splits[LabelledImages]]:
    """The loader for ``DATASETS``; the test images are the data set's own, whatever the seed."""

    def load(*, data_dir: str | Path | None, download: bool, seed: object) -> Splits[LabelledImages]:
        return load_cifar(cifar, data_dir, download=download)

    return load


load_cifar10, load_cifar100 = _by_name(CIFAR10), _by_name(CIFAR100)
load_unchecked_cifar10, load_unchecked_cifar100 = _by_name(CIFAR10_UNCHECKED), _by_name(CIFAR100_UNCHECKED)


def _read(
    cifar: CifarSet, layout: CifarLayout, files: tuple[CifarFile, ...], read: CifarReader, notes: list[str]
) -> LabelledImages:
    total = sum(file.images for file in files)
    images, labels = np.empty((total, PIXELS), np.uint8), np.empty(total, np.int64)
    start = 0
    for file in files:
        raw, path = read(file)
        if found := other_md5(file, raw):
            notes.append(f"`{file.name}` is not the official file, but one of its size: its MD5 is {found}.")
        pixels, numbers = _parse_binary(cifar, raw) if layout.kind == "binary" else _parse_python(cifar, raw, path)
        if len(pixels) != file.images or len(numbers) != file.images:
            raise ValueError(
                f"`{path}` holds {len(pixels)} images and {len(numbers)} labels, expected {file.images} of each. Get "
                f"the official file again from {URL}{layout.archive}."
            )
        if numbers.min() < 0 or numbers.max() >= len(cifar.classes):
            raise ValueError(
                f"`{path}` has labels from {numbers.min()} to {numbers.max()}, expected 0 to {len(cifar.classes) - 1} "
                f"for {cifar.name}. Get the official file again from {URL}{layout.archive}."
            )
        images[start : start + file.images], labels[start : start + file.images] = pixels, numbers
        start += file.images
    return LabelledImages(torch.from_numpy(images).view(-1, 3, 32, 32), torch.from_numpy(labels), cifar.classes)


_Parsed = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def _parse_binary(cifar: CifarSet, raw: bytes) -> _Parsed:
    """Records of the label's bytes and 3072 bytes of pixels: red, green, blue, each row by row."""
    record = cifar.label_bytes + PIXELS
    table = np.frombuffer(raw, np.uint8, len(raw) // record * record).reshape(-1, record)
    return table[:, cifar.label_bytes :], table[:, cifar.label_bytes - 1].astype(np.int64)


def _parse_python(cifar: CifarSet, raw: bytes, path: str) -> _Parsed:
    """A pickled dict with ``data``, uint8 (n, 3072), and a list of labels."""
    try:
        content = read_pickle(raw)  # the official files were written by Python 2
        entries = {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
        numbers = np.array([int(label) for label in entries[cifar.label_key]], np.int64)
        return entries["data"].bytes_of_rows(PIXELS), numbers
    # A damaged pickle may fail in any way; it is never more than a file that cannot be read.
    except Exception as error:
        raise ValueError(
            f"`{path}` is not a batch of {cifar.name} in the python layout ({type(error).__name__}: {error}). Get the "
            "official file again, or use the binary layout."
        ) from error
