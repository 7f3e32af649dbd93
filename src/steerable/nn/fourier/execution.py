"""A layer's Fourier form carried out: in tiles by numba on a CPU, by Triton on a GPU, in plain torch elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from steerable.nn.fourier.plan import FourierPlan
from steerable.nn.fourier.reference import adjoint_window, block_gradient_reference, fourier_conv_reference
from steerable.nn.fourier.tiles import tiles_available
from steerable.nn.kernels import HAS_TRITON

__all__ = ["convolve", "gradients", "reference_gradients"]

Pair = tuple[int, int]


def convolve(
    plan: FourierPlan,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: Pair,
    dilation: Pair,
    blocks: Tensor | None = None,
) -> Tensor:
    """(batch, in, h, w) → (batch, out, h', w'); ``blocks`` where they are known already."""
    if _on_gpu(x):
        return plan.whole.forward(x, weight, bias, padding, dilation)
    blocks = (plan.forward.expand(weight) if blocks is None else blocks).to(x.dtype).contiguous()
    if _in_tiles(x):
        return plan.tiled.forward(x, blocks, bias, padding, dilation)
    y = fourier_conv_reference(x, blocks, plan.forward, padding, dilation)
    return y if bias is None else y + bias[:, None, None]


def gradients(
    plan: FourierPlan,
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    padding: Pair,
    dilation: Pair,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Of the input and of the parameters, from that of the output, where they are wanted."""
    inner, outer = adjoint_window(gradient, plan.forward.direction.kernel_size, padding, dilation)
    if _on_gpu(x):
        return plan.whole_adjoint.gradients(inner, x, weight, outer, dilation, wanted)
    if not _in_tiles(x):
        return reference_gradients(plan, gradient, x, weight, padding, dilation, wanted)
    for_x = for_weight = None
    if wanted[0]:
        blocks = plan.adjoint.expand(weight).to(x.dtype)
        for_x = plan.tiled_adjoint.forward(inner, blocks, None, outer, dilation)
    if wanted[1]:
        of_blocks = plan.tiled.block_gradient(x, gradient, padding, dilation)
        for_weight = plan.forward.collect(of_blocks.to(weight.dtype))
    return for_x, for_weight


def reference_gradients(
    plan: FourierPlan,
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    padding: Pair,
    dilation: Pair,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The same in plain torch, differentiable any number of times."""
    for_x = for_weight = None
    if wanted[0]:
        inner, outer = adjoint_window(gradient, plan.forward.direction.kernel_size, padding, dilation)
        blocks = plan.adjoint.expand(weight).to(x.dtype)
        for_x = fourier_conv_reference(inner, blocks, plan.adjoint, outer, dilation)
    if wanted[1]:
        of_blocks = block_gradient_reference(x, gradient, plan.forward, padding, dilation)
        for_weight = plan.forward.collect(of_blocks.to(weight.dtype))
    return for_x, for_weight


def _on_gpu(x: Tensor) -> bool:
    return x.device.type == "cuda" and HAS_TRITON


def _in_tiles(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and tiles_available()
