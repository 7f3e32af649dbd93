"""What a run does where nothing is said: sensible for people's own images, the paper's way for named data sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steerable.data.datasets import DATASETS, check_source
from steerable.errors import did_you_mean
from steerable.training.config import RunConfig
from steerable.training.recipes import load_recipe
from steerable.training.sizing import WIDTHS, count_parameters

__all__ = ["OWN_IMAGES", "configured"]

OWN_IMAGES: dict[str, Any] = {
    "recipe": "images",
    "validation": 0.15,
    "patience": 20,
    "minutes": 10.0,
    "parameters": 100_000,
}
"""For a folder or a table; besides, the group is D4, the classifier is invariant, and the image size is the images'."""

FAR_TOO_LARGE = 20  # times the parameters that were asked for; less is warned of when the classes are known


def configured(
    dataset: str,
    model: Mapping[str, Any],
    *,
    recipe: str | None = None,
    changes: Mapping[str, Any] | None = None,
    parameters: int | None = None,
    minutes: float | None = None,
    validation: float | None = None,
    patience: int | None = None,
    **settings: Any,
) -> RunConfig:
    """The config of a run; whatever is None gets its default.

    Args:
        dataset: a name, a folder or a .csv file.
        model: its name and options. For people's own images ``head="invariant"`` is added, and a width from
            ``parameters``.
        recipe: its name, or a TOML file.
        changes: single settings of the recipe, None for those that stay.
        parameters: so many for the network, roughly.
        minutes: the time that training may take; without ``epochs`` among the changes, 10 for people's own images.
        validation: the share to hold out.
        patience: epochs without progress after which to stop; 0 never stops early.
        **settings: further ones of :class:`~steerable.training.config.RunConfig`.
    """
    check_source(dataset)
    own = dataset not in DATASETS
    changes, model = dict(changes or {}), dict(model)
    if own:
        dataset = str(Path(dataset).expanduser().resolve())
        if model["name"] == "resnet":
            model.setdefault("head", "invariant")
        wide = any(option in model for option in WIDTHS.values())
        settings["fit"] = "shrink" if parameters is None and not wide else "shorten"
        if parameters is None and not wide:
            parameters = OWN_IMAGES["parameters"]
        if minutes is None and changes.get("epochs") is None:
            minutes = OWN_IMAGES["minutes"]
        validation = OWN_IMAGES["validation"] if validation is None else validation
        if patience is None:
            patience = OWN_IMAGES["patience"] if validation else 0
    elif minutes is not None and changes.get("epochs") is not None:  # so many were asked for; a time makes them fewer
        settings.setdefault("fit", "shorten")
    config = RunConfig(
        dataset=dataset,
        model=model,
        recipe=load_recipe(recipe or (OWN_IMAGES["recipe"] if own else "modern"), **changes),
        parameters=parameters,
        minutes=minutes,
        validation=validation or 0.0,
        patience=patience or 0,
        **settings,
    )
    if config.model["name"] not in WIDTHS:
        raise ValueError(
            f"a run trains a classifier, {' or '.join(WIDTHS)}; got {config.model['name']!r}, an unknown model or one "
            f"with another task. {did_you_mean(str(config.model['name']), WIDTHS)}"
        )
    # Built once without storage: a wrong option is refused before any image is read.
    if parameters is None:
        count_parameters(config.model)
    else:
        smallest = count_parameters({"depth": 8, **config.model, WIDTHS[config.model["name"]]: 1})
        if smallest > FAR_TOO_LARGE * parameters:
            raise ValueError(
                f"parameters={parameters:,} is too few: the smallest {config.model['name']} of this kind has "
                f"{smallest:,}. Ask for that many."
            )
    return config
