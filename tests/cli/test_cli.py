"""The command line: tables, JSON, exit codes, and refusals before anything long starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import command_line
import pytest

import steerable as st
from steerable import models
from steerable import nn as snn
from steerable.cli.commands import app
from steerable.data.datasets import DATASETS
from steerable.errors import one_of
from steerable.models.registry import models_for
from steerable.nn.backends.known import AUTO, BACKENDS
from steerable.training.requests.config import RunConfig
from steerable.training.requests.limits import OneOf
from steerable.training.requests.recipes import Recipe, recipe_names
from steerable.training.requests.settings import settings_of


def steerable(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from steerable.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("alloc_cpu.cpp:127: can't allocate memory: 131072 bytes\nmore"), RuntimeError("odd")],
)
def test_too_little_memory_is_a_line(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("steerable.figures.write_figures", fail)
    if "odd" in str(error):
        with pytest.raises(RuntimeError, match="odd"):
            command_line.steerable("figures", "--out", "x", cwd=tmp_path, code=2)
        return
    outcome = command_line.steerable("figures", "--out", "x", cwd=tmp_path, code=2)
    assert outcome.stderr.startswith("error: there is not enough memory. Smaller images or tiles, a smaller batch, or ")
    assert ("131072 bytes)" in outcome.stderr) == bool(str(error))
    assert outcome.stderr.count("\n") == 1


def test_reports_are_of_runs_that_are_there(tmp_path: Path) -> None:
    outcome = command_line.steerable("report", "~/no-such-run", cwd=tmp_path, code=2)
    assert f"`{Path('~/no-such-run').expanduser()}` does not exist" in " ".join(outcome.stderr.split())


def test_types_of_a_group() -> None:
    found = json.loads(steerable("types", "D4", "--json").stdout)
    capsules = {row["capsule"]: row for row in found["capsules"]}
    assert found["order"] == 8
    assert capsules["E"]["admits"] == ["odd", "concatenated", "scale-free concatenated", "norm"]
    assert capsules["qm"]["type"] == [1, 0, 1, 0, 1]
    assert "regular" in steerable("types", "C4").stdout


def test_types_of_an_infinite_group_begin_with_the_first() -> None:
    found = json.loads(steerable("types", "O2", "--json").stdout)
    capsules = {row["capsule"]: row for row in found["capsules"]}
    assert (found["order"], list(capsules)[:4]) == (None, ["A1", "A2", "E1", "E2"])
    assert (capsules["regular(2)"]["type"], capsules["qm(2)"]["admits"]) == ([1, 1, 2, 2], ["norm", "Fourier"])
    assert "sphere(2)" in steerable("types", "SO3").stdout
    for about in ("SO2 about z", "O2 about (1, 1, 1) with flips"):  # in space, with the functions of the plane
        assert "regular(2)" in steerable("types", about).stdout


def test_a_table_of_costs_is_not_cut_when_it_is_piped() -> None:
    lines = steerable("cost", "resnet", "--depth", "14", "--copies", "20").stdout
    assert "stage3.block2.conv2" in lines
    assert "…" not in lines


def test_cost_of_a_convolution_of_volumes() -> None:
    (row,) = json.loads(steerable("cost", "A1", "A1", "--group", "O", "--size", "8", "--json").stdout)["layers"]
    assert row["flops"] == 2 * 27 * 8**3
    options = ("--group", "T", "--depth", "8", "--copies", "1", "--in-channels", "1", "--size", "16", "--json")
    found = json.loads(steerable("cost", "resnet", *options).stdout)
    net = models.resnet(8, 1, axes=3, group="T", in_channels=1)
    assert found["parameters"] == sum(m.weight.numel() for m in net.modules() if isinstance(m, snn.Conv3d))


def test_cost_of_a_pair_and_of_the_papers_network() -> None:
    pair = json.loads(steerable("cost", "regular", "regular", "--json").stdout)
    assert (pair["parameters"], pair["layers"][0]["utilization"]) == (72, 8.0)
    network = json.loads(steerable("cost", "resnet", "--depth", "14", "--copies", "20", "--json").stdout)
    assert network["parameters"] == 9_077_620
    mixes = ("--stream", "regular", "--inner", "regular", "--in-channels", "1", "--depth", "8", "--copies", "2")
    grey = json.loads(steerable("cost", "resnet", *mixes, "--json").stdout)
    assert grey["layers"][0]["in_channels"] == 1
    net = models.resnet(8, 2, stream="regular", inner="regular", in_channels=1)
    assert grey["parameters"] == sum(m.weight.numel() for m in net.modules() if isinstance(m, snn.Conv2d))


@pytest.mark.parametrize("groups", ["D8,D4,D1", "C4"])
def test_costs_of_wide_networks(groups: str) -> None:
    options = ("--group", groups, "--depth", "10", "--width", "1", "--json")
    found = json.loads(steerable("cost", "wide_resnet", *options).stdout)
    net = models.wide_resnet(10, 1, groups=groups)
    assert found["parameters"] == sum(m.weight.numel() for m in net.modules() if isinstance(m, snn.Conv2d))
    assert {row["name"]: row["size"] for row in found["layers"]}["stage3.block1.conv1"] == 8


@pytest.mark.parametrize("group", ["SO2", "O2"])
def test_costs_of_all_rotations(group: str) -> None:
    found = json.loads(steerable("cost", "8*regular(2)", "4*E1", "--group", group, "--json").stdout)
    types = [st.FieldType(st.group_named(group), text) for text in ("8*regular(2)", "4*E1")]
    assert found["parameters"] == st.parameter_cost(*types, 3)


@pytest.mark.parametrize("group", ["C8", "D8", "D6"])
def test_costs_of_groups_off_the_grid(group: str) -> None:
    options = ("--group", group, "--depth", "8", "--copies", "1", "--kernel-size", "5", "--json")
    found = json.loads(steerable("cost", "resnet", *options).stdout)
    net = models.resnet(8, 1, group=group, kernel_size=5)
    assert found["parameters"] == sum(m.weight.numel() for m in net.modules() if isinstance(m, snn.Conv2d))
    assert json.loads(steerable("types", group, "--json").stdout)["order"] == net.group.order


STEERABLE = [name for name, entry in models_for("classification").items() if {"group", "groups"} & {*entry.options}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cost", "2*regular + F", "E"), "unknown capsule `F` of D4"),
        (("cost", "densenet"), "the name of a model, 'resnet' or 'wide_resnet'; got 'densenet'"),
        (("cost", "resnet", "--size", "2"), "their size must be at least 4; got 2"),
        (("types", "Z4"), "there is no group called 'Z4'"),
        (("train", "nothing", "--out", "x"), "neither a known data set nor an existing folder"),
        (("train", "digits", "--out", "x", "--recipe", "papper"), "unknown recipe 'papper'. Did you mean `paper`?"),
        (
            ("train", "digits", "--out", "x", "--model", "vgg"),
            f"a run trains a classifier, {one_of(models_for('classification'))}",
        ),
        (("train", "digits", "--out", "x", "-mcopies"), "written key=value"),
        (("train", "digits", "--out", "x", "-mcopys=2"), "resnet has no option `copys`. Did you mean `copies`?"),
        (
            ("train", "digits", "--out", "x", "--group", "D8", "-mgroup=D4"),
            "--group D8 and -m group=D4 say different groups. Give one of them",
        ),
        (
            ("train", "digits", "--out", "x", "--group", "C8", "--model", "plain_resnet"),
            f"--group C8 is for steerable networks, and plain_resnet is not one. Use --model {one_of(STEERABLE)}",
        ),
        (
            ("train", "digits", "--out", "x", "--group", "D4,D8", "--model", "wide_resnet"),
            "groups are three names, one per stage",
        ),
        (("train", "digits", "--out", "x", "--group", "X8"), "there is no group called 'X8'"),
        (("train", "digits", "--out", "x", "-mdepth=9"), "a residual network of 3 stages has a depth of"),
        (("train", "digits", "--out", "x", "--patience", "3"), "patience 3 watches the loss on validation images"),
        (
            ("train", "digits", "--out", "x", "--precision", "8"),
            "precision must be one of 32-true, bf16-mixed, 16-mixed",
        ),
        (
            ("train", "digits", "--out", "x", "--accelerator", "tpu"),
            "accelerator must be one of auto, cpu, gpu; got 'tpu'",
        ),
        (("train", "digits", "--out", "x", "--validation", "1.5"), "validation is a share below 1 or a number"),
        (("train", "digits", "--out", "x", "--params", "9", "-mcopies=2"), "and copies=2 gives it already"),
        (
            ("train", "digits", "--out", "x", "-mhead=tail"),
            "`head` must be one of linear, mirror, invariant, max; got 'tail'",
        ),
        (("train", "digits", "--out", "x", "-mcopies=many"), "ResNet: `copies` must be a whole number, got 'many'"),
        (("train", "digits", "--out", "x", "-mnum_classes=5"), "num_classes comes from the images"),
        (("train", "digits", "--out", "x", "-min_channels=7"), "in_channels comes from the images"),
        (("train", "digits", "--out", "x", "--params", "9"), "parameters=9 is too few: the smallest resnet"),
        (
            ("train", "digits", "--out", "x", "--params", "9000000000"),
            "number from 1 to 1,000,000,000; got 9000000000",
        ),
        (
            ("train", "digits", "--out", "x", "--minutes", "inf"),
            "a number above 0 and up to 1,000,000; got inf",
        ),
        (
            ("train", "digits", "--out", "x", "--seed", str(10**25)),
            "seed must be a whole number from 0 to 4,294,967,295",
        ),
        (
            ("train", "digits", "--out", "x", "--image-size", "100000"),
            "a whole number from 4 to 4,096; got 100000",
        ),
        (("train", "", "--out", "x"), "the data set's name is empty"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    run = command_line.steerable(*arguments, cwd=tmp_path, code=2)
    assert message in run.stderr
    assert run.stdout == ""
    assert not list(tmp_path.iterdir())


def test_a_mistake_has_no_traceback_in_a_process_of_its_own(tmp_path: Path) -> None:
    run = steerable("train", "nothing", "--out", str(tmp_path / "x"))
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("error: `nothing` is neither a known data set nor an existing folder.")


def test_a_run_folder_that_is_not_there_is_named_beside_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "runs" / "cells").mkdir(parents=True)
    (tmp_path / "runs" / "cells" / "config.json").touch()
    said = " ".join(steerable("evaluate", str(tmp_path / "runs" / "cels")).stderr.split())
    assert f"`{tmp_path / 'runs' / 'cels'}` does not exist. Run folders beside it: " in said
    assert f"`{tmp_path / 'runs' / 'cells'}`. `steerable train IMAGES` makes one" in said
    file = tmp_path / "runs" / "cells" / "config.json"
    assert "is a file, not a run folder" in " ".join(steerable("evaluate", str(file)).stderr.split())


def test_images_are_looked_for_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``--out=~/runs``; a shell leaves a quoted ``~`` as it is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    missing = " ".join(command_line.steerable("predict", str(tmp_path), "~/new", cwd=tmp_path, code=2).stderr.split())
    assert f"`{tmp_path / 'new'}` does not exist" in missing
    (tmp_path / "new").mkdir()
    there = command_line.steerable("predict", str(tmp_path), "~/new", cwd=tmp_path, code=2).stderr
    assert "does not exist" not in there
    assert "no results.json" in there


def test_the_help_of_train_comes_from_the_tables() -> None:
    """Every data set, model, option of a model, recipe and setting is named, without torch."""
    code = "import sys; from steerable.cli.commands import app; sys.stderr.write(str('torch' in sys.modules)); app()"
    command = [sys.executable, "-c", code, "train", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "900"})
    assert shown.stderr == "False"
    text = " ".join(shown.stdout.split())
    for name, entry in models_for("classification").items():
        assert f"{name}: {entry.help}." in text
    for name in (*DATASETS, *models_for("classification"), *recipe_names()):
        assert name in text
    for owner in (RunConfig, Recipe):
        for name, known in settings_of(owner).items():
            flag = (known.flags or (f"--{name.replace('_', '-')}",))[0]
            assert (flag in text) == known.option
            below = shown.stdout.partition(f"\n{known.panel or 'Options'}:\n")[2].partition("\n\n")[0]
            assert (f"  {flag}" in below) == known.option, "options stand under their headings"


def test_a_run_takes_the_backends_that_layers_take() -> None:
    whole = [name for name, backend in BACKENDS.items() if backend.is_whole]
    assert settings_of(RunConfig)["backend"].limit == OneOf((AUTO, *whole))


def test_help_and_version() -> None:
    shown = steerable("--help").stdout
    assert "train" in shown
    assert "..." not in shown.partition("Commands:")[2], "a command's first sentence fits its line"
    for command in app.registered_commands:  # paragraphs are broken where the terminal ends, not where the code is
        assert "\n" not in (command.help or "\n").replace("\n\n", "")
    assert steerable("--version").stdout.strip() == "0.1.0rc1"


@pytest.mark.parametrize(
    ("own", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "active"}, "None")],
    ids=["neither", "a count", "a policy"],
)
def test_threads_that_wait_leave_their_core_to_others(own: dict[str, str], expected: str) -> None:
    """The setting is there before torch is loaded; a user's own wins."""
    code = (
        "import os, sys; from steerable import cli; from steerable.cli import commands; "
        "commands.run = lambda: print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules); cli.main()"
    )
    ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in ours} | own
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.split() == [expected, "False"]


def test_a_command_ends_without_looking_for_garbage() -> None:
    """With torch loaded that takes a second, and ten on a busy machine."""
    code = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0)); from steerable import cli; "
        "from steerable.cli import commands; commands.run = lambda: None; cli.main()"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
