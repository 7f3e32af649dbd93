"""Volumes in files: arrays that numpy has saved, NIfTI scans and TIFF stacks. Nothing in a file is ever unpickled."""

from __future__ import annotations

import logging
import math
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steerable.data.files import Unusable, check_regular
from steerable.data.stored_arrays import Numbers, StoredImage, stored_array
from steerable.data.tiff_pages import tiff_pages
from steerable.extras import require

__all__ = ["VOLUMES", "array_header", "is_nifti", "require_readers", "stored_npy", "stored_volume"]

VOLUMES = ".npy, .npz, .nii, .nii.gz, or TIFF"
TIFF = (".tif", ".tiff")
MOST_VOXELS = 1 << 30
NOT_DEPTH = {"Y", "X", "S", "C", "T"}
# numpy parses a header as Python's syntax, which may fail where two threads do so at once (CPython 3.11 then says "AST
# constructor recursion depth mismatch"). A good file would be left out.
_ONE_AT_A_TIME = threading.Lock()
UNHEARD = logging.NullHandler()  # what tifffile says of damaged files, which are named anyway


def stored_volume(path: Path) -> StoredImage:
    """The volume in a file, by its header; ``Unusable`` if there is none.

    Arrays are (depth, height, width), (channels, depth, height, width) or (depth, height, width, channels), see
    :func:`~steerable.data.stored_arrays.stored_array`. A NIfTI scan (x, y, z) is turned so that x points to the right
    of the patient, y to the front and z to the head, and becomes (z, y, x); a fourth axis is its channels. The pages
    of a TIFF stack are its depth.
    """
    readers: dict[str, Callable[[Path], StoredImage]] = {".npy": stored_npy, ".npz": _of_npz, ".nii": _of_nifti}
    suffix = ".nii" if is_nifti(path) else path.suffix.lower()
    reader = readers.get(suffix, _of_tiff if suffix in TIFF else None)
    if reader is None:
        raise Unusable(f"not a volume of a known format, expected {VOLUMES}")
    found = reader(path)
    if (voxels := math.prod(found.size) * found.channels) > MOST_VOXELS:
        raise Unusable(
            f"too large: it has {voxels:,} numbers, and volumes of up to {MOST_VOXELS:,} are read; shrink it"
        )
    return found


def is_nifti(path: Path) -> bool:
    """Whether a file is a NIfTI scan, judged by its name alone."""
    return path.name.lower().endswith((".nii", ".nii.gz"))


def require_readers(paths: Sequence[Path]) -> None:
    """Say how to install what files with these names need, if it is missing."""
    if any(is_nifti(path) for path in paths):
        require("nibabel", purpose="reading NIfTI files")
    if any(path.suffix.lower() in TIFF for path in paths):
        require("tifffile", purpose="reading TIFF stacks")


def array_header(path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """(shape, type) of the array in an .npy file."""
    check_regular(path)
    with path.open("rb") as file, _ONE_AT_A_TIME:
        return _header(file)


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise Unusable("it holds Python objects, which are never unpickled; save an array of numbers with numpy.save")
    return shape, dtype


def stored_npy(path: Path, axes: int = 3) -> StoredImage:
    """The image or the volume in an .npy file."""
    shape, dtype = array_header(path)

    def load() -> Numbers:
        with _ONE_AT_A_TIME:
            found: Numbers = np.load(path, mmap_mode="r", allow_pickle=False)
        return found

    return stored_array(shape, dtype, load, axes)


def _of_npz(path: Path) -> StoredImage:
    """The only array of rank 3 or 4 in the file, or its only array."""
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as file, _ONE_AT_A_TIME:
                    headers[name[: -len(".npy")]] = _header(file)
    if not headers:
        raise Unusable("it holds no arrays, expected one volume")
    fitting = [name for name, (shape, _) in headers.items() if len(shape) in (3, 4)]
    if len(fitting) > 1:
        names = ", ".join(f"`{name}`" for name in fitting[:4])
        raise Unusable(f"it holds {len(fitting)} volumes, {names}, expected one; save each in a file of its own")
    chosen = (fitting or list(headers))[0]

    def load() -> Numbers:
        with np.load(path, allow_pickle=False) as file, _ONE_AT_A_TIME:
            found: Numbers = file[chosen]
        return found

    return stored_array(*headers[chosen], load, axes=3)


def _of_nifti(path: Path) -> StoredImage:
    import nibabel as nib

    _check_voxels(_unchecked_sizes(path))
    stored = nib.load(path)
    if not isinstance(stored, nib.Nifti1Image):  # NIfTI 2 is a kind of it
        raise Unusable("it is not a NIfTI file")
    upright = nib.as_closest_canonical(stored)
    proxy = stored.dataobj
    scaled = (getattr(proxy, "slope", 1), getattr(proxy, "inter", 0)) != (1, 0)
    dtype = np.dtype(np.float32) if scaled else stored.get_data_dtype()
    shape = tuple(int(n) for n in upright.shape)
    while len(shape) > 4 and shape[-1] == 1:  # five axes are common, of which the fourth is time
        shape = shape[:-1]
    spacing = tuple(float(step) for step in nib.affines.voxel_sizes(upright.affine))
    _check_voxels(spacing)

    def load() -> Numbers:
        found: Numbers = np.asanyarray(upright.dataobj).reshape(shape).transpose()
        return found

    how: dict[str, Any] = {"channels_last": False, "spacing": _unless_equal(spacing)}
    return stored_array(shape[::-1], dtype.newbyteorder("="), load, axes=3, **how)


def _unchecked_sizes(path: Path) -> tuple[float, ...]:
    """The sizes of voxels in a header without their places; nibabel would read 0 as 1."""
    from nibabel import Nifti1Header, Nifti2Header
    from nibabel.openers import ImageOpener

    with ImageOpener(str(path)) as file:
        block = file.read(Nifti2Header.sizeof_hdr)
    for kind in (Nifti1Header, Nifti2Header):
        if len(block) >= kind.sizeof_hdr and kind.may_contain_header(block):
            header = kind(block[: kind.sizeof_hdr], check=False)
            sizes = header["pixdim"][1 : 1 + min(3, int(header["dim"][0]))]
            return () if header["sform_code"] > 0 else tuple(map(float, sizes))
    return ()


def _check_voxels(sizes: Sequence[float]) -> None:
    if not all(np.isfinite(size) and size != 0 for size in sizes):
        raise Unusable(f"its voxels are {' × '.join(f'{size:g}' for size in sizes)} mm, expected positive sizes")


def _of_tiff(path: Path) -> StoredImage:
    import tifffile

    logging.getLogger("tifffile").addHandler(UNHEARD)
    with tifffile.TiffFile(path) as file:
        if not file.series:
            raise Unusable("it has no pages")
        series = file.series[0]
        axes, shape, dtype = series.axes, series.shape, series.dtype
    kept = [(letter, n) for letter, n in zip(axes, shape, strict=True) if n > 1 or letter in "YX"]
    letters = "".join(letter for letter, _ in kept)
    depth = [letter for letter in letters if letter not in NOT_DEPTH]
    depth = depth or [letter for letter in "TC" if letter in letters][:1]  # programs call slices times or channels
    channels = [letter for letter in letters if letter in "SC" and letter not in depth]
    if len(depth) != 1 or len(channels) > 1 or len(letters) != 3 + len(channels):
        words = ", ".join(f"{letter}: {n}" for letter, n in zip(axes, shape, strict=True))
        raise Unusable(f"its axes are {words}, expected a stack of slices; save one volume per file")
    order = [letters.index(letter) for letter in (*channels, *depth, "Y", "X")]

    def load() -> Numbers:
        with tifffile.TiffFile(path) as file:
            try:
                found: Numbers = file.series[0].asarray()
            except ValueError:  # it leaves some compressions to another package, which Pillow's libtiff knows
                if letters[-2:] != "YX" and letters[-3:] != "YXS":
                    raise
                found = np.stack([page.read().transpose(1, 2, 0) for page in tiff_pages(path, None)])
        return found.reshape([n for _, n in kept]).transpose(order)

    sizes = tuple(kept[place][1] for place in order)
    return stored_array(sizes, np.dtype(dtype), load, axes=3, channels_last=False)


def _unless_equal(spacing: tuple[float, ...]) -> tuple[float, ...]:
    return () if max(spacing) - min(spacing) <= 1e-3 * max(spacing) else spacing
