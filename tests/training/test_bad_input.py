"""Folders and tables as people have them: each oddity is named, and a run that can go on goes on."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from steerable.data import load_dataset
from steerable.data.datasets import check_source
from steerable.training.choosing.defaults import configured
from steerable.training.learning.preparing import prepare_data

CLASSES = {"apple": (255, 0, 0), "pear": (0, 255, 0)}


def picture(path: Path, colour: tuple[int, ...] | int = 7, mode: str = "RGB", size: tuple[int, int] = (8, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def good(root: Path) -> Path:
    """Two classes of five images."""
    for name, colour in CLASSES.items():
        for i in range(5):
            picture(root / name / f"{i}.png", colour)
    return root


def table(root: Path, text: str | bytes) -> Path:
    """labels.csv beside ten images a0.png … a4.png, p0.png … p4.png."""
    for name, colour in CLASSES.items():
        for i in range(5):
            picture(root / "images" / f"{name[0]}{i}.png", colour)
    path = root / "labels.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


ROWS = "".join(f"images/{name[0]}{i}.png,{name}\n" for name in CLASSES for i in range(5))


def truncated(root: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(root / "apple" / "cut.jpg")
    (root / "apple" / "cut.jpg").write_bytes((root / "apple" / "cut.jpg").read_bytes()[:900])


def run(root: Path) -> None:
    """What a run folder is known by, and a folder in it."""
    (root / "model").mkdir(parents=True)
    for name in ("config.json", "plan.json"):
        (root / name).write_text("{}")


def copied(root: Path) -> None:
    """One picture so often that it is both trained and tested on."""
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8))
    for i in range(5):
        noise.save(root / "apple" / f"copy{i}.png")


def film(root: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(root / "apple" / "film.gif", save_all=True, append_images=frames[1:])


def huge(root: Path) -> None:
    """A file of a few bytes that says it has 10^10 pixels."""
    header = b"P5\n100000 100000\n255\n"
    (root / "apple" / "bomb.pgm").write_bytes(header + b"\0" * 64)


# What is added to a good folder, and what the warning says; the ten good images stay.
GOES_ON: dict[str, tuple[Callable[[Path], object], str]] = {
    "an empty class": (lambda r: (r / "plum").mkdir(), "`plum` in .* has no images and is left out"),
    "a truncated image": (truncated, r"1 of 11 files .* left out: `apple/cut.jpg` \(.*truncated"),
    "a corrupt image": (
        lambda r: (r / "apple" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\nrubbish"),
        r"`apple/x.png` \(not an image of a known format\)",
    ),
    "an empty file": (lambda r: (r / "apple" / "x.png").write_bytes(b""), r"`apple/x.png` \(not an image"),
    "a file that is no image": (lambda r: (r / "pear" / "notes.txt").write_text("x"), r"`pear/notes.txt` \(not an im"),
    "a class without readable images": (
        lambda r: ((r / "plum").mkdir(), (r / "plum" / "x.png").write_text("x")),
        "no training image of `plum` can be read; training continues without",
    ),
    "a copy of an image": (copied, "1 test image is among the training images as well, pixel by pixel.*Remove the co"),
    "a link to a folder": (
        lambda r: (r / "apple" / "more").symlink_to(r / "pear"),
        r"1 of 11 files .*apple/more` \(a link to a folder, which is not followed",
    ),
    "a film": (film, "1 of 11 files have several pages or frames, and only the first one is used"),
    "a huge image": (huge, r"`apple/bomb.pgm` \(too large: images of up to [\d,]+ pixels are read; shrink it\)"),
    "a link to nothing": (
        lambda r: (r / "apple" / "gone.png").symlink_to(r / "nowhere.png"),
        r"`apple/gone.png` \(there is no such file\)",
    ),
    "the same picture in two classes": (
        lambda r: picture(r / "pear" / "wrong.png", CLASSES["apple"]),
        r"has two labels: `apple/0.png` \(apple\) and `pear/wrong.png` \(pear\).*remove one of each",
    ),
    "images without a class": (
        lambda r: picture(r / "loose.png"),
        "`loose.png` in .* lies beside the class folders, without a label, and cannot be used",
    ),
    "a class with one image": (
        lambda r: picture(r / "plum" / "0.png", 99, "L"),
        "`plum` has only one image, which is used for training and never",
    ),
    "classes that differ in capitals": (
        lambda r: [picture(r / "Pear" / f"{i}.png", (0, 0, i + 1)) for i in range(5)],
        "the classes `Pear`, `pear` differ only in capitals or spaces",
    ),
    "folders of parts with other names": (
        lambda r: [picture(r / n / p / "x.png", (i, 9, j)) for i, n in enumerate(CLASSES) for j, p in enumerate("ab")],
        "each of `apple`, `pear` has the folders `a`, `b`.*if they are the classes, call the folders above them `tra",
    ),
    "masks beside their images": (
        lambda r: picture(r / "apple" / "0_mask.png", 255, "L"),
        "`apple/0_mask.png` look like masks of the images beside them, and are taken for images of their class",
    ),
    "long images": (
        lambda r: [picture(r / "pear" / f"long {i}.png", (0, 0, i), size=(8, 17 + i)) for i in range(3)],
        "3 of 13 images are far from squares: less than half of each lies in its middle square.*Cut or pad them",
    ),
    "another depth": (
        lambda r: picture(r / "apple" / "x.png", 25700, "I;16"),
        r"`apple/x.png` \(its pixels are 16-bit, expected 8-bit as in the training images, because one scale does not ",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), GOES_ON.values(), ids=GOES_ON)
def test_a_folder_that_can_be_used_is_used(spoil: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    root = good(tmp_path / "data")
    spoil(root)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        splits = load_dataset(root)
    assert re.search(message, "\n".join(splits.notes))
    assert {"apple", "pear"} <= set(splits.classes)
    assert splits.train.counts[splits.classes.index("apple")] >= 4
    assert [str(warning.message) for warning in caught] == list(splits.notes)


FINE: dict[str, Callable[[Path], object]] = {
    "equal names in two classes": lambda r: None,
    "names in other scripts": lambda r: [picture(r / "Äpfel 苹果" / f"🍎 {i}.png", (0, 0, i + 1)) for i in range(5)],
    "nested folders": lambda r: picture(r / "apple" / "2024" / "may" / "x.png", (255, 0, 0)),
    "what desktops leave behind": lambda r: (
        (r / "apple" / ".DS_Store").write_text("x"),
        (r / "pear" / "Thumbs.db").write_text("x"),
        (r / "__MACOSX").mkdir(),
        (r / ".cache").mkdir(),
    ),
    "runs beside and in the classes": lambda r: (run(r / "runs" / "data"), run(r / "again"), run(r / "pear" / "run")),
    "a read-me": lambda r: (r / "README.txt").write_text("x"),
    "one image twice in its class": lambda r: picture(r / "apple" / "again.png", (255, 0, 0)),
    "grey, palettes and transparency": lambda r: (
        picture(r / "apple" / "grey.png", 100, "L"),
        picture(r / "apple" / "palette.gif", 5, "P"),
        picture(r / "apple" / "clear.png", (1, 2, 3, 100), "RGBA"),
        picture(r / "apple" / "print.jpg", (0, 0, 255, 0), "CMYK"),
    ),
}


@pytest.mark.parametrize("add", FINE.values(), ids=FINE)
def test_what_is_no_mistake_is_read_in_silence(add: Callable[[Path], object], tmp_path: Path) -> None:
    root = good(tmp_path / "data")
    add(root)
    splits = load_dataset(root)
    assert splits.notes == splits.skipped == ()
    images = [path for path in root.rglob("*") if path.suffix in (".png", ".gif", ".jpg")]
    assert len(splits.train) + len(splits.test) == len(images)
    assert set(splits.train.files + splits.test.files) == {str(path.relative_to(root)) for path in images}


def single(root: Path) -> Path:
    for name, colour in CLASSES.items():
        picture(root / name / "0.png", colour)
    return root


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "an empty folder": (lambda r: r.mkdir(), "has no sub-folders, expected one for each class.*Sort the images into"),
    "images without classes": (lambda r: picture(r / "0.png"), "has no sub-folders, expected one for each class"),
    "a table beside the images": (
        lambda r: (picture(r / "0.png"), (r / "labels.csv").write_text("file,label\n")),
        r"Or give the table: .*labels\.csv",
    ),
    "a table beside the folder of images": (
        lambda r: (picture(r / "images" / "0.png"), (r / "labels.csv").write_text("file,label\n")),
        r"has only one class, `images`.*Or give the table: .*labels\.csv",
    ),
    "a run": (
        run,
        "is a run folder, expected a folder with one sub-folder.*to test its network, `steerable evaluate",
    ),
    "one class": (lambda r: picture(r / "apple" / "0.png"), "has only one class, `apple`; expected at least two"),
    "a folder around the folder": (lambda r: good(r / "inner"), r"only one class, `inner`.*Or did you mean .*inner\?"),
    "only empty classes": (
        lambda r: ((r / "apple").mkdir(parents=True), (r / "pear").mkdir()),
        "no class in .* has an image: `apple`, `pear` are empty",
    ),
    "one class that is not empty": (
        lambda r: (picture(r / "apple" / "0.png"), (r / "pear").mkdir()),
        "only the class `apple` with training images.*expected at least two.*`pear` in .* has no images",
    ),
    "one class that can be read": (
        lambda r: (picture(r / "apple" / "0.png"), picture(r / "pear" / "0.png"), (r / "pear/0.png").write_text("x")),
        r"only the class `apple`.*1 of 2 files.*`pear/0.png` \(not an image",
    ),
    "no image at all": (
        lambda r: [((r / n).mkdir(parents=True), (r / n / "x.png").write_text("x")) for n in CLASSES],
        "none of the 2 files in .* can be read, expected images such as PNG",
    ),
    "one image of each class": (single, "each class in .* has one image, expected two or more in at least one class"),
    "unknown classes in the test folder": (
        lambda r: (good(r / "train"), picture(r / "test" / "plum" / "0.png")),
        "test` has `plum`, expected only the training classes `apple`, `pear`",
    ),
    "test images that cannot be read": (
        lambda r: (good(r / "train"), (r / "test/pear").mkdir(parents=True), (r / "test/pear/x.png").write_text("x")),
        r"none of the test images in .* can be read: `test/pear/x.png` \(not an image",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_a_folder_that_cannot_be_used_is_refused(make: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    make(tmp_path / "data")
    with pytest.raises(ValueError, match=message):
        load_dataset(tmp_path / "data")


def test_what_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file and a folder without permission; where the tests run as root, the refusals are played."""
    root = good(tmp_path / "data")
    picture(root / "apple" / "mine.png")
    picture(root / "apple" / "secret" / "0.png")
    (root / "apple" / "mine.png").chmod(0)
    (root / "apple" / "secret").chmod(0)
    if os.geteuid() == 0:
        scandir, opened = os.scandir, Image.open

        def refusing_scandir(path: str) -> object:
            if str(path).endswith("secret"):
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        def refusing_open(path: Path, **options: object) -> Image.Image:
            if path.name == "mine.png":
                raise PermissionError(13, "Permission denied", str(path))
            return opened(path, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "scandir", refusing_scandir)
        monkeypatch.setattr(Image, "open", refusing_open)
    with pytest.warns(UserWarning, match=r"2 of 12 files .*`.*secret` \(no permission to read it\); `apple/mine.png` "):
        splits = load_dataset(root)
    assert splits.train.counts == (4, 4)
    (root / "apple" / "secret").chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="names are bytes only there")
def test_names_that_are_no_utf_8(tmp_path: Path) -> None:
    root = good(tmp_path / "data")
    try:
        (root / "apple" / "0.png").rename(os.fsdecode(os.fsencode(root / "apple") + b"/caf\xe9.png"))
    except OSError as error:
        pytest.skip(f"this file system takes UTF-8 only: {error}")
    splits = load_dataset(root)
    files = splits.train.files + splits.test.files
    assert "apple/caf�.png" in files
    "".join(files).encode()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read(separator: str, tmp_path: Path) -> None:
    text = "﻿Label;File;note\n".replace(";", separator)
    text += "".join(
        f" {name} ;images/{name[0]}{i}.png;x\n".replace(";", separator) for name in CLASSES for i in range(5)
    )
    splits = load_dataset(table(tmp_path, text + "\n"))
    assert (splits.classes, splits.name) == (("apple", "pear"), "labels")
    assert (splits.train.counts, splits.test.counts, splits.notes) == ((4, 4), (1, 1), ())
    for file, label in zip(splits.train.files, splits.train.labels, strict=True):
        assert file.startswith(f"images/{splits.classes[int(label)][0]}")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("train", "train", "Val", "test", "test"), (4, 2, 4)),
        (("train", "train", "train", "valid", "valid"), (6, 0, 4)),
        (("train",) * 5, (8, 0, 2)),
        (("", "train", "train", "train", "test"), (8, 0, 2)),
    ],
)
def test_a_column_of_a_table_divides_the_images(
    words: tuple[str, ...], parts: tuple[int, int, int], tmp_path: Path
) -> None:
    """Test images that the table names are not trained on; without any, those for validation are the test."""
    split = {f"images/{name[0]}{i}.png": word for name in CLASSES for i, word in enumerate(words)}
    rows = [f"{line},{split[line.partition(',')[0]]}" for line in ROWS.splitlines()]
    splits = load_dataset(table(tmp_path, "file,label,Split\n" + "\n".join(rows)))
    found = splits.train, splits.validation, splits.test
    assert tuple(0 if part is None else len(part) for part in found) == parts
    assert all(split[file] in ("train", "") for file in splits.train.files)
    assert {"test", "valid"} & set(words) == {split[file] for file in splits.test.files} - {"train"}


TABLE_GOES_ON = {
    "a label without a file": (ROWS + "images/a9.png,apple\n", r"`images/a9.png` \(line 12: the file does not exist\)"),
    "a folder for a file": (ROWS + "images,apple\n", r"`images` \(line 12: the file is a folder\)"),
    "a file without a label": (ROWS + "images/a0.png, \n", r"`images/a0.png` \(line 12 has no label\)"),
    "a row that ends early": (ROWS + "images/a0.png\n", r"`images/a0.png` \(line 12 has no label\)"),
    "a name that no file can have": (
        ROWS + "x" * 300 + "/a.png,apple\n",
        "line 12: the file cannot be looked for: File",
    ),
    "a row without a file": (ROWS + ",apple\n", r"`line 12` \(it has no file\)"),
    "a file listed twice": (ROWS + "images/a0.png,apple\n", "lists `images/a0.png` more than once; each is used once"),
    "a file with two labels": (
        ROWS + "images/a0.png,pear\n",
        r"has two labels: `images/a0.png` \(apple\) and `images/a0.png` \(pear\)",
    ),
    "files that are not listed": (
        ROWS.replace("images/a4.png,apple\n", ""),
        "`images/a4.png` beside the images of .* have no label there and are not used",
    ),
}


@pytest.mark.parametrize(("rows", "message"), TABLE_GOES_ON.values(), ids=TABLE_GOES_ON)
def test_a_table_that_can_be_used_is_used(rows: str, message: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=message):
        splits = load_dataset(table(tmp_path, "file,label\n" + rows))
    assert min(splits.train.counts) >= 3


def test_a_column_that_divides_the_images_in_another_way_is_named(tmp_path: Path) -> None:
    rows = [f"{line},fold {i % 3}" for i, line in enumerate(ROWS.splitlines())]
    source = table(tmp_path, "file,label,split\n" + "\n".join(rows))
    with pytest.warns(
        UserWarning, match="`split` with `fold 0`, `fold 1`, `fold 2`, expected train, val and test; it is"
    ):
        splits = load_dataset(source)
    assert (splits.train.counts, splits.test.counts) == ((4, 4), (1, 1))


def test_a_table_from_windows(tmp_path: Path) -> None:
    splits = load_dataset(table(tmp_path, "file,label\n" + ROWS.replace("/", "\\")))
    assert len(splits.train) + len(splits.test) == 10
    assert splits.notes == ()


TABLE_REFUSED = {
    "an empty file": ("", "has no columns `file`, `label`: its first line is ''"),
    "other columns": ("path,class\n" + ROWS, "no columns `file`, `label`: its first line is 'path,class'.*rename"),
    "no header": (ROWS, "no columns `file`, `label`: its first line is 'images/a0.png,apple'"),
    "one column": ("file\nimages/a0.png\n", "no column `label`"),
    "no rows": ("file,label\n\n", "has no rows below its header"),
    "another encoding": ("file,label\nimages/café.png,x\n".encode("latin-1"), "not UTF-8 text: byte 0xe9.*CSV UTF-8"),
    "a spreadsheet": (b"PK\x03\x04\xff\xfe\0\0", "is not UTF-8 text: byte 0xff"),
    "nothing that exists": ("file,label\na.png,x\nb.png,y\n", "none of the 2 rows of .*can be used: `a.png` .line 2"),
    "one label": ("file,label\n" + ROWS.replace("pear", "apple"), "only the class `apple` with training images"),
}


@pytest.mark.parametrize(("text", "message"), TABLE_REFUSED.values(), ids=TABLE_REFUSED)
def test_a_table_that_cannot_be_used_is_refused(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = table(tmp_path, text)
    with pytest.raises(ValueError, match=message):
        load_dataset(path)


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    picture(tmp_path / "x.png")
    with pytest.raises(ValueError, match=r"is a file, expected a folder .* or a \.csv file"):
        load_dataset(tmp_path / "x.png")
    with pytest.raises(ValueError, match=re.escape("neither a known data set nor an existing folder")):
        load_dataset(tmp_path / "absent.csv")


def test_a_folder_called_like_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    assert load_dataset("./digits").classes == ("apple", "pear")
    with pytest.warns(UserWarning, match=r"the known data set of that name, not the folder here; write \./digits"):
        check_source("digits")


@pytest.mark.parametrize("counts", [(2, 1, 1, 1, 1, 1, 1, 1, 1), (2, 2), (3, 1), (2, 1)])
@pytest.mark.parametrize("validation", [None, 0.1])
def test_a_handful_of_images_is_enough(counts: tuple[int, ...], validation: float | None, tmp_path: Path) -> None:
    """Every class keeps a training image; what is to be held out is if it can be, and the rest is said."""
    for label, count in enumerate(counts):
        for i in range(count):
            picture(tmp_path / f"v1.{label}" / f"{i}.png", (label, i, 0))
    config = configured(str(tmp_path), {"name": "resnet"}, validation=validation)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        data = prepare_data(config)
    assert min(data.train.counts) >= 1
    assert len(data.test) >= 1
    held = 0 if data.validation is None else len(data.validation)
    assert len(data.train) + len(data.test) + held == sum(counts)
    said = "so all of them are used for training" if validation is None else "nothing is held out for validation"
    assert (data.validation is None) == any(said in note for note in data.notes)


@pytest.mark.parametrize(("each", "held"), [(199, 0), (200, 40)])
def test_each_image_of_few_is_learnt_from(each: int, held: int, tmp_path: Path) -> None:
    """A tenth is held out where classes have enough images, and what a user says counts in any case."""
    for label in ("a", "b"):
        for i in range(each):
            picture(tmp_path / "train" / label / f"{i}.png", (i, 0, 0))
        picture(tmp_path / "test" / label / "x.png", (255, 0, 0))
    for asked, count in ((None, held), (0.0, 0), (0.2, round(0.4 * each))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pictures of both classes are alike
            data = prepare_data(configured(str(tmp_path), {"name": "resnet"}, validation=asked))
        assert (0 if data.validation is None else len(data.validation)) == count
        assert len(data.train) == 2 * each - count


def test_a_name_with_dots_is_kept(tmp_path: Path) -> None:
    assert load_dataset(good(tmp_path / "cells.v1.2")).name == "cells.v1.2"


def test_train_validation_and_test_folders(tmp_path: Path) -> None:
    for part, shade in (("train", 0), ("val", 1), ("test", 2)):
        for name in CLASSES:
            for i in range(3):
                picture(tmp_path / part / name / f"{i}.png", (shade, len(name), i))
    splits = load_dataset(tmp_path)
    assert splits.validation is not None
    parts = (splits.train, splits.validation, splits.test)
    assert [sorted(set(part.images[:, 0].flatten().tolist())) for part in parts] == [[0], [1], [2]]
