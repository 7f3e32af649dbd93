"""Runs that end on time: a schedule that does not fit is changed, and what was decided is followed to the letter."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from lightning.pytorch import Trainer
from small_runs import killed_in, request, same_weights

from steerable.training import Plan, RunConfig, load_recipe
from steerable.training.choosing.planning import make_plan
from steerable.training.learning.checkpoints import has_checkpoint
from steerable.training.learning.preparing import TrainingData, prepare_data
from steerable.training.running.deadline import Deadline
from steerable.training.running.run import train

EPOCHS = 12


config = partial(
    request,
    recipe=load_recipe("demo", epochs=EPOCHS, batch_size=100),
    labels=100,
    validation=20.0,
    minutes=1.0,
    fit="shorten",
)


@pytest.fixture(scope="module")
def data() -> TrainingData:
    return prepare_data(config())


@pytest.fixture(scope="module", autouse=True)
def as_many_epochs_as_requested() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steerable.training.choosing.planning.fitted_to_minutes", lambda settings, *_: settings)
        yield


@pytest.fixture(scope="module")
def plan(data: TrainingData) -> Plan:
    return make_plan(config(), data)


# ---------------------------------------------------------------- the schedule


@pytest.mark.parametrize("name", ["images", "paper"])
def test_a_schedule_that_is_not_changed_is_the_recipes_to_the_bit(name: str) -> None:
    recipe = load_recipe(name, epochs=70)
    for epoch in (0, 1 / 3, 7.7, 69.99, 70):
        assert recipe.learning_rate_at(epoch, ()) == recipe.learning_rate_at(epoch)
        assert recipe.learning_rate_at(epoch, [(71, 71)]) == recipe.learning_rate_at(epoch)


def test_the_rest_of_a_schedule_is_spread_over_the_epochs_that_fit() -> None:
    recipe = load_recipe("images", epochs=100)
    once, twice, back = [(40, 70)], [(40, 70), (50, 60)], [(40, 70), (50, 110)]
    assert recipe.learning_rate_at(40, once) == recipe.learning_rate_at(40)
    assert recipe.learning_rate_at(55, once) == pytest.approx(recipe.learning_rate_at(70))  # half of the rest
    assert recipe.learning_rate_at(50, twice) == recipe.learning_rate_at(50, once)
    assert recipe.learning_rate_at(55, twice) == pytest.approx(recipe.learning_rate_at(80))
    assert recipe.learning_rate_at(80, back) == pytest.approx(recipe.learning_rate_at(80))  # half of 60 to 100
    for epochs, changes in ((70, once), (60, twice), (110, back), (40, [(40, 40)])):
        at_end = recipe.learning_rate_at(epochs, changes)
        assert at_end == pytest.approx(0, abs=1e-12) or epochs == 40
        rates = [recipe.learning_rate_at(5 + k / 10, changes) for k in range(10 * epochs - 50)]
        assert rates == sorted(rates, reverse=True)


# ---------------------------------------------------------------- what fits


def test_a_machine_that_loads_slowly_gets_time_to_end_slowly(plan: Plan, data: TrainingData) -> None:
    quick, slow = (
        Deadline(plan, Path("plan.json"), data, 0.0, 100, loading=seconds)._seconds_to_finish(0.1)
        for seconds in (2.0, 30.0)
    )
    assert slow - quick == pytest.approx(0.3 * 30 - 60 / 36)  # of a minute, a 36th suffices where loading is quick


def deadline(
    plan: Plan, data: TrainingData, epochs: list[float], validation: float = 0.0, most: int = EPOCHS
) -> Deadline:
    """A run of a minute that began at 0 and has seen these epochs."""
    found = Deadline(plan, Path("plan.json"), data, 0.0, most)
    found.end, found.epochs, found.validation = 60.0, epochs, validation
    return found


@pytest.mark.parametrize(
    ("epochs", "now", "validation", "expected"),
    [
        ([2.0, 2.0, 2.0], 6.0, 0.0, EPOCHS),  # 18 seconds of 52 are needed
        ([5.0, 6.0, 6.0], 17.0, 0.0, 9),  # 54 needed, 41 left: 40 are six epochs
        ([30.0, 2.0, 2.0], 34.0, 0.0, EPOCHS),  # the first one is not typical
        ([9.0], 9.0, 0.0, EPOCHS),  # one epoch says little, and there is time to wait
        ([20.0], 20.0, 0.0, 2),  # it says enough where it is long
        ([2.0, 2.0, 2.0], 30.0, 0.0, EPOCHS),
        ([2.0, 2.0, 2.0], 30.0, 0.1556, 5),  # the test takes 22 seconds, and less than 6 are left
        ([2.0, 2.0, 2.0], 70.0, 0.0, 3),  # nothing more
    ],
)
def test_what_fits_a_minute(
    epochs: list[float], now: float, validation: float, expected: int, plan: Plan, data: TrainingData
) -> None:
    found = deadline(plan, data, epochs, validation)
    assert found.epochs_that_fit(len(epochs), EPOCHS, now) == expected


@pytest.mark.parametrize(
    ("epochs", "now", "changed", "expected"),
    [
        ([2.0, 2.0, 2.0], 6.0, 0.0, 28),  # 52 seconds are left, and 51 of them are 25 epochs
        ([1.0, 1.0, 1.0], 6.0, 0.0, 40),  # no more than the run may have
        ([5.6, 5.6, 5.6], 6.0, 0.0, EPOCHS),  # 50.4 of 52.5 seconds are needed, which is near enough
        ([2.0, 2.0, 2.0], 6.0, 4.0, EPOCHS),  # two seconds ago the schedule was changed
        ([2.0], 2.0, 0.0, EPOCHS),  # one epoch says little
    ],
)
def test_a_run_that_is_quicker_than_planned_is_longer(
    epochs: list[float], now: float, changed: float, expected: int, plan: Plan, data: TrainingData
) -> None:
    found = deadline(plan, data, epochs, most=40)
    found.changed = changed
    assert found.epochs_that_fit(len(epochs), EPOCHS, now) == expected


def test_minutes_for_more_epochs_are_those_that_epochs_take(plan: Plan, data: TrainingData) -> None:
    """Reading and loading, which may have taken nearly all of a minute, are not multiplied."""
    found = deadline(plan, data, [30.0, 3.0, 3.0])
    assert found.told == EPOCHS
    assert "The run ends after 3, " in found._in_words(3, 3)
    assert found._in_words(3, 3).endswith("That is little; --minutes 3 would be enough for 30.")  # 1 and 27 · 3 s


@pytest.mark.parametrize("factor", [0.75, 0.9, 1.1, 1.4])
@pytest.mark.parametrize("epoch", [0.3, 1.0, 4.0])
def test_the_whole_time_is_used_and_not_more(factor: float, epoch: float, plan: Plan, data: TrainingData) -> None:
    """Epochs take another time than was planned, and vary by 5 %; the test takes what an epoch says."""
    minutes = 3.0
    found = deadline(replace(plan, settings=replace(plan.settings, minutes=minutes)), data, [], most=10_000)
    now, done, planned = 20.0, 0, int(150 / epoch)
    found.end, found.changed, found.validation = 60 * minutes, now, 1.0
    changes = 0
    while done < planned:
        done += 1
        found.epochs.append(factor * epoch * (1.05 if done % 2 else 0.95))
        now += found.epochs[-1]
        before, planned = planned, found.epochs_that_fit(done, planned, now) if done < planned else planned
        if before != planned:
            found.changed, changes = now, changes + 1
    end = now + found._seconds_to_finish(factor * epoch)
    assert 0.94 * 60 * minutes - factor * epoch <= end <= 60 * minutes
    assert changes <= 12


# ---------------------------------------------------------------- runs


DECIDED = {2: 13, 3: 8, 5: 7}
"""After the second epoch there is time for 13, after the third for eight, after the fifth for seven."""


def slow(deadline: Deadline, done: int, planned: int, now: float) -> int:
    return DECIDED.get(done, planned)


def no_clock(*_: object) -> int:
    raise AssertionError("a clock was looked at")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was lengthened once and shortened twice, left alone."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deadline, "epochs_that_fit", slow)
        assert train(config(), folder, tell=said.append)["epochs"] == 7
    assert not any("After epoch 2" in line for line in said), "one epoch more or less is not worth a line"
    assert "After epoch 3: 12 epochs would take longer than 1 minute. The run ends after 8, and its" in said[-2]
    assert "After epoch 5: 8 epochs would take longer than 1 minute. The run ends after 7, and its" in said[-1]
    return folder


def test_the_plan_says_when_the_end_of_the_run_was_moved(whole: Path) -> None:
    assert json.loads((whole / "plan.json").read_text())["rescheduled"] == [[2, 13], [3, 8], [5, 7]]
    plan = Plan.load(whole / "plan.json")
    assert (plan.rescheduled, plan.epochs, plan.settings.recipe.epochs) == (((2, 13), (3, 8), (5, 7)), 7, EPOCHS)
    assert plan.differences(config()) == []
    assert json.loads((whole / "results.json").read_text())["epochs"] == 7


def test_a_run_that_repeats_the_plan_looks_at_no_clock(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "epochs_that_fit", no_clock)
    assert train(config(), tmp_path / "again", plan=whole / "plan.json")["epochs"] == 7
    assert same_weights(whole, tmp_path / "again")
    assert Plan.load(tmp_path / "again" / "plan.json") == Plan.load(whole / "plan.json")


@pytest.mark.parametrize("epoch", [1, 4, 6])
def test_a_run_that_is_killed_and_resumed_ends_with_the_same_bits(
    epoch: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "epochs_that_fit", slow)
    with killed_in(epoch):
        train(config(), tmp_path)
    said: list[str] = []
    was_saved = has_checkpoint(tmp_path / "checkpoints")
    assert train(config(), tmp_path, tell=said.append)["epochs"] == 7
    assert was_saved == ("This run was begun earlier and continues from its last checkpoint." in said)
    assert was_saved or epoch == 1
    assert same_weights(whole, tmp_path)


def test_what_the_plan_has_decided_is_not_decided_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last checkpoint may be older than the plan's last change."""
    asked: list[int] = []

    def note(deadline: Deadline, done: int, planned: int, now: float) -> int:
        asked.append(done)
        return planned

    run = Path(shutil.copytree(whole, tmp_path / "run", ignore=shutil.ignore_patterns("results.json", "checkpoints")))
    monkeypatch.setattr(Deadline, "epochs_that_fit", note)
    train(config(), run)
    assert asked == [6]
    assert same_weights(whole, run)


def test_a_resumed_run_has_the_minutes_that_are_left(
    tmp_path: Path, plan: Plan, data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steerable.training.running.deadline.minutes_trained", lambda _: 0.25)
    found = deadline(plan, data, [])
    found.on_train_start(Trainer(logger=False, enable_checkpointing=False, accelerator="cpu"), None)  # type: ignore[arg-type]
    assert found.end == pytest.approx(45.0)


def test_runs_without_minutes_and_plans_of_the_last_revision_are_not_timed(
    whole: Path, data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_plan(config(minutes=None), data).rescheduled is None
    values = json.loads((whole / "plan.json").read_text())
    del values["rescheduled"]
    (tmp_path / "plan.json").write_text(json.dumps(values))
    assert Plan.load(tmp_path / "plan.json").rescheduled is None
    shutil.copy(whole / "config.json", tmp_path)
    monkeypatch.setattr(Deadline, "epochs_that_fit", no_clock)
    assert train(config(), tmp_path)["epochs"] == EPOCHS


@pytest.mark.parametrize("name", ["rescheduled", "shortened"])
@pytest.mark.parametrize("changes", [3, [[3]], [[0, 8]], [[9, 8]], [[3, 8], [2, 7]], [[3, 8], [5, 8]]])
def test_edited_changes_of_the_schedule_are_refused(name: str, changes: object, whole: Path, tmp_path: Path) -> None:
    values = json.loads((whole / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**values, name: changes}))
    with pytest.raises(ValueError, match=f"for `{name}`, expected pairs of epochs that were done"):
        Plan.load(tmp_path / "plan.json")


def test_a_plan_of_the_last_revision_was_shortened(whole: Path, tmp_path: Path) -> None:
    values = json.loads((whole / "plan.json").read_text())
    values["shortened"] = values.pop("rescheduled")[1:]
    (tmp_path / "plan.json").write_text(json.dumps(values))
    assert Plan.load(tmp_path / "plan.json").rescheduled == ((3, 8), (5, 7))


def test_a_run_that_is_lengthened_has_the_epochs_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Deadline, "epochs_that_fit", lambda self, done, planned, now: 16 if done == 3 else planned)
        with killed_in(14):
            train(config(), tmp_path / "run", tell=said.append)
    assert said[-1] == "After epoch 3: there is time for 16 epochs instead of 12, and the run takes them."
    monkeypatch.setattr(Deadline, "epochs_that_fit", lambda self, done, planned, now: planned)
    assert train(config(), tmp_path / "run")["epochs"] == 16
    monkeypatch.setattr(Deadline, "epochs_that_fit", no_clock)
    assert train(config(), tmp_path / "again", plan=tmp_path / "run" / "plan.json")["epochs"] == 16
    assert same_weights(tmp_path / "run", tmp_path / "again")


def test_minutes_are_counted_from_the_start_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute that was spent before is not there for training."""
    given: list[float] = []

    def fitted(settings: RunConfig, data: object, minutes: float, used: float) -> RunConfig:
        given.append(minutes)
        return replace(settings, recipe=settings.recipe.with_epochs(2))

    monkeypatch.setattr("steerable.training.choosing.planning.fitted_to_minutes", fitted)
    train(config(minutes=2.0), tmp_path, started=time.monotonic() - 30)
    assert 0.9 < given[0] < 1.5
