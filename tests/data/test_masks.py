"""Folders with masks: every way to store a label, every way to lay files out, and words for what cannot be used."""

from __future__ import annotations

import json
import os
import re
import shutil
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from camera_files import write_tiff
from cell_images import cells, write_cells
from PIL import Image

from steerable.data.files import Unusable
from steerable.data.mask_files import COLOUR, label_name, read_label_file
from steerable.data.mask_folders import load_mask_folder
from steerable.data.mask_pairs import has_masks, paired_folder
from steerable.data.mask_survey import kind_of_masks, tile_for
from steerable.data.masked_images import MaskedImages
from steerable.data.pixel_formats import PixelFormat, Selection
from steerable.data.regions import connected_regions

LABELS = np.array([[0, 1, 2], [2, 1, 0]])


def saved(path: Path, picture: Image.Image, **options: object) -> Path:
    picture.save(path, **options)
    return path


def palette_picture() -> Image.Image:
    picture = Image.fromarray(LABELS.astype(np.uint8), mode=None).convert("P")
    picture.putdata(LABELS.ravel().tolist())
    picture.putpalette([200, 10, 10, 10, 200, 10, 10, 10, 200])
    return picture


def test_the_same_labels_from_every_kind_of_file(tmp_path: Path) -> None:
    eight = Image.fromarray(LABELS.astype(np.uint8))
    np.save(tmp_path / "whole.npy", LABELS)
    np.save(tmp_path / "floats.npy", LABELS.astype(np.float32)[..., None])
    files = [
        saved(tmp_path / "grey.png", eight),
        saved(tmp_path / "sixteen.png", Image.fromarray(LABELS.astype(np.uint16))),
        saved(tmp_path / "palette.png", palette_picture()),
        saved(tmp_path / "rgba.png", Image.merge("RGBA", [eight, eight, eight, Image.new("L", eight.size, 3)])),
        saved(tmp_path / "grey.tif", eight),
        write_tiff(tmp_path / "deep.tif", [LABELS[..., None].astype(np.uint16)]),
        write_tiff(tmp_path / "wide.tif", [LABELS[..., None].astype(np.uint32)]),
        write_tiff(tmp_path / "float.tif", [LABELS[..., None].astype(np.float32)]),
        tmp_path / "whole.npy",
        tmp_path / "floats.npy",
    ]
    for path in files:
        assert np.array_equal(read_label_file(path), LABELS), path.name


def test_one_bit_and_colours(tmp_path: Path) -> None:
    bits = saved(tmp_path / "bits.png", Image.fromarray(LABELS > 1))
    assert set(np.unique(read_label_file(bits))) <= {0, 1, 255}
    assert np.array_equal(read_label_file(bits) > 0, LABELS > 1)
    colours = np.zeros((2, 2, 3), np.uint8)
    colours[0, 0] = 255, 128, 0
    found = read_label_file(saved(tmp_path / "colours.png", Image.fromarray(colours)))
    assert found[0, 0] == COLOUR + 0xFF8000
    assert label_name(int(found[0, 0])) == "#ff8000"


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (LABELS + 0.5, "label 0.5, expected whole numbers"),
        (LABELS - 1, "label -1, expected numbers from 0 on"),
        (np.full((2, 2), np.nan), "not finite"),
        (np.zeros((2, 2, 2, 2)), "expected whole numbers"),
        (np.array([["a"]]), "expected whole numbers"),
        (np.full((2, 2), 1e12), "expected numbers up to"),
        (np.zeros((0, 2)), "at least one pixel"),
    ],
)
def test_labels_that_are_none(tmp_path: Path, array: np.ndarray, words: str) -> None:
    np.save(tmp_path / "labels.npy", array)
    with pytest.raises(Unusable, match=words):
        read_label_file(tmp_path / "labels.npy")


def test_masks_with_losses_or_inks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="JPEG"):
        read_label_file(saved(tmp_path / "a.jpg", Image.new("L", (8, 8))))
    with pytest.raises(Unusable, match="CMYK"):
        read_label_file(saved(tmp_path / "a.tif", Image.new("CMYK", (8, 8))))
    with pytest.raises(Unusable, match="several pages"):
        read_label_file(write_tiff(tmp_path / "b.tif", [LABELS[..., None].astype(np.uint16)] * 2))


@pytest.mark.parametrize("masks", ["masks", "labels"])
def test_a_folder_is_read_and_split(tmp_path: Path, masks: str) -> None:
    root = write_cells(tmp_path / "cells", 10, size=(40, 56), masks=masks)
    assert has_masks(root)
    splits = load_mask_folder(root)
    assert (len(splits.train), len(splits.test), splits.validation) == (8, 2, None)
    assert splits.train.classes == ("background", "foreground")
    assert splits.values == (0, 255)
    assert splits.train.tile == 32
    assert not set(splits.train.files) & set(splits.test.files)
    image, mask = cells(int(Path(splits.test.files[0]).stem), 40, 56, 3 + int(Path(splits.test.files[0]).stem) % 3)
    assert torch.equal(splits.test.images[0][0], torch.from_numpy(image))
    assert torch.equal(splits.test.class_map(0), torch.from_numpy((mask > 0).astype(np.int64)))
    assert load_mask_folder(root).test.digest == splits.test.digest
    assert load_mask_folder(root, seed=3).test.digest != splits.test.digest


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Training", "Validation", "TESTING")])
def test_parts_in_folders(tmp_path: Path, names: tuple[str, ...]) -> None:
    for number, part in enumerate(names):
        write_cells(tmp_path / "outer" / part, 3, first=3 * number)
    for kind in ("images", "masks"):
        for part in names:
            source = tmp_path / "outer" / part / kind
            shutil.copytree(source, tmp_path / "inner" / kind / part)
    for root in (tmp_path / "outer", tmp_path / "inner"):
        splits = load_mask_folder(root)
        assert splits.validation is not None
        assert [len(splits.train), len(splits.validation), len(splits.test)] == [3, 3, 3]
    train, _, test = (tmp_path / "outer" / name / "images" for name in names)
    shutil.copy(train / "000.png", test / "001.png")
    with pytest.warns(UserWarning, match="1 test image is among the training images as well.*/images/001.png`. Remove"):
        load_mask_folder(tmp_path / "outer")


def test_names_that_differ_by_words(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "cells", 3)
    for path in (root / "images").iterdir():
        path.rename(path.with_name(f"img_{path.name}"))
    for path in (root / "masks").iterdir():
        path.rename(path.with_name(f"{path.stem}-Mask.png"))
    assert [(p.image.name, p.mask.name) for p in paired_folder(root).pairs] == [
        (f"img_00{k}.png", f"00{k}-Mask.png") for k in range(3)
    ]


@pytest.mark.parametrize(
    ("image", "mask"), [("{}.ome.tif", "{}.png"), ("{}.ome.tiff", "{}_mask.ome.tif"), ("{}.jpg", "{}.jpg.png")]
)
def test_endings_that_programs_add(tmp_path: Path, image: str, mask: str) -> None:
    for name in ("a", "b"):
        for folder, wanted in (("images", image), ("masks", mask)):
            path = tmp_path / folder / wanted.format(name)
            path.parent.mkdir(exist_ok=True)
            path.touch()
    pairs = [(pair.image.name, pair.mask.name) for pair in paired_folder(tmp_path).pairs]
    assert pairs == [(image.format(name), mask.format(name)) for name in ("a", "b")]


def test_one_mask_does_not_serve_two_images(tmp_path: Path) -> None:
    """A camera's file and its preview would be trained and tested on."""
    root = write_cells(tmp_path / "cells", 4)
    for path in (root / "images").iterdir():
        Image.open(path).save(path.with_suffix(".tif"))
    found = paired_folder(root)
    assert [pair.image.suffix for pair in found.pairs] == [".png"] * 4
    assert found.skipped[0] == ("images/000.tif", "its mask, `000.png`, is that of another image as well")
    shutil.copy(root / "masks" / "000.png", root / "masks" / "000.tif.png")
    assert len(paired_folder(root).pairs) == 5


@pytest.mark.parametrize("inside", ["", "train"])
def test_masks_that_are_not_used_are_named(tmp_path: Path, inside: str) -> None:
    for folder in ("images", "labels", "masks"):
        (tmp_path / folder / inside).mkdir(parents=True)
        (tmp_path / folder / inside / "a.png").touch()
    (note,) = paired_folder(tmp_path).notes
    assert re.match("the masks of .* are read from `labels`, and `masks` is not used", note)


def test_one_file_for_each_object(tmp_path: Path) -> None:
    """In a folder of the image's name, or beside an image that has a folder to itself."""
    root = write_cells(tmp_path / "cells", 5, instances=True)
    for path in sorted((root / "masks").iterdir()):
        labels = read_label_file(path)
        for number in range(1, labels.max() + 1):
            one = Image.fromarray(((labels == number) * 255).astype(np.uint8))
            for folder in (tmp_path / "folders" / "masks" / path.stem, tmp_path / "alone" / path.stem / "masks"):
                folder.mkdir(parents=True, exist_ok=True)
                one.save(folder / f"nucleus {number}.png")
        (tmp_path / "alone" / path.stem / "images").mkdir()
        shutil.copy(root / "images" / path.name, tmp_path / "alone" / path.stem / "images" / f"{path.stem}.png")
    shutil.copytree(root / "images", tmp_path / "folders" / "images")
    expected = load_mask_folder(root).test
    for layout in ("folders", "alone"):
        assert has_masks(tmp_path / layout)
        found = load_mask_folder(tmp_path / layout).test
        assert found.kind == "instances"
        assert all(map(torch.equal, found.masks, expected.masks))
    Image.fromarray(np.zeros((3, 4), np.uint8)).save(tmp_path / "folders" / "masks" / "001" / "z.png")
    (tmp_path / "folders" / "masks" / "002" / "z.png").write_bytes(b"?")
    with pytest.warns(UserWarning, match="2 images in .* are left out") as said:
        load_mask_folder(tmp_path / "folders")
    (words,) = (str(warning.message) for warning in said)
    assert "`images/001.png` (its mask cannot be used: `z.png` has 4×3 pixels, and those before it 48×48)" in words
    assert "`images/002.png` (its mask cannot be used: `z.png`: not an image of a known format)" in words
    (tmp_path / "empty").mkdir()
    with pytest.raises(Unusable, match="its folder of masks is empty"):
        read_label_file(tmp_path / "empty")


def test_names_are_the_same_however_their_accents_are_stored(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "cells", 3)
    for kind, form in (("images", "NFC"), ("masks", "NFD")):
        for path in (root / kind).iterdir():
            path.rename(path.with_name(unicodedata.normalize(form, f"Präparat {path.name}")))
    assert len(paired_folder(root).pairs) == 3


def dim_cells(root: Path, brightest: tuple[int, ...], *, deep: bool = False) -> Path:
    """Cells whose images reach up to different counts."""
    write_cells(root, len(brightest), size=(40, 40))
    for path, top in zip(sorted((root / "images").iterdir()), brightest, strict=True):
        image = np.asarray(Image.open(path)).astype(np.float64) / 255 * top
        Image.fromarray((100 * image).astype(np.uint16) if deep else image.astype(np.uint8)).save(path)
    return root


@pytest.mark.parametrize("deep", [False, True])
def test_dim_and_bright_images_are_stretched(tmp_path: Path, deep: bool) -> None:
    root = dim_cells(tmp_path / "cells", (255, 25, 130, 60, 255, 40), deep=deep)
    splits = load_mask_folder(root)
    assert splits.pixels.stretch > 0
    assert "each image stretched to its own range" in splits.pixels.in_words()
    assert not splits.pixels.has_counts
    for image in (*splits.train.images, *splits.test.images):
        assert image.float().quantile(0.998) > 250
        assert image.float().quantile(0.01) < 5
    again = PixelFormat.from_dict(json.loads(json.dumps(splits.pixels.to_dict())))
    assert again == splits.pixels
    assert load_mask_folder(root, pixels=again).test.digest == splits.test.digest
    as_they_are = load_mask_folder(root, stretch="no")
    assert not as_they_are.pixels.stretch
    assert min(int(image.max()) for image in as_they_are.train.images) < 60
    alike = dim_cells(tmp_path / "alike", (255, 240, 250, 200, 255, 220), deep=deep)
    assert not load_mask_folder(alike).pixels.stretch
    assert load_mask_folder(alike, stretch="yes").pixels.stretch


def test_stretching_keeps_colours_and_leaves_noise_dark() -> None:
    generator = np.random.default_rng(0)
    counts = generator.integers(0, 50, (3, 30, 40)) * np.array([[[1]], [[2]], [[4]]])
    colours = PixelFormat("8-bit", 3, stretch=10.0)
    found = colours.to_bytes(counts)
    assert found[2].max() == 255
    assert found[0].max() < 70
    np.testing.assert_array_equal(colours.to_bytes(np.rot90(counts, axes=(1, 2))), np.rot90(found, axes=(1, 2)))
    chosen = PixelFormat("16-bit", 3, selection=Selection(channels=(0, 1, 2)), stretch=10.0).to_bytes(counts)
    assert chosen.reshape(3, -1).max(1).tolist() == [255, 255, 255]
    noise = PixelFormat("8-bit", 1, stretch=40.0).to_bytes(generator.integers(10, 14, (1, 30, 40)))
    assert noise.max() < 25
    assert not PixelFormat("8-bit", 1, stretch=1.0).to_bytes(np.full((1, 5, 5), 7)).any()
    for stretch in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="for the pixels of image files, expected their depth"):
            PixelFormat.from_dict({**colours.to_dict(), "stretch": stretch})


def test_objects_are_told_from_classes(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "objects", 8, instances=True)
    splits = load_mask_folder(root)
    assert (splits.train.kind, splits.train.classes) == ("instances", ("background", "object"))
    assert max(int(mask.max()) for mask in splits.train.masks) == 5
    assert load_mask_folder(root, kind="classes").train.kind == "classes"
    # Classes whose regions are scattered are classes, whatever their numbers.
    for number, path in enumerate(sorted((root / "masks").iterdir())):
        stripes = np.arange(48 * 48).reshape(48, 48) % (4 + number % 3)
        Image.fromarray(stripes.astype(np.uint8)).save(path)
    assert load_mask_folder(root).train.kind == "classes"
    # And so are a few numbers with gaps that come again in other images, even where each is one region.
    for number, path in enumerate(sorted((root / "masks").iterdir())):
        bands = np.array([0, 3, 7 if number % 2 else 9])[np.arange(48) // 16]
        Image.fromarray(np.tile(bands.astype(np.uint8), (48, 1))).save(path)
    with pytest.warns(UserWarning, match="`0`, `3`, `7`, `9`, with gaps between them"):
        assert load_mask_folder(root).train.classes == ("0", "3", "7", "9")
    # Parts of one large picture show objects with numbers of their own.
    for number, path in enumerate(sorted((root / "masks").iterdir())):
        bands = np.array([0, 3 * number + 40, 3 * number + 41])[np.arange(48) // 16]
        Image.fromarray(np.tile(bands.astype(np.uint8), (48, 1))).save(path)
    assert load_mask_folder(root).train.kind == "instances"


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("instances", [(3, 40, 77, 91), (3, 40, 77, 91, 95), (3, 40, 77, 91, 99), (3, 40, 77, 91, 120)]),
        ("instances", [tuple(range(20, 320, 20)), tuple(range(40, 340, 20)), tuple(range(60, 360, 20))]),
        ("classes", [(10, 50, 90), (10, 20, 50), (20, 90), (10, 20, 50, 90), (10, 50)]),
        ("classes", [(10, 50), (10, 50), (10, 50), (10, 90), (10, 50)]),  # one is rare
    ],
    ids=["followed through time", "many", "classes", "a rare class"],
)
def test_objects_that_keep_their_numbers_are_told_from_classes(kind: str, numbers: list[tuple[int, ...]]) -> None:
    assert kind_of_masks([np.kron([[*each, 0]], np.array([[1, 0], [1, 0]])) for each in numbers]) == kind


@pytest.mark.parametrize(("name", "value"), [("kind", "objects"), ("stretch", "perhaps"), ("tile", 0), ("tile", -32)])
def test_what_a_folder_is_read_as_is_checked(tmp_path: Path, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"{name}.* got .*{value}"):
        load_mask_folder(write_cells(tmp_path / "cells", 4), **{name: value})  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("ending", [".npy", ".png"])
def test_a_pipe_in_place_of_a_mask_is_not_waited_for(tmp_path: Path, ending: str) -> None:
    os.mkfifo(tmp_path / f"pipe{ending}")
    with pytest.raises(Unusable, match="it is not a regular file"):
        read_label_file(tmp_path / f"pipe{ending}")


def test_bad_files_are_named_and_left_out(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "cells", 12)
    Image.new("L", (10, 48)).save(root / "masks" / "000.png")
    (root / "masks" / "001.png").unlink()
    (root / "images" / "002.png").write_bytes(b"nothing")
    (root / "masks" / "003.png").write_bytes(b"nothing")
    (root / "masks" / "004.png").unlink()
    np.save(root / "masks" / "004.npy", np.full((48, 48), 0.25))
    Image.new("L", (48, 48)).save(root / "masks" / "005.png")
    shutil.copy(root / "masks" / "006.png", root / "masks" / "006.tif")
    Image.new("L", (48, 48)).save(root / "masks" / "other.png")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        splits = load_mask_folder(root)
    reasons = {Path(name).name: why for name, why in splits.skipped}
    assert reasons["000.png"] == "its mask has 10×48 pixels, expected 48×48 like its image"
    assert "no mask of this name" in reasons["001.png"]
    assert "not an image" in reasons["002.png"]
    assert "not an image" in reasons["003.png"]
    assert "whole numbers" in reasons["004.png"]
    assert "several masks" in reasons["006.png"]
    assert len(splits.train) + len(splits.test) == 6
    text = " ".join(str(warning.message) for warning in warned)
    assert all(f"`images/{name}` ({why})" in text for name, why in reasons.items())
    assert "other.png" in text
    assert "1 mask is empty and counts" in text


def test_labels_with_gaps_and_strangers(tmp_path: Path) -> None:
    for part, first in (("train", 0), ("test", 3)):
        write_cells(tmp_path / part, 3, first=first)
        for number, path in enumerate(sorted((tmp_path / part / "masks").iterdir())):
            labels = np.zeros((48, 48), np.uint8)
            labels[:8], labels[8:16] = 5, 17
            labels[20] = 9 if (part, number) == ("test", 0) else 0
            Image.fromarray(labels).save(path)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        splits = load_mask_folder(tmp_path)
    assert splits.train.classes == ("0", "5", "17")
    assert splits.train.masks[0].unique().tolist() == [0, 1, 2]
    assert len(splits.test) == 2
    text = " ".join(str(warning.message) for warning in warned)
    assert "gaps" in text
    assert "no training image shows" in text


def test_palettes_that_number_colours_anew_in_each_mask_do_not_mix_the_classes(tmp_path: Path) -> None:
    """Programs that save few colours number those of each image by themselves; here black is 1, or 2."""
    colours = np.array([[0, 0, 0], [255, 0, 0], [0, 0, 255]], np.uint8)
    for name, save in (("colours", lambda picture: picture), ("palettes", _with_own_palette)):
        write_cells(tmp_path / name, 6)
        for number, path in enumerate(sorted((tmp_path / name / "masks").iterdir())):
            labels = np.zeros((48, 48), np.uint8)
            labels[:8], labels[8:24] = 1, 2 * (number % 2)
            save(Image.fromarray(colours[labels])).save(path)
    numbers = [read_label_file(path) for path in sorted((tmp_path / "palettes" / "masks").iterdir())]
    assert len({int(labels[-1, -1]) for labels in numbers}) == 2
    expected = load_mask_folder(tmp_path / "colours")
    with pytest.warns(UserWarning, match="the palettes of the masks differ, and the colours are the classes"):
        found = load_mask_folder(tmp_path / "palettes")
    assert (found.values, found.classes) == (expected.values, expected.classes)
    assert all(map(torch.equal, found.train.masks, expected.train.masks))
    for path in sorted((tmp_path / "palettes" / "masks").iterdir()):
        picture = palette_picture().resize((48, 48))
        picture.save(path)
    assert load_mask_folder(tmp_path / "palettes").values == (0, 1, 2)


def _with_own_palette(picture: Image.Image) -> Image.Image:
    return picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=8)


def test_a_foreground_that_is_1_in_some_masks_and_255_in_others_is_one_class(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "cells", 6)
    first, second, *_ = sorted((root / "masks").iterdir())
    Image.fromarray(np.asarray(Image.open(first)) > 0).convert("1").save(first)
    Image.fromarray((np.asarray(Image.open(second)) > 0).astype(np.uint8)).save(second)
    with pytest.warns(UserWarning, match=r"treated as one class; it is 1 in `images/000.png`, `images/001.png`"):
        splits = load_mask_folder(root)
    assert (splits.train.classes, splits.values) == (("background", "foreground"), (0, 255))
    assert min(mask.max() for mask in (*splits.train.masks, *splits.test.masks)) == 1
    # Where an image shows both, they are two classes.
    both = np.zeros((48, 48), np.uint8)
    both[:4], both[9:] = 1, 255
    Image.fromarray(both).save(first)
    with pytest.warns(UserWarning, match="gaps between them"):
        assert load_mask_folder(root).values == (0, 1, 255)


def test_what_cannot_be_learnt_is_refused(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "cells", 4)
    for path in (root / "masks").iterdir():
        Image.new("L", (48, 48)).save(path)
    with pytest.raises(ValueError, match="only the value 0, expected at least two"):
        load_mask_folder(root)
    for path in (root / "masks").iterdir():
        Image.fromarray(np.arange(48 * 48).reshape(48, 48).astype(np.uint16)).save(path)
    with pytest.raises(ValueError, match="2,304 different values"):
        load_mask_folder(root, kind="classes")
    shutil.rmtree(root / "masks")
    assert not has_masks(root)
    with pytest.raises(ValueError, match="not laid out for segmentation, expected `images` and `labels`"):
        load_mask_folder(root)
    (root / "masks").mkdir()
    with pytest.raises(ValueError, match=r"no image in .* has a mask"):
        load_mask_folder(root)
    with pytest.raises(FileNotFoundError, match="not a folder"):
        load_mask_folder(tmp_path / "missing")


@pytest.mark.parametrize("mode", ["RGBA", "CMYK", "P", "1", "F", "I;16"])
def test_images_of_every_kind(tmp_path: Path, mode: str) -> None:
    root = write_cells(tmp_path / "cells", 5)
    for path in sorted((root / "images").iterdir()):
        with Image.open(path) as image:
            grey = image.copy()
        path.unlink()
        if mode == "I;16":
            picture = Image.fromarray(np.asarray(grey).astype(np.uint16) * 200)
        else:
            picture = grey.convert("RGB").convert(mode) if mode in ("CMYK", "P") else grey.convert(mode)
        picture.save(path.with_suffix(".png" if mode == "RGBA" else ".tif"))
    splits = load_mask_folder(root)
    assert len(splits.train) == 4
    assert all(int(image.max()) > int(image.min()) for image in splits.train.images)


def test_regions_are_those_of_a_search(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        labels = generator.integers(0, 3, generator.integers(1, 12, 2))
        regions, count = connected_regions(labels)
        assert (regions == 0).sum() == (labels == 0).sum()
        expected, number = np.zeros(labels.shape, int), 0
        for start in zip(*np.nonzero(labels), strict=True):
            if expected[start]:
                continue
            number += 1
            stack = [start]
            while stack:
                y, x = stack.pop()
                inside = 0 <= y < labels.shape[0] and 0 <= x < labels.shape[1]
                if inside and not expected[y, x] and labels[y, x] == labels[start]:
                    expected[y, x] = number
                    stack += [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
        assert np.array_equal(regions, expected)
        assert count == number


def test_parts_of_masked_images() -> None:
    images = tuple(torch.full((1, 40, 60 + k), k, dtype=torch.uint8) for k in range(9))
    masks = tuple((torch.arange(60 + k) > 30).int().expand(40, -1) for k in range(9))
    data = MaskedImages(images, masks, ("a", "b"), 32)
    rest, part = data.split(0.25, seed=1)
    assert (len(rest), len(part)) == (7, 2)
    assert {int(image[0, 0, 0]) for image in (*rest.images, *part.images)} == set(range(9))
    small, large = (set(data.balanced_subset(n, seed=2).images) for n in (3, 5))
    assert small < large
    cut = data.middles(10.0)
    assert cut.samples <= 10.0 < data.samples
    assert data.middles(1000.0) is data
    with pytest.raises(ValueError, match="1 to 8 of these 9"):
        data.split(9)
    with pytest.raises(TypeError, match="int32"):
        MaskedImages(images, tuple(mask.long() for mask in masks), ("a", "b"), 32)
    with pytest.raises(ValueError, match="0 to 0"):
        MaskedImages(images, masks, ("a",), 32)
    assert tile_for([(300, 40)]) == 32


def test_one_image_that_is_left_says_why_the_others_are_not(tmp_path: Path) -> None:
    write_cells(tmp_path, 3)
    for path in sorted((tmp_path / "masks").iterdir())[1:]:
        Image.new("L", (5, 5)).save(path)
    with pytest.raises(ValueError, match=r"has one image with a mask, expected two or more.* Left out: .*5×5"):
        load_mask_folder(tmp_path)
