"""Results that are made from a layer's parameters and kept in evaluation, together with those parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["MadeFromParameters", "is_constant"]


def is_constant(parameter: Tensor) -> bool:
    """Whether results made from a parameter may be kept: it is on the CPU, and no gradients are recorded.

    ``functional_call``, transforms and torch.fx bring tensors of their own in its place.
    """
    return (
        type(parameter) is nn.Parameter
        and parameter.is_cpu
        and not (parameter.requires_grad and torch.is_grad_enabled())
    )


class MadeFromParameters:
    """A copy of a layer's parameters (or other numbers of it), and the results made from them, by name."""

    def __init__(self, *parameters: Tensor | None) -> None:
        # What is made in inference mode cannot take part in a differentiable computation later.
        self._inference = torch.is_inference_mode_enabled()
        self._parameters = [None if p is None else p.detach().clone() for p in parameters]
        self.made: dict[object, Any] = {}

    def is_of(self, *parameters: Tensor | None) -> bool:
        """Whether these are the parameters that it was made from."""
        if self._inference != torch.is_inference_mode_enabled():
            return False
        for known, p in zip(self._parameters, parameters, strict=True):
            if known is None or p is None:
                if known is not p:
                    return False
            elif known.dtype != p.dtype or not torch.equal(known, p):
                return False
        return True
