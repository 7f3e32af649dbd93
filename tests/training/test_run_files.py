"""The files of a run folder, damaged or edited: each is named, with a way to go on, by every command that reads it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import command_line
import pytest
from safetensors.torch import load_file, save_file
from small_runs import request as config

from steerable.reporting.report import write_report
from steerable.training.learning.preparing import prepare_data
from steerable.training.requests.run_files import COMPARISON, RESULTS, read_fields, read_object
from steerable.training.running.run import train
from steerable.training.trained_networks.export import export_onnx, export_safetensors
from steerable.training.trained_networks.trained_model import TrainedModel

# No JSON object of any kind.
BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "half": b'{"classes": ["a',
    "a list": b"[]",
    "null": b"null",
    "a number": b"3",
    "text": b"'no JSON'",
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "rather deep objects": b'{"a":' * 300 + b"1" + b"}" * 300,
    "no UTF-8": b'{"name": "\xff\xfe"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "zeros": bytes(1000),
    "garbage": random.Random(0).randbytes(1000),
    "too many digits": b'{"epochs": ' + b"9" * 5000 + b"}",
}
# Values that stand in a good file in place of a good one.
WRONG: list[Any] = [[], {}, "x", 3, -1, True, float("nan"), float("inf"), 10**30, [None], {"name": 3}, [[[1]]]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(config(), folder)
    return folder


@pytest.fixture(scope="module")
def exported(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_safetensors(TrainedModel.load(finished), tmp_path_factory.mktemp("export") / "export")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


broken = pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)


@broken
def test_what_is_no_object_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"a\.json` (cannot be read as JSON: |holds (a \w+|null); |is nested more than )"
    ):
        read_object(path)


@broken
@pytest.mark.usefixtures("quick")
def test_a_finished_run_with_broken_results_says_how_to_make_them_anew(content: bytes, run: Path) -> None:
    (run / "results.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"results\.json` .*Remove the file, and the same command makes it again"):
        train(config(), run)
    with pytest.raises(ValueError, match=r"run `run` cannot be loaded: .*results\.json` .*train or export it again"):
        TrainedModel.load(run)
    page = write_report([run], run.parent / "report.html").read_text("utf-8")
    assert "results.json` " in page
    assert "no results yet" not in page


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"dataset": "digits"}', "[" * 100_000])
def test_a_report_names_damaged_results_on_the_terminal_too(content: str, run: Path) -> None:
    good = Path(shutil.copytree(run, run.parent / "good"))
    (run / "results.json").write_text(content)
    outcome = command_line.steerable("report", str(good), str(run), "--out", "r.html", cwd=run.parent)
    [line] = [line for line in outcome.stderr.splitlines() if line.startswith("warning: ")]
    assert line.startswith(f"warning: the run `run` is damaged: `{run / 'results.json'}` ")
    assert line.endswith("Remove the file; the command that trained the run will write it again.")
    page = (run.parent / "r.html").read_text("utf-8")
    assert f"`{run / 'results.json'}` " in page
    assert "no results yet" not in page


@pytest.mark.parametrize(
    ("content", "words"),
    [("null", "null"), ("3", "a number"), ("1.5", "a number"), ("true", "true"), ('"x"', "text"), ("[]", "a list")],
)
def test_what_a_file_holds_is_said_in_words(content: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ValueError, match=rf"a\.json` holds {words}; expected a JSON object"):
        read_object(tmp_path / "a.json")


@broken
@pytest.mark.usefixtures("quick")
def test_a_run_with_a_broken_plan_is_not_resumed_blindly(content: bytes, run: Path) -> None:
    (run / "plan.json").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"plan\.json` .*cannot continue without its plan: put the file back as it was"
    ):
        train(config(), run)
    assert "plan.json` " in write_report([run], run.parent / "report.html").read_text("utf-8")


def test_the_way_on_is_taken(run: Path) -> None:
    (run / "results.json").unlink()
    assert train(config(), run)["epochs"] == 1


@broken
@pytest.mark.usefixtures("quick")
def test_a_run_with_a_broken_config_is_left_alone(content: bytes, run: Path) -> None:
    (run / "config.json").write_bytes(content)
    with pytest.raises(FileExistsError, match=r"config\.json` .*A run cannot be resumed without it; choose another"):
        train(config(), run)
    with pytest.raises(ValueError, match=r"config\.json` .*A report needs the run's config"):
        write_report([run], run.parent / "report.html")
    with pytest.raises(ValueError, match=r"the run `run` cannot be loaded: .*config\.json` "):
        TrainedModel.load(run)


@broken
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ["mistakes.json", "environment.json"])
def test_a_report_goes_on_without_a_broken_file(name: str, content: bytes, run: Path) -> None:
    (run / name).write_bytes(content)
    assert f"{name}` " in write_report([run], run.parent / "report.html").read_text("utf-8")


def paths(value: Any, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Where an object has values, two levels deep."""
    found = []
    for key, inner in value.items():
        found.append((*prefix, key))
        if isinstance(inner, dict) and len(prefix) < 2:
            found += paths(inner, (*prefix, key))
    return found


def changed(value: Any, path: tuple[str, ...], new: Any) -> Any:
    if not path:
        return new
    return {**value, path[0]: changed(value[path[0]], path[1:], new)}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No drawings, and the same images each time: what is tested is how files are read."""
    data = prepare_data(config())
    monkeypatch.setattr("steerable.training.running.run.prepare_data", lambda *_: data)
    for name in ("curve_figure", "grouped_bars", "confusion_figure"):
        monkeypatch.setattr(f"steerable.reporting.report.{name}", lambda *_, **__: "")


READERS: dict[str, Callable[[Path], object]] = {
    "report": lambda run: write_report([run], run.parent / "report.html"),
    "load": TrainedModel.load,
    "train": lambda run: train(config(), run),
}
KNOWN = ("holds a run that differs in", "images of `digits` have changed")  # what a good file may come to as well


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ["config.json", "results.json", "plan.json", "mistakes.json", "environment.json"])
@pytest.mark.parametrize("reader", READERS)
def test_no_value_of_the_wrong_kind_ends_in_a_traceback(reader: str, name: str, run: Path) -> None:
    """Each value of each file is exchanged for another; who reads it succeeds, or names the file."""
    good = json.loads((run / name).read_text())
    draw = random.Random(0)
    complaints = []
    for path in paths(good):
        (run / name).write_text(json.dumps(changed(good, path, draw.choice(WRONG))))
        try:
            READERS[reader](run)
        except (ValueError, FileExistsError) as error:
            complaints.append(str(error))
    assert [text for text in complaints if name not in text and not any(known in text for known in KNOWN)] == []


@pytest.mark.parametrize("key", RESULTS)
def test_every_field_of_the_results_is_checked(key: str, run: Path) -> None:
    path = run / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: {"odd": object.__name__}}))
    with pytest.raises(ValueError, match=rf"results\.json` has .* for `{key}`, expected "):
        read_fields(path, RESULTS)


def test_results_without_value_are_read(run: Path) -> None:
    """A loss that was never finite is NaN in the file, and that is no damage."""
    path = run / "results.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "test_loss": float("nan")}))
    assert train(config(), run)["epochs"] == 1


@pytest.mark.parametrize("name", ["results.json", "plan.json", "mistakes.json", "report.html", "environment.json"])
def test_a_folder_in_the_way_of_a_file_is_refused_before_training(name: str, run: Path) -> None:
    (run / name).unlink(missing_ok=True)
    (run / name).mkdir()
    with pytest.raises(FileExistsError, match=rf"{name}` is in the way: a run needs a file of that name\. Remove it"):
        train(config(), run)


@pytest.mark.parametrize("name", ["checkpoints", "metrics", "model"])
def test_a_file_in_the_way_of_a_folder_is_refused_before_training(name: str, run: Path) -> None:
    shutil.rmtree(run / name)
    (run / name).write_text("x")
    with pytest.raises(FileExistsError, match=rf"{name}` is in the way: a run needs a folder of that name\. Remove it"):
        train(config(), run)


# ---------------------------------------------------------------- exported networks


@broken
@pytest.mark.parametrize("name", ["images.json", "config.json"])
def test_an_exported_network_with_broken_json_is_named(
    name: str, content: bytes, exported: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "copy"))
    (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"the run `copy` cannot be loaded: .*{name}` .*train or export it again"):
        TrainedModel.load(folder)


def test_an_exported_network_whose_config_is_another_ones(exported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "copy"))
    (folder / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be loaded") as stop:
        TrainedModel.load(folder)
    assert str(stop.value) == (
        f"the run `copy` cannot be loaded: `{folder / 'model.safetensors'}` does not fit `{folder / 'config.json'}`: "
        "the resnet that this config describes has other tensors. A file in it was damaged, edited or removed; train "
        "or export it again."
    )


@pytest.mark.parametrize("name", ["model.safetensors", "normalisation.safetensors"])
@pytest.mark.parametrize("kind", ["empty", "cut", "garbage", "a folder", "gone", "other tensors"])
def test_damaged_weights_are_named(name: str, kind: str, exported: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(exported, tmp_path / "copy")) / name
    content = path.read_bytes()
    path.unlink()
    if kind == "a folder":
        path.mkdir()
    elif kind == "other tensors":
        save_file({"odd": load_file(exported / "normalisation.safetensors")["mean"]}, path)
    elif kind != "gone":
        path.write_bytes({"empty": b"", "cut": content[:-1], "garbage": random.Random(0).randbytes(500)}[kind])
    with pytest.raises(ValueError, match=rf"the run `copy` cannot be loaded: .*{name}`.*train or export it again"):
        TrainedModel.load(path.parent)


@pytest.mark.parametrize("name", ["model.safetensors", "normalisation.safetensors"])
def test_every_flipped_bit_of_a_weight_is_noticed(name: str, exported: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(exported, tmp_path / "copy")) / name
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    for byte in random.Random(0).sample(range(start, len(content)), min(15, len(content) - start)):
        spoiled = bytearray(content)
        spoiled[byte] ^= 1 << byte % 8
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match=rf"{name}` is damaged: its tensors do not have the checksum"):
            TrainedModel.load(path.parent)


def test_weights_of_an_earlier_version_have_no_checksum_and_are_read(exported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "copy"))
    for name in ("model.safetensors", "normalisation.safetensors"):
        save_file(load_file(folder / name), folder / name)
    assert TrainedModel.load(folder).classes == TrainedModel.load(exported).classes


@pytest.mark.parametrize("kind", ["safetensors", "onnx"])
def test_an_export_onto_something_that_exists(kind: str, exported: Path, tmp_path: Path) -> None:
    trained = TrainedModel.load(exported)
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("x")
    if kind == "safetensors":
        for name in ("file", "folder"):
            with pytest.raises(FileExistsError, match=f"{name} exists already; choose another folder, or remove it"):
                export_safetensors(trained, tmp_path / name)
        with pytest.raises((FileExistsError, NotADirectoryError), match="file"):
            export_safetensors(trained, tmp_path / "file" / "inner")
    else:
        with pytest.raises(IsADirectoryError, match="is a folder, expected the name of a file"):
            export_onnx(trained, tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "folder" / "thesis.tex").read_text() == "x"


@pytest.mark.parametrize("command", ["evaluate", "export", "report"])
def test_commands_say_it_in_one_line(command: str, run: Path) -> None:
    (run / "config.json").write_text("[" * 200_000)
    more = {"export": ("--safetensors", "out")}.get(command, ())
    outcome = command_line.steerable(command, str(run), *more, cwd=run.parent, code=2)
    assert outcome.stderr.startswith("error: ")
    assert f"`{run / 'config.json'}` cannot be read as JSON: it is nested too deeply" in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_what_networks_are_judged_by_is_said_in_words(tmp_path: Path) -> None:
    path = tmp_path / "comparison.json"
    path.write_text('{"judged_by": "all_poses"}')
    with pytest.raises(ValueError, match="has 'all_poses' for `judged_by`, expected upright, or nothing"):
        read_fields(path, COMPARISON)
    for allowed in ("", "upright"):
        path.write_text(json.dumps({"judged_by": allowed}))
        assert read_fields(path, COMPARISON) == {"judged_by": allowed}
