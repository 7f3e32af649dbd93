"""The experiments that train by themselves: their plans can be read, and runs go on where they were interrupted."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cell_images import write_cells

from steerable.atomic import write_json

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "experiments" / "rotated_digits"))
sys.path.insert(0, str(ROOT / "experiments" / "equivariance_error"))
sys.path.insert(0, str(ROOT / "experiments" / "equal_time"))
sys.path.insert(0, str(ROOT / "experiments" / "modelnet10"))
sys.path.insert(0, str(ROOT / "experiments" / "nuclei"))

import contest  # noqa: E402
import digit_images  # noqa: E402
import digit_networks  # noqa: E402
import digit_plan  # noqa: E402
import digit_runs  # noqa: E402
import digit_table  # noqa: E402
import filter_choice  # noqa: E402
import model_runs  # noqa: E402
import nuclei_runs  # noqa: E402
import turned_models  # noqa: E402
import turning_error  # noqa: E402

TINY = digit_plan.Run("C8", "C8", 0, 3000, 2, 4, 0.01, 0.0, 180.0)


def digits() -> digit_images.Digits:
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(8, 1, 28, 28, generator=generator), torch.arange(8)
    return digit_images.Digits(images, labels, images, labels)


def options(folder: Path) -> argparse.Namespace:
    return argparse.Namespace(bfloat16=False, accelerate=False, runs=folder, evaluate="validation")


def test_the_plan_has_every_group_with_three_seeds_and_equal_sizes() -> None:
    runs = digit_plan.planned()
    assert {run.group for run in runs} == {"C1", "C4", "C8", "C16", "D4", "D8", "SO2", "O2"}
    assert len({run.file_name for run in runs}) == len(runs)
    assert all([run.seed for run in runs if run.name == name] == [0, 1, 2] for name in {run.name for run in runs})
    for run in {run.group: run for run in runs}.values():
        fields = digit_networks.fitted_fields(run.group, 60_000, run.filter_choice)
        assert 40_000 < digit_networks.parameters_of(run.group, fields, run.filter_choice) <= 60_000


def test_mistakes_in_a_plan_are_refused() -> None:
    plan: dict[str, Any] = {"common": {"seeds": [0]}, "runs": [{"name": "a", "leek": 0.1}]}
    with pytest.raises(ValueError, match=r"no setting `leek`\. Did you mean `leak`"):
        digit_plan.planned(plan)
    with pytest.raises(ValueError, match=r"two runs of plan\.toml are called 'a'"):
        digit_plan.planned({"common": {"seeds": [0]}, "runs": [{"name": "a"}, {"name": "a"}]})


def test_an_interrupted_run_ends_with_the_same_numbers(tmp_path: Path) -> None:
    arguments, found = options(tmp_path), digits()
    whole = digit_runs.Training(TINY, found, arguments)
    whole.one_epoch()
    whole.save(tmp_path / "half.pt")
    whole.one_epoch()
    resumed = digit_runs.Training(TINY, found, arguments)
    resumed.resume(tmp_path / "half.pt")
    assert resumed.epoch == 1
    resumed.one_epoch()
    for one, two in zip(whole.network.state_dict().values(), resumed.network.state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def test_a_run_without_time_is_kept_and_a_finished_one_is_in_the_table(tmp_path: Path) -> None:
    arguments, found = options(tmp_path), digits()
    assert not digit_runs.carried_out(TINY, found, arguments, ends=-math.inf)
    assert [path.suffix for path in tmp_path.iterdir()] == [".pt"]
    assert digit_runs.carried_out(dataclasses.replace(TINY, epochs=1), found, arguments, ends=math.inf)
    (path,) = tmp_path.glob("*.json")
    result = json.loads(path.read_text())
    assert result["fields"] == list(digit_networks.fitted_fields("C8", 3000, TINY.filter_choice))
    line = digit_table.table([result]).splitlines()[2]
    assert line.startswith(f"| C8 | 8 validation images | {100 * result['error']:.2f} |")


def test_digits_are_turned_by_their_angles_and_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digit_images, "LEARN", 3)
    monkeypatch.setattr(digit_images, "TEST", 2)
    monkeypatch.setattr(digit_images, "HELD_OUT", 1)
    disc = np.hypot(*np.meshgrid(np.arange(28) - 13.5, np.arange(28) - 13.5)) < 6
    images = np.stack([disc * (40 * k + 50) for k in range(5)]).astype(np.uint8)
    arrays = digit_images.rotated(images, np.arange(5, dtype=np.uint8))
    labels = np.concatenate([arrays["train_labels"], arrays["test_labels"]])
    assert sorted(labels.tolist()) == [0, 1, 2, 3, 4]
    for image, label in zip(arrays["train_images"], arrays["train_labels"], strict=True):
        assert abs(int(image[13, 13]) - int(images[int(label), 13, 13])) <= 3  # a disc stays one
    np.savez(tmp_path / "digits.npz", **arrays)  # type: ignore[arg-type]
    found = digit_images.load_digits(tmp_path / "digits.npz", evaluate="validation", device=torch.device("cpu"))
    assert (len(found.images), len(found.measured_images)) == (2, 1)
    assert found.measured_labels.tolist() == arrays["train_labels"][-1:].tolist()


@pytest.mark.parametrize("group", ["C8", "SO2"])
def test_a_short_training_that_compares_filters(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_choice, "STEPS", 2)
    monkeypatch.setattr(filter_choice, "BATCH", 4)
    monkeypatch.setitem(filter_choice.FIELDS, group, (1, 1, 1, 1))
    run = {"group": group, "filters": "rings", "learning_rate": 0.01}
    found = [filter_choice.one_run(group, filters, 0, 0.01, digits()) for filters in ("rings", "rings", "default")]
    assert found[0] == found[1] != found[2]
    assert 0 <= found[0]["error"] <= 1
    assert found[0]["turning_trained"] > 0
    row = filter_choice.table([run | found[0], run | found[1]]).splitlines()[2]
    assert row.startswith(
        f"| {group} | rings | 0.01 | 2 | {found[0]['parameters']} | {100 * found[0]['error']:.2f} ± 0.00"
    )


def test_names_of_filters() -> None:
    assert filter_choice.filters_named("leak 0.05") == digit_networks.Filters(leak=0.05)
    assert filter_choice.filters_named("default") == digit_networks.Filters()


def test_invariance_is_exact_at_the_turns_of_the_grid() -> None:
    images = digits().images
    poses = [turning_error.turned(images, angle) for angle in (0, 90, 30)]
    features, parameters = turning_error.our_features("C4", 0, poses[0], None)
    upright, quarter, other = turning_error.errors(features, poses)
    assert parameters <= turning_error.PARAMETERS + 1000
    assert upright == 0
    assert quarter < 1e-4 < other


def test_models_are_turned_each_in_its_own_way() -> None:
    """A ball stays one, and a rod points elsewhere."""
    grid = np.stack(np.meshgrid(*[np.arange(16) - 7.5] * 3, indexing="ij"))
    ball, rod = np.sqrt((grid**2).sum(0)) < 5, (np.abs(grid[0]) < 7) & (np.hypot(grid[1], grid[2]) < 2)
    turned = turned_models.turned(np.stack([ball, rod, rod]), seed=0)
    assert turned.dtype == bool
    assert (turned[0] != ball).mean() < 0.03
    assert 0.8 < turned[1].sum() / rod.sum() < 1.2
    assert (turned[1] != turned[2]).sum() > rod.sum() / 3


def test_a_run_on_models_is_kept_and_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solid = np.zeros((20, 8, 8, 8), bool)
    for k in range(20):
        solid[k, 1:7, 1:7, : 1 + k % 10 // 2] = True
    labels = np.arange(20) % 10
    np.savez(tmp_path / "modelnet10.npz", X_train=solid, y_train=labels, X_test=solid[:10], y_test=labels[:10])
    (tmp_path / "plan.toml").write_text(
        """
        common = { recipe = "images", epochs = 1, seeds = [0], labels = [10, 0] }
        networks = [{ name = "plain", model = { name = "plain_resnet", depth = 8, width = 2 } }]
        """
    )
    monkeypatch.setattr(model_runs, "HERE", tmp_path)
    for _ in range(2):
        model_runs.main([str(tmp_path), "--runs", str(tmp_path / "runs"), "--labels", "10", "--turned"])
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.name != "turned"] == ["plain-10-turned-seed0"]
    line = model_runs.table(tmp_path / "runs").splitlines()[2]
    assert line.startswith("| plain | 10 | turned | ")
    assert line.endswith(" | 0 |")


def test_the_plan_of_models_has_four_networks_and_few_labels() -> None:
    runs = model_runs.planned(turned=True)
    assert len({run.folder for run in runs}) == len(runs) == 4 * 3 * 3
    assert {run.labels for run in runs} == {100, 500, 0}


def test_nuclei_are_looked_for_in_every_subset_and_runs_make_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = nuclei_runs.planned()
    folders = {run.folder(tmp_path, network) for run in runs for network in nuclei_runs.NETWORKS}
    assert len(folders) == 2 * len(runs) == 2 * 3 * 3
    for part, first, count in (("train", 0, 11), ("test", 11, 2)):
        write_cells(tmp_path / "data" / part, count, size=(32, 32), instances=True, first=first)
    config = nuclei_runs.config_of(runs[0], str(tmp_path / "data"), minutes=5.0)
    assert (config.labels, config.seed, config.minutes, config.model) == (10, 0, 5.0, {"name": "unet"})
    held_out = nuclei_runs.config_of(runs[0], str(tmp_path / "data"), minutes=5.0, evaluate="validation")
    assert (held_out.validation, held_out.evaluate) == (0.25, "validation")
    asked: list[Any] = []

    def trained(request: Any, folder: Path) -> dict[str, Any]:
        asked.append((request, folder.name))
        return {"parameters": 15_194, "model": {"name": "unet", "depth": 3}, "training_minutes": 4.6}

    monkeypatch.setattr(nuclei_runs, "train", trained)
    assert [*nuclei_runs.carried_out(runs[0], config, tmp_path)] == ["steerable", "plain"]
    (ours, _), (plain, folder) = asked
    assert (ours, folder) == (config, "plain-10-seed0")
    assert (plain.model, plain.parameters, plain.minutes) == ({"name": "plain_unet", "depth": 3}, 15_194, 5.0)
    assert plain.recipe.optimiser == "adamw"
    poses = {"class_dice": {"object": 0.75}, "average_precision": {"e": 0.5, "r": 0.25}}
    results = {"parameters": 15_194, "epochs": 40, "test_average_precision": 0.5, "poses": poses}
    write_json(nuclei_runs.Run("50", 1).folder(tmp_path / "runs", "plain") / "results.json", results)
    assert list(nuclei_runs.table(tmp_path / "runs"))[2:] == [
        "| 50 | plain | 15,194 | 40 | 0.750 | 0.500 | 0.375 | 1 |"
    ]


def test_the_table_of_the_contest_is_that_of_its_results() -> None:
    folder = ROOT / "experiments" / "equal_time"
    runs = json.loads((folder / "results.json").read_text("utf-8"))["runs"]
    assert contest.table(runs) in (folder / "README.md").read_text("utf-8")
    cells = {tuple(run[key] for key in contest.CELL) for run in runs}
    assert len(cells) == len(runs)
    assert {run["contestant"] for run in runs} == set(contest.CONTESTANTS)


def test_a_contest_that_goes_on_keeps_what_is_known_of_finished_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run(command: list[str], **options: Any) -> None:
        started.append(command)
        wide = command[command.index("--width") + 1] == "32"
        write_json(Path(command[command.index("--out") + 1]), {"accuracy": 0.75 if wide else 0.5, "epochs": 3})

    monkeypatch.setattr(contest.subprocess, "run", run)
    monkeypatch.setattr(
        contest, "environment", lambda: {"gpu": "", "cpu": "one", "git": "a", "versions": {"torch": ""}}
    )
    given = argparse.Namespace(folder=tmp_path / "images", runs=tmp_path, widths=[16, 32], processor_time=False)
    cell = dict(zip(contest.CELL, ("images", 1.0, "20", 1, "plain"), strict=True))
    first = contest.one_run(given, cell)
    evaluated = [
        command[command.index("--evaluate") + 1 :][:1] if "--evaluate" in command else [] for command in started
    ]
    assert evaluated == [["validation"], ["validation"], []], "two widths are tried, and the better one is run"
    assert (first["accuracy"], first["git"]) == (0.75, "a")
    monkeypatch.setattr(contest, "environment", lambda: {"gpu": "another", "git": "b", "versions": {"torch": ""}})
    assert contest.one_run(given, cell) == first
    assert len(started) == 3
