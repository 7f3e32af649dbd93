"""Recipes: how a network is trained, as a small TOML file or a value.

The recipes that come with the library are the files in ``recipe_files``; to add a recipe, add a file there.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from steerable.errors import did_you_mean, shown
from steerable.training.requests.limits import MOST_EPOCHS, Flag, OneOf, Range
from steerable.training.requests.settings import check_names, check_settings, documented, setting

__all__ = ["Recipe", "Rescheduled", "load_recipe", "recipe_names"]

MILESTONE = Range(0, 10**9, whole=True)
MOST_MILESTONES = 1000
LARGEST_FILE, LONGEST_LINE = 100_000, 1_000
OPTION: dict[str, Any] = {"option": True, "panel": "Network and recipe"}

Rescheduled = Sequence[tuple[int, int]]
"""Changes of a run's length, in order: after how many epochs it was changed, and to how many epochs in all."""


@documented
@dataclass(frozen=True)
class Recipe:
    """Optimiser, schedule and regularisation of a run.

    ``rates_by_sharing`` trains every filter bank as if it stored each of its shared weights once. A bank with
    μ = weights / coefficients, about |G|, then learns at the rate μ · ``learning_rate`` and decays by
    ``weight_decay`` / μ; norms, biases and ordinary layers keep their own. See
    :func:`steerable.nn.parameter_groups`. ``milestones`` are the epochs at which a schedule in steps
    multiplies the learning rate by ``decay``. ``augment`` switches on what follows it, up to ``padding``.
    """

    learning_rate: float = setting(
        0.05, Range(0, 10**6, above=True), "The learning rate, in place of the recipe's.", **OPTION
    )
    optimiser: str = setting(
        "sgd", OneOf(("sgd", "adamw")), "SGD with momentum, or Adam with a weight decay of its own (adamw)."
    )
    momentum: float = setting(
        0.9, Range(0, 1, below=True), "The momentum of SGD, or the share that Adam's mean gradient keeps."
    )
    nesterov: bool = setting(False, Flag(), "Use Nesterov's momentum.")
    weight_decay: float = setting(0.0, Range(0, 10**6), "The weight decay, in place of the recipe's.", **OPTION)
    batch_size: int = setting(128, Range(1, 10**6, whole=True), "Images per step, over all devices.", **OPTION)
    epochs: int = setting(
        300, Range(1, MOST_EPOCHS, whole=True), "How many epochs the recipe's schedule is stretched to.", **OPTION
    )
    schedule: str = setting(
        "steps",
        OneOf(("steps", "cosine")),
        "How the learning rate falls: in steps, or along a half cosine to zero after a linear warm-up.",
    )
    milestones: Sequence[int] = (50, 100, 150)
    decay: float = setting(0.1, Range(0, 1, above=True), "What a milestone multiplies the learning rate by.")
    warmup_epochs: float = setting(0.0, Range(0, 10**9), "How many epochs the warm-up of a cosine takes.")
    label_smoothing: float = setting(0.0, Range(0, 1, below=True), "The share of a label that all classes get.")
    ema_decay: float = setting(
        0.0,
        Range(0, 1, below=True),
        "The share of itself that an averaged copy of the weights keeps at each step; 0 for no such copy.",
    )
    augment: bool = setting(
        False,
        Flag(),
        "Augment by shifts, mirror images and whatever else the recipe contains.",
        **OPTION,
    )
    shift: float = setting(4, Range(0, 4096), "The largest shift in pixels; below 1 a share of the image's side.")
    turn: bool = setting(
        False,
        Flag(),
        "Augment by turns of any angle, except for those that the network knows by itself: by up to 45° to either side "
        "if its scores are invariant under quarter turns. A network with invariant scores is not shown mirror images: "
        "if its group lacks them, they are assumed to mean something else.",
        **OPTION,
    )
    mirror: bool = setting(
        True,
        Flag(),
        "Augment by mirror images if the network's scores are not invariant. Switch it off for things whose mirror "
        "image is something else, such as letters.",
        **OPTION,
    )
    quarter_turns: bool = setting(
        False, Flag(), "Augment by quarter turns and mirror images, which move pixels to pixels; for square images."
    )
    scale: float = setting(1.0, Range(1, 4), "The largest factor by which augmentation enlarges or shrinks an image.")
    brightness: float = setting(
        0.0, Range(0, 1), "The largest share of the full range that augmentation adds to grey levels or takes away."
    )
    contrast: float = setting(
        0.0, Range(0, 1), "The largest share by which augmentation multiplies grey levels up or down."
    )
    padding: str = setting(
        "zero",
        OneOf(("zero", "reflect")),
        "What augmentation lets in from outside the image: black (zero), or the mirrored image (reflect).",
    )
    normalisation: str = setting(
        "channels", OneOf(("channels", "zca")), "How images are normalised: channel by channel, or by whitening (zca)."
    )
    statistics_of_all: bool = setting(
        False, Flag(), "Take the statistics from all training images, also from those whose labels are not used."
    )
    rates_by_sharing: bool = setting(
        False,
        Flag(),
        "Multiply the learning rate of each filter bank by its weights per parameter, μ, and its weight decay by 1/μ.",
        **OPTION,
    )

    def __post_init__(self) -> None:
        if isinstance(self.milestones, list):  # as files have them
            object.__setattr__(self, "milestones", tuple(self.milestones))
        check_settings("a recipe's ", self)
        if (
            not isinstance(self.milestones, tuple)
            or len(self.milestones) > MOST_MILESTONES
            or any(milestone not in MILESTONE for milestone in self.milestones)
        ):
            raise ValueError(
                f"a recipe's milestones are a list of at most {MOST_MILESTONES:,} whole numbers from 0 on; got "
                f"{shown(self.milestones)}."
            )
        if self.shift >= 1 and self.shift != int(self.shift):
            raise ValueError(f"a recipe's shift must be a whole number of pixels or a share below 1; got {self.shift}.")
        if self.nesterov and (not self.momentum or self.optimiser != "sgd"):
            raise ValueError(
                "a recipe's nesterov needs SGD with a momentum above 0; got a momentum of "
                f"{self.momentum:g} and the optimiser {self.optimiser}."
            )

    def learning_rate_at(self, epoch: float, rescheduled: Rescheduled = ()) -> float:
        """The learning rate after ``epoch`` epochs, which may be a fraction.

        Args:
            epoch: how many epochs of the run are done.
            rescheduled: pairs (done, epochs): after ``done`` epochs the run was changed to end after ``epochs``. The
                rest of the schedule is spread evenly over the rest of the run.
        """
        begun, position, pace = 0, 0.0, 1.0
        for done, epochs in rescheduled:
            if epoch >= done:
                position += (done - begun) * pace
                begun, pace = done, (self.epochs - position) / max(epochs - done, 1)
        epoch = position + (epoch - begun) * pace
        if self.schedule == "steps":
            passed = sum(epoch >= milestone for milestone in self.milestones)
            return self.learning_rate * self.decay**passed
        if epoch < self.warmup_epochs:
            return self.learning_rate * epoch / self.warmup_epochs
        span = max(self.epochs - self.warmup_epochs, 1e-9)
        progress = min((epoch - self.warmup_epochs) / span, 1.0)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))

    def shift_of(self, side: int) -> int:
        """The largest shift in pixels of images with this side."""
        return int(self.shift * side) if self.shift < 1 else int(self.shift)

    def with_epochs(self, epochs: int) -> Recipe:
        """The same recipe stretched or shortened to another number of epochs, milestones and warm-up in proportion."""
        factor = replace(self, epochs=epochs).epochs / self.epochs  # a number that is out of range is refused first
        return replace(
            self,
            epochs=epochs,
            # A milestone that was not at the very beginning does not move there: the full rate comes first.
            milestones=tuple(max(1, round(m * factor)) if m else 0 for m in self.milestones),
            warmup_epochs=self.warmup_epochs * factor,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for a config file."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Recipe:
        """A recipe from a config file; unknown keys are refused."""
        if not isinstance(values, dict):
            raise ValueError(f"a recipe is a table of settings; got {type(values).__name__}.")
        check_names("a recipe", Recipe, values)
        return Recipe(**values)


def recipe_names() -> list[str]:
    """The recipes that come with the library."""
    folder = resources.files("steerable.training.requests") / "recipe_files"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def load_recipe(name: str, **changes: Any) -> Recipe:
    """A recipe by name or from a TOML file of your own, with single settings changed.

    >>> load_recipe("paper", epochs=10).learning_rate
    0.05
    """
    if name.endswith(".toml"):
        recipe = _own_recipe(Path(name))
    elif name in recipe_names():
        text = (resources.files("steerable.training.requests") / "recipe_files" / f"{name}.toml").read_text("utf-8")
        recipe = Recipe.from_dict(tomllib.loads(text))
    else:
        raise ValueError(f"unknown recipe {name!r}. {did_you_mean(name, recipe_names())} Or give a .toml file.")
    check_names("a recipe", Recipe, changes)
    changes = {key: value for key, value in changes.items() if value is not None}
    if changes.get("turn"):
        changes.setdefault("augment", True)
    epochs = changes.pop("epochs", None)
    if epochs is not None and epochs != recipe.epochs:
        recipe = recipe.with_epochs(epochs)
    return replace(recipe, **changes)


def _own_recipe(path: Path) -> Recipe:
    if not path.is_file():
        raise FileNotFoundError(f"there is no recipe file {path}.")
    try:
        return Recipe.from_dict(tomllib.loads(_short_text(path)))
    except RecursionError as error:
        raise ValueError(f"the recipe {path} cannot be used: it is nested too deeply.") from error
    except (ValueError, TypeError) as error:  # no TOML, no UTF-8, text for a number
        raise ValueError(f"the recipe {path} cannot be used: {error}") from error


def _short_text(path: Path) -> str:
    """The text of a recipe file, if it is as short as recipes are.

    Time and memory that a key takes grow with the square of the number of its parts.
    """
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"it has {size:,} bytes, and a recipe has at most {LARGEST_FILE:,}.")
    text = path.read_text("utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > LONGEST_LINE:
            raise ValueError(
                f"line {number} has {len(line):,} characters, and a recipe's have at most {LONGEST_LINE:,}."
            )
    return text
