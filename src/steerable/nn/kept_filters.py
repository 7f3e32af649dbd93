"""What is made from a layer's parameters and kept in evaluation, with the parameters that it was made from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["MadeFromParameters", "is_constant"]


def is_constant(parameter: Tensor) -> bool:
    """Whether what is made from a parameter may be kept: it is on the CPU, and no gradients are recorded.

    ``functional_call``, transforms and torch.fx bring tensors of their own in its place.
    """
    return (
        type(parameter) is nn.Parameter
        and parameter.is_cpu
        and not (parameter.requires_grad and torch.is_grad_enabled())
    )


class MadeFromParameters:
    """A copy of a layer's parameters, and what was made from them, by name."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        # What is made in inference mode cannot take part in a differentiable computation later.
        self._inference = torch.is_inference_mode_enabled()
        self._weight = weight.detach().clone()
        self._bias = None if bias is None else bias.detach().clone()
        self.made: dict[object, Any] = {}

    def is_of(self, weight: Tensor, bias: Tensor | None) -> bool:
        """Whether these are the parameters that it was made from."""
        return (
            self._inference == torch.is_inference_mode_enabled()
            and _equal(self._weight, weight)
            and (self._bias is bias if self._bias is None or bias is None else _equal(self._bias, bias))
        )


def _equal(known: Tensor, parameter: Tensor) -> bool:
    return known.dtype == parameter.dtype and torch.equal(known, parameter)
