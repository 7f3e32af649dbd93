"""Recipes: how a network is trained, as a small TOML file or a value."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from steerable.errors import did_you_mean, shown
from steerable.training.limits import MOST_EPOCHS, Range, check_flags, check_numbers

__all__ = ["Recipe", "load_recipe", "recipe_names"]

NUMBERS = {
    "learning_rate": Range(0, 10**6, above=True),
    "momentum": Range(0, 1, below=True),
    "weight_decay": Range(0, 10**6),
    "batch_size": Range(1, 10**6, whole=True),
    "epochs": Range(1, MOST_EPOCHS, whole=True),
    "decay": Range(0, 1, above=True),
    "warmup_epochs": Range(0, 10**9),
    "label_smoothing": Range(0, 1, below=True),
    "ema_decay": Range(0, 1, below=True),
    "shift": Range(0, 4096),
}
FLAGS = ("nesterov", "augment", "statistics_of_all", "rates_by_sharing")
MILESTONE = Range(0, 10**9, whole=True)
MOST_MILESTONES = 1000
LARGEST_FILE, LONGEST_LINE = 100_000, 1_000


@dataclass(frozen=True)
class Recipe:
    """Optimiser, schedule and regularisation of a run.

    ``schedule`` is ``"steps"`` (the learning rate is multiplied by ``decay`` at each of ``milestones``, in epochs) or
    ``"cosine"`` (a linear warm-up over ``warmup_epochs``, then a half cosine to zero). ``ema_decay`` is the share that
    an averaged copy of the weights keeps at each step, 0 for none. ``augment`` is the "+" of the paper's tables: shifts
    of up to ``shift`` pixels and mirror images. A ``shift`` below 1 is a share of the image's side.

    ``normalisation`` takes its statistics from the images that are trained on, or with ``statistics_of_all`` from all
    training images of the data set, also from those whose labels are not used.

    ``rates_by_sharing`` trains every filter bank as if it stored each of its shared weights once. A bank with
    μ = weights / coefficients, about |G|, then learns at the rate μ · ``learning_rate`` and decays by
    ``weight_decay`` / μ; norms, biases and ordinary layers keep their own. See
    :func:`~steerable.training.optimiser.make_optimiser`.
    """

    learning_rate: float = 0.05
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 0.0
    batch_size: int = 128
    epochs: int = 300
    schedule: Literal["steps", "cosine"] = "steps"
    milestones: Sequence[int] = (50, 100, 150)
    decay: float = 0.1
    warmup_epochs: float = 0.0
    label_smoothing: float = 0.0
    ema_decay: float = 0.0
    augment: bool = False
    shift: float = 4
    normalisation: Literal["channels", "zca"] = "channels"
    statistics_of_all: bool = False
    rates_by_sharing: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.milestones, list):  # as files have them
            object.__setattr__(self, "milestones", tuple(self.milestones))
        settings = vars(self)
        check_numbers("a recipe's ", settings, NUMBERS)
        check_flags("a recipe's ", settings, FLAGS)
        if (
            not isinstance(self.milestones, tuple)
            or len(self.milestones) > MOST_MILESTONES
            or any(milestone not in MILESTONE for milestone in self.milestones)
        ):
            raise ValueError(
                f"a recipe's milestones is a list of whole numbers, from 0 on, {MOST_MILESTONES:,} of them at most; "
                f"got {shown(self.milestones)}."
            )
        checks = {
            "schedule": self.schedule in ("steps", "cosine"),
            "shift": self.shift < 1 or self.shift == int(self.shift),
            "normalisation": self.normalisation in ("channels", "zca"),
            "nesterov": not self.nesterov or self.momentum > 0,
        }
        for name, holds in checks.items():
            if not holds:
                raise ValueError(f"a recipe's {name} cannot be {getattr(self, name)!r}; see the class Recipe.")

    def learning_rate_at(self, epoch: float) -> float:
        """The learning rate after so many epochs, which may be a fraction."""
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
        check_numbers("a recipe's ", {"epochs": epochs}, {"epochs": NUMBERS["epochs"]})
        factor = epochs / self.epochs
        return replace(
            self,
            epochs=epochs,
            # One that was not at the very beginning does not get there: the full rate comes first.
            milestones=tuple(max(1, round(m * factor)) if m else 0 for m in self.milestones),
            warmup_epochs=self.warmup_epochs * factor,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for a config file."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @staticmethod
    def check_names(settings: Iterable[str]) -> None:
        """ValueError for the first that no recipe has."""
        known = [field.name for field in fields(Recipe)]
        for key in settings:
            if key not in known:
                raise ValueError(f"a recipe has no setting `{key}`. {did_you_mean(key, known)}")

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Recipe:
        """From a config file; unknown keys are refused."""
        if not isinstance(values, dict):
            raise ValueError(f"a recipe is a table of settings; got {type(values).__name__}.")
        Recipe.check_names(values)
        return Recipe(**values)


def recipe_names() -> list[str]:
    """The recipes that come with the library."""
    folder = resources.files("steerable.training") / "recipe_files"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def load_recipe(name: str, **changes: Any) -> Recipe:
    """A recipe by name or from a TOML file of your own, with single settings changed.

    >>> load_recipe("paper", epochs=10).learning_rate
    0.05
    """
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise FileNotFoundError(f"there is no recipe file {name}.")
        try:
            recipe = Recipe.from_dict(tomllib.loads(_short_text(path)))
        except RecursionError as error:
            raise ValueError(f"the recipe {name} cannot be used: it is nested too deeply.") from error
        except (ValueError, TypeError) as error:  # no TOML, no UTF-8, text for a number
            raise ValueError(f"the recipe {name} cannot be used: {error}") from error
    elif name in recipe_names():
        text = (resources.files("steerable.training") / "recipe_files" / f"{name}.toml").read_text("utf-8")
        recipe = Recipe.from_dict(tomllib.loads(text))
    else:
        raise ValueError(f"unknown recipe {name!r}. {did_you_mean(name, recipe_names())} Or give a .toml file.")
    Recipe.check_names(changes)
    changes = {key: value for key, value in changes.items() if value is not None}
    epochs = changes.pop("epochs", None)
    if epochs is not None and epochs != recipe.epochs:
        recipe = recipe.with_epochs(epochs)
    return replace(recipe, **changes)


def _short_text(path: Path) -> str:
    """The text of a recipe file, if it is as short as recipes are.

    Time and memory that a key takes grow with the square of the number of its parts.
    """
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"it has {size:,} bytes, and a recipe has {LARGEST_FILE:,} at most.")
    text = path.read_text("utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > LONGEST_LINE:
            raise ValueError(
                f"line {number} has {len(line):,} characters, and a recipe's have {LONGEST_LINE:,} at most."
            )
    return text
