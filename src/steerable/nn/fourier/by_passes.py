"""A convolution with stride 1, each of its passes carried out in its own way; compilers see into those not Fourier."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.nn.channels import memory_format, without_autocast
from steerable.nn.fourier.execution import reference_gradients
from steerable.nn.fourier.function import fourier_conv_by_key, fourier_gradients
from steerable.nn.fourier.passes import Passes
from steerable.nn.fourier.plan import plan_by_key
from steerable.nn.fourier.reference import adjoint_window

__all__ = ["CHANNEL_MULTIPLE", "Operands", "conv_by_passes", "gradients_by_passes", "with_padded_channels"]

Pair = tuple[int, int]
CHANNEL_MULTIPLE = 8  # half-precision kernels read so many at a time


class Operands(NamedTuple):
    """What a convolution and its gradients are computed from.

    - x: (batch, in, h, w).
    - weight: the layer's parameters; they get a gradient where that of the filters is computed in the basis of irreps.
    - bank: the expanded filters, in the dtype of x; they get a gradient otherwise.
    - key: of the layer's Fourier plan, empty where there is none.
    """

    x: Tensor
    weight: Tensor
    bank: Tensor
    key: str
    padding: Pair
    dilation: Pair


def conv_by_passes(operands: Operands, bias: Tensor | None, passes: Passes) -> Tensor:
    """(batch, in, h, w) → (batch, out, h', w')."""
    x, weight, bank, key, padding, dilation = with_padded_channels(operands) if passes.forward == "padded" else operands
    by_fourier = passes.for_weight == "fourier"
    weight, bank = (weight, bank.detach()) if by_fourier else (weight.detach(), bank)
    y: Tensor = _ByPasses.apply(x, weight, bank, bias, key, padding, dilation, passes)
    return y


def with_padded_channels(operands: Operands) -> Operands:
    """The same with channels of zeros."""
    missing = -operands.x.shape[1] % CHANNEL_MULTIPLE
    x, bank = (F.pad(t, (0, 0, 0, 0, 0, missing)) for t in (operands.x, operands.bank))
    return operands._replace(x=x, bank=bank)


def gradients_by_passes(
    gradient: Tensor, operands: Operands, passes: Passes, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Of the input, and of the parameters or the bank, where they are wanted, from that of the output."""
    x, weight, bank, key, padding, dilation = operands
    for_x = for_weight = None
    by_fourier = (wanted[0] and passes.for_input == "fourier", wanted[1] and passes.for_weight == "fourier")
    densely = (wanted[0] and passes.for_input == "dense", wanted[1] and passes.for_weight == "dense")
    if any(by_fourier):
        for_x, for_weight = fourier_gradients(gradient, x, weight, key, padding, dilation, by_fourier)
    if any(densely):
        found = _dense_gradients(gradient, x, bank, padding, dilation, densely)
        for_x, for_weight = found[0] if densely[0] else for_x, found[1] if densely[1] else for_weight
    inner, outer = adjoint_window(gradient, (bank.shape[2], bank.shape[3]), padding, dilation)
    if wanted[0] and passes.for_input == "turned":
        for_x = _laid_out(F.conv2d(inner, _laid_out(_turned(bank), like=bank), None, 1, outer, dilation), like=x)
    if wanted[1] and passes.for_weight == "turned":
        exchanged = _dense_gradients(x, inner, _room_for_turned(bank), outer, dilation, (False, True))[1]
        for_weight = None if exchanged is None else _turned(exchanged)
    return for_x, for_weight


class _ByPasses(torch.autograd.Function):
    """Without ``setup_context``, for which torch would look up the signature of ``forward`` at every call."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bank: Tensor,
        bias: Tensor | None,
        key: str,
        padding: Pair,
        dilation: Pair,
        passes: Passes,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, bank)
        ctx.key, ctx.padding, ctx.dilation, ctx.passes, ctx.has_bias = key, padding, dilation, passes, bias is not None
        if "fourier" in passes and not torch.compiler.is_compiling():
            ctx.plan = plan_by_key(key)  # lives as long as the backward pass may come, also when its layer is gone
        if passes.forward == "fourier":
            return fourier_conv_by_key(x, weight, bias, None, key, padding, dilation)
        return F.conv2d(x, bank, bias, 1, padding, dilation)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bank = ctx.saved_tensors
        operands = Operands(x, weight, bank, ctx.key, ctx.padding, ctx.dilation)
        needed = ctx.needs_input_grad
        by_fourier = ctx.passes.for_weight == "fourier"
        wanted = needed[0], needed[1] if by_fourier else needed[2]
        if torch.compiler.is_compiling():  # which takes no change of autocast inside a function, and needs none
            for_x, found = gradients_by_passes(gradient, operands, ctx.passes, wanted)
        else:
            with without_autocast(x.device):
                again = torch.is_grad_enabled()  # to be differentiated itself
                find = _differentiable_gradients if again else gradients_by_passes
                for_x, found = find(gradient, operands, ctx.passes, wanted)
        for_weight, for_bank = (found, None) if by_fourier else (None, found)
        for_bias = gradient.sum((0, 2, 3)) if ctx.has_bias and needed[3] else None
        return for_x, for_weight, for_bank, for_bias, None, None, None, None


def _differentiable_gradients(
    gradient: Tensor, operands: Operands, passes: Passes, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Both in one way: where one came from the parameters and one from the bank, each would miss the other's part."""
    x, weight, bank, key, padding, dilation = operands
    if passes.for_weight == "fourier":
        return reference_gradients(plan_by_key(key), gradient, x, weight, padding, dilation, wanted)
    return _dense_gradients(gradient, x, bank, padding, dilation, wanted)


def _dense_gradients(
    gradient: Tensor, x: Tensor, bank: Tensor, padding: Pair, dilation: Pair, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """As torch computes them: of the input and of the bank."""
    for_x, for_bank, _ = torch.ops.aten.convolution_backward(
        gradient, x, bank, None, [1, 1], list(padding), list(dilation), False, [0, 0], 1, [*wanted, False]
    )
    return for_x if wanted[0] else None, for_bank if wanted[1] else None


def _turned(bank: Tensor) -> Tensor:
    """(out, in, h, w) → (in, out, h, w), Ψ(y)ᵀ at -y."""
    return bank.flip(2, 3).transpose(0, 1)


def _room_for_turned(bank: Tensor) -> Tensor:
    """Filters of no values, where only shape and memory format are asked for."""
    outputs, inputs, height, width = bank.shape
    size = (inputs, outputs, height, width)
    return torch.empty(size, dtype=bank.dtype, device=bank.device, memory_format=memory_format(bank))


def _laid_out(t: Tensor, like: Tensor) -> Tensor:
    """In the memory format of another."""
    return t.contiguous(memory_format=memory_format(like))
