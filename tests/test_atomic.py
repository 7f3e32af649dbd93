"""A file is written whole or not at all, obeys the umask and follows no link; a full disk is named."""

from __future__ import annotations

import errno
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from small_runs import PLAIN, request

from steerable import models
from steerable.atomic import (
    DiskFull,
    check_new_file,
    check_place,
    folder_in_place,
    is_leftover,
    remove_leftovers,
    write_bytes,
    write_json,
    write_text,
)
from steerable.data.normalisation import Normalisation
from steerable.figures.style import save as save_figure
from steerable.reporting.report import write_report
from steerable.training.learning.checkpoints import AtomicCheckpoints
from steerable.training.requests.recipes import load_recipe
from steerable.training.running.run import train
from steerable.training.trained_networks.export import export_onnx, export_safetensors
from steerable.training.trained_networks.trained_model import TrainedModel

config = partial(request, model=PLAIN, recipe=load_recipe("demo", epochs=2))


def network() -> models.PlainResNet:
    return models.plain_resnet(depth=8, width=2, in_channels=1)


def normalisation() -> Normalisation:
    return Normalisation(torch.full((1, 1, 1), 0.3), torch.full((1, 1, 1), 0.35))


def trained() -> TrainedModel:
    classes = tuple("0123456789")
    return TrainedModel(network(), normalisation(), classes, None, 8, PLAIN, Path("nowhere")).eval()


def report(path: Path) -> None:
    run = path.parent.parent / "run"
    if not run.exists():
        config().save(run / "config.json")
    write_report([run], path)


# What is written: the name that it gets, and the function that writes it.
WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "text": ("a.txt", lambda path: write_text(path, "x")),
    "JSON": ("a.json", lambda path: write_json(path, {"x": 1})),
    "a config": ("config.json", lambda path: config().save(path)),
    "a figure": ("a.png", lambda path: save_figure(Figure(), path)),
    "a drawing": ("a.svg", lambda path: save_figure(Figure(), path)),
    "a checkpoint": ("last.ckpt", lambda path: AtomicCheckpoints().save_checkpoint({"x": torch.zeros(9)}, path)),
    "statistics": ("normalisation.safetensors", lambda path: normalisation().save(path)),
    "a network": ("model", lambda path: network().save_pretrained(path)),
    "an export": ("export", lambda path: export_safetensors(trained(), path)),
    "ONNX": ("a.onnx", lambda path: export_onnx(trained(), path)),
    "a report": ("report.html", report),
}
writers = pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)


@pytest.fixture(scope="module", autouse=True)
def one_onnx_program() -> Iterator[None]:
    """Making it takes seconds, and what the tests are about is how it is written."""
    real = torch.onnx.export
    made: list[Any] = []

    def export(*arguments: Any, **options: Any) -> Any:
        if not made:
            made.append(real(*arguments, **options))
        return made[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", export)
        yield


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


# ---------------------------------------------------------------- permissions and names


@writers
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002], ids=oct)
def test_files_and_folders_obey_the_umask(
    name: str, write: Callable[[Path], object], mask: int, tmp_path: Path
) -> None:
    before = os.umask(mask)
    try:
        write(tmp_path / "deep" / name)
    finally:
        os.umask(before)
    found = [*files(tmp_path / "deep"), *(path for path in (tmp_path / "deep").rglob("*") if path.is_dir())]
    assert found
    for path in found:
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path


@writers
def test_nothing_else_is_left(name: str, write: Callable[[Path], object], tmp_path: Path) -> None:
    write(tmp_path / "deep" / name)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == [name]


def test_names_on_the_way_cannot_be_guessed_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    real = Path.open

    def watched(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "x" in mode:
            names.append(self.name)
        return real(self, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", watched)
    for _ in range(5):
        write_text(tmp_path / "a.json", "x")
    assert len(set(names)) == 5
    assert all(is_leftover(name) and str(os.getpid()) not in name.split(".")[3] for name in names)
    # Somebody who guesses the name all the same, and puts a link there, gains nothing.
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda count: "ab" * count)
    (tmp_path / f".b.json.{'ab' * 8}.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "b.json", "x")
    assert victim.read_text() == "precious"


def test_a_link_is_replaced_by_the_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "a.json").symlink_to(victim)
    write_text(tmp_path / "a.json", "x")
    assert (victim.read_text(), (tmp_path / "a.json").read_text()) == ("precious", "x")
    assert not (tmp_path / "a.json").is_symlink()


@pytest.mark.parametrize("name", ["a" * 250, "ä" * 120, "𝒜" * 60], ids=["a", "ä", "𝒜"])
def test_names_as_long_as_a_file_system_takes_them(name: str, tmp_path: Path) -> None:
    write_text(tmp_path / name, "x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    with pytest.raises(IsADirectoryError, match=r"a\.json` is a folder, expected the name of a file"):
        write_text(tmp_path / "a.json", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@writers
def test_a_file_in_the_way_of_the_folder_is_named(name: str, write: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file"
    file.parent.mkdir()
    file.write_text("x")
    with pytest.raises(FileExistsError, match="cannot be written") as stop:
        write(file / name)
    why = f"`{file}` is a file, expected a folder. Choose another place."
    assert str(stop.value) == f"`{file / name}` cannot be written: {why}"
    assert stop.value.errno == errno.EEXIST
    with pytest.raises(NotADirectoryError, match=r"/deeper/a` cannot be written: `.*/deep/file` is a file, expected a"):
        write_text(file / "deeper" / "a", "x")


def test_a_file_in_the_place_of_a_model_is_named_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_text("x")
    with pytest.raises(FileExistsError, match=rf"^`{file}` cannot be written: `{file}` is a file, expected a folder\."):
        network().save_pretrained(file)
    assert file.read_text() == "x"


def test_a_folder_that_takes_no_files_is_named_and_not_the_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refused)
        with pytest.raises(PermissionError, match=r"a` cannot be written to the folder `.*`: permission den") as stop:
            write_text(tmp_path / "a", "x")
    assert ".part" not in str(stop.value)
    assert stop.value.errno == errno.EACCES
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refused)
        with pytest.raises(
            PermissionError, match=r"deep/a` cannot be written: its folder `.*deep` cannot be made: perm"
        ):
            write_text(tmp_path / "deep" / "a", "x")
        with pytest.raises(PermissionError, match="cannot be written"), folder_in_place(tmp_path / "b"):
            pass
    assert files(tmp_path) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_a_folder_of_the_system_is_named() -> None:
    for name in ("x.onnx", "steerable/x.onnx"):
        with pytest.raises(
            OSError, match=rf"`/proc/{name}` cannot be written.*the system creates no files there"
        ) as stop:
            write_text(Path("/proc") / name, "x")
        assert ".part" not in str(stop.value)


def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = [".last.ckpt.0123456789abcdef.part", ".last.ckpt.4711.part", "model/.config.json.0123456789abcdef.part"]
    kept = ["config.json", ".hidden", "notes.part", ".notes.part", ".lock"]
    for name in (*left, *kept):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    remove_leftovers(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in files(tmp_path)} == set(kept)


def test_a_run_removes_them_when_it_holds_the_folder(tmp_path: Path) -> None:
    """Also where the first start was killed before it wrote its config."""
    left = tmp_path / "run" / ".config.json.0123456789abcdef.part"
    left.parent.mkdir()
    left.write_text("{")
    train(config(), left.parent)
    assert not left.exists()
    assert not list(left.parent.rglob("*.part"))


# ---------------------------------------------------------------- full disks


class FullFile:
    """A file on a disk that has room for its name only."""

    def __init__(self, file: Any, number: int) -> None:
        self.file, self.number = file, number

    def __enter__(self) -> FullFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, content: bytes) -> int:
        self.file.write(content[: len(content) // 2])
        raise OSError(self.number, os.strerror(self.number))


def fill_disk(patch: pytest.MonkeyPatch, moment: str, number: int = errno.ENOSPC) -> None:
    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    real = Path.open

    def opened(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        file = real(self, mode, *rest, **options)
        return FullFile(file, number) if "x" in mode else file

    if moment == "write":
        patch.setattr(Path, "open", opened)
    else:
        patch.setattr(os, moment, full)


@writers
@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_a_full_disk_is_named_with_the_file_and_nothing_is_left(
    name: str, write: Callable[[Path], object], moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "deep" / name
    if name == "report.html":
        config().save(tmp_path / "run" / "config.json")
    fill_disk(monkeypatch, moment)
    with pytest.raises(
        DiskFull, match=r"the disk is full, or .*` (needs [\d.]+ \w+|could not be written), and"
    ) as stop:
        write(target)
    # A folder is named by the file in it that did not fit, as long as it is there; else by its own name.
    assert f"`{tmp_path / 'deep'}" in str(stop.value)
    assert (name if name != "export" else "") in str(stop.value)
    assert ".part" not in str(stop.value)
    assert "then give the same command again" in str(stop.value)
    assert stop.value.errno == errno.ENOSPC
    assert files(tmp_path / "deep") == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_the_file_that_was_there_stays(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "a", "before")
    fill_disk(monkeypatch, "fsync", number)
    with pytest.raises(DiskFull, match=r"`.*/a` needs 1\.5 kB, and [\d.]+ \wB are free"):
        write_bytes(tmp_path / "a", b"x" * 1500)
    assert [path.read_text() for path in files(tmp_path)] == ["before"]


def test_other_errors_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_disk(monkeypatch, "fsync", errno.EIO)
    with pytest.raises(OSError, match="Input/output error") as stop:
        write_text(tmp_path / "a", "x")
    assert not isinstance(stop.value, DiskFull)
    assert files(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A function that mounts a disk of the given number of kilobytes."""
    place = tmp_path / "disk"
    place.mkdir()

    def mounted(kilobytes: int) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no `mount` on this machine")
        if done.returncode:
            pytest.skip(f"this user may not mount a small disk: {done.stderr.strip()}")
        return place

    yield mounted
    if os.path.ismount(place):
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("kilobytes", [4, 16, 40, 64, 96, 128, 136])
def test_a_run_on_a_disk_that_fills_up_ends_in_words_and_goes_on_when_there_is_room(
    kilobytes: int, small_disk: Callable[[int], Path]
) -> None:
    place = small_disk(kilobytes)
    run = place / "run"
    with pytest.raises(DiskFull, match=rf"the disk is full, or .*`{run}.*` (needs|could not be written).* are free"):
        train(config(), run)
    assert not list(place.rglob("*.part"))
    subprocess.run(["mount", "-o", "remount,size=20m", str(place)], check=True)
    assert train(config(), run)["epochs"] == 2
    assert not list(place.rglob("*.part"))


def test_places_are_checked_before_anything_is_made(tmp_path: Path) -> None:
    check_place(tmp_path / "new" / "deep" / "file.csv")
    check_new_file(tmp_path / "new.csv", "x.csv")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match=r"is a file, expected a folder\. Choose another place"):
        check_place(tmp_path / "file" / "model")
    with pytest.raises(IsADirectoryError, match=r"is a folder, expected the name of a file such as .*x\.csv"):
        check_new_file(tmp_path, "x.csv")


def test_a_folder_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match="you are not allowed to create files in the folder"):
        check_place(tmp_path / "x")
