"""Functions that find the files of CIFAR, unpacked or in the official archive, download it, and check MD5s."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

from steerable.data.cifar_archives import CifarFile, CifarLayout, CifarSet
from steerable.errors import listing
from steerable.extras import require

__all__ = ["PIXELS", "URL", "CifarReader", "cache_dir", "find_cifar", "other_md5"]

URL = "https://www.cs.toronto.edu/~kriz/"
PIXELS = 3 * 32 * 32


def cache_dir() -> Path:
    """``$STEERABLE_DATA_DIR``, else ``steerable`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if chosen := os.environ.get("STEERABLE_DATA_DIR"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "steerable"


CifarReader = Callable[[CifarFile], tuple[bytes, str]]
"""From a file to its contents and where they came from."""


def find_cifar(cifar: CifarSet, folder: Path, *, download: bool) -> tuple[CifarLayout, CifarReader]:
    """The layout that is there, unpacked ones first; otherwise a fresh download."""
    for layout in cifar.layouts:
        unpacked = folder if folder.name == layout.folder else folder / layout.folder
        if unpacked.is_dir():
            return layout, _folder_reader(cifar, layout, unpacked)
    for layout in cifar.layouts:
        if (folder / layout.archive).is_file():
            return layout, _archive_reader(layout, folder / layout.archive, checked=cifar.checked)
    layout = cifar.layouts[0]
    if not (download and cifar.checked):  # what is downloaded is official, and is read under its own name
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


def _folder_reader(cifar: CifarSet, layout: CifarLayout, folder: Path) -> CifarReader:
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
        if cifar.checked and (found := other_md5(file, raw)):
            raise ValueError(
                f"`{path}`, of {size} bytes, has the MD5 {found}, expected {file.md5}: it is cut short or altered. "
                f"{remedy} To use it as it is, choose `{cifar.name}-unchecked`."
            )
        return raw, str(path)

    return read


def other_md5(file: CifarFile, raw: bytes) -> str | None:
    """The MD5 of the contents, if it is not the official one."""
    found = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    return None if file.md5 in (None, found) else found


def _archive_reader(layout: CifarLayout, archive: Path, *, checked: bool = True) -> CifarReader:
    """Read the members of the archive into memory; nothing is unpacked, so no path in it can do harm."""
    remedy = f"Delete it and download it again from {URL}{layout.archive}."
    if checked and layout.archive_md5 is not None:
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
