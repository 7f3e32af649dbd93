"""Images that are too large for the time are reduced exactly, and whoever reads them later sees the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import killed_in

from steerable.data.images import read_images
from steerable.data.squares import reduced
from steerable.training import Plan, RunConfig
from steerable.training.choosing import fitting, timing
from steerable.training.choosing.defaults import configured
from steerable.training.choosing.planning import make_plan
from steerable.training.choosing.sizing import sides_to_try, sizes_to_try
from steerable.training.learning.preparing import TrainingData, prepare_data
from steerable.training.running.run import train
from steerable.training.trained_networks.trained_model import TrainedModel
from steerable.types.network_plans import check_stem

pytestmark = pytest.mark.filterwarnings("ignore:only .* epochs? fits? the time")

SIDE = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of noise, a little larger than what they are read at."""
    root, random = tmp_path_factory.mktemp("images") / "noise", np.random.default_rng(0)
    for label, scale in (("dark", 100), ("light", 255)):
        (root / label).mkdir(parents=True)
        for number in range(24):
            pixels = random.integers(0, scale, (SIDE + 3, SIDE + 5), dtype=np.uint8)
            Image.fromarray(pixels).save(root / label / f"{number}.png")
    return root


def request(folder: Path, **changes: Any) -> RunConfig:
    settings = {"minutes": 5.0, "progress": False, "accelerator": "cpu", "checkpoint_seconds": 0.0, **changes}
    model = settings.pop("model", {})
    return configured(str(folder), {"name": "resnet", **model}, **settings)


Times = Callable[[RunConfig, TrainingData], float]


def pretend(monkeypatch: pytest.MonkeyPatch, epochs: Times) -> list[tuple[int, int]]:
    """So many epochs fit, and nothing is timed; returns the sides and places that were tried."""
    tried: list[tuple[int, int]] = []

    def within(end: float, config: RunConfig, data: TrainingData, *, settle: bool) -> timing.Fit:
        if not settle:
            tried.append((data.side, _place(config, data)))
        return timing.Fit(epochs(config, data), epoch=1.0, test=0.0)

    monkeypatch.setattr(fitting, "epochs_within", within)
    return tried


def _place(config: RunConfig, data: TrainingData) -> int:
    return sizes_to_try({"name": "resnet", "head": "invariant"}, data.side).index(config.model)


def by_place(*enough: tuple[int, int]) -> Times:
    """A network has enough epochs up to a place in its list, which depends on the side of the images."""
    places = dict(enough)
    return lambda config, data: 2000.0 if _place(config, data) <= places[data.side] else 3.0


@pytest.mark.parametrize(
    ("enough", "side", "place"),
    [
        (((64, 3), (32, 6)), 64, 3),  # the size of the images is kept where more than the quickest network fits
        (((64, 0), (32, 1)), 64, 0),  # and for a network that is hardly larger
        (((64, 0), (32, 2)), 32, 2),  # a clearly larger one is worth it
        (((64, -1), (32, 0)), 32, 0),  # so are enough epochs
        (((64, -1), (32, -1)), 64, 0),  # nothing is gained
    ],
)
def test_resolution_is_given_up_late(
    enough: tuple[tuple[int, int], ...], side: int, place: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(folder)
    data = prepare_data(asked)
    tried = pretend(monkeypatch, by_place(*enough))
    plan = make_plan(asked, data)
    assert plan.data["image_size"] == [side, side]
    assert plan.settings.image_size == (None if side == SIDE else side)
    assert plan.settings.model == sizes_to_try(asked.model, side)[place]
    assert plan.differences(asked) == []
    assert len(tried) == len(set(tried)), "nothing is measured twice"


def test_more_epochs_are_worth_it_where_none_are_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(folder)
    data = prepare_data(asked)
    for gain, side in ((1.4, 64), (1.6, 32)):
        pretend(monkeypatch, lambda config, data, gain=gain: 10.0 * (gain if data.side == 32 else 1))  # type: ignore[misc]
        assert make_plan(asked, data).data["image_size"] == [side, side]


def test_a_size_that_the_user_gives_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(folder, image_size=SIDE)
    tried = pretend(monkeypatch, by_place((64, -1), (32, 6)))
    assert make_plan(asked, prepare_data(asked)).data["image_size"] == [SIDE, SIDE]
    assert tried == [(64, 0)]


def test_sides_suit_the_stem_that_the_user_gives() -> None:
    assert sides_to_try({"name": "resnet"}, 96) == [96, 48]
    assert sides_to_try({"name": "resnet", "stem": 4}, 128) == [128, 64, 32]
    assert sides_to_try({"name": "resnet", "stem": 8}, 96) == [96]
    assert sides_to_try({"name": "resnet"}, 100) == [100]


def test_a_reduced_run_is_resumed_repeated_and_read_as_it_was(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(folder)
    pretend(monkeypatch, by_place((64, -1), (32, 0)))
    monkeypatch.setattr(fitting, "most_epochs", lambda *_: 3)
    monkeypatch.setattr("steerable.training.running.run.most_epochs", lambda *_: 3)
    said: list[str] = []

    with killed_in(2):
        train(asked, tmp_path / "run", tell=said.append)
    assert "32×32 pixels (reduced from 64×64 to have enough epochs; --image-size 64 keeps them), grey." in said[1]
    first = train(asked, tmp_path / "run")
    assert (first["image_size"], first["epochs"]) == ([32, 32], 3)
    plan = tmp_path / "run" / "plan.json"
    assert Plan.load(plan).data["pixels"]["reduction"] == 2
    again = train(asked, tmp_path / "again", plan=plan)
    assert again["test_loss"] == first["test_loss"]

    trained = TrainedModel.load(tmp_path / "run")
    assert (trained.image_size, trained.pixels.reduction) == (32, 2)
    names, images, _ = read_images(folder, 32, 1, pixels=trained.pixels)
    large = read_images(folder, 64, 1)
    assert names == large[0]
    assert torch.equal(images, torch.from_numpy(reduced(large[1].numpy(), 2)))


def test_reducing_is_exact() -> None:
    """It commutes with turns and mirror images, and the means are those of exact arithmetic, halves rounded up."""
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (5, 3, 48, 48), dtype=np.uint8)
    for factor in (1, 2, 4, 16):
        small = reduced(images, factor)
        assert small.shape == (5, 3, 48 // factor, 48 // factor)
        blocks = images.reshape(5, 3, 48 // factor, factor, 48 // factor, factor).astype(np.float64)
        assert np.array_equal(small, np.floor(blocks.mean((3, 5)) + 0.5))
        for move in (lambda x: np.rot90(x, axes=(2, 3)), lambda x: x[..., ::-1]):
            assert np.array_equal(reduced(move(images), factor), move(small))
    assert reduced(np.full((16, 16), 255, np.uint8), 16).tolist() == [[255]]


def test_data_are_reduced_by_whole_factors_only(folder: Path) -> None:
    data = prepare_data(request(folder))
    assert data.at_size(None) is data is data.at_size(SIDE)
    assert data.at_size(16).pixels.reduction == 4  # type: ignore[union-attr]
    for wrong in (48, 128):
        with pytest.raises(ValueError, match=f"images of 64×64 pixels cannot be reduced exactly to {wrong}×{wrong}"):
            data.at_size(wrong)


@pytest.mark.parametrize("model", ["resnet", "plain_resnet"])
def test_a_stem_that_is_too_large_for_the_images_is_refused_while_planning(model: str, folder: Path) -> None:
    asked = request(folder, model={"name": model, "stem": 8})
    data = prepare_data(asked).at_size(16)
    message = r"got `stem=8` for images of 16×16 pixels, expected at least 32×32: .* is halved twice\. Use `stem=4`, or"
    with pytest.raises(ValueError, match=message):
        make_plan(asked, data)
    with pytest.raises(ValueError, match=message):  # before any image is read
        request(folder, model={"name": model, "stem": 8}, image_size=16)
    check_stem(8, 32)
