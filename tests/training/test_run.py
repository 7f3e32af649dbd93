"""Training runs: they learn, write down what they did, resume exactly, and do the same on several processes."""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from small_runs import STEERABLE, killed_in, request, same_weights, weights

from steerable.training.choosing.defaults import configured
from steerable.training.choosing.fitting import fitted_to_minutes
from steerable.training.learning.preparing import prepare_data
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe, load_recipe, recipe_names
from steerable.training.running.interruption import RunInterrupted
from steerable.training.running.progress_lines import ProgressLines
from steerable.training.running.run import train
from steerable.training.running.run_folder import locked
from steerable.training.trained_networks.trained_model import TrainedModel

config = partial(request, recipe=load_recipe("demo", epochs=4), labels=None)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(config(recipe=load_recipe("demo", epochs=8), validation=0.1), folder)
    return folder


def test_a_tiny_network_learns_the_digits_in_every_pose(finished: Path) -> None:
    results = json.loads((finished / "results.json").read_text())
    assert results["poses"]["upright"] > 0.9
    assert results["poses"]["accuracy"] == pytest.approx(
        dict.fromkeys(("e", "r", "r2", "r3", "m", "mr", "mr2", "mr3"), results["poses"]["upright"])
    )
    assert max(results["poses"]["drift"].values()) < 1e-5
    assert results["test_error"] == pytest.approx(1 - results["poses"]["upright"], abs=1e-6)
    assert results["val_accuracy"] > 0.8
    assert (results["labels"], results["epochs"], results["seed"]) == (1294, 8, 0)


def test_the_run_folder_says_what_was_done(finished: Path) -> None:
    assert RunConfig.load(finished / "config.json").recipe.epochs == 8
    assert json.loads((finished / "environment.json").read_text())["versions"]["torch"] == torch.__version__
    curves = (finished / "metrics" / "csv" / "metrics.csv").read_text()
    assert "train_loss" in curves
    assert "val_accuracy" in curves
    assert (finished / "model" / "model.safetensors").is_file()


def test_a_finished_run_is_not_run_again(finished: Path) -> None:
    before = (finished / "results.json").stat().st_mtime_ns
    told: list[str] = []
    again = train(config(recipe=load_recipe("demo", epochs=8), validation=0.1), finished, tell=told.append)
    assert again["epochs"] == 8
    assert [line for line in told if "nothing was trained now" in line]
    assert (finished / "results.json").stat().st_mtime_ns == before


def test_another_config_does_not_touch_a_run(finished: Path) -> None:
    with pytest.raises(FileExistsError, match=r"holds a run that differs in `seed`\. Resume it with its own settings"):
        train(config(recipe=load_recipe("demo", epochs=8), validation=0.1, seed=1), finished)


def test_a_resumed_run_may_move_to_another_machine() -> None:
    """Where the data lie and how many devices there are is the resuming command's business; the rest is the run's."""
    moved = config(seed=3).elsewhere(config(data_dir="elsewhere", devices=2, progress=True))
    assert (moved.seed, moved.data_dir, moved.devices, moved.progress) == (3, "elsewhere", 2, True)
    assert config(seed=3).differences(moved) == []


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(FileExistsError, match="exists and is not a run folder"):
        train(config(), tmp_path)


def test_a_trained_model_is_loaded_evaluated_and_predicts(finished: Path, tmp_path: Path) -> None:
    from PIL import Image

    model = TrainedModel.load(finished)
    results = json.loads((finished / "results.json").read_text())
    assert model.evaluate()["poses"]["upright"] == results["poses"]["upright"]
    data = prepare_data(config()).test
    for k in range(3):
        Image.fromarray(data.images[k, 0].numpy()).save(tmp_path / f"{k}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    predictions, skipped = model.predict_files(tmp_path)
    with torch.no_grad():
        expected = model(data.images[:3]).argmax(1)
    assert [p.label for p in predictions] == [data.classes[int(k)] for k in expected]
    assert [Path(file).name for file, _ in skipped] == ["broken.png"]


def test_a_process_that_comes_second_changes_nothing(tmp_path: Path) -> None:
    """Not even where both began before there was a config."""
    with locked(tmp_path), pytest.raises(ValueError, match="another process is training in"):
        train(config(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert train(config(), tmp_path)["epochs"] == 4  # what a lock leaves behind is no run


@pytest.mark.parametrize(
    ("recipe", "message"), [({"augment": True, "shift": 100}, "a shift by 100 moves a 8×8 image out of sight")]
)
def test_what_the_images_forbid_is_refused_before_there_is_a_folder(
    recipe: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        train(config(recipe=load_recipe("demo", **recipe)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_processes_do_not_share_a_run_folder(tmp_path: Path) -> None:
    started = config()
    started.save(tmp_path / "config.json")
    with locked(tmp_path), pytest.raises(ValueError, match="another process is training in"):
        train(started, tmp_path)
    assert not list(tmp_path.glob("checkpoints/*"))
    assert not (tmp_path / "results.json").exists()
    assert train(started, tmp_path)["epochs"] == started.recipe.epochs  # it was let go


def test_where_no_bar_can_be_drawn_lines_say_how_far_the_training_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(ProgressLines.__init__, "__defaults__", (0.0,))
    train(config(labels=100, validation=20.0, progress=True), tmp_path, tell=said.append)
    epochs = [line for line in said if line.startswith("Epoch ")]
    assert epochs[0] == "Epoch 1 of 4, step 1 of 2."
    assert epochs[-1].startswith("Epoch 4 of 4, step 2 of 2, validation accuracy ")
    assert len(epochs) == 8


def test_an_unfinished_run_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a run folder, or its run has not finished"):
        TrainedModel.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("model/model.safetensors", "junk", "cannot be read as safetensors: "),
        ("model/model.safetensors", None, ""),
        ("model/normalisation.safetensors", "junk", "cannot be read as safetensors: "),
        ("model/config.json", "[" * 100_000, "cannot be read as JSON: it is nested too deeply"),
        (
            "model/config.json",
            '{"depth": "x", "num_classes": 10}',
            "is not the config of a resnet: ResNet: `depth` must",
        ),
        ("model/config.json", '{"depth": 14, "copies": 1}', "model.safetensors. does not fit"),
        ("model/config.json", '{"num_classes": 3}', "has 3 for `num_classes`, and `.*results.json` has 10"),
        ("results.json", "[]", "holds a list; expected a JSON object"),
        ("results.json", "{}", "has no `classes`, expected a list of names"),
        ("config.json", "no JSON", "cannot be read as JSON: Expecting value"),
        ("config.json", "{}", "a run's config has no `dataset`"),
    ],
)
def test_a_damaged_run_is_refused_in_words(
    finished: Path, tmp_path: Path, file: str, content: str | None, complaint: str
) -> None:
    run = tmp_path / "copy"
    shutil.copytree(finished, run)
    (run / file).unlink()
    if content is not None:
        (run / file).write_text(content)
    with pytest.raises(ValueError, match=f"run `copy` cannot be loaded: .*{complaint}.*train or export it ") as found:
        TrainedModel.load(run)
    assert str(run / file) in str(found.value)


def test_a_run_whose_config_is_damaged_is_not_resumed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("no JSON")
    with pytest.raises(FileExistsError, match=r"config\.json` cannot be read as JSON: Expecting value"):
        train(config(), tmp_path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"epochs = 'x'", "a recipe's epochs must be a whole number from 1 to 1,000,000; got 'x'"),
        (b"milestones = 3", "a recipe's milestones are a list of at most"),
        (b"[[[", "at line 1, column"),
        (b"foo = 1", "a recipe has no setting `foo`"),
        (b"\xff\xfe", "'utf-8' codec"),
    ],
)
def test_a_recipe_file_with_mistakes_is_named(content: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"mine.toml cannot be used: .*{complaint}"):
        load_recipe(str(path))


def command(folder: Path, *more: str) -> list[str]:
    options = [
        "train",
        "digits",
        "--out",
        str(folder),
        "--recipe",
        "demo",
        "--accelerator",
        "cpu",
        "--no-progress",
        "--json",
    ]
    model = [f"-m{key}={value}" for key, value in STEERABLE.items() if key != "name"]
    return [sys.executable, "-m", "steerable.cli", *options, *model, *more]


def test_a_run_killed_again_and_again_ends_with_the_same_weights(tmp_path: Path) -> None:
    """kill -9 while it trains; bit for bit the run that was left alone. Rates by sharing, for these are resumed too."""
    more = ("--epochs", "5", "--labels", "400", "--augment", "--rates-by-sharing", "--checkpoint-seconds", "0")
    subprocess.run(command(tmp_path / "whole", *more), check=True, capture_output=True)
    checkpoint = tmp_path / "killed" / "checkpoints" / "last.ckpt"
    kills = 0
    for _ in range(2):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = subprocess.Popen(
            command(tmp_path / "killed", *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.002)
        process.wait()
    assert kills == 2
    assert not (tmp_path / "killed" / "results.json").exists()
    subprocess.run(command(tmp_path / "killed", *more), check=True, capture_output=True)
    assert same_weights(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=lambda v: str(int(v)))
def test_a_run_that_is_told_to_stop_says_so_and_goes_on(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    more = ("--epochs", "300", "--labels", "100", "--checkpoint-seconds", "0")
    checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
    process = subprocess.Popen(
        command(tmp_path / "run", *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while process.poll() is None and not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(sent)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (code, "")
    assert f"was interrupted ({sent.name}). The same command continues from the last checkpoint." in err
    assert not (tmp_path / "run" / "results.json").exists()


def test_the_time_of_an_interrupted_run_is_that_of_all_its_parts(tmp_path: Path) -> None:
    long = config(recipe=load_recipe("demo", epochs=6), labels=200)
    with killed_in(2):
        train(long, tmp_path)
    state = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=False)
    (before,) = (s["seconds"] for s in state["callbacks"].values() if "seconds" in s)
    assert before > 0
    state["callbacks"] = {k: {"seconds": 600.0} if "seconds" in s else s for k, s in state["callbacks"].items()}
    torch.save(state, tmp_path / "checkpoints" / "last.ckpt")
    assert 10 < train(long, tmp_path)["training_minutes"] < 11


def test_two_processes_do_what_one_does(tmp_path: Path) -> None:
    """The same global batch, statistics of norms over both processes: equal up to rounding."""
    more = ("--epochs", "2", "--labels", "330", "--learning-rate", "0.02")
    for devices in ("1", "2"):
        subprocess.run(command(tmp_path / devices, *more, "--devices", devices), check=True, capture_output=True)
    one, two = weights(tmp_path / "1"), weights(tmp_path / "2")
    difference = max(float((one[k] - two[k]).abs().max()) for k in one if one[k].is_floating_point())
    assert difference < 1e-3 * max(float(value.abs().max()) for value in one.values() if value.is_floating_point())
    a, b = (json.loads((tmp_path / d / "results.json").read_text()) for d in ("1", "2"))
    assert a["test_accuracy"] == pytest.approx(b["test_accuracy"], abs=0.02)


def test_epochs_that_were_asked_for_are_not_stretched_to_a_time() -> None:
    asked = configured("digits", STEERABLE, recipe="demo", changes={"epochs": 3}, minutes=0.5, labels=100)
    assert fitted_to_minutes(asked, prepare_data(asked), 0.5).recipe.epochs == 3


def test_processes_that_are_started_side_by_side_share_a_run(tmp_path: Path) -> None:
    """As torchrun does: all of them meet an empty folder."""
    more = ("--epochs", "1", "--labels", "100", "--devices", "2")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    marks = {"TORCHELASTIC_RUN_ID": "none", "GROUP_RANK": "0"}  # by which Lightning knows torchrun
    processes = [
        subprocess.Popen(
            command(tmp_path / "run", *more),
            env={**os.environ, **common, **marks, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("1", "0")
    ]
    errors = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert (tmp_path / "run" / "results.json").is_file()


def test_a_schedule_is_fitted_to_a_time() -> None:
    short = config(labels=100)
    data = prepare_data(short)
    fitted = fitted_to_minutes(short, data, 0.02)
    longer = fitted_to_minutes(short, data, 0.2)
    assert 1 <= fitted.recipe.epochs < longer.recipe.epochs
    assert fitted.recipe.warmup_epochs == pytest.approx(fitted.recipe.epochs * short.recipe.warmup_epochs / 4)


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_can_be_written_and_read_again(name: str) -> None:
    recipe = load_recipe(name)
    assert Recipe.from_dict(recipe.to_dict()) == recipe
    assert recipe.learning_rate_at(recipe.epochs) <= recipe.learning_rate / 100


def test_the_papers_schedule() -> None:
    paper = load_recipe("paper")
    rates = [paper.learning_rate_at(e) for e in (0, 49.9, 50, 100, 150, 299)]
    assert rates == pytest.approx([0.05, 0.05, 5e-3, 5e-4, 5e-5, 5e-5])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learning_rate": 0.0}, "a recipe's learning_rate must be a number above 0 and up to 1,000,000; got 0.0"),
        ({"lerning_rate": 0.1}, "a recipe has no setting `lerning_rate`. Did you mean `learning_rate`"),
        ({"schedule": "sawtooth"}, "a recipe's schedule must be one of steps, cosine; got 'sawtooth'"),
        ({"epochs": 2.5}, "a recipe's epochs must be a whole number from 1 to 1,000,000; got 2.5"),
        ({"epochs": True}, "a recipe's epochs must be a whole number from 1 to 1,000,000; got True"),
        ({"augment": "no"}, "a recipe's augment must be true or false; got 'no'"),
        ({"learning_rate": math.inf}, "a recipe's learning_rate must be a number above 0 and up to 1,000,000; got inf"),
        ({"shift": math.inf}, "a recipe's shift must be a number from 0 to 4,096; got inf"),
        (
            {"milestones": ["a"]},
            "a recipe's milestones are a list of at most 1,000 whole numbers from 0 on; got",
        ),
    ],
)
def test_bad_recipes_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        Recipe.from_dict(values)


def test_a_recipes_milestones_may_come_as_a_list() -> None:
    assert load_recipe("paper", milestones=[1, 2]).milestones == (1, 2)
    assert load_recipe("paper", epochs=2).learning_rate_at(0) == 0.05  # the first milestone does not round to 0
    with pytest.raises(ValueError, match="epochs must be a whole number from 1 to 1,000,000; got '10'"):
        load_recipe("paper", epochs="10")


def test_what_interrupted_a_run_survives_a_process_pool() -> None:
    stop = pickle.loads(pickle.dumps(RunInterrupted("the run stopped.", 143)))
    assert (str(stop), stop.exit_code) == ("the run stopped.", 143)


def test_bad_configs_are_refused() -> None:
    with pytest.raises(ValueError, match="labels must be a whole number from 1 to 1,000,000,000; got 0"):
        config(labels=0)
    with pytest.raises(ValueError, match=r"a run has no setting `lables`\. Did you mean `labels`"):
        RunConfig.from_dict({"dataset": "digits", "model": STEERABLE, "lables": 3})
    with pytest.raises(ValueError, match="is shared by 128 processes"):
        replace(config(), devices=128)
    with pytest.raises(ValueError, match=r"9 labelled images cannot show 10 classes.*Give --labels 10 or more"):
        prepare_data(config(labels=9))
