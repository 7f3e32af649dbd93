"""The optimiser of a recipe."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from steerable import nn as snn
from steerable.training.requests.recipes import Recipe

__all__ = ["make_optimiser", "set_learning_rate"]

SQUARES = 0.999
"""The share that Adam's mean squared gradient keeps."""


def make_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD or AdamW for all parameters of the model that are not frozen; those of norms and biases do not decay.

    With ``recipe.rates_by_sharing`` each filter bank has a rate of its own: :func:`steerable.nn.parameter_groups`.
    """
    settings = snn.parameter_groups(
        model,
        recipe.learning_rate,
        recipe.weight_decay,
        optimiser="sgd" if recipe.optimiser == "sgd" else "adam",
        by_sharing=recipe.rates_by_sharing,
    )
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(settings, betas=(recipe.momentum, SQUARES))
    return torch.optim.SGD(settings, momentum=recipe.momentum, nesterov=recipe.nesterov)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the recipe's current rate for every group, times the group's own factor."""
    group: dict[str, Any]
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)  # checkpoints of earlier versions have no factors
