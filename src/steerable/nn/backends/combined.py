"""A convolution whose passes may have different backends; compilers see into all of them except the opaque ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from steerable.nn.backends.filter_sources import FilterSource
from steerable.nn.backends.interface import Gradients, Wanted
from steerable.nn.backends.known import BACKENDS
from steerable.nn.backends.passes import Passes
from steerable.nn.backends.problem import ConvolutionProblem, Operands, Window
from steerable.nn.channels import without_autocast

__all__ = ["carry_out", "combined_convolution", "combined_gradients"]


def carry_out(problem: ConvolutionProblem, passes: Passes, x: Tensor, filters: FilterSource) -> Tensor:
    """The convolution of x, differentiable: (batch, in, *grid) → (batch, out, *grid')."""
    if passes.forward == passes.for_input == passes.for_weight:
        y = BACKENDS[passes.forward].convolve(problem, x, filters)
        if y is not None:
            return y
    operands, bias = Operands.of(problem, x, filters)
    with torch.autocast(x.device.type, enabled=False):
        return combined_convolution(operands, bias, passes)


def combined_convolution(operands: Operands, bias: Tensor | None, passes: Passes) -> Tensor:
    """(batch, in, *grid) → (batch, out, *grid'), differentiable any number of times."""
    x, weight, bank, key, window = BACKENDS[passes.forward].changed(operands)
    by_parameters = BACKENDS[passes.for_weight].weight_gradient == "parameters"
    weight, bank = (weight, bank.detach()) if by_parameters else (weight.detach(), bank)
    y: Tensor = _Combined.apply(x, weight, bank, bias, key, window, passes)
    return y


def combined_gradients(gradient: Tensor, operands: Operands, passes: Passes, wanted: Wanted) -> Gradients:
    """The gradients of the input, and of the parameters or the bank, if they are wanted, from the output's."""
    for_x = for_filters = None
    for name in dict.fromkeys((passes.for_input, passes.for_weight)):
        share = (wanted[0] and passes.for_input == name, wanted[1] and passes.for_weight == name)
        if any(share):
            found = BACKENDS[name].gradients(gradient, operands, share)
            for_x, for_filters = found[0] if share[0] else for_x, found[1] if share[1] else for_filters
    return for_x, for_filters


class _Combined(torch.autograd.Function):
    """Without ``setup_context``, for which torch would look up the signature of ``forward`` at every call."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bank: Tensor, bias: Tensor | None, key: str, window: Window, passes: Passes
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bank)
        ctx.key, ctx.window, ctx.passes, ctx.has_bias = key, window, passes, bias is not None
        if not torch.compiler.is_compiling():
            ctx.held = [BACKENDS[name].held(key) for name in passes]
        return BACKENDS[passes.forward].forward(Operands(x, weight, bank, key, window), bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bank = ctx.saved_tensors
        operands = Operands(x, weight, bank, ctx.key, ctx.window)
        needed, last = ctx.needs_input_grad, BACKENDS[ctx.passes.for_weight]
        by_parameters = last.weight_gradient == "parameters"
        wanted = needed[0], needed[1] if by_parameters else needed[2]
        if torch.compiler.is_compiling():  # which takes no change of autocast inside a function, and needs none
            for_x, found = combined_gradients(gradient, operands, ctx.passes, wanted)
        else:
            with without_autocast(x.device):
                if torch.is_grad_enabled():
                    # To be differentiated itself: both by one backend. If one gradient came from the parameters and
                    # one from the bank, each would miss the other's part.
                    for_x, found = last.differentiable_gradients(gradient, operands, wanted)
                else:
                    for_x, found = combined_gradients(gradient, operands, ctx.passes, wanted)
        for_weight, for_bank = (found, None) if by_parameters else (None, found)
        axes = [axis for axis in range(gradient.ndim) if axis != 1]
        for_bias = gradient.sum(axes) if ctx.has_bias and needed[3] else None
        return for_x, for_weight, for_bank, for_bias, None, None, None
