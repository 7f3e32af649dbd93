"""Image folders: what is read, how it is brought to one size, and what is said of files that cannot be read."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from steerable.data import load_dataset, load_image_folder, read_images
from steerable.data.images import read_squares

RED, GREEN, GREY = (255, 0, 0), (0, 255, 0), (90, 90, 90)


def save(path: Path, colour: tuple[int, ...] | int = RED, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)
    return path


@pytest.fixture
def two_classes(tmp_path: Path) -> Path:
    for i in range(5):
        save(tmp_path / "data" / "apple" / f"{i}.png", RED)
        save(tmp_path / "data" / "pear" / "deeper" / f"{i}.bmp", GREEN)
    return tmp_path / "data"


def square(path: Path, size: int = 8) -> np.ndarray:
    pixels = read_squares([path], size)[0]
    assert not isinstance(pixels, str), pixels
    return pixels


def test_sub_folders_are_classes(two_classes: Path) -> None:
    (two_classes / "apple" / ".DS_Store").write_text("x")
    (two_classes / "pear" / "Thumbs.db").write_text("x")
    (two_classes / ".git").mkdir()
    (two_classes / "README").write_text("x")
    splits = load_dataset(two_classes)
    assert (splits.classes, splits.channels, splits.image_size, splits.name) == (("apple", "pear"), 3, (8, 8), "data")
    assert (splits.train.counts, splits.test.counts, splits.skipped) == ((4, 4), (1, 1), ())
    for part in (splits.train, splits.test):
        for image, label in zip(part.images, part.labels, strict=True):
            assert image[:, 3, 3].tolist() == list([RED, GREEN][int(label)])


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train", "test"),
        ("train", "val"),
        ("Training", "Testing"),
        ("TRAIN", "Validation"),
        ("training_set", "test_set"),
    ],
)
def test_train_and_test_folders_are_kept_apart(train: str, test: str, tmp_path: Path) -> None:
    for part, count in ((train, 3), (test, 2)):
        for i in range(count):
            save(tmp_path / part / "a" / f"{i}.png", RED)
            save(tmp_path / part / "b" / f"{i}.png", (i, 0, 0))
    splits = load_image_folder(str(tmp_path))
    assert (splits.train.counts, splits.test.counts) == ((3, 3), (2, 2))
    save(tmp_path / test / "c" / "0.png")
    with pytest.raises(ValueError, match=rf"{test}` has `c`, expected only the training classes `a`, `b`"):
        load_image_folder(tmp_path)


def test_a_test_folder_may_lack_classes_but_not_images(tmp_path: Path) -> None:
    save(tmp_path / "train/a/0.png")
    save(tmp_path / "train/b/0.png", GREEN)
    (tmp_path / "test").mkdir()
    with pytest.raises(ValueError, match=r"`.*test` has no images, expected test images there\. Add some, or remove"):
        load_image_folder(tmp_path)
    save(tmp_path / "test" / "b" / "0.png", GREEN)
    assert load_image_folder(tmp_path).test.counts == (0, 1)


def test_the_split_is_seeded(tmp_path: Path) -> None:
    for i in range(20):
        save(tmp_path / "a" / f"{i}.png", (i, 0, 0))
        save(tmp_path / "b" / f"{i}.png", (i, 1, 0))
    first, again, other = (load_image_folder(tmp_path, seed=seed, test_fraction=0.5) for seed in (0, 0, 1))
    assert first.test.counts == (10, 10)
    assert torch.equal(first.test.images, again.test.images)
    assert not torch.equal(first.test.images, other.test.images)


@pytest.mark.parametrize(
    ("sizes", "given", "expected"),
    [
        ([(33, 33), (33, 33)], None, 32),
        ([(30, 20), (22, 90), (90, 25)], None, 24),
        ([(28, 28), (28, 28)], None, 32),
        ([(50, 90), (50, 60)], None, 48),
        ([(150, 100), (100, 100)], None, 96),
        ([(300, 300), (300, 300)], None, 128),
        ([(30, 20), (30, 20)], None, 20),
        ([(3, 2), (3, 3)], None, 4),
        ([(30, 20), (30, 20)], 7, 7),
    ],
)
@pytest.mark.filterwarnings("ignore:.* far from squares")
def test_the_common_size(sizes: list[tuple[int, int]], given: int | None, expected: int, tmp_path: Path) -> None:
    for i, size in enumerate(sizes):
        save(tmp_path / "a" / f"{i}.png", RED, size)
        save(tmp_path / "b" / f"{i}.png", GREEN, size)
    assert load_image_folder(tmp_path, image_size=given, test_fraction=0.5).image_size == (expected, expected)


def test_shrinking_averages_the_middle_square(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 14), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    expected = pixels[:, 3:11].reshape(4, 2, 4, 2).mean((1, 3))
    assert np.abs(square(tmp_path / "x.png", 4)[0] - expected).max() <= 1
    assert np.array_equal(square(tmp_path / "x.png", 8)[0], pixels[:, 3:11])


def test_grey_only_if_all_are(tmp_path: Path) -> None:
    for i in range(2):
        save(tmp_path / "a" / f"{i}.png", GREY)  # stored as RGB
        save(tmp_path / "b" / f"{i}.png", 80, mode="L")
    splits = load_image_folder(tmp_path, test_fraction=0.5)
    assert splits.channels == 1
    assert splits.train.images.unique().tolist() == [80, 90]
    save(tmp_path / "b" / "2.png", RED)
    splits = load_image_folder(tmp_path, test_fraction=0.2)
    assert splits.channels == 3
    assert splits.train.images[0, :, 0, 0].tolist() == list(GREY)


def test_a_tinge_from_compression_is_not_a_colour(tmp_path: Path) -> None:
    """WebP gives grey images back with colours that differ by one grey level."""
    rng = np.random.default_rng(0)
    for i, name in enumerate("aabb"):
        (tmp_path / name).mkdir(exist_ok=True)
        grey = Image.fromarray(rng.integers(0, 256, (16, 16), dtype=np.uint8))
        grey.convert("RGB").save(tmp_path / name / f"{i}.webp", quality=80)
    splits = load_image_folder(tmp_path, test_fraction=0.5)
    assert splits.pixels is not None
    assert (splits.channels, splits.pixels.channels, splits.pixels.in_words()) == (1, 1, "grey")
    stored = np.asarray(Image.open(tmp_path / splits.train.files[0])).astype(int)
    assert np.ptp(stored, axis=-1).max() == 1
    assert np.abs(splits.train.images[0, 0].numpy() - stored.mean(-1)).max() < 1
    _, image, _ = read_images(tmp_path / splits.train.files[0], 16, 1, pixels=splits.pixels)  # as `predict` reads it
    assert torch.equal(image[0], splits.train.images[0])
    # A run that began with three channels keeps them, and one that began with one channel takes brightness of colours.
    colour = replace(splits.pixels, channels=3)
    assert load_image_folder(tmp_path, test_fraction=0.5, pixels=colour).channels == 3
    save(tmp_path / "b" / "9.png", RED, (16, 16))
    assert load_image_folder(tmp_path, test_fraction=0.5, pixels=splits.pixels).channels == 1
    assert load_image_folder(tmp_path, test_fraction=0.5).channels == 3


def _formats() -> Iterator[tuple[str, str, Image.Image, list[int]]]:
    """(name, suffix, image, the channels of its first pixel)"""
    ramp = np.linspace(0, 65535, 64).reshape(8, 8)
    ramp[0, 0] = 257 * 100
    yield "16 bits", "png", Image.fromarray(ramp.astype(np.uint16)), [100]
    yield "16 bits", "tiff", Image.fromarray(ramp.astype(np.uint16)), [100]
    yield "32 bits", "tiff", Image.fromarray(ramp.astype(np.int32)), [100]
    yield "floats to 1", "tiff", Image.fromarray((ramp / 65535).astype(np.float32)), [100]
    yield "floats to 255", "tiff", Image.fromarray((ramp / 257).astype(np.float32)), [100]
    yield "palette", "png", Image.new("RGB", (8, 8), RED).convert("P"), [255, 0, 0]
    yield "grey palette", "gif", Image.new("L", (8, 8), 90).convert("P"), [90]
    yield "two colours", "png", Image.new("1", (8, 8), 1), [255]
    yield "opaque", "png", Image.new("RGBA", (8, 8), (9, 8, 7, 255)), [9, 8, 7]
    see_through = Image.new("P", (8, 8), 3)
    see_through.putpalette([7] * 768)
    see_through.info["transparency"] = 3
    yield "transparent palette", "png", see_through, [255]
    yield "transparent", "png", Image.new("RGBA", (8, 8), (9, 8, 7, 0)), [255]
    yield "half transparent", "png", Image.new("LA", (8, 8), (55, 51)), [215]
    yield "CMYK", "jpg", Image.new("CMYK", (8, 8), (0, 255, 255, 0)), [255, 0, 0]
    yield "web", "webp", Image.new("RGB", (8, 8), GREY), [90]


@pytest.mark.parametrize(("name", "suffix", "image", "expected"), list(_formats()))
def test_formats(name: str, suffix: str, image: Image.Image, expected: list[int], tmp_path: Path) -> None:
    image.save(tmp_path / f"x.{suffix}")
    assert square(tmp_path / f"x.{suffix}")[:, 0, 0].tolist() == expected


def test_the_orientation_tag_is_followed(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8), np.uint8)
    pixels[:4] = 255
    tag = Image.Exif()
    tag[0x0112] = 6  # the camera was turned: rotate by 90° clockwise to see it upright
    Image.fromarray(pixels).save(tmp_path / "x.png", exif=tag)
    assert np.array_equal(square(tmp_path / "x.png")[0], np.rot90(pixels, -1))


def _spoil(folder: Path) -> dict[str, str]:
    """Files that cannot be read, and a piece of the reason."""
    folder.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "cut.jpg")
    (folder / "cut.jpg").write_bytes((folder / "cut.jpg").read_bytes()[:2000])
    Image.fromarray(noise).save(folder / "cut.png")
    (folder / "cut.png").write_bytes((folder / "cut.png").read_bytes()[:3000])
    (folder / "empty.png").write_bytes(b"")
    (folder / "notes.txt").write_text("not an image")
    (folder / "vector.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n")
    Image.fromarray(np.full((8, 8), -3.0, np.float32)).save(folder / "negative.tiff")
    save(folder / "huge.png", size=(300, 300))
    save(folder / "larger.png", size=(200, 100))
    return {
        "cut.jpg": "truncated",
        "cut.png": "truncated",
        "empty.png": "not an image",
        "huge.png": "too large: images of up to 15,000 pixels are read; shrink it",
        "larger.png": "too large: images of up to 15,000 pixels",
        "negative.tiff": "its pixels are floating-point, expected 8-bit as in the training images",
        "notes.txt": "not an image of a known format",
        "vector.eps": "not an image of a known format",
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_left_out_and_not_waited_for(two_classes: Path) -> None:
    os.mkfifo(two_classes / "apple" / "pipe.png")
    with pytest.warns(UserWarning, match="it is not a regular file"):
        splits = load_image_folder(two_classes)
    assert [name for name, _ in splits.skipped] == ["apple/pipe.png"]


def test_unreadable_files_are_named_and_left_out(two_classes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = _spoil(two_classes / "apple")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 15_000)
    with pytest.warns(UserWarning, match=r"8 of 18 files in .*left out: `apple/cut.jpg` \(.*; and 3 more\.") as caught:
        splits = load_image_folder(two_classes)
    assert len(caught) == 1
    assert (splits.train.counts, splits.test.counts, splits.image_size) == ((4, 4), (1, 1), (8, 8))
    assert [name for name, _ in splits.skipped] == [f"apple/{name}" for name in reasons]
    for name, reason in splits.skipped:
        assert reasons[Path(name).name] in reason


def test_wrong_sizes(two_classes: Path) -> None:
    with pytest.raises(ValueError, match="`image_size` must be at least 1, got 0"):
        load_image_folder(two_classes, image_size=0)


def test_progress(two_classes: Path) -> None:
    seen: list[tuple[int, int]] = []
    load_image_folder(two_classes, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k, 10) for k in range(1, 11)]


def test_images_to_predict(tmp_path: Path) -> None:
    save(tmp_path / "b.png", GREY, (20, 10))
    save(tmp_path / "sub" / "a.png", RED)
    (tmp_path / "c.png").write_text("x")
    names, images, skipped = read_images(tmp_path, 8, 3)
    assert names == [str(tmp_path / "b.png"), str(tmp_path / "sub" / "a.png")]
    assert images[:, :, 0, 0].tolist() == [list(GREY), list(RED)]
    assert skipped == [(str(tmp_path / "c.png"), "not an image of a known format")]
    assert read_images(tmp_path / "sub" / "a.png", 4, 1)[1].unique().tolist() == [76]
    assert read_images(tmp_path / "c.png", 4, 1)[1].shape == (0, 1, 4, 4)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_images(tmp_path / "absent.png", 4, 1)
    with pytest.raises(ValueError, match=r"1 channel \(grey\) or 3 \(RGB\), got channels=2"):
        read_images(tmp_path, 4, 2)
