"""The config of a run: everything that decides its outcome, as a JSON file in the run folder."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from steerable.atomic import write_json
from steerable.errors import did_you_mean
from steerable.training.limits import Range, check_flags, check_numbers
from steerable.training.recipes import Recipe
from steerable.training.run_files import read_object

__all__ = ["RunConfig"]

Fit = Literal["stretch", "shorten", "shrink"]
Evaluation = Literal["test", "validation"]
PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")
ACCELERATORS = ("auto", "cpu", "gpu")
BACKENDS = ("auto", "dense", "fourier")
# Images of more pixels, or networks of more parameters, fit no machine; seeds are those of numpy.
NUMBERS = {
    "labels": Range(1, 10**9, whole=True, optional=True),
    "validation": Range(0, 10**9),
    "seed": Range(0, 2**32 - 1, whole=True),
    "image_size": Range(4, 4096, whole=True, optional=True),
    "parameters": Range(1, 10**9, whole=True, optional=True),
    "minutes": Range(0, 10**6, above=True, optional=True),
    "patience": Range(0, 10**9, whole=True),
    "devices": Range(1, 10**4, whole=True),
    "nodes": Range(1, 10**5, whole=True),
    "checkpoint_seconds": Range(0, 10**9),
}
FLAGS = ("compile", "cuda_graphs", "channels_last", "progress")
CHOICES = {
    "fit": get_args(Fit),
    "evaluate": get_args(Evaluation),
    "precision": PRECISIONS,
    "accelerator": ACCELERATORS,
    "backend": BACKENDS,
}
# What may change when a run is resumed: where it runs, not what it computes.
FREE_ON_RESUME = ("data_dir", "accelerator", "devices", "nodes", "progress", "checkpoint_seconds")


@dataclass(frozen=True)
class RunConfig:
    """One training run.

    Args:
        dataset: ``"digits"``, ``"cifar10"``, ``"cifar100"``, or the path of an image folder or of a .csv table.
        model: the model's name and its arguments, ``{"name": "resnet", "depth": 14, …}``; channels and classes come
            from the data.
        recipe: how it is trained.
        labels: how many labelled training images to use, balanced over the classes; all where None.
        validation: how many of them (or which share, below 1) to hold out and report on; a data set's own validation
            images are used instead where it has some.
        seed: of the subset, the weights, the order and the augmentation.
        data_dir: where the data set's files are.
        parameters: choose the width at which the network comes nearest to so many.
        minutes: fit the run to this time.
        fit: what that may change. ``"stretch"``: the number of epochs, up or down. ``"shorten"``: only down.
            ``"shrink"``: down, and the network's parameters too where few epochs would be left.
        evaluate: which images the results are about. ``"validation"`` is for choosing settings: the test images are not
            looked at, and the results have a ``validation_error`` in place of a ``test_error``.
        patience: stop after so many epochs without a lower validation loss, and keep the weights of the best epoch;
            0 trains to the end and keeps the last ones.
        precision: Lightning's, ``"32-true"`` or ``"bf16-mixed"``.
        compile: run the network through ``torch.compile``.
        cuda_graphs: record the network's passes, compiled or not, and replay them, so that a GPU does not wait for
            Python.
        channels_last: the memory format that GPUs prefer.
        backend: how convolutions are carried out, ``"dense"`` or ``"fourier"``. ``"auto"`` measures, and may choose
            differently in another process, so that a resumed run agrees to rounding only.
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
    parameters: int | None = None
    minutes: float | None = None
    fit: Fit = "stretch"
    evaluate: Evaluation = "test"
    patience: int = 0
    precision: str = "32-true"
    compile: bool = False
    cuda_graphs: bool = False
    channels_last: bool = False
    backend: str = "dense"
    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    progress: bool = True
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.model, dict) or not isinstance(self.model.get("name"), str):
            raise ValueError("a run's model names itself: {'name': 'resnet', ...}.")
        for name, kinds in (("dataset", str), ("data_dir", str | None)):
            if not isinstance(getattr(self, name), kinds):
                raise ValueError(f"{name} is text; got {getattr(self, name)!r}.")
        check_numbers("", vars(self), NUMBERS)
        check_flags("", vars(self), FLAGS)
        if self.validation > 1 and self.validation != int(self.validation):
            raise ValueError(f"validation is a share below 1 or a number of images, got {self.validation}.")
        for name in ("in_channels", "num_classes"):
            if name in self.model:
                raise ValueError(
                    f"{name} comes from the images and is no option of a run's model; got {name}="
                    f"{self.model[name]!r}. Leave it out."
                )
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is one of {', '.join(known)}; got {getattr(self, name)!r}.")
        if self.patience and not self.validation:
            raise ValueError(
                f"patience {self.patience} watches the loss on validation images, and none are held out. Hold some out "
                "with validation=0.15."
            )
        if self.evaluate == "validation" and not self.validation:
            raise ValueError(
                "evaluate is `validation`, and no images are held out for it. Hold some out with validation=0.25."
            )
        if self.parameters is not None and (given := [key for key in ("copies", "width") if key in self.model]):
            raise ValueError(
                f"parameters={self.parameters:,} chooses the network's width, and {given[0]}={self.model[given[0]]} "
                "gives it already. Give one of the two."
            )
        if self.cuda_graphs and self.devices * self.nodes > 1:
            raise ValueError(f"cuda_graphs are for one device; got {self.devices} devices on {self.nodes} nodes.")
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
        for key in ("dataset", "model"):
            if key not in values:
                raise ValueError(f"a run's config has no `{key}`, and every run has one.")
        recipe = values.get("recipe", {})
        return RunConfig(**{**values, "recipe": recipe if isinstance(recipe, Recipe) else Recipe.from_dict(recipe)})

    def save(self, path: Path) -> None:
        write_json(path, self.to_dict())

    @staticmethod
    def load(path: Path) -> RunConfig:
        """What ``save`` wrote; ValueError with the file's name where it was damaged or edited."""
        values = read_object(path)
        try:
            return RunConfig.from_dict(values)
        except (ValueError, TypeError) as error:
            raise ValueError(f"`{path}` is not the config of a run: {error}") from error

    def elsewhere(self, other: RunConfig) -> RunConfig:
        """This run, carried out where and how the other one would be."""
        where: dict[str, Any] = {key: getattr(other, key) for key in FREE_ON_RESUME}
        return dataclasses.replace(self, **where)

    def as_fitted(self, earlier: RunConfig) -> RunConfig:
        """This config with what an earlier start of the same run has fitted to its time budget."""
        if self.minutes is None or self.minutes != earlier.minutes:
            return self
        parameters = earlier.parameters if self.fit == "shrink" else self.parameters
        return dataclasses.replace(self, recipe=self.recipe.with_epochs(earlier.recipe.epochs), parameters=parameters)

    def shortened(self, epochs: int) -> RunConfig:
        """With the epochs that were trained before the run stopped early."""
        return dataclasses.replace(self, recipe=dataclasses.replace(self.recipe, epochs=epochs))

    def differences(self, other: RunConfig) -> list[str]:
        """The settings in which two runs would give different results."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [key for key in mine if key not in FREE_ON_RESUME and mine[key] != theirs[key]]
