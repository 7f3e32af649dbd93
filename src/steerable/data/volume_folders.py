"""The test whether the files of a folder or table are volumes: by their names, and arrays by their shape."""

from __future__ import annotations

from pathlib import Path

from steerable.data.files import Unusable, files_below, looks_like_an_image
from steerable.data.label_tables import labelled_table
from steerable.data.volume_files import array_header, is_nifti

__all__ = ["holds_volumes", "is_volume"]

LOOKED_AT = 50  # files, spread over all of them
SHORTEST = 8  # voxels; an array with a shorter side has channels there


def holds_volumes(source: str | Path) -> bool:
    """Whether most files of a folder or a .csv table that can be told apart are volumes; see :func:`is_volume`.

    A few pictures among them do not make them images. What is neither a folder nor a table is refused elsewhere.
    """
    path = Path(source).expanduser()
    try:
        files = files_below(path)[0] if path.is_dir() else [file.path for file in labelled_table(path).files]
    except (OSError, ValueError):
        return False
    some = [file for file in files if looks_like_an_image(file)]
    found = [is_volume(file) for file in some[:: max(1, len(some) // LOOKED_AT)]]
    told = [is_one for is_one in found if is_one is not None]
    return 2 * sum(told) > len(told)


def is_volume(path: Path) -> bool | None:
    """Whether a file is a volume; None if its header cannot be read.

    NIfTI scans and .npz files are. An array of rank 4 is one with channels. An array of rank 3 is a volume where no
    side is shorter than 8 or than half the longest one, and else an image with channels. TIFF files are images, unless
    one says otherwise.
    """
    if is_nifti(path) or path.suffix.lower() == ".npz":
        return True
    if path.suffix.lower() != ".npy":
        return False
    try:
        shape, _ = array_header(path)
    except (OSError, ValueError, Unusable):
        return None
    return len(shape) == 4 or (len(shape) == 3 and min(shape) >= max(SHORTEST, max(shape) / 2))
