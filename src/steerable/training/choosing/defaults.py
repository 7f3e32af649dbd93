"""The request of a run from what a user says, with defaults for people's own images and for named data sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from steerable.data.datasets import DATASETS, check_source
from steerable.data.mask_pairs import LAYOUT, has_masks
from steerable.data.volume_folders import holds_volumes
from steerable.errors import did_you_mean, one_of
from steerable.models.places import is_hub_name
from steerable.models.registry import MODELS, models_for
from steerable.training.choosing.orientation import OPEN, POSES, with_orientation
from steerable.training.choosing.sizing import count_parameters, with_depth
from steerable.training.requests.config import (
    KNOWN_DATA_RECIPE,
    OWN_IMAGES,
    PLAIN_RATES,
    RATE_OF_VOLUMES,
    RECIPES_OF_OWN_IMAGES,
    SIZES,
    TRAINED,
    WIDTHS,
    RunConfig,
)
from steerable.training.requests.plan import Plan
from steerable.training.requests.recipes import load_recipe
from steerable.types.network_plans import check_stem

__all__ = ["OWN_IMAGES", "configured", "repeated"]

FAR_TOO_LARGE = 20  # times the wanted parameters; less is warned of when the classes are known


def configured(
    dataset: str,
    model: Mapping[str, Any],
    *,
    recipe: str | None = None,
    changes: Mapping[str, Any] | None = None,
    **settings: Any,
) -> RunConfig:
    """The request of a run; every argument that is None gets its default.

    Args:
        dataset: a name, a folder or a .csv file.
        model: its name and options; without a name, the first one for the task. For people's own images
            ``head="invariant"`` is added, and a width from ``parameters``.
        recipe: its name, or a TOML file.
        changes: single settings of the recipe, None for those that stay.
        **settings: those of :class:`~steerable.training.requests.config.RunConfig`. For people's own images
            ``OWN_IMAGES`` has the defaults of some; a number of epochs or a width takes the place of minutes or of
            parameters. A folder with masks is for segmentation, unless ``task`` says otherwise, and one of volumes is
            recognised by its files, unless ``volumes`` says otherwise.
    """
    dataset = _located(dataset)
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings.get("orientation", "model") != "model" and "head" in model:
        raise ValueError(
            f"orientation={settings['orientation']} chooses the network's head, and head={model['head']} gives it "
            "already. Give one of the two."
        )
    task = settings.setdefault("task", _task(dataset))
    _check_task(task, dataset)
    if "start" in settings:  # the model is that network
        settings["start"] = _located_start(settings["start"])
    else:
        model = {"name": next(iter(TRAINED[task])), **model}
    if "volumes" in settings:
        _check_volumes(settings["volumes"], dataset)
    if settings.setdefault("volumes", _has_volumes(dataset)) and "name" in model:
        model = _of_volumes(model)
    changes = {name: value for name, value in (changes or {}).items() if value is not None}
    if dataset in DATASETS:
        recipe = recipe or KNOWN_DATA_RECIPE
        if "minutes" in settings and "epochs" in changes:  # a time makes them fewer, not more
            settings.setdefault("fit", "shorten")
    else:
        if recipe is None and settings["volumes"] and "group" in _options(model):
            changes = {"learning_rate": RATE_OF_VOLUMES, **changes}
        if recipe is None and not {"group", "groups"} & _options(model).keys():
            changes = {**PLAIN_RATES, **changes}
        if _says_nothing_of_poses(model, settings, changes):
            settings.setdefault("orientation", OPEN)
        recipe = recipe or RECIPES_OF_OWN_IMAGES[task]
        model, settings = _for_own_images(model, settings, "epochs" in changes)
    config = RunConfig(dataset=dataset, model=dict(model), recipe=load_recipe(recipe, **changes), **settings)
    if config.orientation in POSES:
        config = with_orientation(config, config.orientation)
    if config.start is None:  # else the network is there, and is looked at when the run begins
        _check_network(config)
    return config


def repeated(
    plan: Plan,
    dataset: str,
    *,
    model: Mapping[str, Any] | None = None,
    recipe: str | None = None,
    changes: Mapping[str, Any] | None = None,
    **settings: Any,
) -> RunConfig:
    """The request that repeats a plan; anything else that is given is added to it, and must not contradict the plan."""
    changes = dict(changes or {})
    known = plan.settings.left_open_again()
    cooked = replace(known.recipe, **changes) if recipe is None else load_recipe(recipe, **changes)
    network = known.model
    if settings.get("parameters") is not None:  # the plan has the sizes that they came to
        network = {option: value for option, value in network.items() if option not in SIZES}
    changed = {**network, **(model or {})}
    return replace(known, dataset=_located(dataset), model=changed, recipe=cooked, **settings)


def _located(dataset: str) -> str:
    """The data set's name, or the absolute path of an existing folder or file."""
    check_source(dataset)
    return dataset if dataset in DATASETS else str(Path(dataset).expanduser().resolve())


def _located_start(start: str) -> str:
    """The absolute path of a folder, or a name on the hub."""
    path = Path(start).expanduser()
    return start if is_hub_name(start) else str(path.resolve())


def _task(dataset: str) -> str:
    """The task that a folder's layout implies."""
    return "segment" if dataset not in DATASETS and has_masks(dataset) else "classify"


def _has_volumes(dataset: str) -> bool:
    return DATASETS[dataset].axes == 3 if dataset in DATASETS else holds_volumes(dataset)


def _options(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of the named model; the default model's if a run starts from a network or the name is unknown."""
    entry = MODELS.get(model.get("name", "resnet"))
    return {} if entry is None else entry.options


def _says_nothing_of_poses(model: Mapping[str, Any], settings: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Whether a run has to find out what poses mean; a run with a number of epochs has no time for that."""
    is_of_images = settings["task"] == "classify" and not settings["volumes"] and "start" not in settings
    said = {"group", "head", "stream", "restricted_to"} & model.keys() or {"turn", "mirror", "epochs"} & changes.keys()
    return is_of_images and not said and "head" in _options(model)


def _check_volumes(volumes: bool, dataset: str) -> None:
    """Refuse to read a known data set as anything but what it is."""
    if dataset in DATASETS and volumes != _has_volumes(dataset):
        kind = "volumes" if _has_volumes(dataset) else "images"
        raise ValueError(f"`{dataset}` is a known data set of {kind}; got volumes={volumes}. Leave that out.")


def _of_volumes(model: Mapping[str, Any]) -> dict[str, Any]:
    """The model on three axes, if there is one."""
    entry = MODELS.get(model["name"])  # an unknown name is refused later
    if entry is not None and "axes" not in entry.options:
        known = [name for name, other in models_for(entry.task).items() if "axes" in other.options]
        raise ValueError(f"{model['name']} is a network of images, and these are volumes. Use {one_of(known)}.")
    return {"axes": 3, **model}


def _check_task(task: str, dataset: str) -> None:
    """Refuse an unknown task, and segmentation of data without masks, before anything is read."""
    if task not in TRAINED:
        raise ValueError(f"task is {task!r}, expected {one_of(TRAINED)}. {did_you_mean(str(task), TRAINED)}")
    if task == "segment" and _task(dataset) != task:
        raise ValueError(f"`{dataset}` has no masks to learn segmentation from, expected a folder with {LAYOUT}.")


def _for_own_images(
    model: Mapping[str, Any], given: Mapping[str, Any], has_epochs: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(model, settings) with the defaults for a folder or a table of images."""
    sized = any(option in given for option in ("parameters", "start")) or any(option in model for option in WIDTHS)
    defaults: dict[str, Any] = {name: value for name, value in OWN_IMAGES.items() if name != "recipe"}
    if sized:
        del defaults["parameters"]
    if has_epochs:
        del defaults["minutes"]
    if given.get("validation") == 0:
        del defaults["patience"]
    entry = MODELS.get(model["name"]) if "start" not in given else None  # an unknown name is refused later
    head = {"head": "invariant"} if entry is not None and "head" in entry.options else {}
    return {**head, **model}, {**defaults, "fit": "shorten" if sized else "shrink", **given}


def _check_network(config: RunConfig) -> None:
    """Build the network once without storage, so that a wrong option is refused before any image is read."""
    name, parameters, known = config.model["name"], config.parameters, TRAINED[config.task]
    if name not in known:
        kind = "classifier" if config.task == "classify" else "network for segmentation"
        raise ValueError(
            f"a run trains a {kind}, {one_of(known)}; got {name!r}, an unknown model or one with "
            f"another task. {did_you_mean(name, known)}"
        )
    check_stem(config.model.get("stem", 1), config.image_size)
    if parameters is None:
        count_parameters(config.model)
        return
    smallest = count_parameters({**with_depth(config.model, shallow=True), known[name].width: 1})
    if smallest > FAR_TOO_LARGE * parameters:
        raise ValueError(
            f"parameters={parameters:,} is too few: the smallest {name} of this kind has {smallest:,}. Ask for that "
            "many."
        )
