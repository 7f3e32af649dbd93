"""How wide a network must be to have a number of parameters."""

from __future__ import annotations

from typing import Any

from torch import nn

from steerable.errors import did_you_mean
from steerable.models import widths
from steerable.models.registry import build_model
from steerable.training.config import CLASSIFIERS

__all__ = ["count_parameters", "sized_model", "with_depth"]


def sized_model(model: dict[str, Any], parameters: int, **kind: int) -> dict[str, Any]:
    """The model with the width at which it comes nearest to a number of parameters.

    >>> sized_model({"name": "resnet", "depth": 8}, 45_000, in_channels=1)["copies"]
    2
    """
    if (name := model["name"]) not in CLASSIFIERS:
        raise ValueError(f"a classifier is one of {', '.join(CLASSIFIERS)}. {did_you_mean(str(name), CLASSIFIERS)}")
    option = CLASSIFIERS[name].width
    width = widths.nearest_width(lambda width: _built({**kind, **model, option: width}), parameters)
    return {**model, option: width}


def with_depth(model: dict[str, Any], depth: int) -> dict[str, Any]:
    """The model with this depth, unless it has another one or is of a kind that has none."""
    entry = CLASSIFIERS.get(model["name"])
    return model if entry is not None and "depth" not in entry.options else {"depth": depth, **model}


def count_parameters(model: dict[str, Any]) -> int:
    """The number of parameters of a model, by its name and options."""
    return widths.count_parameters(lambda: _built(model))


def _built(model: dict[str, Any]) -> nn.Module:
    return build_model(model["name"], **{key: value for key, value in model.items() if key != "name"})
