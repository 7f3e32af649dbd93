"""A network's parameters for an optimiser: the learning rate and the decay of each."""

from __future__ import annotations

import math
from typing import Any, Literal

from torch import nn

from steerable.errors import one_of, shown
from steerable.nn.batch_norm import BatchNorm2d, BatchNorm3d
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.group_norm import GroupNorm
from steerable.nn.instance_norm import InstanceNorm2d, InstanceNorm3d
from steerable.nn.layer_norm import LayerNorm

__all__ = ["parameter_groups"]

OPTIMISERS = ("adam", "sgd")
_NORMS = (
    *(BatchNorm2d, BatchNorm3d, InstanceNorm2d, InstanceNorm3d, GroupNorm, LayerNorm),
    *(nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm),
)


def parameter_groups(
    model: nn.Module,
    lr: float,
    weight_decay: float = 0.0,
    *,
    optimiser: Literal["adam", "sgd"] = "adam",
    by_sharing: bool = True,
) -> list[dict[str, Any]]:
    """Groups of parameters for ``torch.optim`` that let a steerable network use a plain one's rate and decay.

    A filter bank stores one coefficient where a plain network has μ = (weights of the bank) / (coefficients) weights,
    so its coefficients c are larger than weights by √μ. With these groups they are trained as u = c / √μ would be
    with the rate η = ``lr`` and the decay λ = ``weight_decay``. As √μ · ∂L/∂c is the gradient by u, this means for SGD

        u ← u - η (√μ ∂L/∂c + λ u)   ⟺   c ← c - μη (∂L/∂c + (λ/μ) c),   with and without momentum,

    the rate μη and the decay λ/μ. Adam divides by the size of gradients, so μ is replaced by √μ there. The bank
    of a network on regular fields has the weights u themselves, each μ = |G| times: u is what group convolutions store.
    If nothing is shared, μ = 1. Norms and biases do not decay; frozen parameters are left out.

    Args:
        model: any module, steerable, plain or mixed.
        lr: the rate η of a plain network.
        weight_decay: its decay λ.
        optimiser: ``"adam"`` for Adam, AdamW and others that divide by the size of gradients, ``"sgd"`` for SGD.
        by_sharing: whether rates follow μ; without it, only norms and biases get a group of their own.

    Returns:
        Groups with ``params``, ``lr``, ``weight_decay`` and ``rate_factor``, μ or √μ, in a fixed order: those that
        decay come first.

    >>> import torch, steerable as st
    >>> net = st.models.resnet(depth=8, copies=1, num_classes=10)
    >>> optimiser = torch.optim.AdamW(parameter_groups(net, lr=1e-3, weight_decay=0.05))
    """
    _check(model, lr, weight_decay, optimiser)
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    seen: set[int] = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad or id(parameter) in seen:  # frozen, or shared with a layer before it
                continue
            seen.add(id(parameter))
            fixed = isinstance(module, _NORMS) or name == "bias"
            sharing = _sharing(module) if by_sharing and name == "weight" else 1.0
            factor = sharing if optimiser == "sgd" else math.sqrt(sharing)
            groups.setdefault((fixed, factor), []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": factor * lr,
            "weight_decay": 0.0 if fixed else weight_decay / factor,
            "rate_factor": factor,
        }
        for (fixed, factor), parameters in sorted(groups.items(), key=lambda item: item[0])
    ]


def _sharing(module: nn.Module) -> float:
    """μ of a filter bank, 1 for all other layers and for a bank that has no coefficients."""
    if not isinstance(module, FilterBankModule) or not module.plan.parameters:
        return 1.0
    return module.plan.weights / module.plan.parameters


def _check(model: nn.Module, lr: float, weight_decay: float, optimiser: str) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"parameter_groups takes an `nn.Module`; got {shown(model)}. Give the network itself.")
    if optimiser not in OPTIMISERS:
        raise ValueError(
            f"unknown optimiser {shown(optimiser)}: rates are scaled by {one_of(OPTIMISERS)}. Use 'adam' for AdamW and "
            "others that divide by the size of gradients."
        )
    for name, value, least in (("lr", lr, "above 0"), ("weight_decay", weight_decay, "from 0 on")):
        if not math.isfinite(value) or value < 0 or (name == "lr" and value == 0):
            raise ValueError(f"{name} must be a finite number {least}; got {shown(value)}.")
