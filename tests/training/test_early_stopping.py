"""The best weights and the end of a run are decided by the validation loss, also across kills."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import warnings
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from small_runs import Killed, killed_in, request, same_weights, weights

from steerable.models.registry import MODELS
from steerable.reporting.run_records import read_runs
from steerable.training.choosing import fitting, timing
from steerable.training.choosing.fitting import fitted_to_minutes
from steerable.training.choosing.sizing import count_parameters, size_in_words, sized_model, sizes_to_try, with_depth
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.early_stopping import KeepBest
from steerable.training.learning.preparing import make_classifier, prepare_data
from steerable.training.requests.config import RunConfig
from steerable.training.requests.plan import Plan
from steerable.training.requests.recipes import load_recipe
from steerable.training.running.run import train

MODEL = {"name": "plain_resnet", "depth": 8, "width": 4}


config = partial(
    request,
    model=MODEL,
    recipe=load_recipe("demo", epochs=12, learning_rate=0.8),  # so fast that the loss soon rises again
    labels=200,
    validation=60,
    patience=2,
)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("early") / "run"
    train(config(), folder)
    return folder


def losses(folder: Path) -> dict[int, float]:
    return read_runs([folder])[0].curves["val_loss"]


def test_the_run_ends_after_its_patience_with_the_best_weights(stopped: Path) -> None:
    results, curve = json.loads((stopped / "results.json").read_text()), losses(stopped)
    best = min(curve, key=curve.__getitem__)
    assert results["best_epoch"] == best < max(curve)
    assert results["epochs"] == max(curve) == best + 2 < 12
    assert results["val_loss"] == pytest.approx(curve[best], rel=1e-5)
    data = prepare_data(config())
    module = make_classifier(config(), data)
    module.best_model.load_state_dict(weights(stopped))
    assert data.validation is not None
    with torch.no_grad():
        scores = module.eval()(data.validation.images)
    loss = torch.nn.functional.cross_entropy(scores, data.validation.labels)
    assert float(loss) == pytest.approx(curve[best], rel=1e-4)


@pytest.mark.parametrize("moment", ["before the best epoch", "after the best epoch", "after the last epoch"])
def test_a_killed_run_stops_at_the_same_epoch_with_the_same_weights(
    moment: str, stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = json.loads((stopped / "results.json").read_text())
    best, last = results["best_epoch"], results["epochs"]
    epoch = {"before the best epoch": best - 1, "after the best epoch": best + 1, "after the last epoch": last}[moment]
    with monkeypatch.context() as patch, killed_in(epoch):

        def dying_restore(self: KeepBest, module: Classifier) -> None:
            raise Killed

        if epoch == last:
            patch.setattr(KeepBest, "restore", dying_restore)
        train(config(), tmp_path / "run")
    assert not (tmp_path / "run" / "results.json").exists()
    again = train(config(), tmp_path / "run")
    for key in ("best_epoch", "epochs", "val_loss", "val_accuracy", "test_accuracy", "poses"):
        assert again[key] == results[key], key
    assert same_weights(stopped, tmp_path / "run")
    assert losses(tmp_path / "run") == losses(stopped)


def test_without_patience_the_last_weights_are_kept(tmp_path: Path) -> None:
    results = train(
        config(patience=0, recipe=load_recipe("demo", epochs=2), labels=60, validation=20), tmp_path / "run"
    )
    assert results["epochs"] == 2
    assert "best_epoch" not in results


def test_a_loss_that_is_never_finite(tmp_path: Path) -> None:
    keeper = KeepBest(3)
    assert keeper.loss == math.inf
    module = make_classifier(config(), prepare_data(config()))
    before = {key: value.clone() for key, value in module.best_model.state_dict().items()}
    with pytest.warns(UserWarning, match=r"validation loss was never finite.*Use a lower learning rate"):
        keeper.restore(module)
    assert all(torch.equal(value, before[key]) for key, value in module.best_model.state_dict().items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validation": 0}, r"patience 2 watches the loss on validation images, and none are held out"),
        ({"patience": -1}, "patience must be a whole number from 0 to 1,000,000,000; got -1"),
        ({"seed": -1}, "seed must be a whole number from 0 to 4,294,967,295; got -1"),
        ({"validation": 1.5}, "validation is a share below 1 or a number of images, got 1.5"),
        ({"minutes": 0.0}, "minutes must be a number above 0 and up to 1,000,000; got 0.0"),
        ({"parameters": 0}, "parameters must be a whole number from 1 to 1,000,000,000; got 0"),
        ({"parameters": 5000}, "parameters=5,000 chooses the network's width, and width=4 gives it already"),
        ({"fit": "slow"}, "fit must be one of stretch, shorten, shrink; got 'slow'"),
        ({"precision": "8"}, "precision must be one of 32-true, bf16-mixed, 16-mixed, auto; got '8'"),
        ({"cuda_graphs": True, "devices": 2}, "cuda_graphs works on one device only; got 2 devices"),
        ({"accelerator": "abacus"}, "accelerator must be one of auto, cpu, gpu; got 'abacus'"),
        ({"image_size": 2}, "image_size must be a whole number from 4 to 4,096; got 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config(**changes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"torch finds no GPU on this machine\. Use `auto` or `cpu`"):
        train(config(accelerator="gpu"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("model", [{"name": "resnet", "depth": 8, "head": "invariant"}, {"name": "plain_resnet"}])
@pytest.mark.parametrize("wanted", [1, 40_000, 150_000])
def test_the_width_comes_nearest_to_a_number_of_parameters(model: dict[str, Any], wanted: int) -> None:
    kind = {"in_channels": 1, "num_classes": 4}
    option = "copies" if model["name"] == "resnet" else "width"
    sized = sized_model(model, wanted, **kind)
    width = sized[option]
    gaps = [abs(count_parameters({**kind, **model, option: w}) - wanted) for w in range(max(1, width - 1), width + 2)]
    assert abs(count_parameters({**kind, **sized}) - wanted) == min(gaps)


def test_a_depth_is_chosen_only_for_models_that_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_depth({"name": "resnet"}, shallow=True) == {"name": "resnet", "depth": 8}
    assert with_depth({"name": "resnet", "depth": 14}, shallow=True) == {"name": "resnet", "depth": 14}
    monkeypatch.setitem(MODELS, "flat", dataclasses.replace(MODELS["resnet"], options={}))
    assert with_depth({"name": "flat"}, shallow=True) == {"name": "flat"}


def test_time_shortens_the_schedule_of_a_network_whose_size_is_given() -> None:
    asked = config(model={"name": "plain_resnet"}, parameters=200_000, fit="shorten", recipe=load_recipe("images"))
    data = prepare_data(asked)
    with pytest.warns(UserWarning, match=r"only \d+ epochs? fits? the time, fewer than the 30 .* give --minutes 1, or"):
        short = fitted_to_minutes(asked, data, 0.005)
    assert short.recipe.epochs < 30
    assert short.parameters == 200_000
    plenty = fitted_to_minutes(
        RunConfig(**{**vars(asked), "labels": 40, "recipe": load_recipe("demo", epochs=1)}), data, 1
    )
    assert plenty.recipe.epochs == 1


@pytest.mark.parametrize("name", ["resnet", "plain_resnet"])
def test_the_largest_network_that_has_enough_epochs_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of the n-th size takes n times as long as one of the first; the clock is not asked."""
    recipe = load_recipe("images", batch_size=4)
    asked = config(model={"name": name}, parameters=100_000, fit="shrink", patience=35, recipe=recipe)
    data = prepare_data(asked)
    sizes = sizes_to_try(asked.model, max(data.train.image_size))

    def found(first: float, batch_size: int = 4, used: float = 0.0) -> RunConfig:
        def epochs(end: float, config: RunConfig, data: object, *, settle: bool) -> timing.Fit:
            return timing.Fit(first / (1 + sizes.index(config.model)), epoch=120.0, test=300.0)

        monkeypatch.setattr(fitting, "epochs_within", epochs)
        changed = dataclasses.replace(recipe, batch_size=batch_size)
        return fitted_to_minutes(dataclasses.replace(asked, recipe=changed), data, 5, used)

    assert (found(1e6).model, found(1e6).recipe.epochs) == (sizes[-1], 100)
    assert found(1e6, batch_size=70).recipe.epochs == 1500, "few images have more epochs than the recipe"
    assert found(1e6, batch_size=70).patience == 525
    chosen = found(100)
    assert chosen.model == sizes[2]
    assert (chosen.recipe.epochs, chosen.patience, chosen.parameters) == (33, 12, None)
    with pytest.warns(UserWarning, match="only 10 epochs fit the time"):
        assert found(10).model == sizes[0]
    with pytest.raises(ValueError, match=r"can be trained for 0.5 epochs .* too little to learn .* at least --minutes"):
        found(0.5)
    with pytest.raises(
        ValueError, match=r"the test take all of --minutes 5, and no time is left.*least --minutes 1\d,"
    ):
        found(0)
    with pytest.raises(ValueError, match=r"at least --minutes 3\d, or"):  # what reading takes, it takes again
        found(0, used=20)


def test_sizes_are_exact_and_keep_what_the_user_says() -> None:
    for side in (8, 20, 24, 28, 32, 40, 64, 96, 128, 256):
        sizes = sizes_to_try({"name": "resnet", "head": "invariant"}, side)
        assert all(side % (4 * size.get("stem", 1)) == 0 for size in sizes)
        assert all(size["head"] == "invariant" for size in sizes)
        assert all(a != b for a, b in itertools.combinations(sizes, 2))
    assert {size["copies"] for size in sizes_to_try({"name": "resnet", "copies": 5}, 64)} == {5}
    assert {size["stem"] for size in sizes_to_try({"name": "resnet", "stem": 1}, 64)} == {1}


def test_a_run_fitted_to_a_time_is_resumed_as_it_was_fitted(tmp_path: Path) -> None:
    asked = config(minutes=0.2, fit="shrink", parameters=20_000, model={"name": "plain_resnet"}, patience=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = train(asked, tmp_path / "run")
    assert RunConfig.load(tmp_path / "run" / "config.json") == asked
    plan = Plan.load(tmp_path / "run" / "plan.json")
    fitted = plan.settings
    assert asked.as_settled_in(fitted).differences(fitted) == []
    assert plan.epochs == first["epochs"]
    assert train(asked, tmp_path / "run") == json.loads(json.dumps(first))
    with pytest.raises(FileExistsError, match=r"holds a run that differs in .*minutes"):
        train(config(minutes=0.3, fit="shrink", parameters=20_000, model={"name": "plain_resnet"}), tmp_path / "run")


def test_a_run_says_which_size_it_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sizes_to_try({"name": "resnet"}, 64)
    chosen = config(fit="shrink", minutes=5.0, model=sizes[2])
    assert size_in_words(chosen, 64) == " (stem 4, depth 8, copies 2: the largest of 7 sizes that has enough epochs)"
    assert "the fastest of 7 sizes" in size_in_words(config(fit="shrink", minutes=5.0, model=sizes[0]), 64)
    assert "6: the largest of 7 sizes)" in size_in_words(config(fit="shrink", minutes=5.0, model=sizes[-1]), 64)
    assert size_in_words(config(minutes=5.0), 64) == ""
    monkeypatch.setitem(MODELS, "resnet", dataclasses.replace(MODELS["resnet"], sizes=()))  # there was no choice
    assert size_in_words(chosen, 64) == ""


def test_a_run_that_was_lengthened_is_the_more_patient() -> None:
    module = make_classifier(config(recipe=load_recipe("demo", epochs=10)), prepare_data(config()))
    keeper = KeepBest(4)
    for epochs_done, best, rescheduled, exhausted in (
        (6, 2, (), True),
        (6, 2, ((3, 15),), False),  # 6 of 15 epochs
        (8, 2, ((3, 15),), True),
        (6, 2, ((6, 15),), True),  # a change counts from the next epoch on
        (6, 2, ((3, 15), (4, 8)), True),  # the run is shorter than planned, and as patient as planned
        (5, 2, ((3, 15), (4, 8)), False),
    ):
        keeper.epochs_done, keeper.epoch, module.rescheduled = epochs_done, best, rescheduled
        assert keeper.exhausted(module) is exhausted


@pytest.mark.parametrize("images", [20, 64, 72, 100])
def test_the_time_of_an_epoch_counts_a_small_last_batch_for_what_it_is(
    images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step takes so long for each image; the clock moves in steps alone."""
    asked = config(recipe=load_recipe("images"), labels=images, validation=0, patience=0)
    data, now = prepare_data(asked), [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def step(module: object, optimiser: object, images: torch.Tensor, labels: torch.Tensor) -> None:
        now[0] += 0.01 * len(labels)

    monkeypatch.setattr(timing, "take_step", step)
    found = timing.epochs_within(1000.0, asked, data, settle=False)
    left = timing.SPARE * (1000 - now[0]) - 0.01 * timing.images_to_test(asked, data) / 3
    assert found.epochs == pytest.approx(left / (0.01 * images + timing.BETWEEN_EPOCHS))
    assert 60 * found.minutes_for(found.epochs) == pytest.approx(1000 - now[0])  # reading it the other way round


def test_slow_steps_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine three steps of a network that is too large take half a minute."""
    asked, now, steps = config(recipe=load_recipe("images"), labels=72, validation=0, patience=0), [0.0], []
    data = prepare_data(asked)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])

    def step(*_: object) -> None:
        now[0] += 10.0
        steps.append(now[0])

    monkeypatch.setattr(timing, "take_step", step)
    assert 0 < timing.epochs_within(1000.0, asked, data, settle=False).epochs < 100
    assert len(steps) <= 3  # the one that is not counted, and that of a small last batch


@pytest.mark.parametrize(("wanted", "depth"), [(12_000, 8), (20_000, 14), (45_000, 8), (100_000, 8)])
def test_a_number_of_parameters_is_met_by_depth_as_well(wanted: int, depth: int) -> None:
    """Of depth 8 the first widths have 11,000 and 44,000 parameters, of depth 14 23,000 and 92,000."""
    asked = dataclasses.replace(request(), model={"name": "resnet", "head": "invariant"}, parameters=wanted)
    data = prepare_data(asked)
    sized = fitting.with_sized_model(asked, data).model
    assert sized["depth"] == depth
    kind = {"in_channels": data.train.channels, "num_classes": len(data.train.classes)}
    assert count_parameters({**kind, **sized}) == pytest.approx(wanted, rel=0.2)


@pytest.mark.parametrize(("images", "advice"), [(6, ""), (60, ", or --labels 2")])
def test_a_run_without_labels_is_not_advised(images: int, advice: str) -> None:
    held = MagicMock(classes=("cat", "dog"), counts=(images // 2, images // 2))
    held.__len__.return_value = images
    with pytest.warns(UserWarning, match=f"give --minutes 30{advice}\\.$"):
        fitting._warn_of_few(1, 30.0, held, None)
