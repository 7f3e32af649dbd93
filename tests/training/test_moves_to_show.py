"""What a run shows a network follows from what the network knows: turns between its own, and mirror images."""

from __future__ import annotations

from typing import Any

import pytest

from steerable.data import LabelledImages, load_digits
from steerable.training.learning.moves_to_show import moves_to_show
from steerable.training.learning.preparing import augmentation
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe, load_recipe

ANY = (180.0, True)
UPRIGHT = (0.0, True)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"name": "plain_resnet"}, ANY),
        ({"name": "resnet"}, UPRIGHT),  # whose head is linear, and may use the orientation
        ({"name": "resnet", "head": "mirror"}, UPRIGHT),
        ({"name": "resnet", "head": "invariant"}, (45.0, False)),
        ({"name": "resnet", "head": "max"}, (45.0, False)),
        ({"name": "resnet", "head": "invariant", "group": "C4"}, (45.0, False)),
        ({"name": "resnet", "head": "invariant", "group": "D2"}, (90.0, False)),
        ({"name": "resnet", "head": "invariant", "group": "C2"}, (90.0, False)),
        ({"name": "resnet", "head": "invariant", "group": "D1"}, (180.0, False)),
        ({"name": "resnet", "head": "invariant", "group": "C1"}, (180.0, False)),
        ({"name": "unet", "group": "SO2"}, (0.0, False)),
        ({"name": "unet", "group": "O2"}, (0.0, False)),
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else "",
)
def test_a_network_is_shown_what_it_does_not_know(model: dict[str, Any], expected: tuple[float, bool]) -> None:
    moves = moves_to_show(model)
    assert (moves["angle"], moves["flip"]) == expected


@pytest.fixture(scope="module")
def digits() -> LabelledImages:
    return load_digits().train


def chosen(recipe: Recipe, digits: LabelledImages, **model: str) -> Any:
    return augmentation(RunConfig("digits", {"name": "resnet", "head": "invariant", **model}, recipe), digits)


def test_a_recipe_says_whether_there_are_turns_and_the_network_which(digits: LabelledImages) -> None:
    own = chosen(load_recipe("images", scale=1.2, brightness=0.2, contrast=0.3), digits)
    assert (own.angle, own.flip, own.padding) == (45.0, False, "reflect")
    assert (own.scale, own.brightness, own.contrast) == (1.2, 0.2, 0.3)
    without = chosen(load_recipe("images", turn=False, scale=1.0), digits)
    assert (without.angle, without.flip, without.interpolates) == (0, True, False)
    assert chosen(load_recipe("images", augment=False), digits) is None


def test_recipes_of_the_last_revision_move_pixels_as_they_did(digits: LabelledImages) -> None:
    few = chosen(load_recipe("few"), digits)
    assert (few.shift, few.flip, few.padding, few.interpolates) == (4, True, "zero", False)


def test_turning_is_augmenting() -> None:
    assert load_recipe("demo", turn=True).augment
    assert not load_recipe("demo", turn=True, augment=False).augment
