"""Tuning: runs that are measured on validation images, and experiments that never look at a test image."""

from __future__ import annotations

import json
import tomllib
from functools import partial
from pathlib import Path

import pytest
from small_runs import STEERABLE, request

from steerable.reporting.report import write_report
from steerable.training.learning.preparing import prepare_data
from steerable.training.learning.trainer import RunBatches
from steerable.training.running import results
from steerable.training.running.run import train
from steerable.training.trained_networks.trained_model import TrainedModel

EXPERIMENTS = Path(__file__).parent.parent.parent / "experiments"
TUNING = {
    "claim": "something to choose",
    "evaluate": "validation",
    "common": {"dataset": "digits", "labels": 60, "validation": 20, "recipe": {"name": "demo", "epochs": 1}},
    "runs": [
        {"name": "slow", "model": STEERABLE, "recipe": {"learning_rate": 0.01}, "seeds": [0]},
        {"name": "fast", "model": STEERABLE, "recipe": {"rates_by_sharing": True}, "seeds": [0, 1]},
    ],
}


@pytest.fixture(autouse=True)
def test_images_are_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever evaluates a network on test images, fails."""

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("test images were looked at")

    monkeypatch.setattr(RunBatches, "test_dataloader", forbidden)
    monkeypatch.setattr(results, "pose_report", forbidden)
    monkeypatch.setattr(results, "upright_scores", forbidden)
    monkeypatch.setattr(results, "worst_mistakes", forbidden)


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))


config = partial(request, validation=20)


@pytest.mark.parametrize("patience", [0, 1])
def test_a_run_for_tuning_has_a_validation_error_and_no_test_error(patience: int, tmp_path: Path) -> None:
    results = train(config(evaluate="validation", patience=patience), tmp_path / "run")
    assert results["validation_error"] == pytest.approx(1 - results["val_accuracy"])
    assert (results["labels"], results["poses"]) == (40, None)
    assert not [key for key in results if key.startswith("test")]
    assert not (tmp_path / "run" / "mistakes.json").exists()
    report = write_report([tmp_path / "run"], tmp_path / "report.html").read_text("utf-8")
    assert f"{results['validation_error']:.2%} error on its validation images; test images were not looked at" in report
    assert TrainedModel.load(tmp_path / "run").image_size == 8


def test_other_runs_do_look(tmp_path: Path) -> None:
    """The guard of this file is one."""
    with pytest.raises(AssertionError, match="test images were looked at"):
        train(config(), tmp_path / "run")


def test_bad_evaluations_are_refused() -> None:
    with pytest.raises(ValueError, match="evaluate is `validation`, and no images are held out for it"):
        config(evaluate="validation", validation=0)
    with pytest.raises(ValueError, match="evaluate must be one of test, validation; got 'train'"):
        config(evaluate="train")


def test_labels_per_class_are_given_once_and_for_classes_only() -> None:
    assert (
        prepare_data(config(labels=None, labels_per_class=7, validation=0, evaluate="test")).train.counts == (7,) * 10
    )
    with pytest.raises(ValueError, match=r"labels=20 and labels_per_class=7 both say how many .* Give one of the two"):
        config(labels=20, labels_per_class=7)
    with pytest.raises(ValueError, match=r"labels_per_class=7 is for classification.*Give labels"):
        config(task="segment", labels=None, labels_per_class=7)


def test_a_sweep_that_tunes_writes_validation_errors_and_its_table_says_so(tmp_path: Path) -> None:
    from sweep import configurations, run_one, summary
    from tables import table

    found = configurations(TUNING, None)
    assert [(name, c.seed, c.evaluate, c.validation) for name, c in found] == [
        ("slow", 0, "validation", 20),
        ("fast", 0, "validation", 20),
        ("fast", 1, "validation", 20),
    ]
    (folder := tmp_path / "tuning").mkdir()
    text = 'evaluate = "validation"\n' + "".join(f'[[runs]]\nname = "{run["name"]}"\n' for run in TUNING["runs"])
    (folder / "experiment.toml").write_text(text)
    before = table(folder)
    assert "| slow | not run yet | – | – | – |" in before
    rows = [run_one(name, c, tmp_path / f"{name}-{c.seed}") for name, c in found[1:]]
    errors = [100 * row["validation_error"] for row in rows]
    (fast,) = summary(TUNING, rows)
    assert fast["validation_error_percent"] == pytest.approx(sum(errors) / 2, abs=0.01)
    assert not [key for row in [*rows, fast] for key in row if key.startswith(("test", "all_poses"))]
    (folder / "results.json").write_text(json.dumps({"runs": rows}))
    after = table(folder)
    assert f"| fast | {sum(errors) / 2:.2f} | 0: {errors[0]:.2f}, 1: {errors[1]:.2f} |" in after
    assert "validation error" in after
    assert "no test image was looked at" in after


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"evalute": "validation"},
            r"the top of an experiment.toml has no setting `evalute`\. Did you mean `evaluate`",
        ),
        ({"common": {**TUNING["common"], "evaluate": "validation"}}, r"\[common\] of an .* no setting `evaluate`"),
        ({"runs": [{"name": "slow", "seeds": [0]}]}, "a run of an experiment.toml has `model`; 'slow' has none"),
        ({"runs": [TUNING["runs"][0], TUNING["runs"][0]]}, "two runs of an experiment.toml are called 'slow'"),
    ],
)
def test_a_misspelt_or_misplaced_setting_is_refused(changes: dict[str, object], message: str) -> None:
    """Else the experiment would be measured on test images."""
    from sweep import configurations

    with pytest.raises(ValueError, match=message):
        configurations({**TUNING, **changes}, None)


def test_results_of_other_settings_are_refused() -> None:
    from sweep import check_results, configurations

    planned = configurations(TUNING, None)
    recipe = planned[0][1].recipe.to_dict()
    row = {"name": "slow", "seed": 0, "model": STEERABLE, "recipe": recipe, "labels": 40, "validation_error": 0.5}
    check_results(TUNING, planned, [row])
    earlier = {key: value for key, value in recipe.items() if key != "optimiser"}  # when there was one only
    check_results(TUNING, planned, [{**row, "recipe": earlier}])
    check_results(TUNING, planned, [{"name": "slow", "seed": 0, "diverged": "at once", "recipe": recipe}])
    changes: dict[str, dict[str, object]] = {
        "model": {"model": {**STEERABLE, "copies": 2}},
        "recipe": {"recipe": {**recipe, "epochs": 7}},
        "number of labels": {"labels": 60},
    }
    for what, change in changes.items():
        with pytest.raises(ValueError, match=f"'slow', seed 0, with another {what} than"):
            check_results(TUNING, planned, [{**row, **change}])
    tested = {k: v for k, v in row.items() if k != "validation_error"} | {"test_error": 0.5}
    with pytest.raises(ValueError, match="with another kind of error"):
        check_results(TUNING, planned, [tested])


def test_the_experiments_on_cifar_can_be_continued() -> None:
    from sweep import check_results, configurations

    for file in sorted(EXPERIMENTS.glob("cifar10_*/results.json")):
        experiment = tomllib.loads((file.parent / "experiment.toml").read_text("utf-8"))
        rows = json.loads(file.read_text("utf-8"))["runs"]
        check_results(experiment, configurations(experiment, None), rows)


def test_tables_whose_end_is_missing_are_noticed() -> None:
    from tables import updated

    with pytest.raises(SystemExit, match="1 tables begin on a page and 0 end there"):
        updated("<!-- table cifar10_50k -->\n<!-- end-->\n")
