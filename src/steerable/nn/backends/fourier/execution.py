"""The Fourier form of a convolution, by whatever the device has: numba on a CPU, Triton on a GPU, else plain torch."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import cast

import torch
from torch import Tensor

from steerable.nn.backends.fourier.plan import FourierPlan
from steerable.nn.backends.fourier.reference import block_gradient_reference, fourier_conv_reference
from steerable.nn.backends.problem import adjoint_padding
from steerable.nn.triton import HAS_TRITON

__all__ = ["convolve", "gradients", "library", "reference_gradients"]

Size = tuple[int, ...]


def convolve(
    plan: FourierPlan,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: Size,
    dilation: Size,
    blocks: Tensor | None = None,
) -> Tensor:
    """(batch, in, *grid) → (batch, out, *grid'); ``blocks`` if they are known already."""
    if _on_gpu(x):
        return plan.on_gpu.forward(x, weight, bias, padding, dilation)
    blocks = (plan.forward.expand(weight) if blocks is None else blocks).to(x.dtype).contiguous()
    if _in_tiles(x):
        y = plan.on_cpu.run(x, padding, dilation, blocks=blocks, bias=bias)[0]
        return cast(Tensor, y)
    y = fourier_conv_reference(x, blocks, plan.forward, padding, dilation)
    return y if bias is None else y + bias.view(-1, *[1] * (x.ndim - 2))


def gradients(
    plan: FourierPlan,
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    padding: Size,
    dilation: Size,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the input and of the parameters, if they are wanted, from that of the output."""
    inner, outer = _adjoint(plan, gradient, padding, dilation)
    if _on_gpu(x):
        return plan.adjoint_on_gpu.gradients(inner, x, weight, outer, dilation, wanted)
    if not _in_tiles(x):
        return reference_gradients(plan, gradient, x, weight, padding, dilation, wanted)
    if wanted[0]:
        # The spectrum of g serves both: the weight gradient is that of ⟨x, Ψᵀ(Θ)g⟩ too.
        blocks = plan.adjoint.expand(weight).to(x.dtype)
        for_x, of_blocks = plan.adjoint_on_cpu.run(
            inner, outer, dilation, blocks=blocks, outer=x if wanted[1] else None
        )
        return for_x, None if of_blocks is None else plan.adjoint.collect(of_blocks.to(weight.dtype))
    of_blocks = plan.on_cpu.run(x, padding, dilation, outer=gradient)[1] if wanted[1] else None
    return None, None if of_blocks is None else plan.forward.collect(of_blocks.to(weight.dtype))


def reference_gradients(
    plan: FourierPlan,
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    padding: Size,
    dilation: Size,
    wanted: tuple[bool, bool],
) -> tuple[Tensor | None, Tensor | None]:
    """The same in plain torch, differentiable any number of times."""
    for_x = for_weight = None
    if wanted[0]:
        inner, outer = _adjoint(plan, gradient, padding, dilation)
        blocks = plan.adjoint.expand(weight).to(x.dtype)
        for_x = fourier_conv_reference(inner, blocks, plan.adjoint, outer, dilation)
    if wanted[1]:
        of_blocks = block_gradient_reference(x, gradient, plan.forward, padding, dilation)
        for_weight = plan.forward.collect(of_blocks.to(weight.dtype))
    return for_x, for_weight


def library(device: str, axes: int) -> str:
    """The library of the Fourier form for this device and number of axes: ``"numba"``, ``"triton"`` or ``"torch"``."""
    if device == "cpu":
        return "numba" if numba_available() else "torch"
    return "triton" if device == "cuda" and axes == 2 and HAS_TRITON else "torch"


@lru_cache(maxsize=1)
def numba_available() -> bool:
    """Whether numba, which compiles the kernels, is installed (``pip install 'steerable[fast]'``)."""
    return find_spec("numba") is not None


def _adjoint(plan: FourierPlan, gradient: Tensor, padding: Size, dilation: Size) -> tuple[Tensor, Size]:
    return adjoint_padding(gradient, plan.forward.direction.kernel_size, padding, dilation)


def _on_gpu(x: Tensor) -> bool:
    return library(x.device.type, x.ndim - 2) == "triton"


def _in_tiles(x: Tensor) -> bool:
    return x.dtype in (torch.float32, torch.float64) and library(x.device.type, x.ndim - 2) == "numba"
