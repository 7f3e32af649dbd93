"""Folders of images as cameras write them: scaled by what they hold, and words for what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from camera_files import RGB, Layout, write_png, write_tiff
from PIL import Image

from steerable.data import Selection, load_dataset, load_image_folder, read_images
from steerable.data.splits import Splits

Save = Callable[[Path, np.ndarray], object]


def save_tiff(path: Path, counts: np.ndarray) -> None:
    write_tiff(path, [counts if counts.ndim == 3 else counts[:, :, None]])


def folder(root: Path, draw: Callable[[np.random.Generator], np.ndarray], save: Save = save_tiff) -> Path:
    """Two classes of ten images each; ``draw`` makes one."""
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        for i in range(10):
            (root / name).mkdir(parents=True, exist_ok=True)
            save(root / name / f"{i}.tif", draw(random))
    return root


def faint(random: np.random.Generator) -> np.ndarray:
    """12 bits, of which 290 to 420 counts are used."""
    return random.integers(290, 421, (16, 16)).astype(np.uint16)


def levels(splits: Splits) -> int:
    return len(splits.train.images.unique())


def test_a_faint_set_keeps_its_grey_levels(tmp_path: Path) -> None:
    splits = load_image_folder(folder(tmp_path, faint))
    assert levels(splits) == 131
    assert splits.pixels is not None
    assert splits.pixels.in_words() == "16-bit grey, counts 290 … 420 shown as 0 … 255"
    again = load_image_folder(tmp_path, pixels=splits.pixels)
    assert again.train.digest == splits.train.digest
    names, images, _ = read_images(tmp_path / "a" / "0.tif", 16, 1, pixels=splits.pixels)
    counts = np.asarray(Image.open(names[0]))
    assert np.array_equal(images[0, 0].numpy(), splits.pixels.to_bytes(counts[None])[0])


def test_hot_pixels_do_not_ruin_it(tmp_path: Path) -> None:
    def with_hot_pixel(random: np.random.Generator) -> np.ndarray:
        counts = faint(random)
        counts[3, 3] = 65535 if random.random() < 0.2 else 300
        return counts

    assert levels(load_image_folder(folder(tmp_path, with_hot_pixel))) > 100


def test_only_training_images_set_the_scale(tmp_path: Path) -> None:
    folder(tmp_path / "train", faint)
    folder(tmp_path / "test", lambda random: 10 * faint(random))
    with pytest.warns(UserWarning, match="the same picture"):  # all of them are white
        splits = load_image_folder(tmp_path)
    assert splits.pixels is not None
    assert (splits.pixels.low, splits.pixels.high) == ((290,), (420,))
    assert splits.test.images.unique().tolist() == [255]


@pytest.mark.parametrize(
    ("dtype", "offset", "factor"), [("u4", 10**6, 1000), ("i4", -(10**6), 1000), ("f4", -0.5, 1e-3), ("f8", 0, 1e30)]
)
def test_other_numbers(dtype: str, offset: float, factor: float, tmp_path: Path) -> None:
    splits = load_image_folder(
        folder(tmp_path, lambda random: (offset + factor * faint(random).astype(float)).astype(dtype))
    )
    assert levels(splits) > 125


@pytest.mark.filterwarnings("ignore:.*not finite numbers")
def test_what_is_not_a_number_is_black(tmp_path: Path) -> None:
    def with_gaps(random: np.random.Generator) -> np.ndarray:
        values = faint(random).astype(np.float32)
        values[0], values[1, 0], values[1, 1] = np.nan, np.inf, -np.inf
        return values

    with pytest.warns(
        UserWarning, match=r"of 20 files have values that are not finite numbers, which .*: `a/\d+\.tif`"
    ):
        splits = load_image_folder(folder(tmp_path, with_gaps))
    assert (splits.train.images[:, 0, 0] < 20).all()
    assert (splits.train.images[:, 0, 1, 0] > 235).all()
    assert (splits.train.images[:, 0, 1, 1] < 20).all()
    assert levels(splits) == 131
    save_tiff(tmp_path / "a" / "x.tif", np.full((16, 16), np.nan, np.float32))
    with pytest.warns(UserWarning, match=r"`a/x.tif` \(none of its pixels is a finite number\)"):
        load_image_folder(tmp_path)


def test_an_even_set_is_black(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="the same picture"):
        splits = load_image_folder(folder(tmp_path, lambda _: np.full((16, 16), 300, np.uint16)))
    assert levels(splits) == 1


@pytest.mark.parametrize("channels", [2, 4, 7])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_any_number_of_channels(channels: int, dtype: str, tmp_path: Path) -> None:
    def draw(random: np.random.Generator) -> np.ndarray:
        return np.stack([random.integers(0, 50 * (k + 1) % 256, (16, 16)) for k in range(channels)], 2).astype(dtype)

    splits = load_image_folder(folder(tmp_path, draw))
    assert splits.channels == channels
    tops = splits.train.images.amax((0, 2, 3)).tolist()
    assert tops == [255] * channels if dtype != "u1" else tops == [50 * (k + 1) % 256 - 1 for k in range(channels)]
    chosen = load_image_folder(tmp_path, pixels=Selection(channels=(1, 0)))
    assert chosen.train.images.equal(splits.train.images[:, [1, 0]])


def test_colours_with_16_bits(tmp_path: Path) -> None:
    """Red, green and blue as they are, one channel where they are equal, and grey beside colours."""
    for name in ("a", "b"):
        for i in range(5):
            counts = np.random.default_rng(i + 10 * (name == "a")).integers(290, 420, (16, 16, 1)).astype(np.uint16)
            write_png(tmp_path / name / f"{i}.png", counts.repeat(3, 2))
    grey = load_image_folder(tmp_path)
    assert (grey.channels, levels(grey) > 100) == (1, True)
    coloured = np.random.default_rng(7).integers(290, 420, (16, 16, 3)).astype(np.uint16)
    write_png(tmp_path / "a" / "x.png", coloured)
    assert load_image_folder(tmp_path).channels == 3
    assert grey.pixels is not None
    _, image, _ = read_images(tmp_path / "a" / "x.png", 16, 1, pixels=grey.pixels)
    brightness = coloured @ np.array([0.299, 0.587, 0.114])
    assert np.abs(image[0, 0].numpy() - grey.pixels.to_bytes(brightness[None])[0].astype(int)).max() <= 1


def test_shrinking_averages_counts(tmp_path: Path) -> None:
    splits = load_image_folder(folder(tmp_path, lambda random: faint(random).repeat(2, 0).repeat(2, 1)), image_size=16)
    assert levels(splits) == 131


def test_pages_are_named_and_chosen(tmp_path: Path) -> None:
    def save(path: Path, counts: np.ndarray) -> None:
        write_tiff(path, [counts[:, :, None], counts[::-1, :, None] + np.uint16(500)])

    folder(tmp_path, faint, save)
    with pytest.warns(
        UserWarning, match=r"20 of 20 files have several pages or frames, and only the first one is used\. .*--page"
    ):
        first = load_image_folder(tmp_path)
    second = load_image_folder(tmp_path, pixels=Selection(1))
    assert second.train.images.equal(first.train.images.flip(2))
    both = load_image_folder(tmp_path, pixels=Selection("all"))
    assert both.train.images[:, :1].equal(first.train.images)
    assert both.train.images[:, 1:].equal(second.train.images)


def test_a_fourth_channel_is_named(tmp_path: Path) -> None:
    def save(path: Path, counts: np.ndarray) -> None:
        write_tiff(path, [np.stack([counts, counts // 2, counts, counts // 3], 2)], Layout(photometric=RGB))

    folder(tmp_path, faint, save)
    with pytest.warns(
        UserWarning, match="20 of 20 files have more channels than red, green and blue, which are not used"
    ):
        assert load_image_folder(tmp_path).channels == 3
    assert load_image_folder(tmp_path, pixels=Selection(channels=(0, 1, 2, 3))).channels == 4


def test_tables_too(tmp_path: Path) -> None:
    folder(tmp_path, faint)
    rows = [f"{name}/{i}.tif,{name}" for name in ("a", "b") for i in range(10)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
    assert levels(load_dataset(tmp_path / "labels.csv")) == 131


# What one file more is, and why it is left out.
ODD: dict[str, tuple[np.ndarray, str]] = {
    "8 bits": (
        np.full((16, 16), 99, np.uint8),
        "its pixels are 8-bit, expected 16-bit as in the training images, because one scale does not fit both; give "
        "all images as the camera wrote them",
    ),
    "floats": (np.full((16, 16), 0.5, np.float32), "its pixels are floating-point, expected 16-bit"),
    "32 bits": (np.full((16, 16), 5, np.int32), "its pixels are 32-bit, expected 16-bit"),
    "two channels": (np.ones((16, 16, 2), np.uint16), "it has 2 channels, expected 1 as in the training images"),
}


@pytest.mark.parametrize(("counts", "reason"), ODD.values(), ids=ODD)
def test_odd_files_are_left_out_of_training_and_prediction(counts: np.ndarray, reason: str, tmp_path: Path) -> None:
    folder(tmp_path, faint)
    known = load_image_folder(tmp_path).pixels
    assert known is not None
    save_tiff(tmp_path / "a" / "x.tif", counts)
    with pytest.warns(UserWarning, match=r"1 of 21 files in .* cannot be read and is left out: `a/x.tif`") as caught:
        splits = load_image_folder(tmp_path)
    for skipped in (splits.skipped, read_images(tmp_path / "a", 16, 1, pixels=known)[2]):
        ((name, why),) = skipped
        assert name.endswith("x.tif")
        assert why.startswith(reason)
    assert len(caught) == 1


def test_a_class_of_another_depth_is_not_lost_in_silence(tmp_path: Path) -> None:
    folder(tmp_path, faint)
    for path in (tmp_path / "b").iterdir():
        Image.new("L", (16, 16), 9).save(path)
    with pytest.raises(ValueError, match=r"has only the class `a` with training images .*8-bit, expected 16-bit"):
        load_image_folder(tmp_path)


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        (Selection(3), "it has 1 page, counted from 0, and no page 3"),
        (Selection(channels=(1,)), "it has 1 channel, counted from 0, and no channel 1"),
    ],
)
def test_what_no_file_has(selection: Selection, reason: str, tmp_path: Path) -> None:
    folder(tmp_path, faint)
    with pytest.raises(ValueError, match=rf"none of the 20 files in .*`a/0.tif` \({reason}\).*choose other pages or"):
        load_image_folder(tmp_path, pixels=selection)


def test_known_data_sets_have_nothing_to_choose() -> None:
    with pytest.raises(
        ValueError, match=r"`digits` is a known data set, .*; got page 1 and channel 2\. Leave that out"
    ):
        load_dataset("digits", pixels=Selection(1, (2,)))


def test_bytes_are_what_they_were(tmp_path: Path) -> None:
    """Grey and colours, with and without a format: the same bytes as a plain reading of Pillow."""
    pixels = np.random.default_rng(0).integers(0, 256, (10, 16, 16, 3)).astype(np.uint8)
    for name in ("a", "b"):
        for i in range(5):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.fromarray(pixels[i + 5 * (name == "b")]).save(tmp_path / name / f"{i}.png")
    splits = load_image_folder(tmp_path)
    assert splits.pixels is not None
    assert (splits.pixels.depth, splits.pixels.low) == ("8-bit", ())
    for image, file in zip(splits.train.images, splits.train.files, strict=True):
        assert np.array_equal(image.numpy(), np.asarray(Image.open(tmp_path / file)).transpose(2, 0, 1))
    assert read_images(tmp_path, 9, 3)[1].equal(read_images(tmp_path, 9, 3, pixels=splits.pixels)[1])
