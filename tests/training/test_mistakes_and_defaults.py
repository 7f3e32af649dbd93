"""The worst mistakes of a classifier, and what a run does where nothing is said."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from steerable.data import LabelledImages
from steerable.training.choosing.defaults import configured
from steerable.training.evaluation.mistakes import thumbnail, worst_mistakes
from steerable.training.requests.config import OWN_IMAGES

CLASSES = ("a", "b", "c")


def test_the_surest_wrong_answers_come_first() -> None:
    """Image k has the pixel value k."""
    scores = torch.tensor([[5.0, 0, 0], [0, 4, 0], [0, 0, 9], [3, 0, 0], [0, 1, 0]])
    images = torch.arange(5, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).contiguous()
    data = LabelledImages(images, torch.tensor([0, 0, 1, 2, 1]), CLASSES, tuple(f"{k}.png" for k in range(5)))
    found = worst_mistakes(scores, data, limit=2)
    assert found["count"] == 3
    assert [(m["file"], m["true"], m["predicted"]) for m in found["worst"]] == [
        ("2.png", "b", "c"),
        ("1.png", "a", "b"),
    ]
    assert found["worst"][0]["probability"] == pytest.approx(float(scores[2].softmax(0)[2]))
    picture = Image.open(io.BytesIO(base64.b64decode(found["worst"][0]["png"])))
    assert np.unique(np.asarray(picture)).tolist() == [2]


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "RGB"), (3, "RGB"), (7, "RGB")])
def test_thumbnails_are_small(channels: int, mode: str) -> None:
    picture = Image.open(io.BytesIO(base64.b64decode(thumbnail(torch.zeros(channels, 200, 100, dtype=torch.uint8)))))
    assert (picture.mode, picture.size) == (mode, (48, 96))


def own(tmp_path: Path, **given: Any) -> Any:
    return configured(str(tmp_path), {"name": "resnet", **given.pop("model", {})}, **given)


def test_own_images_need_no_settings(tmp_path: Path) -> None:
    config = own(tmp_path)
    assert config.dataset == str(tmp_path.resolve())
    assert config.model == {"name": "resnet", "head": "invariant"}
    for name in ("validation", "patience", "minutes", "parameters"):
        assert getattr(config, name) == OWN_IMAGES[name]
    assert (config.fit, config.image_size, config.recipe.batch_size) == ("shrink", None, 64)


def test_what_is_said_counts(tmp_path: Path) -> None:
    config = own(tmp_path, parameters=5000, changes={"epochs": 7}, validation=0.0, model={"head": "max"})
    assert (config.parameters, config.minutes, config.recipe.epochs, config.fit) == (5000, None, 7, "shorten")
    assert (config.validation, config.patience, config.model["head"]) == (0.0, 0, "max")
    assert own(tmp_path, model={"copies": 3}).parameters is None
    assert own(tmp_path, minutes=3.0, changes={"epochs": 7}).minutes == 3.0


def test_named_data_sets_are_trained_as_before() -> None:
    config = configured("digits", {"name": "resnet"})
    assert config.model == {"name": "resnet"}
    assert (config.validation, config.patience, config.minutes, config.parameters) == (0.0, 0, None, None)
    assert (config.recipe.epochs, config.fit) == (200, "stretch")


@pytest.mark.parametrize("name", ["unet", "vgg"])
def test_only_classifiers_are_trained(name: str, tmp_path: Path) -> None:
    known = "resnet, plain_resnet, wide_resnet or plain_wide_resnet"
    with pytest.raises(ValueError, match=f"a run trains a classifier, {known}; got '{name}'"):
        configured(str(tmp_path), {"name": name})


def test_a_shift_below_one_is_a_share_of_the_side(tmp_path: Path) -> None:
    recipe = own(tmp_path).recipe
    assert [recipe.shift_of(side) for side in (8, 32, 128)] == [0, 2, 8]
