"""Models by name and config, as run folders and the command line store them.

A new model is a class that saves itself (see :class:`~steerable.models.saving.SavedModel`) and an entry of ``MODELS``.
Nothing here imports torch before a model is built, so that help texts can list names and options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from steerable.errors import did_you_mean, one_of
from steerable.lazy import resolve

if TYPE_CHECKING:
    from torch import nn

__all__ = ["MODELS", "ModelEntry", "build_model", "described_model", "models_for", "recognised_model"]

Task = Literal["classification", "dense"]


@dataclass(frozen=True)
class ModelEntry:
    """A model that has a name.

    Args:
        home: its class, ``"module:name"``.
        task: ``"classification"`` gives scores for an image, ``"dense"`` numbers for each pixel.
        width: the option that says how wide the network is.
        options: its other options, each with its choices where there are only a few.
        from_data: the options that follow from the images and the task, which a run's config does not give.
        sizes: depths and widths from small to large, among which a run that has a time chooses.
        volume_sizes: those of a network of volumes, where the model can be one.
    """

    home: str
    task: Task
    width: str
    options: Mapping[str, tuple[str, ...]]
    from_data: tuple[str, ...]
    sizes: tuple[Mapping[str, int], ...] = ()
    volume_sizes: tuple[Mapping[str, int], ...] = ()

    def sizes_on(self, axes: int) -> tuple[Mapping[str, int], ...]:
        """The sizes for images or for volumes."""
        return self.sizes if axes == 2 else self.volume_sizes

    @property
    def all_options(self) -> tuple[str, ...]:
        return (self.width, *self.options, *self.from_data)

    @property
    def help(self) -> str:
        """The options of a run's config in one line."""
        shown = (f"{name} ({', '.join(choices)})" if choices else name for name, choices in self.options.items())
        return ", ".join([self.width, *shown])

    def from_pretrained(self, folder: str | Path) -> nn.Module:
        """The network that ``save_pretrained`` wrote into a folder."""
        network: nn.Module = resolve(self.home).network_in(folder)
        return network


def _sizes(width: str, by_depth: Mapping[int, tuple[int, ...]]) -> tuple[Mapping[str, int], ...]:
    """A size for each depth and each of its widths, in the given order."""
    return tuple({"depth": depth, width: number} for depth, numbers in by_depth.items() for number in numbers)


MODELS = {
    "resnet": ModelEntry(
        home="steerable.models.resnets:ResNet",
        task="classification",
        width="copies",
        options={
            "depth": (),
            "group": (),
            "stream": (),
            "inner": (),
            "head": ("linear", "mirror", "invariant", "max"),
            "downsampling": ("pool", "stride"),
            "stem": ("1", "2", "4", "8"),
            "kernel_size": (),
            "restricted_to": (),
            "axes": ("2", "3"),
        },
        from_data=("num_classes", "in_channels"),
        sizes=_sizes("copies", {8: (1, 2, 3, 4), 14: (4, 6)}),
        volume_sizes=_sizes("copies", {8: (1, 2), 14: (2, 4)}),
    ),
    "plain_resnet": ModelEntry(
        home="steerable.models.plain_resnets:PlainResNet",
        task="classification",
        width="width",
        options={
            "depth": (),
            "inner": (),
            "crelu": ("true", "false"),
            "stem": ("1", "2", "4", "8"),
            "axes": ("2", "3"),
        },
        from_data=("num_classes", "in_channels"),
        sizes=_sizes("width", {8: (16, 32, 48, 64), 14: (64, 96)}),
        volume_sizes=_sizes("width", {8: (8, 16, 24), 14: (24, 48)}),
    ),
    "wide_resnet": ModelEntry(
        home="steerable.models.wide_resnets:WideResNet",
        task="classification",
        width="width",
        options={
            "depth": (),
            "groups": (),
            "match": ("parameters", "channels"),
            "dropout": (),
            "downsampling": ("pool", "stride"),
            "restricted_to": (),
        },
        from_data=("num_classes", "in_channels"),
        sizes=_sizes("width", {10: (1, 2, 4), 16: (4, 8)}),
    ),
    "plain_wide_resnet": ModelEntry(
        home="steerable.models.plain_wide_resnets:PlainWideResNet",
        task="classification",
        width="width",
        options={"depth": (), "dropout": ()},
        from_data=("num_classes", "in_channels"),
        sizes=_sizes("width", {10: (1, 2, 4), 16: (4, 8)}),
    ),
    "unet": ModelEntry(
        home="steerable.models.unets:UNet",
        task="dense",
        width="copies",
        options={"depth": (), "group": (), "stream": (), "inner": (), "restricted_to": (), "axes": ("2", "3")},
        from_data=("out_type", "in_type", "in_channels"),
        sizes=_sizes("copies", {2: (1,), 3: (1, 2, 3, 4), 4: (4, 6, 8)}),
    ),
    "plain_unet": ModelEntry(
        home="steerable.models.plain_unets:PlainUNet",
        task="dense",
        width="width",
        options={"depth": (), "axes": ("2", "3")},
        from_data=("out_channels", "in_channels"),
        sizes=_sizes("width", {2: (8,), 3: (8, 16, 24, 32), 4: (32, 48, 64)}),
    ),
}
"""The models that have a name."""


def models_for(task: Task) -> dict[str, ModelEntry]:
    """The models with this task."""
    return {name: entry for name, entry in MODELS.items() if entry.task == task}


def build_model(name: str, **config: Any) -> nn.Module:
    """The model of this name with these options; an unknown name is refused with the nearest known one.

    >>> type(build_model("plain_resnet", depth=8, width=4)).__name__
    'PlainResNet'
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}. {did_you_mean(str(name), MODELS)}")
    entry = MODELS[name]
    for key in config:
        if key not in entry.all_options:
            raise ValueError(f"{name} has no option `{key}`. {did_you_mean(key, entry.all_options)}")
    network: nn.Module = resolve(entry.home)(**config)
    return network


def described_model(model: Mapping[str, Any]) -> nn.Module:
    """A model without storage, by its name and options: for its layout, its types and the shapes of its tensors."""
    import torch

    with torch.device("meta"):
        return build_model(**model)


def recognised_model(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The name and the options of a saved network whose config does not name its model.

    Args:
        config: its options.
        shapes: the names and shapes of its tensors.

    >>> network = build_model("plain_resnet", depth=8, width=4)
    >>> shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    >>> recognised_model({"depth": 8, "width": 4}, shapes)["name"]
    'plain_resnet'
    """
    given = {key: value for key, value in config.items() if value is not None}
    for name, entry in MODELS.items():
        model = {"name": name, **given}
        if not given.keys() <= {*entry.all_options}:
            continue
        try:
            tensors = described_model(model).state_dict()
        except (TypeError, ValueError):  # options of another model
            continue
        if {key: tuple(value.shape) for key, value in tensors.items()} == dict(shapes):
            return model
    raise ValueError(f"expected the config and the weights of {one_of(MODELS)}; these are of another network.")
