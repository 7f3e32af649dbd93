"""Checkpoints: nothing in one is ever run, every damage is noticed, and the one before takes over."""

from __future__ import annotations

import io
import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import pytest
import torch
from small_runs import PLAIN, Killed, killed_in, request, same_weights

from steerable.training.learning import checkpoints as module_under_test
from steerable.training.learning.checkpoints import (
    LAST,
    PREVIOUS,
    AtomicCheckpoints,
    DamagedCheckpoint,
    HostileCheckpoint,
    latest_checkpoint,
    read_checkpoint,
)
from steerable.training.learning.classifier import Classifier
from steerable.training.requests.recipes import load_recipe
from steerable.training.running.run import train

config = partial(request, model=PLAIN, recipe=load_recipe("demo", epochs=4), validation=20, patience=3)


def interrupted(folder: Path) -> Path:
    """A run that was killed when three of its four epochs were done."""
    with killed_in(3):
        train(config(), folder)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interrupted(tmp_path_factory.mktemp("killed") / "run")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was left alone."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(config(), folder)
    return folder


@pytest.fixture
def run(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "run"))


def assert_finishes(run: Path, whole: Path) -> None:
    """It ends bit for bit as the run that was left alone."""
    train(config(), run)
    assert same_weights(run, whole)


def saved(path: Path, state: Any) -> None:
    AtomicCheckpoints().save_checkpoint(state, path)


def small_state(**changes: Any) -> dict[str, Any]:
    state: dict[str, Any] = {key: {} for key in module_under_test.KEYS}
    return {**state, "state_dict": {"weight": torch.arange(20.0)}, **changes}


# ---------------------------------------------------------------- two of them


def test_the_last_two_are_kept_and_read_by_torch(run: Path) -> None:
    epochs = [torch.load(run / "checkpoints" / name, weights_only=True)["epoch"] for name in (LAST, PREVIOUS)]
    assert epochs == [2, 1]
    assert [read_checkpoint(run / "checkpoints" / name)["epoch"] for name in (LAST, PREVIOUS)] == epochs
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [LAST, PREVIOUS]


@pytest.mark.parametrize("step", [0, 1, 2, 3])
def test_a_kill_at_any_moment_of_saving_leaves_a_whole_one(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each system call by which a checkpoint is put in place is the last one in turn."""
    for epoch in (1, 2):
        saved(tmp_path / LAST, small_state(epoch=epoch))
    made = 0

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal made
            if made == step:
                raise Killed
            made += 1
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", dying(os.fsync))
        patch.setattr(os, "replace", dying(os.replace))
        patch.setattr(Path, "unlink", lambda self, missing_ok=False: None)  # nothing is tidied up
        if step == 3:
            saved(tmp_path / LAST, small_state(epoch=3))
        else:
            with pytest.raises(Killed):
                saved(tmp_path / LAST, small_state(epoch=3))
    found, damaged = latest_checkpoint(tmp_path)
    assert found is not None
    assert damaged == []
    assert read_checkpoint(found)["epoch"] == (3 if step == 3 else 2)


# ---------------------------------------------------------------- damage


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path: Path) -> None:
    saved(tmp_path / LAST, small_state())
    content = (tmp_path / LAST).read_bytes()
    for bit in range(0, len(content) * 8, 9):  # in every byte but some, another one in each
        (tmp_path / LAST).write_bytes(flipped(content, bit))
        with pytest.raises(DamagedCheckpoint):
            read_checkpoint(tmp_path / LAST)
    for length in range(0, len(content), 7):
        (tmp_path / LAST).write_bytes(content[:length])
        with pytest.raises(DamagedCheckpoint):
            read_checkpoint(tmp_path / LAST)


def test_flipped_bits_of_tensors_are_noticed_in_checkpoints_of_earlier_versions(tmp_path: Path) -> None:
    """They have no checksum of their own, and the archive's is compared."""
    weights = torch.arange(500.0)
    torch.save(small_state(state_dict={"weight": weights}), tmp_path / LAST)
    content = (tmp_path / LAST).read_bytes()
    start = content.index(weights.numpy().tobytes()) * 8
    for bit in random.Random(0).sample(range(start, start + 500 * 32), 50):
        (tmp_path / LAST).write_bytes(flipped(content, bit))
        with pytest.raises(DamagedCheckpoint, match="does not have the checksum that it was saved with"):
            read_checkpoint(tmp_path / LAST)


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(0).randbytes(path.stat().st_size))


def another_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("holiday.txt", "sun")


def compressed(path: Path) -> None:
    content = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "thesis.tex").write_text("x")


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def without(key: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        state = torch.load(path, weights_only=True)
        del state[key]
        torch.save(state, path)

    return spoil


def of_another_network(path: Path) -> None:
    state = torch.load(path, weights_only=True)
    name = next(iter(state["state_dict"]))
    state["state_dict"][name] = torch.zeros(3)
    torch.save(state, path)


def renamed_tensor(path: Path) -> None:
    state = torch.load(path, weights_only=True)
    state["state_dict"]["odd"] = state["state_dict"].pop(next(iter(state["state_dict"])))
    torch.save(state, path)


def cut_to(share: float) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])

    return spoil


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "one byte": lambda path: path.write_bytes(b"P"),
    "half": cut_to(0.5),
    "almost whole": cut_to(0.9999),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "a flipped bit": lambda path: path.write_bytes(flipped(path.read_bytes(), 8 * path.stat().st_size // 3)),
    "garbage": garbage,
    "text": lambda path: path.write_text("<html>404</html>"),
    "another zip": another_zip,
    "a zip that is compressed": compressed,
    "a folder": a_folder,
    "a pipe": a_pipe,
    "a tensor": lambda path: torch.save(torch.zeros(3), path),
    "a list": lambda path: torch.save([1, 2], path),
    "an empty dict": lambda path: torch.save({}, path),
    "of another network": of_another_network,
    "another name": renamed_tensor,
    **{f"without {key}": without(key) for key in module_under_test.KEYS},
}


@pytest.mark.parametrize("spoil", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_or_named(spoil: Callable[[Path], object], run: Path) -> None:
    folder = run / "checkpoints"
    spoil(folder / LAST)
    network = torch.load(folder / PREVIOUS, weights_only=True)["state_dict"]
    found, [(path, reason)] = latest_checkpoint(folder, network)
    assert (found, path) == (folder / PREVIOUS, folder / LAST)
    assert reason
    (folder / PREVIOUS).unlink()
    with pytest.raises(ValueError, match=r"the run cannot continue from its checkpoints: `.*last\.ckpt` \w+.*") as stop:
        latest_checkpoint(folder, network)
    assert f"Remove the folder `{folder}`, and the same command trains from the beginning" in str(stop.value)
    assert "another `--out`" in str(stop.value)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (DAMAGE["empty"], "is empty"),
        (DAMAGE["a zip that is compressed"], "is not a checkpoint: its parts are compressed"),
        (DAMAGE["a list"], "holds a list, expected the state of a run"),
        (lambda path: torch.save(None, path), "holds null, expected the state of a run"),
        (lambda path: torch.save(3, path), "holds a number, expected the state of a run"),
        (lambda path: torch.save("x", path), "holds text, expected the state of a run"),
    ],
)
def test_damage_is_said_once_and_in_words(spoil: Callable[[Path], object], expected: str, run: Path) -> None:
    spoil(run / "checkpoints" / LAST)
    _, [(_, reason)] = latest_checkpoint(run / "checkpoints", None)
    assert reason == expected


@pytest.mark.parametrize("kind", ["a flipped bit", "a folder", "empty"])
def test_a_run_goes_on_from_the_checkpoint_before(
    kind: str, run: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so, and the damaged one does not take the place of the good one when the next is saved."""
    last, previous = run / "checkpoints" / LAST, run / "checkpoints" / PREVIOUS
    DAMAGE[kind](last)
    good = previous.read_bytes()
    real, kept = os.replace, []

    def watched(source: Any, target: Any) -> None:
        if Path(target) == last:
            kept.append(previous.read_bytes() == good)
        real(source, target)

    monkeypatch.setattr(os, "replace", watched)
    with pytest.warns(
        UserWarning, match=r"last\.ckpt` is .*continues from the previous checkpoint, `.*previous\.ckpt`"
    ):
        assert_finishes(run, whole)
    assert kept[0]
    assert (run / "checkpoints" / f"{LAST}.damaged").exists()


def test_where_both_are_damaged_the_way_on_is_taken(run: Path, whole: Path) -> None:
    for name in (LAST, PREVIOUS):
        DAMAGE["half"](run / "checkpoints" / name)
    with pytest.raises(
        ValueError, match=r"last\.ckpt` is damaged: .*; `.*previous\.ckpt` is damaged: .*Remove the fold"
    ):
        train(config(), run)
    shutil.rmtree(run / "checkpoints")
    assert_finishes(run, whole)


def test_a_run_of_an_earlier_version_is_resumed(run: Path, whole: Path) -> None:
    """It has one checkpoint, as torch.save writes it."""
    folder = run / "checkpoints"
    torch.save(torch.load(folder / LAST, weights_only=True), folder / LAST)
    (folder / PREVIOUS).unlink()
    assert_finishes(run, whole)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("loops", {}),
        ("loops", {"fit_loop": 3}),
        ("optimizer_states", []),
        ("optimizer_states", [{"state": {}, "param_groups": []}]),
        ("callbacks", {"KeepBest": {"unheard_of": 1}, "_Epochs": {}}),
        ("callbacks", 7),
        ("callbacks", {}),
    ],
    ids=str,
)
def test_a_whole_checkpoint_with_other_contents_is_refused_in_words(key: str, value: Any, run: Path) -> None:
    path = run / "checkpoints" / LAST
    state = torch.load(path, weights_only=True)
    state[key] = value
    (run / "checkpoints" / PREVIOUS).unlink()
    saved(path, state)
    (run / "checkpoints" / PREVIOUS).unlink()
    with pytest.raises(ValueError, match=r"last\.ckpt` does not fit this run \(\w+: .*trains from the beginning"):
        train(config(), run)


# ---------------------------------------------------------------- attacks


class Payload:
    """Unpickled, it makes a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def as_zip(state: Any, path: Path) -> None:
    torch.save(state, path)


def with_checksum(state: Any, path: Path) -> None:
    saved(path, state)


def as_pickle(state: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(state))


def as_old_torch(state: Any, path: Path) -> None:
    torch.save(state, path, _use_new_zipfile_serialization=False)


PLACES: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "beside the state": lambda state, payload: {**state, "extra": payload},
    "among the weights": lambda state, payload: {**state, "state_dict": {**state["state_dict"], "odd": payload}},
    "alone": lambda state, payload: payload,
}


@pytest.mark.parametrize("write", [as_zip, with_checksum, as_pickle, as_old_torch])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("name", [LAST, PREVIOUS])
def test_nothing_in_a_checkpoint_is_run(
    write: Callable[[Any, Path], None], place: Callable[[Any, Any], Any], name: str, run: Path, tmp_path: Path
) -> None:
    folder, trace = run / "checkpoints", tmp_path / "trace"
    state = torch.load(folder / LAST, weights_only=True)
    shutil.rmtree(folder)
    folder.mkdir()
    write(place(state, Payload(trace)), folder / name)
    with pytest.raises(ValueError, match=rf"`{folder / name}`.*Remove the folder `{folder}`.*another `--out`") as stop:
        train(config(), run)
    assert not trace.exists()
    if write in (as_zip, with_checksum):
        assert isinstance(stop.value, HostileCheckpoint)
        assert "it asks for `posix.mkdir`, and a checkpoint needs tensors, numbers and text only" in str(stop.value)
        assert "Nothing in it was run" in str(stop.value)
    with pytest.raises(ValueError):  # noqa: PT011 - Lightning's own way in
        AtomicCheckpoints().load_checkpoint(folder / name, weights_only=False)
    assert not trace.exists()


def test_the_command_refuses_a_hostile_run_folder_in_one_line(tmp_path: Path) -> None:
    options = ("train", "digits", "--recipe", "demo", "--epochs", "2", "--labels", "60", "--accelerator", "cpu")
    model = ("--model", "plain_resnet", "-mdepth=8", "-mwidth=2", "--no-progress", "--out", "run")
    starts = Classifier.on_train_epoch_start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Classifier, "on_train_epoch_start", lambda self: (_ for _ in ()).throw(OSError("stop")))
        command_line.steerable(*options, *model, cwd=tmp_path, code=2)
    assert Classifier.on_train_epoch_start is starts
    path = tmp_path / "run" / "checkpoints" / LAST
    path.parent.mkdir(exist_ok=True)
    torch.save(small_state(extra=Payload(tmp_path / "trace")), path)
    outcome = command_line.steerable(*options, *model, cwd=tmp_path, code=2)
    assert outcome.stderr.startswith("error: `run/checkpoints/last.ckpt` was not loaded: it asks for `posix.mkdir`")
    assert outcome.stderr.count("\n") == 1
    assert not (tmp_path / "trace").exists()


def test_a_file_that_lightning_finds_by_itself_is_not_run_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On clusters with SLURM it looks for `hpc_ckpt_N.ckpt` in the run folder."""
    monkeypatch.setattr(
        "lightning.pytorch.trainer.connectors.checkpoint_connector.SLURMEnvironment.detect", lambda: True
    )
    run = tmp_path / "run"
    run.mkdir()
    config().save(run / "config.json")
    torch.save(small_state(extra=Payload(tmp_path / "trace")), run / "hpc_ckpt_1.ckpt")
    with pytest.raises(ValueError, match=r"asks for `posix\.mkdir`"):
        train(config(), run)
    assert not (tmp_path / "trace").exists()
