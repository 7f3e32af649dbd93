"""CIFAR-10 and CIFAR-100 from the official archives, in the python and the binary layout, checked by MD5.

The python layout is a pickle, and a pickle can run any code. It is read here by an unpickler that knows plain
containers, text, bytes and numbers, and the names by which arrays are pickled; it keeps their pieces as data, and calls
nothing that the file names.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from steerable.data.labelled_images import LabelledImages, Splits
from steerable.errors import listing
from steerable.extras import require

__all__ = ["CIFAR10", "CIFAR100", "CifarFile", "CifarLayout", "CifarSet", "cache_dir", "load_cifar"]

URL = "https://www.cs.toronto.edu/~kriz/"
PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class CifarFile:
    """A file of ``images`` records; its MD5 is not checked where it is None."""

    name: str
    images: int
    md5: str | None = None


@dataclass(frozen=True)
class CifarLayout:
    """One of the official archives: what it unpacks to, and its files."""

    kind: Literal["python", "binary"]
    folder: str
    archive: str
    archive_md5: str | None
    train: tuple[CifarFile, ...]
    test: CifarFile


@dataclass(frozen=True)
class CifarSet:
    """A data set in several layouts; the first one is downloaded.

    Args:
        name: ``"cifar10"``.
        classes: names, by label.
        label_bytes: in front of a binary record; the last of them is the label (CIFAR-100 has a coarse one before it).
        label_key: of the labels in the python layout.
        layouts: where the images may be found.
    """

    name: str
    classes: tuple[str, ...]
    label_bytes: int
    label_key: str
    layouts: tuple[CifarLayout, ...]


def load_cifar(cifar: CifarSet, data_dir: str | Path | None = None, *, download: bool = True) -> Splits:
    """Read the official files, (n, 3, 32, 32); any other number of images, size or MD5 than theirs is an error.

    Args:
        cifar: ``CIFAR10`` or ``CIFAR100`` (with its 100 fine labels).
        data_dir: where an archive or an unpacked one lies; by default :func:`cache_dir`.
        download: fetch the archive into that folder where there is none.
    """
    folder = cache_dir() if data_dir is None else Path(data_dir).expanduser()
    layout, read = _find(cifar, folder, download=download)
    return Splits(_read(cifar, layout, layout.train, read), _read(cifar, layout, (layout.test,), read), cifar.name)


def cache_dir() -> Path:
    """``$STEERABLE_DATA_DIR``, else ``steerable`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if chosen := os.environ.get("STEERABLE_DATA_DIR"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "steerable"


# From a file to its contents, whose MD5 has been checked, and where they came from.
_Reader = Callable[[CifarFile], tuple[bytes, str]]


def _find(cifar: CifarSet, folder: Path, *, download: bool) -> tuple[CifarLayout, _Reader]:
    """The layout that is there, unpacked ones first; else a fresh download."""
    for layout in cifar.layouts:
        unpacked = folder if folder.name == layout.folder else folder / layout.folder
        if unpacked.is_dir():
            return layout, _folder_reader(cifar, layout, unpacked)
    for layout in cifar.layouts:
        if (folder / layout.archive).is_file():
            return layout, _archive_reader(layout, folder / layout.archive)
    layout = cifar.layouts[0]
    if not download:
        expected = [name for other in cifar.layouts for name in (other.folder, other.archive)]
        raise FileNotFoundError(
            f"{cifar.name} is not in `{folder}`: expected one of {listing(expected)} there, and downloads are not "
            f"allowed. Get {URL}{layout.archive}, or allow the download."
        )
    return layout, _archive_reader(layout, _download(layout, folder))


def _download(layout: CifarLayout, folder: Path) -> Path:
    require("pooch", purpose="a download", otherwise=f"put {URL}{layout.archive} into `{folder}` yourself")
    import pooch  # type: ignore[import-untyped]

    known = None if layout.archive_md5 is None else f"md5:{layout.archive_md5}"
    try:
        # pooch downloads to a temporary name and moves the file once its MD5 is right: no half files are left behind.
        return Path(pooch.retrieve(URL + layout.archive, known, fname=layout.archive, path=folder))
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"{URL}{layout.archive} could not be downloaded into `{folder}` ({error}). Try again later, or get the "
            "file by other means and put it there."
        ) from error


def _folder_reader(cifar: CifarSet, layout: CifarLayout, folder: Path) -> _Reader:
    missing = [file.name for file in (*layout.train, layout.test) if not (folder / file.name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"`{folder}` lacks {listing(missing)}, which belong to {layout.archive}. Delete the folder and unpack the "
            f"archive again; it is at {URL}{layout.archive}."
        )

    def read(file: CifarFile) -> tuple[bytes, str]:
        path = folder / file.name
        size, expected = path.stat().st_size, file.images * (cifar.label_bytes + PIXELS)
        remedy = f"Delete it and unpack {layout.archive} again; it is at {URL}{layout.archive}."
        if layout.kind == "binary" and size != expected:
            raise ValueError(
                f"`{path}` has {size} bytes, expected {expected} for {file.images} images: it is cut short or "
                f"altered. {remedy}"
            )
        raw = path.read_bytes()
        if file.md5 is not None and (found := hashlib.md5(raw, usedforsecurity=False).hexdigest()) != file.md5:
            raise ValueError(
                f"`{path}`, of {size} bytes, has the MD5 {found}, expected {file.md5}: it is cut short or altered. "
                f"{remedy}"
            )
        return raw, str(path)

    return read


def _archive_reader(layout: CifarLayout, archive: Path) -> _Reader:
    """Reads the members of the archive into memory: nothing is unpacked, so no path in it can do harm."""
    remedy = f"Delete it and download it again from {URL}{layout.archive}."
    if layout.archive_md5 is not None:
        with archive.open("rb") as stream:
            found = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if found != layout.archive_md5:
            raise ValueError(
                f"`{archive}`, of {archive.stat().st_size} bytes, has the MD5 {found}, expected {layout.archive_md5}: "
                f"it is cut short or altered. {remedy}"
            )
    wanted = {f"{layout.folder}/{file.name}": file.name for file in (*layout.train, layout.test)}
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                if member.name in wanted and (content := tar.extractfile(member)) is not None:
                    members[wanted[member.name]] = content.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"`{archive}` cannot be unpacked ({error}): it is cut short or altered. {remedy}") from error
    if missing := [name for name in wanted.values() if name not in members]:
        raise ValueError(f"`{archive}` lacks {listing(missing)}: it is not the official archive. {remedy}")
    return lambda file: (members[file.name], f"{archive}:{file.name}")


def _read(cifar: CifarSet, layout: CifarLayout, files: tuple[CifarFile, ...], read: _Reader) -> LabelledImages:
    total = sum(file.images for file in files)
    images, labels = np.empty((total, PIXELS), np.uint8), np.empty(total, np.int64)
    start = 0
    for file in files:
        raw, path = read(file)
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
        # The official files were written by Python 2, whose text is bytes here.
        content = _PlainUnpickler(io.BytesIO(raw), encoding="bytes").load()
        entries = {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
        numbers = np.array([int(label) for label in entries[cifar.label_key]], np.int64)
        return entries["data"].array(), numbers
    # A damaged pickle may fail in any way; it is never more than a file that cannot be read.
    except Exception as error:
        raise ValueError(
            f"`{path}` is not a batch of {cifar.name} in the python layout ({type(error).__name__}: {error}). Get the "
            "official file again, or use the binary layout."
        ) from error


class _PlainUnpickler(pickle.Unpickler):
    """Knows the names by which arrays are pickled, and answers them with collectors in place of numpy's own code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return _ArrayPieces
        if (module, name) == ("numpy", "ndarray"):
            return None
        if (module, name) == ("numpy", "dtype"):
            return _TypePieces
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        raise pickle.UnpicklingError(f"it asks for `{module}.{name}`, which image data have no use for")


class _ArrayPieces:
    """What an array's ``__setstate__`` was given: (version, shape, dtype, whether in Fortran order, bytes)."""

    def __init__(self, *ignored: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> npt.NDArray[np.uint8]:
        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _TypePieces) or dtype.code not in ("u1", b"u1") or shape[1:] != (PIXELS,):
            raise pickle.UnpicklingError(f"`data` is not an array of bytes (n, {PIXELS})")
        return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


class _TypePieces:
    """What a dtype was made of; bytes need no more than its code."""

    def __init__(self, code: object, *ignored: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        pass


def _latin1(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes in old protocols."""
    return text.encode("latin1")


def _layouts(
    number: int, folders: tuple[str, str], archive_md5: tuple[str, str], train: dict[str, str], test: dict[str, str]
) -> tuple[CifarLayout, ...]:
    """The python and the binary layout; ``train`` and ``test`` map files to MD5s, and binary files end in .bin."""
    kinds: tuple[Literal["python", "binary"], ...] = ("python", "binary")
    found = []
    for kind, folder, md5 in zip(kinds, folders, archive_md5, strict=True):
        files, tests = (
            [(name, md5) for name, md5 in which.items() if name.endswith(".bin") == (kind == "binary")]
            for which in (train, test)
        )
        found.append(
            CifarLayout(
                kind=kind,
                folder=folder,
                archive=f"cifar-{number}-{kind}.tar.gz",
                archive_md5=md5,
                train=tuple(CifarFile(name, 50_000 // len(files), md5) for name, md5 in files),
                test=CifarFile(tests[0][0], 10_000, tests[0][1]),
            )
        )
    return tuple(found)


CIFAR10 = CifarSet(
    name="cifar10",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    label_bytes=1,
    label_key="labels",
    layouts=_layouts(
        10,
        ("cifar-10-batches-py", "cifar-10-batches-bin"),
        ("c58f30108f718f92721af3b95e74349a", "c32a1d4ab5d03f1284b67883e8d87530"),
        train={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        },
        test={
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
    ),
)

FINE_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel
can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion
lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = CifarSet(
    name="cifar100",
    classes=tuple(FINE_CLASSES.split()),
    label_bytes=2,
    label_key="fine_labels",
    layouts=_layouts(
        100,
        ("cifar-100-python", "cifar-100-binary"),
        ("eb9058c3a382ffc7106e4002c42a8d85", "03b5dce01913d631647c71ecec9e9cb8"),
        train={"train": "16019d7e3df5f24257cddd939b257f8d", "train.bin": "6172c7755cfe09b2fe270c85cebc1b15"},
        test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc", "test.bin": "4499cfba6c016c1be1438163640a0898"},
    ),
)
