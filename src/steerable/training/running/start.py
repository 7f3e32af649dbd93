"""The start of a run from a trained network: its layout, its classes and its weights.

The weights are copied into the run folder, ``start.safetensors`` with ``start.json``, so that a resumed run ends with
the same bits whatever has become of the network that it started from. The plan has their SHA-256.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from steerable.atomic import write_json
from steerable.errors import listing
from steerable.models.parts import frozen_parts, image_channels, parts_of
from steerable.models.places import WEIGHTS, local_folder, read_config
from steerable.models.registry import MODELS, build_model, described_model, recognised_model
from steerable.models.tensor_files import read_tensors, tensor_digest, write_tensors
from steerable.models.transfer import transfer_weights
from steerable.training.requests.config import TRAINED, RunConfig
from steerable.training.requests.plan import Plan
from steerable.training.requests.run_files import IMAGES, START, START_JSON, START_WEIGHTS, read_fields
from steerable.types.field_types import FieldType

__all__ = ["Start", "with_network", "with_start"]

FREE = ("head", "dropout")
"""The options that may differ from those of the network that a run starts from: they change no other weights."""
RESTRICT = (
    " To train it over a subgroup, save it restricted, with `network.restrict('C4').save_pretrained(folder)`, and "
    "start from that folder."
)


@dataclass(frozen=True)
class Start:
    """A saved network that a run starts from.

    Args:
        name: what the user calls it.
        model: its name and all of its options.
        classes: their names, () if they are unknown.
        weights: its tensors.
    """

    name: str
    model: dict[str, Any]
    classes: tuple[str, ...]
    weights: dict[str, Tensor]

    @staticmethod
    def found(name: str, task: str) -> Start:
        """The network of a run folder, a saved model's folder, or the hub; a ValueError if it has another task."""
        place = local_folder(name)
        weights = read_tensors(place / WEIGHTS)
        about = read_fields(place / "images.json", IMAGES) if (place / "images.json").is_file() else {}
        model = _model_in(place, weights)
        known = model["name"]
        if known not in TRAINED[task]:
            kinds = {"classify": "gives classes of images", "segment": "gives classes of pixels"}
            does = next((words for kind, words in kinds.items() if known in TRAINED[kind]), "is unknown")
            raise ValueError(
                f"`{name}` holds a {known}, which {does}, and this run is to {task}. Start from a network for the same "
                f"task: {listing(TRAINED[task])}."
            )
        return Start(name, model, tuple(about.get("classes") or ()), weights)

    @staticmethod
    def in_run(folder: Path) -> Start:
        """The network that :meth:`save` wrote into a run folder."""
        try:
            values = read_fields(folder / START_JSON, START, START)
            weights = read_tensors(folder / START_WEIGHTS)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"the run in {folder} cannot continue without the weights that it started from: {error} Put the file "
                "back as it was, or choose another run folder."
            ) from error
        return Start(values["name"], values["model"], tuple(values["classes"]), weights)

    def save(self, folder: Path) -> None:
        """Copy the network into a run folder."""
        write_tensors(folder / START_WEIGHTS, self.weights)
        write_json(folder / START_JSON, {"name": self.name, "model": self.model, "classes": list(self.classes)})

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of its tensors."""
        return tensor_digest(self.weights)

    def settled(self, request: RunConfig) -> RunConfig:
        """The request with this network's layout; a ValueError if the request contradicts it.

        Args:
            request: its model may have no name, and options that agree with this network's; a head of another kind and
                another dropout are allowed.
        """
        known, given = self.model["name"], dict(request.model)
        if given.pop("name", known) != known:
            raise ValueError(
                f"`{self.name}` holds a {known}, and the run asks for a {request.model['name']}. Leave the model out: "
                "a run uses the network that it starts from."
            )
        if "group" in given and "groups" in MODELS[known].options:
            given["groups"] = given.pop("group")
        own = {key: value for key, value in self.model.items() if key not in MODELS[known].from_data}
        described = described_model(own)
        layout, group = str(described), getattr(described, "group", None)  # the text shows all types and sizes
        said = own if group is None else {"group": group.name, **own}
        for key, value in given.items():
            if key not in FREE and str(described_model({**own, key: value})) != layout:
                raise ValueError(
                    f"the run asks for {key}={value}, and the network in `{self.name}` has "
                    f"{key}={said.get(key, 'its default')}: layout and group come from the network that a run starts "
                    f"from. Leave {key} out.{RESTRICT if key in ('group', 'groups', 'restricted_to') else ''}"
                )
        model = {**own, **{key: value for key, value in given.items() if key in FREE}}
        if request.freeze is not None:
            frozen_parts(parts_of(described_model(model)), request.freeze)
        return replace(request, model=model)

    def carry_into(self, network: nn.Module, classes: Sequence[str], freeze: str | None = None) -> str:
        """Give a run's network these weights, and return a line that says what was done.

        The head stays as it was drawn unless the classes are the same. Filters of the first convolution are adapted
        where the images have another number of channels.

        Args:
            network: the run's, with drawn weights.
            classes: the run's.
            freeze: which parts are frozen, for the line.
        """
        source = build_model(**self.model)
        source.load_state_dict(self.weights)
        same = self.classes == tuple(classes) and str(source.get_submodule("head")) == str(
            network.get_submodule("head")
        )
        transfer_weights(source, network, head=same)
        before, now = image_channels(source), image_channels(network)
        heads = "the head is kept, since the classes are the same" if same else f"a new head for {len(classes)} classes"
        named = "1 channel" if before == 1 else f"{before} channels"
        channels = f"; filters for {named} adapted to {now}" if before != now else ""
        frozen = f"; frozen: {listing(frozen_parts(parts_of(network), freeze), 20)}" if freeze else ""
        return f"Starts from the weights of {self.name} (SHA-256 {self.digest[:12]}…): {heads}{channels}{frozen}."


def with_network(request: RunConfig, folder: Path | None) -> tuple[Start | None, RunConfig]:
    """The network that a run starts from, if it starts from one, and the request with the layout of that network.

    Args:
        request: what the user says.
        folder: that of the run that is resumed, which has a copy; None for a new one.
    """
    if request.start is None:
        return None, request
    start = Start.found(request.start, request.task) if folder is None else Start.in_run(folder)
    return start, start.settled(request)


def with_start(plan: Plan, start: Start | None) -> Plan:
    """The plan with the SHA-256 of the weights that its run starts from; a ValueError if it has another one."""
    digest = None if start is None else start.digest
    if plan.start not in (None, digest):
        raise ValueError(
            f"the weights of `{plan.settings.start}` are not those that the plan was made for: they have changed "
            "since. Leave the plan out, or begin another run."
        )
    return replace(plan, start=digest)


def _model_in(place: Path, weights: dict[str, Tensor]) -> dict[str, Any]:
    """The name and the options of the network in a folder; it must take images."""
    config = read_config(place)
    try:
        model = recognised_model(config, {key: tuple(value.shape) for key, value in weights.items()})
    except ValueError as error:
        raise ValueError(
            f"`{place}` does not hold a network that a run can start from: {error} Give a run folder, or a folder that "
            "`save_pretrained` wrote."
        ) from error
    in_type = getattr(described_model(model), "in_type", None)
    if in_type is not None and in_type != FieldType(in_type.group, [(in_type.channels, in_type.group.trivial)]):
        raise ValueError(
            f"the network in `{place}` takes fields of the type `{in_type}`, and images have scalar channels. Start "
            "from a network that takes images."
        )
    return model
