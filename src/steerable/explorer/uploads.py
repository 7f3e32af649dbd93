"""The folder for uploads: nothing else is read, and its size is limited."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["LARGEST_UPLOAD", "MOST_BYTES", "MOST_UPLOADS", "UPLOADS_LIVE", "Uploads", "UploadsFull", "too_large"]

LARGEST_UPLOAD = 5 * 2**20
"""Bytes of a file."""
MOST_UPLOADS = 100
"""Files in the folder."""
MOST_BYTES = 100 * 2**20
"""Of all files in the folder, and of those on their way."""
UPLOADS_LIVE = 3600
"""Seconds, after which an upload is deleted."""


def too_large(size: int) -> str:
    """The message about a file of more bytes than ``LARGEST_UPLOAD``."""
    return f"the file has {size / 2**20:.1f} MiB; at most {LARGEST_UPLOAD // 2**20} are taken. Shrink the image."


class UploadsFull(Exception):
    """There is no room for another upload."""


class Uploads:
    """The uploaded files, in a folder that holds nothing else.

    Args:
        folder: where the uploads are; it exists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._arriving = 0

    def file(self, path: object) -> Path:
        """The path of an upload, with links followed; a ValueError if it lies elsewhere.

        A file elsewhere gets the same answer whether it exists or not. An upload need not exist any more.
        """
        if isinstance(path, str):
            try:
                found = Path(path).resolve()
            except (OSError, RuntimeError, ValueError):  # a name that is too long, links in a circle, a zero byte
                found = self.folder
            if found != self.folder and found.is_relative_to(self.folder):
                return found
        raise ValueError(
            f"`{path}` is not an uploaded file, and only files that were uploaded on this page are read. Upload the "
            "image."
        )

    @contextmanager
    def arrival(self) -> Iterator[None]:
        """A context that lasts while an upload arrives; raises UploadsFull if there is no room for it."""
        sizes = list(self._sizes())
        if len(sizes) + self._arriving >= MOST_UPLOADS:
            raise UploadsFull(
                f"the explorer holds {MOST_UPLOADS} uploads, which is the most it takes. {self._remedy()}"
            )
        if sum(sizes) + (self._arriving + 1) * LARGEST_UPLOAD > MOST_BYTES:
            raise UploadsFull(
                f"the uploads have nearly {MOST_BYTES // 2**20} MiB together, which is the most that the explorer "
                f"takes. {self._remedy()}"
            )
        self._arriving += 1
        try:
            yield
        finally:
            self._arriving -= 1

    def _sizes(self) -> Iterator[int]:
        for folder, _, files in os.walk(self.folder):
            for name in files:
                try:
                    yield os.lstat(os.path.join(folder, name)).st_size
                except FileNotFoundError:  # deleted in the meantime
                    continue

    @staticmethod
    def _remedy() -> str:
        return f"Uploads are deleted after {UPLOADS_LIVE // 60} minutes: try again later, or start the explorer again."
