"""The optimiser of a recipe: which parameters decay, and at which rate each of them learns."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from steerable import nn as snn
from steerable.nn.filter_bank import FilterBankModule
from steerable.training.recipes import Recipe

__all__ = ["make_optimiser", "set_learning_rate"]

SQUARES = 0.999
"""The share that Adam's mean squared gradient keeps."""
_NORMS = (
    *(nn.BatchNorm2d, nn.BatchNorm3d, snn.BatchNorm2d, snn.BatchNorm3d),
    *(snn.InstanceNorm2d, snn.InstanceNorm3d, snn.GroupNorm, snn.LayerNorm),
)


def make_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """SGD or AdamW for all parameters of the model that are not frozen; those of norms and biases do not decay.

    With ``recipe.rates_by_sharing`` the coefficients c of a filter bank with μ = (weights of the bank) / (coefficients)
    are trained as u = c / √μ would be with the recipe's own rate η and decay λ. As √μ · ∂L/∂c is the gradient by u,
    that is with SGD

        u ← u - η (√μ ∂L/∂c + λ u)   ⟺   c ← c - μη (∂L/∂c + (λ/μ) c),   with and without momentum,

    the rate μη and the decay λ/μ. Adam divides by the size of gradients, so that there it is √μ in place of μ. The bank
    of a network on regular fields has the weights u themselves, each μ = |G| times: u is what group convolutions store.
    Where nothing is shared, μ = 1.
    """
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:  # frozen
                continue
            fixed = isinstance(module, _NORMS) or name == "bias"  # without decay
            sharing = _sharing(module) if recipe.rates_by_sharing and name == "weight" else 1.0
            factor = sharing if recipe.optimiser == "sgd" else math.sqrt(sharing)
            groups.setdefault((fixed, factor), []).append(parameter)
    # In a fixed order, because a checkpoint knows its groups by number: those that decay first.
    settings = [
        {
            "params": parameters,
            "lr": factor * recipe.learning_rate,
            "weight_decay": 0.0 if fixed else recipe.weight_decay / factor,
            "rate_factor": factor,
        }
        for (fixed, factor), parameters in sorted(groups.items(), key=lambda item: item[0])
    ]
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(settings, betas=(recipe.momentum, SQUARES))
    return torch.optim.SGD(settings, momentum=recipe.momentum, nesterov=recipe.nesterov)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The recipe's rate of this moment for every group, times the group's own factor."""
    group: dict[str, Any]
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get("rate_factor", 1.0)  # checkpoints of earlier versions have no factors


def _sharing(module: nn.Module) -> float:
    """μ of a filter bank, 1 for all other layers and for a bank that has no coefficients."""
    if not isinstance(module, FilterBankModule) or not module.plan.parameters:
        return 1.0
    return module.plan.weights / module.plan.parameters
