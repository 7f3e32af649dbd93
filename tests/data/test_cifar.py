"""CIFAR's official layouts, on made-up files with few images."""

import hashlib
import io
import os
import pickle
import struct
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from steerable.data import CIFAR10, CIFAR100, load_cifar, load_dataset
from steerable.data.cifar import cache_dir
from steerable.data.cifar_archives import CifarFile, CifarSet

SETS = (CIFAR10, CIFAR100)
EACH = 4  # images in a file


def python2_pickle(labels: list[int], pixels: np.ndarray, label_key: str) -> bytes:
    """What cPickle of Python 2 wrote, opcode by opcode; text is ``str``, as in the official files."""

    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode()

    raw = pixels.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text("b") + b"\x87R"
        b"(K\x01K" + bytes([len(pixels)]) + b"M\x00\x0c\x86cnumpy\ndtype\n" + text("u1") + b"K\x00K\x01\x87R"
        b"(K\x03" + text("|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        b"T" + struct.pack("<I", len(raw)) + raw + b"tb"
    )
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return (
        b"\x80\x02}(" + text("batch_label") + text("made up") + text(label_key) + numbers + text("data") + array + b"u."
    )


def python3_pickle(labels: list[int], pixels: np.ndarray, label_key: str) -> bytes:
    return pickle.dumps({"data": pixels, label_key: labels, "filenames": ["x.png"] * len(labels)}, protocol=2)


def binary(labels: list[int], pixels: np.ndarray, label_key: str) -> bytes:
    coarse = b"\x07" if label_key == "fine_labels" else b""
    return b"".join(coarse + bytes([label]) + row.tobytes() for label, row in zip(labels, pixels, strict=True))


WRITERS = {"python": python2_pickle, "binary": binary}


def made_up(cifar: CifarSet, kind: str, folder: Path) -> tuple[CifarSet, torch.Tensor, torch.Tensor]:
    """Write a small set under ``folder``, unpacked. Returns it with its counts and MD5s, all images and labels."""
    generator = np.random.default_rng(0)
    layout = next(layout for layout in cifar.layouts if layout.kind == kind)
    files, images, numbers = [], [], []
    for file in (*layout.train, layout.test):
        pixels = generator.integers(0, 256, (EACH, 3072), dtype=np.uint8)
        labels = generator.integers(0, len(cifar.classes), EACH).tolist()
        content = WRITERS[kind](labels, pixels, cifar.label_key)
        (folder / layout.folder).mkdir(parents=True, exist_ok=True)
        (folder / layout.folder / file.name).write_bytes(content)
        files.append(CifarFile(file.name, EACH, hashlib.md5(content).hexdigest()))
        images.append(pixels)
        numbers += labels
    small = replace(layout, train=tuple(files[:-1]), test=files[-1], archive_md5=None)
    others = tuple(small if other is layout else other for other in cifar.layouts)
    return (
        replace(cifar, layouts=others),
        torch.from_numpy(np.concatenate(images)).view(-1, 3, 32, 32),
        torch.tensor(numbers),
    )


def packed(cifar: CifarSet, kind: str, folder: Path) -> tuple[CifarSet, Path]:
    """The same as the official archive in place of the folder."""
    small = made_up(cifar, kind, folder / "source")[0]
    layout = next(layout for layout in small.layouts if layout.kind == kind)
    with tarfile.open(folder / layout.archive, "w:gz") as tar:
        tar.add(folder / "source" / layout.folder, layout.folder)
    md5 = hashlib.md5((folder / layout.archive).read_bytes()).hexdigest()
    checked = tuple(replace(other, archive_md5=md5) if other is layout else other for other in small.layouts)
    return replace(small, layouts=checked), folder / layout.archive


@pytest.mark.parametrize("kind", ["python", "binary"])
@pytest.mark.parametrize("cifar", SETS, ids=lambda cifar: cifar.name)
def test_every_layout_gives_the_images(cifar: CifarSet, kind: str, tmp_path: Path) -> None:
    small, images, labels = made_up(cifar, kind, tmp_path)
    splits = load_cifar(small, tmp_path, download=False)
    assert torch.equal(torch.cat([splits.train.images, splits.test.images]), images)
    assert torch.equal(torch.cat([splits.train.labels, splits.test.labels]), labels)
    assert (len(splits.test), splits.name, splits.classes) == (EACH, cifar.name, cifar.classes)
    layout = next(layout for layout in small.layouts if layout.kind == kind)
    inside = load_cifar(small, tmp_path / layout.folder, download=False)
    assert torch.equal(inside.train.images, splits.train.images)


@pytest.mark.parametrize("kind", ["python", "binary"])
@pytest.mark.parametrize("cifar", SETS, ids=lambda cifar: cifar.name)
def test_archives_are_read_in_place(cifar: CifarSet, kind: str, tmp_path: Path) -> None:
    small, archive = packed(cifar, kind, tmp_path)
    splits = load_cifar(small, tmp_path, download=False)
    unpacked = load_cifar(small, tmp_path / "source", download=False)
    assert torch.equal(splits.train.images, unpacked.train.images)
    assert torch.equal(splits.test.labels, unpacked.test.labels)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([archive.name, "source"])


def test_pickles_of_python_3_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WRITERS, "python", python3_pickle)
    small, images, _ = made_up(CIFAR10, "python", tmp_path)
    assert torch.equal(load_cifar(small, tmp_path, download=False).train.images, images[:-EACH])


def test_the_official_sizes() -> None:
    for cifar in SETS:
        for layout in cifar.layouts:
            assert (sum(file.images for file in layout.train), layout.test.images) == (50_000, 10_000)
            assert all(len(file.md5 or "") == 32 for file in (*layout.train, layout.test))
    assert (len(CIFAR10.classes), len(CIFAR100.classes)) == (10, 100)
    assert CIFAR100.classes == tuple(sorted(CIFAR100.classes))


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_by_name_only_the_official_files_will_do(name: str, tmp_path: Path) -> None:
    made_up(next(cifar for cifar in SETS if cifar.name == name), "binary", tmp_path)
    with pytest.raises(ValueError, match=r"\.bin` has \d+ bytes, expected \d+ for \d+0000 images"):
        load_dataset(name, tmp_path, download=False)


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    small = made_up(CIFAR10, "binary", tmp_path)[0]
    path = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(
        ValueError,
        match=r"data_batch_3.bin` has 12192 bytes, expected 12292 for 4 images.*Delete it and unpack cifar-10-b",
    ):
        load_cifar(small, tmp_path, download=False)


@pytest.mark.parametrize("kind", ["python", "binary"])
def test_an_altered_file(kind: str, tmp_path: Path) -> None:
    small = made_up(CIFAR100, kind, tmp_path)[0]
    layout = next(layout for layout in small.layouts if layout.kind == kind)
    path = tmp_path / layout.folder / layout.test.name
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    found, expected = hashlib.md5(content).hexdigest(), layout.test.md5
    with pytest.raises(
        ValueError, match=rf"{path.name}`, of {len(content)} bytes, has the MD5 {found}, expected {expected}.*altered"
    ):
        load_cifar(small, tmp_path, download=False)


@pytest.mark.parametrize("kind", ["python", "binary"])
def test_files_in_another_order_are_accepted_by_name_and_noted(kind: str, tmp_path: Path) -> None:
    small = made_up(CIFAR100, kind, tmp_path)[0]
    layout = next(layout for layout in small.layouts if layout.kind == kind)
    other = replace(layout, archive_md5="0" * 32, test=replace(layout.test, md5="0" * 32))
    unchecked = replace(small, layouts=(other,), checked=False)
    splits, found = (
        load_cifar(unchecked, tmp_path),
        hashlib.md5((tmp_path / layout.folder / layout.test.name).read_bytes()),
    )
    assert splits.notes == (
        f"`{layout.test.name}` is not the official file, but one of its size: its MD5 is {found.hexdigest()}.",
    )
    assert not load_cifar(small, tmp_path, download=False).notes
    with pytest.raises(ValueError, match=r"choose `cifar100-unchecked`"):
        load_cifar(replace(unchecked, checked=True), tmp_path, download=False)


def test_nothing_is_downloaded_for_files_that_are_not_checked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cifar10-unchecked is not in .*downloads are not allowed"):
        load_dataset("cifar10-unchecked", tmp_path)


def test_a_missing_file(tmp_path: Path) -> None:
    small = made_up(CIFAR10, "python", tmp_path)[0]
    (tmp_path / "cifar-10-batches-py" / "data_batch_2").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"lacks `data_batch_2`, which belong to cifar-10-python.tar.gz.*https://"
    ):
        load_cifar(small, tmp_path, download=False)


def test_an_archive_that_is_cut_short(tmp_path: Path) -> None:
    small, archive = packed(CIFAR10, "python", tmp_path)
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(
        ValueError, match=r"cifar-10-python.tar.gz`, of \d+ bytes, has the MD5 \w+, expected \w+: it is cut"
    ):
        load_cifar(small, tmp_path, download=False)
    unchecked = replace(small, layouts=tuple(replace(layout, archive_md5=None) for layout in small.layouts))
    with pytest.raises(ValueError, match=r"cannot be unpacked .*Delete it and download it again from https://"):
        load_cifar(unchecked, tmp_path, download=False)


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    small, archive = packed(CIFAR100, "binary", tmp_path)
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("../test.bin")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    unchecked = replace(small, layouts=tuple(replace(layout, archive_md5=None) for layout in small.layouts))
    with pytest.raises(ValueError, match=r"lacks `train.bin`, `test.bin`: it is not the official archive"):
        load_cifar(unchecked, tmp_path, download=False)
    assert not (tmp_path.parent / "test.bin").exists()


@pytest.mark.parametrize(
    ("labels", "images", "message"),
    [
        ([1, 2, 3], EACH, "holds 4 images and 3 labels, expected 4 of each"),
        ([1, 2, 3, 10], EACH, "has labels from 1 to 10, expected 0 to 9 for cifar10"),
        ([1, 2, 3], 3, "holds 3 images and 3 labels, expected 4 of each"),
    ],
)
def test_wrong_contents(labels: list[int], images: int, message: str, tmp_path: Path) -> None:
    small = made_up(CIFAR10, "python", tmp_path)[0]
    content = python2_pickle(labels, np.zeros((images, 3072), np.uint8), "labels")
    with pytest.raises(ValueError, match=message):
        load_cifar(_with_test_batch(small, tmp_path, content), tmp_path, download=False)


def _with_test_batch(small: CifarSet, folder: Path, content: bytes) -> CifarSet:
    """Another test batch in the python layout, whose MD5 is in order."""
    (folder / "cifar-10-batches-py" / "test_batch").write_bytes(content)
    python, *others = small.layouts
    return replace(small, layouts=(replace(python, test=CifarFile("test_batch", EACH)), *others))


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (os.system, ("touch harmed",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps({"data": _Evil(), "labels": [0]}), r"UnpicklingError: it asks for `posix.system`"),
        (pickle.dumps({"data": np.zeros((1, 3072), "O"), "labels": [0]}, 2), r"not an array of bytes \(n, 3072\)"),
        (pickle.dumps({"data": np.zeros((1, 3072)), "labels": [0]}, 2), r"not an array of bytes \(n, 3072\)"),
        (pickle.dumps({"data": np.zeros((1, 5), np.uint8), "labels": [0]}, 2), r"not an array of bytes \(n, 3072\)"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8)}, 2), r"KeyError: 'labels'"),
        (b"no pickle", r"is not a batch of cifar10 in the python layout"),
        (b"", r"EOFError"),
        (b"cbuiltins\neval\n(S'1'\ntR.", r"`builtins.eval`, which image data do not need"),
        (b"cnumpy\nload\n.", r"`numpy.load`"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="os.system has another name there")
def test_pickles_run_no_code(content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small = made_up(CIFAR10, "python", tmp_path)[0]
    with pytest.raises(ValueError, match=message):
        load_cifar(_with_test_batch(small, tmp_path, content), tmp_path, download=False)
    assert not (tmp_path / "harmed").exists()


def test_not_there_and_no_download(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError,
        match=r"cifar10 is not in .*expected one of `cifar-10-batches-py`, `cifar-10-python.tar.gz`, .*Get",
    ):
        load_dataset("cifar10", tmp_path, download=False)


def test_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small, archive = packed(CIFAR100, "python", tmp_path)
    calls = []

    def retrieve(url: str, known_hash: str, fname: str, path: Path) -> str:
        calls.append((url, known_hash))
        path.mkdir()
        return str(archive.rename(path / fname))

    monkeypatch.setitem(sys.modules, "pooch", SimpleNamespace(retrieve=retrieve))
    monkeypatch.setenv("STEERABLE_DATA_DIR", str(tmp_path / "cache"))
    for _ in range(2):
        assert len(load_cifar(small).test) == EACH
    assert calls == [
        ("https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", f"md5:{small.layouts[0].archive_md5}")
    ]


def test_download_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def retrieve(*args: object, **options: object) -> str:
        raise OSError("no route to host")

    monkeypatch.setitem(sys.modules, "pooch", SimpleNamespace(retrieve=retrieve))
    with pytest.raises(
        ConnectionError, match=r"cifar-10-python.tar.gz could not be downloaded.*no route to host.*put it there"
    ):
        load_dataset("cifar10", tmp_path)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'steerable\[training\]', or put https://www.cs.toronto"):
        load_dataset("cifar10", tmp_path)


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEERABLE_DATA_DIR", "/somewhere")
    assert cache_dir() == Path("/somewhere")
    monkeypatch.delenv("STEERABLE_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache_dir() == Path("/cache/steerable")
