"""Volumes from files: what is read is what was written, in every format, and what is not a volume is named."""

from __future__ import annotations

import ast
import io
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import tifffile
from PIL import Image

from steerable.data import PixelFormat, Selection, load_dataset, read_images
from steerable.data.cubes import middle_cube
from steerable.data.files import Unusable
from steerable.data.images import each_file
from steerable.data.stored_images import stored_image
from steerable.data.volume_folders import holds_volumes, is_volume

VOLUMES = Selection(axes=3)


def random_volume(seed: int, shape: tuple[int, ...] = (8, 8, 8), dtype: type = np.uint8) -> np.ndarray:
    values = np.random.default_rng(seed).integers(0, 200, shape)
    return values.astype(dtype)


def save_npy(path: Path, volume: np.ndarray) -> Path:
    np.save(path.with_suffix(".npy"), volume)
    return path.with_suffix(".npy")


def save_npz(path: Path, volume: np.ndarray) -> Path:
    np.savez_compressed(path.with_suffix(".npz"), volume=volume, label=np.array(3))
    return path.with_suffix(".npz")


def save_nifti(path: Path, volume: np.ndarray) -> Path:
    path = path.with_name(f"{path.name}.nii.gz")
    nib.save(nib.Nifti1Image(volume.transpose(), np.eye(4)), path)
    return path


def save_tiff(path: Path, volume: np.ndarray) -> Path:
    tifffile.imwrite(path.with_suffix(".tif"), volume, photometric="minisblack")
    return path.with_suffix(".tif")


def save_lzw(path: Path, volume: np.ndarray) -> Path:
    first, *others = (Image.fromarray(page) for page in volume)
    first.save(path.with_suffix(".tiff"), save_all=True, append_images=others, compression="tiff_lzw")
    return path.with_suffix(".tiff")


WRITERS = (save_npy, save_npz, save_nifti, save_tiff, save_lzw)


def folder(path: Path, save: Callable[[Path, np.ndarray], Path] = save_npy, each: int = 5, **how: object) -> Path:
    for number in range(2 * each):
        label = path / "ab"[number % 2]
        label.mkdir(parents=True, exist_ok=True)
        save(label / f"v{number}", random_volume(number, **how))  # type: ignore[arg-type]
    return path


def numbers(path: Path, selection: Selection = VOLUMES) -> np.ndarray:
    with stored_image(path, selection) as stored:
        found = stored.numbers()
        assert found.shape == (stored.channels, *stored.size[::-1])
    return found


@pytest.mark.parametrize("save", WRITERS)
def test_every_format_holds_the_same_volume(tmp_path: Path, save: Callable[[Path, np.ndarray], Path]) -> None:
    volume = random_volume(0, (5, 6, 7))
    assert np.array_equal(numbers(save(tmp_path / "x", volume))[0], volume)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_threads_parse_the_headers_of_arrays_one_after_the_other(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPython 3.11 may fail to parse in two threads at once; a good file was left out, once in many runs."""
    save = np.save if suffix == ".npy" else np.savez
    paths = [tmp_path / f"{number}{suffix}" for number in range(8)]
    for number, path in enumerate(paths):
        save(path, random_volume(number))
    parse, active, most = ast.literal_eval, [0], [0]

    def slowly(text: str) -> object:
        active[0] += 1
        most[0] = max(most[0], active[0])
        time.sleep(0.002)  # lets other threads run
        active[0] -= 1
        return parse(text)

    monkeypatch.setattr(ast, "literal_eval", slowly)
    found = each_file(numbers, paths)
    assert all(isinstance(one, np.ndarray) for one in found)
    assert most == [1]


@pytest.mark.parametrize(
    ("dtype", "depth"),
    [(np.uint16, "16-bit"), (np.int16, "16-bit"), (np.float32, "floating-point"), (np.int8, "16-bit")],
)
@pytest.mark.parametrize("save", WRITERS[:4])
def test_every_depth_is_kept(tmp_path: Path, save: Callable[[Path, np.ndarray], Path], dtype: type, depth: str) -> None:
    volume = random_volume(1, (5, 6, 7)).astype(dtype)
    path = save(tmp_path / "x", volume)
    with stored_image(path, VOLUMES) as stored:
        assert stored.depth == depth
        assert np.array_equal(stored.numbers()[0], volume)


def test_channels_are_first_unless_the_last_axis_is_shorter(tmp_path: Path) -> None:
    first, last = random_volume(0, (2, 6, 7, 8)), random_volume(1, (6, 7, 8, 2))
    assert np.array_equal(numbers(save_npy(tmp_path / "first", first)), first)
    assert np.array_equal(numbers(save_npy(tmp_path / "last", last)), np.moveaxis(last, -1, 0))
    assert np.array_equal(numbers(save_npy(tmp_path / "last", last), Selection(None, (1,), 3))[0], last[..., 1])
    coloured = random_volume(2, (5, 6, 7, 3))
    tifffile.imwrite(tmp_path / "rgb.tif", coloured, photometric="rgb")
    assert np.array_equal(numbers(tmp_path / "rgb.tif"), np.moveaxis(coloured, -1, 0))
    scan = random_volume(3, (7, 6, 5, 2))  # x, y, z, echoes
    nib.save(nib.Nifti1Image(scan, np.eye(4)), tmp_path / "echoes.nii")
    assert np.array_equal(numbers(tmp_path / "echoes.nii"), scan.transpose())


@pytest.mark.parametrize("axes", [None, "ZYX", "TYX", "CYX"])
def test_the_pages_of_a_stack_are_slices_whatever_they_are_called(tmp_path: Path, axes: str | None) -> None:
    volume = random_volume(0, (5, 6, 7))
    tifffile.imwrite(tmp_path / "x.tif", volume, imagej=True, metadata={"axes": axes} if axes else {})
    assert np.array_equal(numbers(tmp_path / "x.tif")[0], volume)
    for order in ("ZCYX", "TCYX"):
        several = random_volume(1, (5, 2, 6, 7))
        tifffile.imwrite(tmp_path / "x.tif", several, imagej=True, metadata={"axes": order})
        assert np.array_equal(numbers(tmp_path / "x.tif"), several.swapaxes(0, 1))


def test_booleans_are_black_and_white(tmp_path: Path) -> None:
    solid = random_volume(0) > 100
    assert np.array_equal(numbers(save_npy(tmp_path / "x", solid))[0], 255 * solid.astype(np.uint8))


def test_scans_are_turned_upright_and_their_slopes_are_followed(tmp_path: Path) -> None:
    scan = random_volume(0, (5, 6, 7)).astype(np.int16)
    nib.save(nib.Nifti1Image(scan, np.eye(4)), tmp_path / "upright.nii")
    nib.save(nib.Nifti1Image(scan[::-1], np.diag([-1.0, 1, 1, 1])), tmp_path / "mirrored.nii")
    swapped = np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    nib.save(nib.Nifti1Image(scan.swapaxes(0, 1), swapped), tmp_path / "swapped.nii")
    upright = numbers(tmp_path / "upright.nii")
    assert np.array_equal(numbers(tmp_path / "mirrored.nii"), upright)
    assert np.array_equal(numbers(tmp_path / "swapped.nii"), upright)
    sloped = nib.Nifti1Image(scan.astype(np.float32) / 7, np.eye(4), dtype=np.int16)
    nib.save(sloped, tmp_path / "sloped.nii")
    with stored_image(tmp_path / "sloped.nii", VOLUMES) as stored:
        assert stored.depth == "floating-point"
        assert np.abs(stored.numbers()[0] - upright[0] / 7).max() < 1e-2


@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
def test_voxels_without_a_size_are_refused_unless_the_scan_says_where_they_lie(
    tmp_path: Path, kind: type[nib.Nifti1Image], capfd: pytest.CaptureFixture[str]
) -> None:
    for size in (0, np.nan, np.inf):
        for is_placed in (False, True):
            scan = kind(random_volume(0, (5, 6, 7)), np.diag([1.0, 1, 2, 1]))
            nib.save(scan, tmp_path / "x.nii")
            raw = (tmp_path / "x.nii").read_bytes()
            header = type(scan.header)(raw[: scan.header.sizeof_hdr], check=False)
            header["pixdim"][3], header["sform_code"], header["qform_code"] = size, int(is_placed), 0
            (tmp_path / "x.nii").write_bytes(header.binaryblock + raw[len(header.binaryblock) :])
            if is_placed:
                with stored_image(tmp_path / "x.nii", VOLUMES) as stored:
                    assert stored.spacing == (1, 1, 2)
            else:
                with (
                    pytest.raises(Unusable, match=rf"^its voxels are 1 × 1 × {size:g} mm, expected positive sizes$"),
                    stored_image(tmp_path / "x.nii", VOLUMES),
                ):
                    pass
                assert capfd.readouterr() == ("", "")


def test_the_middle_cube_is_averaged_or_interpolated() -> None:
    volume = random_volume(0, (1, 8, 8, 8)).astype(np.float32)
    assert np.array_equal(middle_cube(volume, 8), volume)
    means = volume.reshape(1, 4, 2, 4, 2, 4, 2).mean((2, 4, 6))
    assert np.abs(middle_cube(volume, 4) - means).max() < 1e-4
    wide = np.pad(volume, ((0, 0), (0, 0), (3, 3), (1, 1)))
    assert np.array_equal(middle_cube(wide, 8), volume)
    ramp = np.broadcast_to(np.arange(8.0, dtype=np.float32), (1, 8, 8, 8))
    assert np.abs(np.diff(middle_cube(ramp, 16)[0, 0, 0, 1:-1]) - 0.5).max() < 1e-5
    for axis in (1, 2, 3):  # mirror images of cubes are cubes of mirror images
        assert np.abs(middle_cube(np.flip(wide, axis), 5) - np.flip(middle_cube(wide, 5), axis)).max() < 1e-3


def test_long_voxels_become_cubes(tmp_path: Path) -> None:
    volume = random_volume(0, (1, 8, 8, 8)).astype(np.float32)
    thick = volume.reshape(1, 4, 2, 8, 8).mean(2)  # slices that are twice as far apart as pixels
    assert np.abs(middle_cube(thick, 4, (2, 1, 1)) - middle_cube(volume, 4)).max() < 1e-3
    nib.save(nib.Nifti1Image(thick[0].transpose(), np.diag([1.0, 1, 2, 1])), tmp_path / "thick.nii")
    pixels = PixelFormat("floating-point", 1, (0.0,), (255.0,), VOLUMES)
    _, found, _ = read_images(tmp_path, 4, 1, pixels=pixels)
    assert np.abs(found[0].numpy() - middle_cube(volume, 4)).max() <= 0.51


@pytest.mark.parametrize("save", [save_npy, save_npz, save_nifti])
def test_volumes_are_recognised_by_their_files(tmp_path: Path, save: Callable[[Path, np.ndarray], Path]) -> None:
    assert holds_volumes(folder(tmp_path, save))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_left_out_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(folder(tmp_path) / "a" / "pipe.npy")
    assert holds_volumes(tmp_path)
    with pytest.warns(UserWarning, match=r"`a/pipe.npy` \(it is not a regular file\)"):
        load_dataset(tmp_path, pixels=VOLUMES)


@pytest.mark.parametrize("save", WRITERS)
def test_damaged_files_are_named_in_words(
    tmp_path: Path, save: Callable[[Path, np.ndarray], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path)
    half = save(tmp_path / "a" / "half", random_volume(0))
    half.write_bytes(half.read_bytes()[: half.stat().st_size // 2])
    junk = save(tmp_path / "b" / "junk", random_volume(0))
    junk.write_bytes(b"II*\0junk" * 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        splits = load_dataset(tmp_path, pixels=VOLUMES)
    assert {name for name, _ in splits.skipped} >= {f"b/{junk.name}"}
    assert not any("Error" in why for _, why in splits.skipped)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        *(((8, 8, 8), True), ((3, 32, 32), False), ((32, 32, 3), False), ((16, 32, 32), True), ((15, 32, 32), False)),
        *(((1, 8, 8, 8), True), ((8, 8), False), ((7, 7, 7), False)),
    ],
)
def test_arrays_are_recognised_by_their_shape(tmp_path: Path, shape: tuple[int, ...], expected: bool) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape))
    assert is_volume(tmp_path / "x.npy") is expected


def test_a_folder_holds_what_most_of_its_files_are(tmp_path: Path) -> None:
    assert not holds_volumes(folder(tmp_path / "stacks", save_tiff))
    mixed = folder(tmp_path / "mixed")
    Image.new("L", (8, 8)).save(mixed / "a" / "preview.png")
    np.save(mixed / "a" / "slice.npy", random_volume(0, (8, 8)))
    assert holds_volumes(mixed)
    with pytest.warns(UserWarning, match=r"2 of 12 files .* `a/preview.png` \(not a volume of a known format"):
        splits = load_dataset(mixed, pixels=VOLUMES)
    assert [name for name, _ in splits.skipped] == ["a/preview.png", "a/slice.npy"]
    for number in range(8):
        Image.new("L", (8, 8)).save(mixed / "a" / f"{number}.png")
    assert not holds_volumes(mixed)
    for picture in (mixed / "a").glob("*.png"):
        picture.unlink()
    assert not holds_volumes(tmp_path / "nowhere")
    table = tmp_path / "table.csv"
    table.write_text("file,label\n" + "".join(f"mixed/{'ab'[k % 2]}/v{k}.npy,{k % 2}\n" for k in range(10)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert holds_volumes(table)
        splits = load_dataset(table, pixels=VOLUMES)
    assert splits.image_size == (8, 8, 8)


@pytest.mark.parametrize("save", WRITERS)
def test_a_folder_of_volumes_is_a_data_set(tmp_path: Path, save: Callable[[Path, np.ndarray], Path]) -> None:
    splits = load_dataset(folder(tmp_path, save), pixels=VOLUMES)
    assert splits.image_size == (8, 8, 8)
    assert (len(splits.train), len(splits.test), splits.channels) == (8, 2, 1)
    assert splits.pixels == PixelFormat("8-bit", 1, selection=VOLUMES)
    for k, name in enumerate(splits.train.files):
        number = int(Path(name).name.split(".")[0][1:])
        assert np.array_equal(splits.train.images[k, 0].numpy(), random_volume(number))


def test_counts_are_scaled_by_those_of_the_training_volumes(tmp_path: Path) -> None:
    splits = load_dataset(folder(tmp_path, dtype=np.uint16), pixels=VOLUMES)
    assert splits.pixels is not None
    assert splits.pixels == PixelFormat.from_dict(splits.pixels.to_dict())
    assert (splits.pixels.depth, splits.pixels.low, splits.pixels.high) == ("16-bit", (0.0,), (199.0,))
    assert int(splits.train.images.max()) == 255
    names, images, skipped = read_images(tmp_path, 8, 1, pixels=splits.pixels)
    assert len(names) == 10
    assert not skipped
    assert images.shape == (10, 1, 8, 8, 8)


def test_values_that_are_not_numbers_are_named(tmp_path: Path) -> None:
    folder(tmp_path, dtype=np.float32)
    volume = random_volume(0, dtype=np.float32)
    volume[0, 0, 0], volume[0, 0, 1] = np.nan, np.inf
    np.save(tmp_path / "a" / "v0.npy", volume)
    with pytest.warns(UserWarning, match=r"1 of 10 files have values that are not finite numbers.*`a/v0.npy`"):
        splits = load_dataset(tmp_path, pixels=VOLUMES)
    assert len(splits.train) + len(splits.test) == 10


def test_volumes_far_from_cubes_are_told(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"10 of 10 volumes are far from cubes: less than half of each"):
        load_dataset(folder(tmp_path, shape=(8, 16, 16)), pixels=VOLUMES)


def _bad_files(path: Path) -> dict[str, str]:
    np.save(path / "flat.npy", np.zeros((8, 8)))
    np.save(path / "many.npy", np.zeros((2, 2, 2, 2, 2)))
    np.save(path / "empty.npy", np.zeros((0, 8, 8)))
    np.save(path / "objects.npy", np.array([{}, None], object), allow_pickle=True)
    np.save(path / "words.npy", np.full((8, 8, 8), "x"))
    np.save(path / "waves.npy", np.zeros((8, 8, 8), np.complex64))
    np.save(path / "nothing.npy", np.full((8, 8, 8), np.nan, np.float32))
    np.savez(path / "two.npz", a=np.zeros((8, 8, 8)), b=np.zeros((8, 8, 8)))
    np.savez(path / "none.npz")
    np.savez(path / "pickled.npz", a=np.array([{}], object))
    (path / "text.npy").write_text("not an array")
    (path / "text.npz").write_text("not an archive")
    (path / "text.nii.gz").write_text("not a scan")
    (path / "text.tif").write_text("not a stack")
    (path / "notes.txt").write_text("notes")
    whole = io.BytesIO()
    np.save(whole, np.zeros((8, 8, 8)))
    (path / "short.npy").write_bytes(whole.getvalue()[:-100])
    Image.new("L", (8, 8)).save(path / "page.tif")
    tifffile.imwrite(path / "film.tif", np.zeros((3, 4, 8, 8), np.uint8), imagej=True, metadata={"axes": "TZYX"})
    return {
        "flat.npy": r"it holds float64 of shape (8, 8), expected numbers (depth, height, width) or (channels, depth",
        "many.npy": r"it holds float64 of shape (2, 2, 2, 2, 2), expected",
        "empty.npy": r"it holds float64 of shape (0, 8, 8), expected",
        "objects.npy": "it holds Python objects, which are never unpickled",
        "words.npy": "it holds <U1 of shape (8, 8, 8), expected numbers",
        "waves.npy": "it holds complex64 of shape (8, 8, 8), expected numbers",
        "nothing.npy": "none of its pixels is a finite number",
        "two.npz": "it holds 2 volumes, `a`, `b`, expected one",
        "none.npz": "it holds no arrays, expected one volume",
        "pickled.npz": "it holds Python objects, which are never unpickled",
        "text.npy": "",
        "text.npz": "File is not a zip file",
        "text.nii.gz": "",
        "text.tif": "not a TIFF file",
        "notes.txt": "not a volume of a known format, expected .npy, .npz, .nii, .nii.gz, or TIFF",
        "short.npy": "",
        "page.tif": "its axes are Y: 8, X: 8, expected a stack of slices",
        "film.tif": "its axes are T: 3, Z: 4, Y: 8, X: 8, expected a stack of slices",
    }


def test_what_is_not_a_volume_is_named(tmp_path: Path) -> None:
    expected = _bad_files(tmp_path)
    pixels = PixelFormat("floating-point", 1, (0.0,), (255.0,), VOLUMES)
    names, _, skipped = read_images(tmp_path, 8, 1, pixels=pixels)
    assert not names
    assert {Path(name).name for name, _ in skipped} == set(expected)
    for name, why in skipped:
        assert expected[Path(name).name] in why, name


def test_a_folder_without_any_volume_says_what_it_expects(tmp_path: Path) -> None:
    for label in "ab":
        (tmp_path / label).mkdir()
        Image.new("L", (8, 8)).save(tmp_path / label / "x.png")
    with pytest.raises(
        ValueError, match=r"expected volumes, \.npy, \.npz, \.nii, \.nii\.gz, or TIFF: `a/x\.png` \(not a vol"
    ):
        load_dataset(tmp_path, pixels=VOLUMES)


@pytest.mark.parametrize(("save", "package"), [(save_nifti, "nibabel"), (save_tiff, "tifffile")])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path, np.ndarray], Path], package: str
) -> None:
    folder(tmp_path, save)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs the package `{package}`.*steerable\[volumes\]"):
        load_dataset(tmp_path, pixels=VOLUMES)


def test_a_volume_has_no_pages_to_choose() -> None:
    with pytest.raises(ValueError, match="page is '1', and a volume has no pages to choose from"):
        Selection.parse("1", None, 3)
