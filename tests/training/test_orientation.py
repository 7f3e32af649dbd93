"""What a run does about the pose of its images where nothing is said of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from steerable.data.labelled_images import LabelledImages
from steerable.training.choosing import looking
from steerable.training.choosing.defaults import configured
from steerable.training.choosing.orientation import POSES, look_for_an_up, with_orientation
from steerable.training.choosing.quick_trials import try_both
from steerable.training.learning.moves_to_show import invariance
from steerable.training.learning.preparing import TrainingData, augmentation
from steerable.training.requests.config import RunConfig
from steerable.training.requests.plan import Plan
from steerable.training.running.plain_contest import plain_request
from steerable.training.running.run import train


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "PROBE_STEPS", 40)
    monkeypatch.setattr(looking, "TRIAL_STEPS", 30)


def images(count: int, kind: str) -> TrainingData:
    """Noise of 16² pixels with bright bars.

    ``upright`` ones are level, at the top or at the bottom by class, which nothing but the pose tells apart; ``marked``
    images have a line at the top that says nothing, and one bar or two; the bars of others lie anyhow.
    """
    generator = np.random.default_rng(0)
    found, labels = generator.normal(100, 20, (count, 1, 16, 16)), np.arange(count) % 2
    for image, label in zip(found, labels, strict=True):
        if kind == "upright":
            image[0, slice(2, 4) if label else slice(12, 14), 3:13] += 90
        elif kind == "marked":
            image[0, 0] = 255
            image[0, 5:7, 3:13] += 90
            image[0, 10:12, 3:13] += 90 * label
            image[0, 1:] = np.rot90(image[0, 1:], 2) if generator.random() < 0.5 else image[0, 1:]
        else:
            image[0, slice(2, 4) if label else slice(6, 8), 3:13] += 90
            image[0] = np.rot90(image[0], int(generator.integers(4)))
    data = LabelledImages(torch.from_numpy(found.clip(0, 255).astype(np.uint8)), torch.from_numpy(labels), ("a", "b"))
    return TrainingData(data, None, data.subset(range(4)), data.images)


def asked(**changes: Any) -> RunConfig:
    settings: dict[str, Any] = {"dataset": "digits", "model": {"name": "resnet", "head": "invariant"}, "minutes": 5.0}
    return RunConfig(**{**settings, "orientation": "auto", **changes})


def test_images_with_an_up_that_says_something_are_not_turned() -> None:
    found, line = look_for_an_up(asked(), images(160, "upright"))
    assert found.orientation in ("upright", "fixed")
    assert found.model["head"] == POSES[found.orientation][0]["head"]
    assert invariance(found.model) is None
    assert line.startswith("Orientation: the images have an up (turns are noticed in ")
    assert line.endswith("If images may come turned, give --orientation free.")
    again = look_for_an_up(asked(), images(160, "upright"))
    assert again == (found, line)  # counted in steps, and seeded


def test_images_without_an_up_get_a_network_that_is_the_same_in_every_pose() -> None:
    found, line = look_for_an_up(asked(), images(160, "free"))
    assert (found.orientation, found.model["head"]) == ("free", "invariant")
    assert "the images have no up" in line
    assert line.endswith("--orientation upright overrules it.")


def test_an_up_that_did_not_help_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = try_both

    def worse(*given: Any, **how: Any) -> Any:
        trial = real(*given, **how)
        return replace(trial, difference=replace(trial.difference, value=-0.1))

    monkeypatch.setattr(looking, "try_both", worse)
    found, line = look_for_an_up(asked(), images(160, "marked"))
    assert found.orientation == "free"
    assert "but that did not clearly help" in line


def test_a_look_that_would_say_nothing_is_not_taken() -> None:
    found, line = look_for_an_up(asked(minutes=1.0), images(160, "upright"))
    assert found.orientation == "free"
    assert line.startswith("Orientation: less than 2 minutes are too few to find out whether images have an up")
    found, line = look_for_an_up(asked(), images(6, "upright"))
    assert found.orientation == "free"
    assert "6 images are too few" in line
    assert "too few to find out whether their orientation" in look_for_an_up(asked(), images(60, "upright"))[1]


def folder_of_images(root: Path) -> Path:
    data = images(160, "upright").train
    assert isinstance(data, LabelledImages)
    for number, (image, label) in enumerate(zip(data.images, data.labels, strict=True)):
        place = root / "ab"[int(label)]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(place / f"{number}.png")
    return root


def test_only_what_nobody_has_said_is_found_out(tmp_path: Path) -> None:
    folder = str(folder_of_images(tmp_path))
    assert configured(folder, {}).orientation == "auto"
    assert configured("digits", {}).orientation == "model"
    for model in ({"head": "linear"}, {"group": "C4"}, {"name": "plain_resnet"}, {"name": "wide_resnet"}):
        assert configured(folder, model).orientation == "model"
    for changes in ({"epochs": 3}, {"turn": False}, {"mirror": False}):
        assert configured(folder, {}, changes=changes).orientation == "model"
    fixed = configured(folder, {}, orientation="fixed")
    assert (fixed.model["head"], fixed.recipe.mirror) == ("linear", False)
    shown = augmentation(fixed, images(20, "free").train)
    assert shown is not None
    assert (shown.angle, shown.flip) == (0.0, False)
    assert configured(folder, {}, orientation="upright").model["head"] == "mirror"


def test_what_contradicts_an_orientation_is_refused(tmp_path: Path) -> None:
    folder = str(folder_of_images(tmp_path))
    with pytest.raises(ValueError, match=r"orientation=fixed chooses the network's head, and head=max gives it"):
        configured(folder, {"head": "max"}, orientation="fixed")
    with pytest.raises(ValueError, match=r"chooses the head of a new network that classifies images, resnet, and this"):
        configured(folder, {"name": "plain_resnet"}, orientation="upright")
    with pytest.raises(
        ValueError, match="orientation must be one of model, auto, free, upright, fixed; got 'sideways'"
    ):
        configured(folder, {}, orientation="sideways")


def test_a_plan_settles_what_a_request_leaves_open() -> None:
    request = asked()
    for chosen in POSES:
        settled = with_orientation(request, chosen)
        plan = Plan(settled, {}, {}, "cpu", 1)
        assert plan.differences(request) == []
        assert request.as_settled_in(settled).model["head"] == settled.model["head"]
    assert Plan(with_orientation(request, "fixed"), {}, {}, "cpu", 1).differences(asked(orientation="model")) != []


def test_a_plain_network_is_shown_what_the_steerable_one_is_shown() -> None:
    fixed = {"model": {"name": "resnet", "head": "linear"}, "parameters": 1000, "training_minutes": 1.0}
    plain = plain_request(asked(), fixed)
    assert (plain.orientation, plain.recipe.turn, plain.recipe.mirror) == ("model", False, False)
    free = plain_request(asked(), {**fixed, "model": {"name": "resnet", "head": "invariant"}})
    assert free.recipe.mirror


def test_a_run_says_and_writes_down_what_it_found_and_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short: dict[str, Any] = {"changes": {"epochs": 2}, "parameters": 12_000, "progress": False}
    request = configured(str(folder_of_images(tmp_path / "images")), {}, orientation="auto", **short)
    lines: list[str] = []
    results = train(request, tmp_path / "run", tell=lines.append)
    plan = json.loads((tmp_path / "run" / "plan.json").read_text("utf-8"))
    assert plan["looked"] in lines
    assert plan["looked"].startswith("Orientation: the images have an up")
    assert plan["settings"]["orientation"] in ("upright", "fixed")
    assert results["model"]["head"] == plan["settings"]["model"]["head"] != "invariant"
    assert json.loads((tmp_path / "run" / "config.json").read_text("utf-8"))["orientation"] == "auto"
    (tmp_path / "run" / "results.json").unlink()
    monkeypatch.setattr("steerable.training.running.run.look_for_an_up", None)  # a resumed run does not look again
    assert train(request, tmp_path / "run")["model"] == results["model"]
