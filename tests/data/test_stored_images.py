"""What is read from files of every depth and layout is what was written, page by page and channel by channel."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from camera_files import RGB, Layout, write_png, write_tiff
from PIL import Image

from steerable.data.files import Unusable
from steerable.data.pixel_formats import Selection
from steerable.data.stored_arrays import StoredImage
from steerable.data.stored_images import stored_image

TYPES = ("u1", "u2", "i2", "u4", "i4", "f2", "f4", "f8")
LAYOUTS = {
    "strips": Layout(),
    "big-endian": Layout(order=">"),
    "deflate": Layout(deflate=True),
    "planes": Layout(planes=True),
    "tiles": Layout(tile=16),
    "big-endian, deflate, tiles, differences": Layout(">", deflate=True, predictor=2, tile=16),
    "planes, differences": Layout(deflate=True, predictor=2, planes=True),
    "differences of bytes": Layout(deflate=True, predictor=3, tile=16),
}


def random(dtype: str, *shape: int) -> np.ndarray:
    return (200 * np.random.default_rng(0).random(shape)).astype(dtype)


def read(path: Path, page: int | str | None = None, channels: tuple[int, ...] = ()) -> tuple[StoredImage, np.ndarray]:
    """The image by its header, and its numbers."""
    Image.init()
    with stored_image(path, Selection(page, channels)) as found:
        numbers = found.numbers()
    assert numbers.shape == (found.channels, *found.size[::-1])
    return found, numbers


# The format knows each kind of differences for one kind of numbers.
WRITTEN = [
    (dtype, layout)
    for dtype, layout in itertools.product(TYPES, LAYOUTS)
    if LAYOUTS[layout].predictor in (1, 3 if dtype[0] == "f" else 2)
]


@pytest.mark.parametrize(("dtype", "layout"), WRITTEN)
def test_every_type_and_layout_of_tiff(dtype: str, layout: str, tmp_path: Path) -> None:
    for channels in (2, 5):
        pixels = random(dtype, 21, 35, channels)
        found, numbers = read(write_tiff(tmp_path / "x.tif", [pixels], LAYOUTS[layout]))
        assert np.array_equal(numbers, pixels.transpose(2, 0, 1))
        expected = "floating-point" if dtype[0] == "f" else f"{8 * int(dtype[1])}-bit"
        assert (found.depth, found.picture) == (expected, None)


@pytest.mark.parametrize("compression", ["tiff_lzw", "packbits", "tiff_adobe_deflate", None])
def test_what_pillow_writes(compression: str | None, tmp_path: Path) -> None:
    for dtype in ("u2", "i4", "f4"):
        pixels = random(dtype, 21, 35)
        Image.fromarray(pixels).save(tmp_path / "x.tif", compression=compression)
        assert np.array_equal(read(tmp_path / "x.tif")[1][0], pixels)


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_png_with_16_bits(channels: int, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 65536, (9, 7, channels)).astype(np.uint16)
    path = write_png(tmp_path / "x.png", pixels)
    found, numbers = read(path)
    shown = channels - (channels != 3)  # without transparency
    assert (found.depth, found.channels) == ("16-bit", shown)
    assert np.array_equal(numbers, pixels.transpose(2, 0, 1)[:shown])
    assert np.array_equal(read(path, channels=(channels - 1, 0))[1], pixels.transpose(2, 0, 1)[[channels - 1, 0]])


@pytest.mark.parametrize("dtype", ["bool", "u1", "i1", "u2", "f4"])
def test_arrays(dtype: str, tmp_path: Path) -> None:
    for k, shape in enumerate([(9, 7), (5, 9, 7), (9, 7, 5)]):
        pixels = random(dtype, *shape)
        np.save(tmp_path / "x.npy", pixels)
        expected = pixels.transpose(2, 0, 1) if k == 2 else pixels.reshape(-1, 9, 7)
        found, numbers = read(tmp_path / "x.npy")
        assert np.array_equal(numbers, expected * (np.uint8(255) if dtype == "bool" else 1))
        depths = {"bool": "8-bit", "u1": "8-bit", "i1": "16-bit", "u2": "16-bit", "f4": "floating-point"}
        assert found.depth == depths[dtype]


def test_pages_and_channels_are_chosen(tmp_path: Path) -> None:
    pages = [random("u2", 9, 7, 2) + 1000 * k for k in range(3)]
    path = write_tiff(tmp_path / "x.tif", pages)
    stack = np.concatenate([page.transpose(2, 0, 1) for page in pages])
    assert read(path)[0].unused == (True, False)
    assert read(path, 0)[0].unused == (False, False)
    assert np.array_equal(read(path)[1], stack[:2])
    assert np.array_equal(read(path, 2)[1], stack[4:])
    assert np.array_equal(read(path, "all")[1], stack)
    assert np.array_equal(read(path, "all", (5, 0))[1], stack[[5, 0]])
    assert np.array_equal(read(path, 1, (1,))[1], stack[3:4])


def test_pages_of_bytes(tmp_path: Path) -> None:
    pages = [random("u1", 9, 7) + 50 * k for k in range(3)]
    first, *others = map(Image.fromarray, pages)
    first.save(tmp_path / "x.tif", save_all=True, append_images=others)
    for number in range(3):
        assert np.array_equal(read(tmp_path / "x.tif", number)[1][0], pages[number])
    assert np.array_equal(read(tmp_path / "x.tif", "all")[1], np.stack(pages))


def test_colours_with_something_besides(tmp_path: Path) -> None:
    for dtype, alpha in itertools.product(("u1", "u2"), (0, 2)):
        pixels = random(dtype, 9, 7, 4)
        path = write_tiff(tmp_path / "x.tif", [pixels], Layout(photometric=RGB, extra=(alpha,)))
        found, numbers = read(path)
        assert (found.channels, found.unused) == (3, (False, alpha == 0))
        if dtype == "u2" or not alpha:  # transparent bytes are laid over white
            assert np.array_equal(numbers, pixels[:, :, :3].transpose(2, 0, 1))
        assert np.array_equal(read(path, channels=(3, 1))[1], pixels[:, :, [3, 1]].transpose(2, 0, 1))


@pytest.mark.parametrize(("mode", "bands"), [("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4), ("1", 1), ("P", 3)])
def test_channels_of_ordinary_images(mode: str, bands: int, tmp_path: Path) -> None:
    image = Image.fromarray(random("u1", 9, 7, 3)).convert(mode)
    image.save(tmp_path / "x.png")
    plain = np.asarray(image.convert({"1": "L", "P": "RGB"}.get(mode, mode))).reshape(9, 7, -1).transpose(2, 0, 1)
    assert np.array_equal(read(tmp_path / "x.png", channels=tuple(range(bands)))[1], plain)
    with pytest.raises(Unusable, match=rf"it has {bands} channels?, counted from 0, and no channel {bands}"):
        read(tmp_path / "x.png", channels=(bands,))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_tag_of_tiff_is_followed(orientation: int, tmp_path: Path) -> None:
    pixels = random("u1", 9, 7, 1)
    shown = write_tiff(tmp_path / "shown.tif", [pixels], Layout(orientation=orientation))
    _, expected = read(shown)  # by Pillow
    found, numbers = read(
        write_tiff(tmp_path / "x.tif", [pixels.astype("u2").repeat(2, 2)], Layout(orientation=orientation))
    )
    assert found.size == expected.shape[:0:-1]
    assert np.array_equal(numbers[1], expected[0])


def test_words_for_what_a_file_does_not_have(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "x.tif", [random("u2", 9, 7, 2), random("u2", 9, 7, 2)])
    with pytest.raises(Unusable, match=r"^it has 2 pages, counted from 0, and no page 2$"):
        read(path, 2)
    with pytest.raises(Unusable, match=r"^it has 2 channels, counted from 0, and no channel 7$"):
        read(path, channels=(0, 7))
    with pytest.raises(Unusable, match=r"^it has 4 channels, counted from 0, and no channel 4$"):
        read(path, "all", (4,))
    Image.new("L", (8, 8)).save(tmp_path / "x.png")
    with pytest.raises(Unusable, match=r"^it has 1 page, counted from 0, and no page 1$"):
        read(tmp_path / "x.png", 1)
    write_tiff(path, [random("u2", 9, 7, 1), random("u2", 9, 8, 1)])
    with pytest.raises(Unusable, match="its pages differ in size or depth, so they cannot"):
        read(path, "all")
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 4, 5)))
    with pytest.raises(
        Unusable,
        match=r"float64 of shape \(2, 3, 4, 5\), expected numbers \(height, width\) or \(channels, height, width\)",
    ):
        read(tmp_path / "x.npy")


def test_colours_of_16_bits_that_only_pillow_reads_are_not_cut_in_silence(tmp_path: Path) -> None:
    path = write_tiff(tmp_path / "x.tif", [random("u2", 9, 7, 4)], Layout(photometric=5, extra=()))  # CMYK
    with pytest.raises(Unusable, match="its colours have 16 bits, of which only 8 could be read; save it as RGB"):
        read(path)


@pytest.mark.filterwarnings("ignore:Truncated File Read")
def test_damaged_tiffs_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that leads to itself, a file that was cut, and one that would fill the memory."""
    path = write_tiff(tmp_path / "x.tif", [random("u2", 9, 7, 2)])
    content = path.read_bytes()
    (start,) = np.frombuffer(content[4:8], "<u4")
    count = int.from_bytes(content[start : start + 2], "little")
    link = start + 2 + 12 * count
    path.write_bytes(content[:link] + content[4:8] + content[link + 4 :])
    assert read(path)[0].unused == (False, False)
    deflated = write_tiff(tmp_path / "y.tif", [random("u2", 90, 70, 2)], Layout(deflate=True)).read_bytes()
    path.write_bytes(deflated[:200] + bytes(len(deflated) - 200 - 2000) + deflated[-2000:])
    with pytest.raises(OSError, match=r"decoder error|truncated"):
        read(path)
    two = write_tiff(tmp_path / "z.tif", [random("u1", 9, 7, 1)] * 2).read_bytes()
    path.write_bytes(two[:-100])  # the second directory is cut
    assert np.array_equal(read(path)[1][0], random("u1", 9, 7, 1)[:, :, 0])
    write_tiff(path, [random("u2", 9, 7, 5000)])
    with pytest.raises(Unusable, match=r"it has 5000 channels, expected 1 to 4096"):
        read(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(Image.DecompressionBombError):
        read(tmp_path / "y.tif")
