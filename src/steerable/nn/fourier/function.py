"""The group Fourier convolution as operations of torch: differentiable, and opaque to torch.compile.

Blocks are a linear function of the layer's parameters, the output is bilinear in input and blocks, and the input
gradient is a convolution of the same kind with blocks of its own. In a backward pass that is to be differentiated again
the plain reference takes over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from steerable.nn.fourier.plan import FourierPlan, plan_by_key
from steerable.nn.fourier.reference import block_gradient_reference, fourier_conv_reference

__all__ = ["fourier_blocks", "fourier_conv"]

Pair = tuple[int, int]


def fourier_blocks(weight: Tensor, plan: FourierPlan) -> Tensor:
    """(parameters,) → (parameters,): the blocks of all irreps, one after the other."""
    blocks: Tensor = _blocks(weight, plan.key)
    return blocks


def fourier_conv(
    x: Tensor, blocks: Tensor, bias: Tensor | None, weight: Tensor, plan: FourierPlan, padding: Pair, dilation: Pair
) -> Tensor:
    """The convolution with stride 1 and zeros around: (batch, in, h, w) → (batch, out, h', w').

    Args:
        x: the input, in float32 or float64 on the CPU.
        blocks: ``fourier_blocks(weight, plan)``; gradients go through it.
        bias: (out,) or None.
        weight: the layer's parameters, from which the backward pass makes the blocks of the input gradient.
        plan: of the layer's types and kernel.
        padding, dilation: (height, width).
    """
    y: Tensor = _conv(x, blocks, bias, weight, plan.key, padding, dilation)
    return y


# ---------------------------------------------------------------- blocks


@torch.library.custom_op("steerable::fourier_blocks", mutates_args=())
def _blocks(weight: Tensor, key: str) -> Tensor:
    with _full_precision(weight):
        return plan_by_key(key).forward.expand(weight.contiguous())


@torch.library.custom_op("steerable::fourier_blocks_back", mutates_args=())
def _blocks_back(gradient: Tensor, key: str) -> Tensor:
    with _full_precision(gradient):
        return plan_by_key(key).forward.collect(gradient.contiguous())


def _same_shape(tensor: Tensor, key: str) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _keep_key(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.key = inputs[1]


_blocks.register_fake(_same_shape)
_blocks_back.register_fake(_same_shape)
_blocks.register_autograd(lambda ctx, grad: (_blocks_back(grad, ctx.key), None), setup_context=_keep_key)
_blocks_back.register_autograd(lambda ctx, grad: (_blocks(grad, ctx.key), None), setup_context=_keep_key)


# ---------------------------------------------------------------- convolution


@torch.library.custom_op("steerable::fourier_conv", mutates_args=())
def _conv(
    x: Tensor,
    blocks: Tensor,
    bias: Tensor | None,
    weight: Tensor,
    key: str,
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    plan = plan_by_key(key)
    with _full_precision(x):
        compiled = plan.compiled(x)
        if compiled is not None:
            y = compiled.forward(x.detach(), blocks.detach().contiguous(), bias, _pair(padding), _pair(dilation))
        else:
            y = fourier_conv_reference(x, blocks, plan.forward, _pair(padding), _pair(dilation))
            y = y if bias is None else y + bias[:, None, None]
        return y.contiguous(memory_format=_memory_format(x))


@torch.library.custom_op("steerable::fourier_conv_input_gradient", mutates_args=())
def _input_gradient(
    gradient: Tensor, weight: Tensor, key: str, padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    plan, layout = plan_by_key(key), _memory_format(gradient)
    gradient, outer = _cropped(gradient, plan, padding, dilation)
    with _full_precision(weight):
        blocks = plan.adjoint.expand(weight.detach().contiguous())
        compiled = plan.compiled(gradient, adjoint=True)
        if compiled is not None:
            y = compiled.forward(gradient.detach(), blocks.to(gradient.dtype), None, outer, _pair(dilation))
        else:
            y = fourier_conv_reference(gradient, blocks, plan.adjoint, outer, _pair(dilation))
        return y.contiguous(memory_format=layout)


@torch.library.custom_op("steerable::fourier_conv_block_gradient", mutates_args=())
def _block_gradient(x: Tensor, gradient: Tensor, key: str, padding: Sequence[int], dilation: Sequence[int]) -> Tensor:
    plan = plan_by_key(key)
    with _full_precision(x):
        compiled = plan.compiled(x)
        if compiled is not None:
            return compiled.block_gradient(x.detach(), gradient.detach(), _pair(padding), _pair(dilation))
        return block_gradient_reference(x, gradient, plan.forward, _pair(padding), _pair(dilation))


@_conv.register_fake
def _conv_shape(
    x: Tensor,
    blocks: Tensor,
    bias: Tensor | None,
    weight: Tensor,
    key: str,
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    direction = plan_by_key(key).forward.direction
    shape = (len(x), direction.out_channels, *direction.output_size(x.shape, _pair(padding), _pair(dilation)))
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=_memory_format(x))


@_input_gradient.register_fake
def _input_gradient_shape(
    gradient: Tensor, weight: Tensor, key: str, padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    direction = plan_by_key(key).forward.direction
    kernel = direction.kernel_size
    size = [n - 2 * p + d * (k - 1) for n, p, d, k in zip(gradient.shape[2:], padding, dilation, kernel, strict=True)]
    shape = (len(gradient), direction.in_channels, *size)
    return torch.empty(shape, dtype=gradient.dtype, device=gradient.device, memory_format=_memory_format(gradient))


@_block_gradient.register_fake
def _block_gradient_shape(
    x: Tensor, gradient: Tensor, key: str, padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    return x.new_empty(plan_by_key(key).forward.parameters)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, _, bias, weight, ctx.key, ctx.padding, ctx.dilation = inputs
    ctx.save_for_backward(x, weight)
    ctx.has_bias = bias is not None


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    for_x = for_blocks = for_bias = None
    if torch.is_grad_enabled():  # this pass will be differentiated itself
        plan, padding, dilation = plan_by_key(ctx.key), _pair(ctx.padding), _pair(ctx.dilation)
        if ctx.needs_input_grad[0]:
            inner, outer = _cropped(gradient, plan, padding, dilation)
            for_x = fourier_conv_reference(inner, plan.adjoint.expand(weight), plan.adjoint, outer, dilation)
        if ctx.needs_input_grad[1]:
            for_blocks = block_gradient_reference(x, gradient, plan.forward, padding, dilation)
    else:
        if ctx.needs_input_grad[0]:
            for_x = _input_gradient(gradient, weight, ctx.key, ctx.padding, ctx.dilation)
        if ctx.needs_input_grad[1]:
            for_blocks = _block_gradient(x, gradient, ctx.key, ctx.padding, ctx.dilation)
    if ctx.has_bias and ctx.needs_input_grad[2]:
        for_bias = gradient.sum((0, 2, 3))
    return for_x, for_blocks, for_bias, None, None, None, None


_conv.register_autograd(_backward, setup_context=_remember)


def _cropped(
    gradient: Tensor, plan: FourierPlan, padding: Sequence[int], dilation: Sequence[int]
) -> tuple[Tensor, Pair]:
    """The output's gradient and the padding with which it is convolved: d(k-1) - p, cut off where that is negative."""
    kernel = plan.forward.direction.kernel_size
    top, left = (d * (k - 1) - p for p, d, k in zip(padding, dilation, kernel, strict=True))
    if top < 0:
        gradient = gradient.narrow(2, -top, gradient.shape[2] + 2 * top)
    if left < 0:
        gradient = gradient.narrow(3, -left, gradient.shape[3] + 2 * left)
    return gradient, (max(top, 0), max(left, 0))


def _memory_format(x: Tensor) -> torch.memory_format:
    """In which an operation on x answers: a compiler must know it beforehand."""
    last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if last else torch.contiguous_format


def _pair(values: Sequence[int]) -> Pair:
    first, second = values
    return first, second


def _full_precision(x: Tensor) -> torch.autocast:
    return torch.autocast(x.device.type, enabled=False)
