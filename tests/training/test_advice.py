"""What is recommended for images of known symmetry, and why."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import steerable
from PIL import Image

from steerable.data.masked_images import MaskedImages
from steerable.training.choosing import advised_runs, advising, looking
from steerable.training.choosing.advice import (
    Alternative,
    Orientation,
    Recommendation,
    alternative,
    orientation,
    recommended,
)
from steerable.training.choosing.advising import SizeAndTime, advise
from steerable.training.choosing.defaults import configured
from steerable.training.choosing.looking import Findings, find_out, tried, with_changes
from steerable.training.choosing.orientation import look_for_an_up
from steerable.training.choosing.pose_probe import PoseEvidence, probe_poses, probe_tilt
from steerable.training.choosing.quick_trials import Trial, try_both
from steerable.training.choosing.sizing import sizes_to_try
from steerable.training.choosing.timing import Fit
from steerable.training.evaluation.intervals import Difference, Estimate, wilson
from steerable.training.learning.preparing import TrainingData, augmentation, prepare_data
from steerable.training.phases import unseen
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import load_recipe

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*training images are few.*"),
]

QUICK: dict[str, Any] = {"steps": 40}
ELEMENTS = ("r", "r2", "r3", "m", "mr", "mr2", "mr3")


def textures(count: int, seed: int = 0) -> torch.Tensor:
    """Blurred noise, which looks the same from all sides."""
    noise = np.random.default_rng(seed).normal(size=(count, 1, 16, 16))
    return torch.from_numpy((128 + 50 * noise).clip(0, 255).astype(np.uint8))


def shaded(count: int, seed: int = 0, axes: tuple[bool, bool] = (True, False)) -> torch.Tensor:
    """Noise that is brighter at the top, at the left, or both."""
    generator, ramp = np.random.default_rng(seed), np.linspace(40, -40, 16)
    shade = axes[0] * ramp[:, None] + axes[1] * 0.6 * ramp[None]
    found = 128 + shade + generator.normal(0, 25, (count, 1, 16, 16))
    return torch.from_numpy(found.clip(0, 255).astype(np.uint8))


def crosses(count: int, seed: int = 0) -> torch.Tensor:
    """Crosses along the axes in a random pose, which no turn by 90° and no mirror image changes."""
    generator, found = np.random.default_rng(seed), np.full((count, 1, 17, 17), 30.0)
    for image in found:
        arm = generator.integers(4, 8)
        image[0, 7:10, 8 - arm : 9 + arm] = image[0, 8 - arm : 9 + arm, 7:10] = 200
    return torch.from_numpy((found + generator.normal(0, 20, found.shape)).clip(0, 255).astype(np.uint8))


def told(found: PoseEvidence) -> dict[str, bool]:
    return {move: share.value >= 0.75 for move, share in found.told.items()}


def test_the_probe_finds_the_symmetry_of_the_images() -> None:
    """What is told is what is not a symmetry, in each of three folders; all others are at chance."""
    nothing = probe_poses(textures(64), **QUICK)
    assert not any(told(nothing).values())
    assert nothing.bits < 0.2
    up = probe_poses(shaded(64), **QUICK)
    assert told(up) == {**dict.fromkeys(ELEMENTS, True), "m": False}
    assert up.told["m"].low < 0.5 < up.told["m"].high
    corner = probe_poses(shaded(64, axes=(True, True)), **QUICK)
    assert all(told(corner).values())
    assert corner.bits > 2


def test_tilts_are_told_where_things_lie_along_the_edges() -> None:
    assert probe_tilt(crosses(48), **QUICK).told["tilt"].low > 0.8
    free = probe_tilt(textures(300), steps=30).told["tilt"]
    assert free.low < 0.5 < free.high
    assert not any(told(probe_poses(crosses(48), **QUICK)).values())


def test_the_probe_never_asks_about_what_it_has_learnt() -> None:
    """Copies of one image on both sides would be remembered; as one specimen they stay on one side."""
    one = textures(2).repeat_interleave(20, dim=0)
    assert probe_poses(one, **QUICK).picked.value > 0.9
    specimens = [str(k // 20) for k in range(40)]
    assert probe_poses(one, specimens, **QUICK).picked.value <= 0.5


def evidence(images: int = 200, **shares: float) -> PoseEvidence:
    found = {move: wilson(round(shares.get(move, 0.5) * images), images) for move in ELEMENTS}
    return PoseEvidence(images, found, wilson(images // 8, images), 0.0, 8)


def tilted(share: float, images: int = 200) -> PoseEvidence:
    return PoseEvidence(images, {"tilt": wilson(share * images, images)}, wilson(images // 8, images), 0.0, 8)


def trial(value: float, p: float) -> Trial:
    usual, other = (Estimate(v, v - 0.05, v + 0.05) for v in (0.8, 0.8 + value))
    return Trial(100, 120, usual, other, Difference(value, value - 0.04, value + 0.04, p, "McNemar"))


ALL = dict.fromkeys(ELEMENTS, 0.95)


@pytest.mark.parametrize(
    ("poses", "tilt", "tried", "model", "changes", "words"),
    [
        (evidence(), tilted(0.5), trial(0.0, 1.0), {}, {}, "no preferred pose"),
        (evidence(), tilted(0.5), trial(0.05, 0.01), {"group": "D8", "kernel_size": 5}, {}, "D8, which knows"),
        (evidence(), tilted(0.5), trial(0.05, 0.2), {}, {}, "no reason to choose D8"),
        (evidence(), tilted(0.95), None, {}, {"turn": False}, "things lie along the edges"),
        (evidence(m=0.9, mr=0.9, mr2=0.9, mr3=0.9), tilted(0.5), trial(0.05, 0.01), {"group": "C4"}, {}, "handedness"),
        (evidence(m=0.7, mr=0.7), tilted(0.5), trial(0.01, 0.6), {}, {}, "no reason to choose C4"),
        (evidence(**ALL), None, trial(0.02, 0.03), {"head": "linear"}, {"mirror": False}, "a clear up"),
        (evidence(**ALL), None, trial(0.02, 0.3), {}, {}, "which may be chance (p = 0.3)"),
        (evidence(**ALL), None, trial(-0.02, 0.03), {}, {}, "no reason to choose a head"),
        (evidence(**ALL), None, None, {}, {}, "too few images for a trial of a head"),
        (evidence(96, r2=0.64), tilted(0.5), trial(0.0, 1.0), {}, {}, "no preferred pose"),
        (evidence(**{**ALL, "m": 0.5}), None, trial(0.02, 0.03), {"head": "mirror"}, {}, "can be exchanged"),
        (
            evidence(**{**ALL, "m": 0.5}),
            None,
            trial(0.04, 0.02),
            {"head": "mirror"},
            {},
            "after 120 steps each, beyond",
        ),
        (evidence(r=0.7, mr=0.7), tilted(0.5), None, {}, {}, "a slight up"),
        (evidence(r=0.7, mr=0.7), tilted(0.5), None, {}, {}, "which may be an accident; invariance is kept"),
    ],
)
def test_what_follows_from_the_evidence(
    poses: PoseEvidence,
    tilt: PoseEvidence | None,
    tried: Trial | None,
    model: dict[str, Any],
    changes: dict[str, Any],
    words: str,
) -> None:
    found = recommended(orientation(poses, tilt), tried, "classify", poses.images)
    assert (found.model, found.changes) == (model, changes)
    assert words in found.group


@pytest.mark.parametrize(
    ("found", "model", "changes"),
    [
        (Orientation("free", 0.5, True, False, 0.5), None, None),
        (Orientation("handed", 0.9, False, False, 0.5), {"group": "C4"}, {}),
        (Orientation("upright", 0.8, True, False, 0.5), None, None),
        (Orientation("upright", 0.9, True, False, 0.5), {"name": "plain_unet"}, {"turn": False}),
        (Orientation("upright", 0.9, False, False, 0.5), {"name": "plain_unet"}, {"turn": False, "mirror": False}),
    ],
)
def test_alternatives_for_masks(found: Orientation, model: dict[str, Any] | None, changes: dict[str, Any]) -> None:
    other = alternative(found, "segment")
    assert (other.model, other.changes) == (model, changes) if other is not None else model is None


def test_few_images_leave_room_for_doubt() -> None:
    few = recommended(orientation(evidence(12), tilted(0.5, 12)), None, "classify", 12)
    assert "12 images leave room for doubt: moves might be noticed in up to 75% of cases" in few.group
    assert "doubt" not in recommended(orientation(evidence(2000), None), None, "classify", 2000).group
    assert "too few images" in recommended(None, None, "classify", 4).group


def test_minutes_are_enough_for_the_largest_network_within_half_an_hour() -> None:
    sizes = [SizeAndTime(1000, 0.7), SizeAndTime(5000, 11.2), SizeAndTime(9000, 44.0)]
    assert advising._minutes(sizes) == 15
    assert advising._minutes(sizes[:1]) == 1
    assert advising._minutes([SizeAndTime(1000, 200.0)]) == 200


def write_folder(root: Path, images: dict[str, torch.Tensor]) -> Path:
    for label, found in images.items():
        (root / label).mkdir(parents=True)
        for number, pixels in enumerate(found.numpy()):
            Image.fromarray(pixels[0]).save(root / label / f"{number:03}.png")
    return root


@pytest.fixture(scope="module")
def upright(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes that differ by their pose alone: bright at the top, or at the bottom."""
    top = shaded(60)
    return write_folder(tmp_path_factory.mktemp("data") / "sky", {"above": top, "below": shaded(60, 1).flip(2)})


def test_a_trial_finds_that_the_labels_depend_on_the_pose(upright: Path) -> None:
    config = configured(str(upright), {}, validation=0.25, seed=0, accelerator="cpu")
    data = prepare_data(config)
    config = replace(config, model=sizes_to_try(config.model, data.side)[0], parameters=None)
    found = try_both(config, with_changes(config, {"head": "linear"}, {}), data, steps=40)
    assert found.steps == 40
    assert found.usual.value < 0.8 < found.other.value
    assert found.difference.beyond_chance


def test_advice_agrees_with_what_a_run_chooses_by_itself(upright: Path) -> None:
    """Both look for as many steps, however slow the machine is."""
    config = configured(str(upright), {}, accelerator="cpu", minutes=5.0)
    data = prepare_data(config)
    findings = find_out(config, data, unseen)
    chosen, line = look_for_an_up(config, data)
    assert config.orientation == "auto"
    assert findings.recommendation.model["head"] == chosen.model["head"]
    assert findings.trial is not None
    assert f"{findings.trial.other.value:.1%} with it" in line


@pytest.fixture
def one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the quickest network is timed."""
    monkeypatch.setattr(advising, "sizes_to_try", lambda model, side: sizes_to_try(model, side)[:1])


def test_sizes_are_timed_as_long_as_there_is_time(upright: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured(str(upright), {}, accelerator="cpu")
    data = prepare_data(config)
    monkeypatch.setattr(advising, "epochs_within", lambda *_, **how: Fit(400.0, 1.0, 1.0))
    every = len(sizes_to_try(config.model, data.side))
    assert len(advising._sizes(config, data, time.monotonic() - 1)) == 1 < every
    assert len(advising._sizes(config, data, math.inf)) == every


@pytest.mark.usefixtures("one_size")
def test_the_command_says_what_to_choose(upright: Path) -> None:
    said = steerable("advise", str(upright), "--seconds", "5", "--json", cwd=upright).stdout
    found = json.loads(said)
    assert found["data"]["counts"] == [48, 48]
    assert set(found["advice"]) == {"group", "head", "augmentation", "size", "minutes", "recipe"}
    assert found["command"].startswith(f"steerable train {upright} --minutes ")
    assert found["poses"]["images"] == 96


@pytest.mark.usefixtures("one_size")
def test_masks_are_looked_at_as_well(tmp_path: Path) -> None:
    from cell_images import write_cells

    config = configured(str(write_cells(tmp_path / "cells", 16, size=(32, 32))), {}, accelerator="cpu")
    found = advise(config, seconds=1.0)
    assert found.findings.poses is not None
    assert found.findings.poses.images == 13
    assert found.sentences["recipe"][0] == "masks"
    assert "--minutes" in found.command


def test_volumes_are_refused_before_they_are_read() -> None:
    config = RunConfig("voxels", {"name": "resnet", "axes": 3}, volumes=True)
    with pytest.raises(ValueError, match="`voxels` holds volumes, and advice is about images"):
        advise(config)


class Told:
    """Stands for what was found, and counts how often it is looked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        monkeypatch.setattr(advised_runs, "look_at_images", self)

    def __call__(self, config: RunConfig, **how: Any) -> Findings:
        self.looks += 1
        advice = recommended(orientation(evidence(**ALL), None), trial(0.05, 0.01), "classify", 200)
        return Findings(None, None, None, advice)


def test_an_advised_run_goes_on_as_it_was_advised(
    upright: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Told(monkeypatch)
    command = ("train", str(upright), "--advise", "--epochs", "1", "--params", "3000", "--accelerator", "cpu")
    said = steerable(*command, "--no-progress", cwd=tmp_path).stdout
    assert "Advice: The images have a clear up" in said
    run = tmp_path / "runs" / "sky"
    request = RunConfig.load(run / "config.json")
    assert (request.model["head"], request.recipe.mirror) == ("linear", False)
    again = steerable(*command, "--no-progress", cwd=tmp_path).stdout
    assert "nothing was trained now" in again
    assert looked.looks == 1
    steerable(*command[:2], *command[3:], "--no-progress", cwd=tmp_path)  # without advice it is another run
    assert RunConfig.load(tmp_path / "runs" / "sky-2" / "config.json").model["head"] == "invariant"
    assert (
        "holds a run that was begun without --advise"
        in steerable(*command, "--out", "runs/sky-2", cwd=tmp_path, code=2).stderr
    )
    (run / "advice.json").write_text("{}")
    assert "has no `model`" in steerable(*command, "--out", str(run), cwd=tmp_path, code=2).stderr


def test_a_short_run_does_not_look(upright: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Told(monkeypatch)
    told: list[str] = []
    short, long = (configured(str(upright), {}, minutes=minutes) for minutes in (1.9, 2.0))
    for _ in range(2):  # and what was said of it stays in the folder
        assert advised_runs.advised(short, tmp_path / "short", tell=told.append).model == short.model
    assert looked.looks == 0
    assert told == [f"Advice: {advised_runs.TOO_SHORT}"] * 2
    assert advised_runs.advised(long, tmp_path / "long").model["head"] == "linear"
    assert looked.looks == 1


def test_trials_look_at_the_middle_of_large_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cell_images import write_cells

    seen: list[TrainingData] = []
    monkeypatch.setattr(looking, "try_both", lambda usual, changed, data, **how: seen.append(data))
    root = write_cells(tmp_path / "cells", 130, size=(200, 200))
    config = configured(str(root), {}, accelerator="cpu", tile=32, validation=0.1, seed=0)
    tried(config, prepare_data(config), Alternative({"head": "linear"}, {}, "another head"))
    assert isinstance(seen[0].train, MaskedImages)
    assert isinstance(seen[0].validation, MaskedImages)
    assert seen[0].validation.samples <= seen[0].train.samples_per_epoch < 39 * len(seen[0].validation)


def test_advice_that_leaves_nothing_to_compare_is_said_before_the_training(
    upright: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice = Recommendation({"name": "plain_resnet"}, {"turn": False}, "A plain one will do.", "", "")
    found = Findings(None, None, None, advice)
    monkeypatch.setattr(advised_runs, "look_at_images", lambda *_, **__: found)
    run = steerable("train", str(upright), "--advise", "--compare", "plain", cwd=tmp_path, code=2)
    assert "A plain one will do." in run.stdout
    assert "--compare plain compares a steerable network" in run.stderr
    assert not (tmp_path / "runs" / "sky" / "config.json").exists()


@pytest.mark.parametrize(
    "option", [("--group", "C4"), ("-m", "head=linear"), ("--model", "plain_resnet"), ("--from", "runs/earlier")]
)
def test_advice_does_not_contradict_the_user(option: tuple[str, str], upright: Path, tmp_path: Path) -> None:
    run = steerable("train", str(upright), "--advise", *option, cwd=tmp_path, code=2)
    assert "--advise chooses the network from the images, and --" in run.stderr


def test_mirror_images_are_not_shown_where_they_mean_something_else(upright: Path) -> None:
    for model in ({"head": "linear"}, {"group": "C4"}):
        for turn in (True, False):
            config = configured(str(upright), model, changes={"mirror": False, "turn": turn})
            chosen = augmentation(config, prepare_data(config).train)
            assert chosen is not None
            assert not chosen.flip
    assert load_recipe("images").mirror


def test_networks_of_smaller_groups_are_as_wide() -> None:
    usual, turns = (sizes_to_try({"name": "resnet", "group": group}, 32) for group in ("D4", "C4"))
    assert [size["copies"] for size in turns] == [5 * size["copies"] for size in usual]
    assert sizes_to_try({"name": "resnet", "group": "C4", "stream": "5*regular"}, 32)[0]["copies"] == 1
    assert sizes_to_try({"name": "resnet", "group": "C4", "copies": 3}, 32)[0]["copies"] == 3
