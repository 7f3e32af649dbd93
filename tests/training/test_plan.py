"""Request and plan: both are written down, the plan is followed to the letter, and odd ones are refused in words."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import pytest
import torch
from small_runs import request, same_weights
from torch import nn

import steerable.training
from steerable import nn as snn
from steerable.training import Plan, RunConfig, load_recipe
from steerable.training.choosing.defaults import configured, repeated
from steerable.training.choosing.planning import make_plan, plan_here
from steerable.training.choosing.sizing import sizes_to_try
from steerable.training.choosing.speed import Machine
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.preparing import TrainingData, prepare_data
from steerable.training.requests.run_files import PLAN
from steerable.training.running.run import train

IN_IRREPS = "features.stage2_block1.body.0"


config = partial(request, recipe=load_recipe("demo", epochs=3, ema_decay=0.9), labels=100)


@pytest.fixture(scope="module")
def data() -> TrainingData:
    return prepare_data(config())


@pytest.fixture(scope="module")
def mixed(data: TrainingData) -> Plan:
    """A plan in which one layer runs through the Fourier transform; so small a network would not choose that itself."""

    def choose(network: nn.Module, x: torch.Tensor, *, cuda_graphs: bool = False) -> None:
        for name, layer in network.named_modules():
            if isinstance(layer, snn.Conv2d):
                layer.backend = "fourier" if name == IN_IRREPS else "dense"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snn, "choose_backends", choose)
        patch.setattr("steerable.training.choosing.planning.MEASURED_FROM", 1)
        plan = make_plan(config(), data)
    assert [name for name, way in plan.backends.items() if "fourier" in way] == [IN_IRREPS]
    return plan


@pytest.fixture(scope="module")
def whole(mixed: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of that plan, left alone."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(config(), folder, plan=mixed)
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """That run as it is when its results have not been written."""
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    (folder / "results.json").unlink()
    return folder


# ---------------------------------------------------------------- two values


def test_the_package_offers_what_users_import() -> None:
    for name in steerable.training.__all__:
        assert getattr(steerable.training, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        steerable.training.trian  # noqa: B018


def test_a_request_needs_no_lightning() -> None:
    code = "import sys; sys.modules['lightning'] = None; from steerable.training import RunConfig, load_recipe, Plan"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_plan_is_written_and_read_again(mixed: Plan, tmp_path: Path) -> None:
    mixed.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == mixed
    assert [*json.loads((tmp_path / "plan.json").read_text()), "shortened"] == list(PLAN)  # as it was once called


@pytest.mark.filterwarnings("ignore:only .* 0.03 minutes")  # on a busy machine
def test_the_request_stays_as_it_was_given_and_the_plan_leaves_nothing_open(tmp_path: Path) -> None:
    request = config(model={"name": "resnet", "head": "invariant"}, parameters=12_000, minutes=0.4, fit="shrink")
    results = train(request, tmp_path / "run")
    assert RunConfig.load(tmp_path / "run" / "config.json") == request
    plan = Plan.load(tmp_path / "run" / "plan.json")
    assert plan.settings.left_open == ["backend"]  # which is what `backends` says
    assert plan.differences(request) == []
    assert plan.settings.model == results["model"]
    assert plan.settings.model in sizes_to_try(request.model, 8)
    assert plan.epochs == results["epochs"]
    assert set(plan.backends.values()) == {"dense/dense/dense/dense"}
    assert (plan.data["channels"], plan.data["images"]["train"], plan.accelerator) == (1, 100, "cpu")
    assert train(request, tmp_path / "run") == results


def test_a_short_run_measures_nothing(data: TrainingData, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []

    def choose(network: nn.Module, x: torch.Tensor, *, cuda_graphs: bool = False) -> None:
        measured.extend({layer.backend for layer in network.modules() if isinstance(layer, snn.Conv2d)})

    monkeypatch.setattr(snn, "choose_backends", choose)
    for epochs in (3, 30):
        make_plan(config(recipe=load_recipe("demo", epochs=epochs)), data)
    make_plan(config(backend="fourier"), data)
    assert measured == ["auto", "fourier"]


def test_steps_are_timed_as_the_run_takes_them(
    mixed: Plan, data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With backends that were settled first: the speed that they gain becomes epochs."""
    timed: list[dict[str, str]] = []

    clock = [0.0]

    def step(module: Classifier, *_: object) -> None:
        timed.append(snn.recorded_backends(module.model))
        clock[0] += 0.1 if any("fourier" in way for way in timed[-1].values()) else 0.2

    monkeypatch.setattr("steerable.training.choosing.timing.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("steerable.training.choosing.timing.take_step", step)
    monkeypatch.setattr(snn, "choose_backends", lambda network, x, **_: snn.use_backends(network, mixed.backends))
    fast = make_plan(config(minutes=1.0), data)
    assert all(ways == mixed.backends for ways in timed)
    assert timed
    assert 220 < fast.settings.recipe.epochs < 290  # of two steps each


@pytest.mark.parametrize("backend", ["dense", "fourier"])
def test_a_backend_can_be_forced(backend: str, data: TrainingData) -> None:
    ways = set(make_plan(config(backend=backend), data).backends.values())
    assert {way.partition("[")[0].partition("/")[0] for way in ways} <= {backend, "dense"}
    assert any(way.startswith(backend) for way in ways)


# ---------------------------------------------------------------- repeating and resuming


def test_a_plan_repeats_a_run(whole: Path, mixed: Plan, tmp_path: Path) -> None:
    train(config(), tmp_path / "again", plan=whole / "plan.json")
    assert same_weights(whole, tmp_path / "again")
    assert Plan.load(tmp_path / "again" / "plan.json") == mixed
    train(config(backend="dense"), tmp_path / "dense")
    assert not same_weights(whole, tmp_path / "dense")  # else this would prove nothing


KILLED_WHEN: list[Callable[[Path], bool]] = [
    lambda run: (run / "plan.json").exists(),
    lambda run: (run / "config.json").exists(),
    lambda run: (run / "checkpoints" / "last.ckpt").exists(),
    lambda run: (run / "checkpoints" / "previous.ckpt").exists(),
    lambda run: (run / "model" / "config.json").exists(),
]


def test_a_run_with_fourier_layers_is_killed_five_times_and_ends_with_the_same_bits(
    whole: Path, tmp_path: Path
) -> None:
    """kill -9 while it writes its plan, before its first checkpoint, between epochs, while it writes results."""
    run = tmp_path / "run"
    options = ("--accelerator", "cpu", "--no-progress", "--json", "--checkpoint-seconds", "0")
    command = [sys.executable, "-m", "steerable.cli", "train", "digits", "--out", str(run), *options]
    command += ["--plan", str(whole / "plan.json")]
    for is_time in KILLED_WHEN:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while process.poll() is None and not is_time(run) and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not (run / "results.json").exists()
    subprocess.run(command, check=True, capture_output=True)
    assert same_weights(whole, run)


def test_validation_and_the_last_smaller_batch_run_as_planned(
    mixed: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, dict[str, str]]] = []
    forward = Classifier.forward

    def noting(self: Classifier, images: torch.Tensor) -> torch.Tensor:
        seen.append((self.best_model is self.averaged, snn.recorded_backends(self.best_model)))
        return forward(self, images)

    monkeypatch.setattr(Classifier, "forward", noting)
    train(config(), tmp_path / "run", plan=mixed)
    assert seen
    assert all(averaged and ways == mixed.backends for averaged, ways in seen)


# ---------------------------------------------------------------- bad input


def edited(run: Path, **changes: Any) -> None:
    values = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps({**values, **changes}))


def test_a_plan_of_another_version(run: Path) -> None:
    edited(run, version=7, unknown=[1])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="is a plan of version 7, and this program follows plans of version 1") as stop:
        train(config(), run)
    assert "put the file back as it was, or choose another run folder" in str(stop.value)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "1"}, "has '1' for `version`, expected 1"),
        ({"backends": None}, "has no `backends`, expected the backend of each convolution"),
        ({"backends": {}}, "the plan of this run cannot be followed here: the recorded backends say nothing about"),
        (
            {"backends": {"stem": "dense"}},
            "cannot be followed here: the recorded backends name a layer `stem`.* Or begin a new run in another folder",
        ),
        ({"backends": {"features.stem": "auto"}}, "is not the plan of a run: it leaves `features.stem` open"),
        ({"data": {"images": None, "digests": None}}, "for `data`, expected what is known of the run's images"),
        ({"threads": -1}, "has -1 for `threads`, expected a whole number"),
        ({"threads": 0}, "has 0 for `threads`, expected a whole number from 1"),
        ({"threads": 10**6}, "has 1000000 for `threads`, expected a whole number from 1 to 4096"),
        ({"data": {}}, "has {} for `data`, expected what is known of the run's images"),
        ({"settings": {}}, "is not the plan of a run: a run's config has no `dataset`"),
        ({"settings": config().to_dict()}, "it leaves `precision` open"),
    ],
)
def test_an_edited_plan_is_refused_in_words(changes: dict[str, Any], message: str, run: Path) -> None:
    edited(run, **changes)
    with pytest.raises(ValueError, match=message):
        train(config(), run)


def test_a_plan_that_contradicts_its_request(run: Path, mixed: Plan) -> None:
    replace(mixed, settings=replace(mixed.settings, seed=3)).save(run / "plan.json")
    with pytest.raises(
        ValueError, match=r"plan\.json` and `.*config\.json` differ in `seed`\. The run cannot continue"
    ):
        train(config(), run)


def test_a_plan_that_is_gone(run: Path) -> None:
    (run / "plan.json").unlink()
    with pytest.raises(ValueError, match=r"there is no file `.*plan\.json`\. The run cannot continue without its plan"):
        train(config(), run)


def test_a_given_plan_of_another_run_or_of_other_images(mixed: Plan, run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the plan was made for a run that differs in `seed`\. Give the settings"):
        train(config(seed=1), tmp_path / "other", plan=mixed)
    other = {**mixed.data, "digests": {**mixed.data["digests"], "train": "0" * 64}}
    with pytest.raises(ValueError, match="the plan was made for images other than those of `digits`"):
        train(config(), tmp_path / "other", plan=replace(mixed, data=other))
    assert not (tmp_path / "other").exists()
    wider = replace(mixed, settings=replace(mixed.settings, precision="bf16-mixed"))
    with pytest.raises(FileExistsError, match="holds a run that follows another plan; choose another folder"):
        train(config(), run, plan=wider)


def test_a_plan_goes_with_the_number_of_parameters_that_it_was_made_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan has the width, and the same command that made it, with the plan, says the parameters again."""
    monkeypatch.setattr("steerable.training.running.run.carry_out", lambda *_: {})
    said: dict[str, Any] = {"parameters": 11_000, "labels": 100, "accelerator": "cpu"}
    asked = configured("digits", {"name": "resnet", "head": "invariant"}, changes={"epochs": 1}, **said)
    plan = make_plan(asked, prepare_data(asked))
    again = repeated(plan, "digits", changes={"epochs": 1}, **said)
    assert again == asked  # so that either command resumes the run of the other
    train(again, tmp_path / "again", plan=plan)
    assert Plan.load(tmp_path / "again" / "plan.json") == plan
    with pytest.raises(ValueError, match=r"the plan was made for a network with copies=1, and parameters=500,000 lead"):
        train(repeated(plan, "digits", parameters=500_000), tmp_path / "other", plan=plan)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("winner", [torch.channels_last, torch.contiguous_format], ids=str)
def test_a_cpu_measures_the_memory_format(
    winner: torch.memory_format, data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steerable.training.choosing.timing.faster_memory_format", lambda *_, training: winner)
    monkeypatch.setattr("steerable.training.choosing.planning.MEASURED_FROM", 1)
    for found in (make_plan(config(), data), make_plan(config(minutes=1.0, fit="shorten"), data)):
        assert found.settings.channels_last == (winner is torch.channels_last)
    for said in ({"channels_last": False}, {"backend": "dense"}):  # the latter asks that nothing is measured
        assert not make_plan(config(**said), data).settings.channels_last


def test_the_plan_of_a_gpu_is_repeated_on_a_cpu(mixed: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steerable.training.running.run.carry_out", lambda *_: {})
    fast = replace(mixed.settings, precision="bf16-mixed", cuda_graphs=True, channels_last=True)
    on_gpu = replace(mixed, settings=fast, accelerator="gpu", backends={"stem": "fourier[triton]"})
    with pytest.warns(UserWarning, match="was planned for `gpu` and now runs on `cpu`"):
        train(repeated(on_gpu, "digits"), tmp_path / "run", plan=on_gpu)
    found = Plan.load(tmp_path / "run" / "plan.json")
    assert (found.accelerator, found.settings.precision, found.settings.cuda_graphs) == ("cpu", "32-true", False)


def test_the_command_refuses_what_contradicts_a_plan(whole: Path, tmp_path: Path) -> None:
    plan = ("--plan", str(whole / "plan.json"))
    outcome = command_line.steerable("train", "digits", "--out", "x", *plan, "--seed", "5", cwd=tmp_path, code=2)
    assert "error: the plan was made for a run that differs in `seed`." in outcome.stderr
    plan = ("--plan", str(whole))
    outcome = command_line.steerable("train", "digits", "--out", "x", *plan, "-mcopies=2", cwd=tmp_path, code=2)
    assert "error: the plan was made for a run that differs in `model`." in outcome.stderr
    request = ("--plan", str(whole / "config.json"))
    outcome = command_line.steerable("train", "digits", "--out", "x", *request, cwd=tmp_path, code=2)
    assert outcome.stderr.startswith(f"error: `{whole / 'config.json'}` has no `version`, expected 1.")
    outcome = command_line.steerable("train", "digits", "--out", "x", "--plan=~/nowhere.json", cwd=tmp_path, code=2)
    assert f"`{Path('~/nowhere.json').expanduser()}` does not exist." in " ".join(outcome.stderr.split())
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- other machines


def test_a_run_uses_the_threads_of_its_plan(whole: Path, mixed: Plan, tmp_path: Path) -> None:
    """Their number decides how gradients are rounded, and the machine's own number may be another one."""
    before = torch.get_num_threads()
    torch.set_num_threads(mixed.threads + 1)
    try:
        train(config(), tmp_path / "planned", plan=whole / "plan.json")
        assert torch.get_num_threads() == mixed.threads + 1
    finally:
        torch.set_num_threads(before)
    assert same_weights(whole, tmp_path / "planned")
    train(config(), tmp_path / "more threads", plan=replace(mixed, threads=mixed.threads + 1))
    assert not same_weights(whole, tmp_path / "more threads")  # else this would prove nothing


def test_another_kind_of_machine_plans_speed_anew_and_nothing_else(
    mixed: Plan, data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = replace(mixed.settings, precision="bf16-mixed", cuda_graphs=True, channels_last=True)
    on_gpu = replace(mixed, settings=fast, accelerator="gpu", backends={"stem": "fourier[triton]"})
    with pytest.warns(UserWarning, match="was planned for `gpu` and now runs on `cpu`"):
        found = plan_here(on_gpu, config(), data)
    assert (found.accelerator, found.settings.precision, found.settings.cuda_graphs) == ("cpu", "32-true", False)
    assert found.backends.keys() == mixed.backends.keys()
    assert found.settings.recipe == mixed.settings.recipe
    monkeypatch.setattr("steerable.training.choosing.planning.this_machine", lambda _: Machine("mps"))
    with pytest.warns(UserWarning, match="now runs on `mps`"):
        assert set(plan_here(mixed, config(), data).backends.values()) == {"dense/dense/dense/dense"}
