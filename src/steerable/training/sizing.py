"""How wide a network must be to have a number of parameters."""

from __future__ import annotations

from typing import Any

import torch

from steerable.errors import did_you_mean
from steerable.models import build_model

__all__ = ["WIDTHS", "count_parameters", "sized_model"]

WIDTHS = {"resnet": "copies", "plain_resnet": "width"}
"""The models that classify, and the option that says how wide each is."""


def sized_model(model: dict[str, Any], parameters: int, **kind: int) -> dict[str, Any]:
    """The model with the width at which it comes nearest to a number of parameters.

    >>> sized_model({"name": "resnet", "depth": 8}, 45_000, in_channels=1)["copies"]
    2
    """
    if model["name"] not in WIDTHS:
        raise ValueError(f"a classifier is one of {', '.join(WIDTHS)}. {did_you_mean(str(model['name']), WIDTHS)}")
    option = WIDTHS[model["name"]]

    def size(width: int) -> int:
        return count_parameters({**kind, **model, option: width})

    high = 1
    while size(high) < parameters:
        high *= 2
    low = max(1, high // 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) < parameters else (low, middle)
    nearest = min((low, high), key=lambda width: abs(size(width) - parameters))
    return {**model, option: nearest}


def count_parameters(model: dict[str, Any]) -> int:
    """Of a network that is built without storage."""
    with torch.device("meta"):
        network = build_model(model["name"], **{key: value for key, value in model.items() if key != "name"})
    return sum(p.numel() for p in network.parameters())
