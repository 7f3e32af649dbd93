"""The group Fourier convolution as operations of torch: differentiable, and opaque to torch.compile.

The output is bilinear in the input and the layer's parameters, and the input gradient is a convolution of the same
kind. In a backward pass that is to be differentiated again the plain reference takes over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from steerable.nn.backends.fourier.execution import convolve, gradients, reference_gradients
from steerable.nn.backends.fourier.plan import plan_by_key
from steerable.nn.channels import memory_format

__all__ = ["fourier_conv", "fourier_gradients"]


def fourier_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    blocks: Tensor | None,
    key: str,
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """The convolution with stride 1 and zeros around: (batch, in, *grid) → (batch, out, *grid').

    Args:
        x: the input; in half precision on a GPU only.
        weight: the layer's parameters, in the dtype of x, or in float32 where x is in half precision.
        bias: (out,) or None.
        blocks: ``plan.forward.expand(weight)`` where it is known already; no gradient goes through it.
        key: that of a plan, of which a compiler sees nothing.
        padding, dilation: one number per axis of the grid.
    """
    y: Tensor = _conv(x, weight, bias, blocks, key, padding, dilation)
    return y


def fourier_gradients(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    key: str,
    padding: Sequence[int],
    dilation: Sequence[int],
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of input and parameters, if they are wanted, from that of the output."""
    of_x, of_weight = _gradients(gradient, x, weight, key, padding, dilation, wanted)
    return of_x if wanted[0] else None, of_weight if wanted[1] else None


@torch.library.custom_op("steerable::fourier_conv", mutates_args=())
def _conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    blocks: Tensor | None,
    key: str,
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    plan = plan_by_key(key)
    if torch.autograd.forward_ad._current_level >= 0:  # torch would take the missing derivative for zero
        raise NotImplementedError(
            "a compiled Fourier convolution has no forward-mode derivative. Compile the function that takes it, or set "
            "the layer's backend to 'dense'."
        )
    with _without_autocast(x):
        y = convolve(plan, x.detach(), weight.detach(), bias, tuple(padding), tuple(dilation), blocks)
        return y.contiguous(memory_format=memory_format(x))


@torch.library.custom_op("steerable::fourier_conv_gradients", mutates_args=())
def _gradients(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    key: str,
    padding: Sequence[int],
    dilation: Sequence[int],
    wanted: Sequence[bool],
) -> tuple[Tensor, Tensor]:
    """The gradients of input and parameters; one that is not wanted is empty."""
    plan, (for_x, for_weight) = plan_by_key(key), wanted
    with _without_autocast(x):
        found = gradients(
            plan, gradient.detach(), x.detach(), weight.detach(), tuple(padding), tuple(dilation), (for_x, for_weight)
        )
        empty = x.new_empty(0)
        of_x = empty if found[0] is None else found[0].contiguous(memory_format=memory_format(x))
        return of_x, empty.clone() if found[1] is None else found[1]


@_conv.register_fake
def _conv_shape(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    blocks: Tensor | None,
    key: str,
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    direction = plan_by_key(key).forward.direction
    shape = (len(x), direction.out_channels, *direction.output_size(x.shape, tuple(padding), tuple(dilation)))
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=memory_format(x))


@_gradients.register_fake
def _gradient_shapes(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    key: str,
    padding: Sequence[int],
    dilation: Sequence[int],
    wanted: Sequence[bool],
) -> tuple[Tensor, Tensor]:
    of_x = torch.empty_like(x, memory_format=memory_format(x)) if wanted[0] else x.new_empty(0)
    return of_x, torch.empty_like(weight) if wanted[1] else x.new_empty(0)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, _, ctx.key, ctx.padding, ctx.dilation = inputs
    ctx.plan = plan_by_key(ctx.key)  # which lives as long as the backward pass may come, also when its layer is gone
    ctx.save_for_backward(x, weight)
    ctx.has_bias = bias is not None


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    wanted = (ctx.needs_input_grad[0], ctx.needs_input_grad[1])
    for_x = for_weight = for_bias = None
    if torch.is_grad_enabled():  # this pass will be differentiated itself
        padding, dilation = tuple(ctx.padding), tuple(ctx.dilation)
        for_x, for_weight = reference_gradients(ctx.plan, gradient, x, weight, padding, dilation, wanted)
    elif any(wanted):
        for_x, for_weight = fourier_gradients(gradient, x, weight, ctx.key, ctx.padding, ctx.dilation, wanted)
    if ctx.has_bias and ctx.needs_input_grad[2]:
        for_bias = gradient.sum([axis for axis in range(gradient.ndim) if axis != 1])
    return for_x, for_weight, for_bias, None, None, None, None


_conv.register_autograd(_backward, setup_context=_remember)


def _without_autocast(x: Tensor) -> torch.autocast:
    return torch.autocast(x.device.type, enabled=False)
