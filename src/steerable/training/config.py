"""The config of a run: everything that decides its outcome, as a JSON file in the run folder."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steerable.errors import did_you_mean
from steerable.training.recipes import Recipe

__all__ = ["RunConfig"]

# What may change when a run is resumed: where it runs, not what it computes.
FREE_ON_RESUME = ("data_dir", "accelerator", "devices", "nodes", "progress", "checkpoint_seconds")


@dataclass(frozen=True)
class RunConfig:
    """One training run.

    Args:
        dataset: ``"digits"``, ``"cifar10"``, ``"cifar100"``, or the path of an image folder.
        model: the model's name and its arguments, ``{"name": "resnet", "depth": 14, …}``; channels and classes come
            from the data.
        recipe: how it is trained.
        labels: how many labelled training images to use, balanced over the classes; all where None.
        validation: how many of them (or which share, below 1) to hold out and report on.
        seed: of the subset, the weights, the order and the augmentation.
        data_dir: where the data set's files are.
        precision: Lightning's, ``"32-true"`` or ``"bf16-mixed"``.
        compile: run the network through ``torch.compile``.
        channels_last: the memory format that GPUs prefer.
        accelerator, devices, nodes: Lightning's; more than one device is trained on with DDP.
        progress: show progress bars.
        checkpoint_seconds: how long a run may go on without saving; 0 saves after every epoch.
    """

    dataset: str
    model: dict[str, Any]
    recipe: Recipe = field(default_factory=Recipe)
    labels: int | None = None
    validation: float = 0.0
    seed: int = 0
    data_dir: str | None = None
    image_size: int | None = None
    precision: str = "32-true"
    compile: bool = False
    channels_last: bool = False
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    progress: bool = True
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        if "name" not in self.model:
            raise ValueError("a run's model names itself: {'name': 'resnet', ...}.")
        if self.labels is not None and self.labels < 1:
            raise ValueError(f"labels is a number of training images ≥ 1, got {self.labels}.")
        if self.validation < 0:
            raise ValueError(f"validation is a share or a number ≥ 0, got {self.validation}.")
        if self.devices < 1 or self.nodes < 1:
            raise ValueError(f"devices and nodes are at least 1; got {self.devices} and {self.nodes}.")
        if self.recipe.batch_size < self.devices * self.nodes:
            raise ValueError(
                f"the batch of {self.recipe.batch_size} images is shared by {self.devices * self.nodes} processes; "
                "use a larger batch or fewer devices."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**values, "recipe": self.recipe.to_dict()}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> RunConfig:
        """From JSON; unknown keys are refused."""
        known = [f.name for f in dataclasses.fields(RunConfig)]
        for key in values:
            if key not in known:
                raise ValueError(f"a run has no setting `{key}`. {did_you_mean(key, known)}")
        recipe = values.get("recipe", {})
        return RunConfig(**{**values, "recipe": recipe if isinstance(recipe, Recipe) else Recipe.from_dict(recipe)})

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.to_dict(), indent=2) + "\n")

    @staticmethod
    def load(path: Path) -> RunConfig:
        return RunConfig.from_dict(json.loads(path.read_text()))

    def elsewhere(self, other: RunConfig) -> RunConfig:
        """This run, carried out where and how the other one would be."""
        where: dict[str, Any] = {key: getattr(other, key) for key in FREE_ON_RESUME}
        return dataclasses.replace(self, **where)

    def differences(self, other: RunConfig) -> list[str]:
        """The settings in which two runs would give different results."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [key for key in mine if key not in FREE_ON_RESUME and mine[key] != theirs[key]]
