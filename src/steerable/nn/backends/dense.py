"""Convolution with the expanded filters by torch, and two other ways to ask torch for the same.

They differ only in rounding, and on GPUs in speed.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.nn.backends.filter_sources import FilterSource
from steerable.nn.backends.interface import Backend, Gradients, Wanted
from steerable.nn.backends.problem import ConvolutionProblem, Operands, Window, adjoint_padding
from steerable.nn.channels import memory_format

__all__ = ["CHANNEL_MULTIPLE", "Dense", "PaddedChannels", "Turned"]

CHANNEL_MULTIPLE = 8  # half-precision kernels read this many channels at a time
_BY_AXES = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
MEASURED_FROM = 1_000_000_000  # multiplications; the variants are not worth a measurement for a smaller convolution


class Dense(Backend):
    """Torch's own convolution; it supports every problem, and is used when no other backend is."""

    name = "dense"

    def why_not(self, problem: ConvolutionProblem) -> str | None:
        return None

    def convolve(self, problem: ConvolutionProblem, x: Tensor, filters: FilterSource) -> Tensor:
        bank, bias = filters.filters()
        x, window = problem.padded_input(x)
        return _convolution(x, bank, bias, window)

    def forward(self, operands: Operands, bias: Tensor | None) -> Tensor:
        return _convolution(operands.x, operands.bank, bias, operands.window)

    def gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        return _gradients(gradient, operands.x, operands.bank, operands.window, wanted)

    def differentiable_gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        return self.gradients(gradient, operands, wanted)


class _Variant(Dense):
    """The dense convolution with its numbers in another order in memory."""

    def why_not(self, problem: ConvolutionProblem) -> str | None:
        if problem.window.groups > 1 or max(problem.window.stride) > 1:
            return "it has a stride or groups"
        return None if problem.plan.parameters else "it has no parameters"

    def may_gain(self, problem: ConvolutionProblem, x: Tensor, *, ahead: bool) -> bool:
        return ahead and x.is_cuda and problem.multiplications(x) >= MEASURED_FROM

    def convolve(self, problem: ConvolutionProblem, x: Tensor, filters: FilterSource) -> None:  # type: ignore[override]
        return None


class PaddedChannels(_Variant):
    """The dense convolution with channels of zeros, up to a multiple of eight; its gradients have them too."""

    name, family, remark = "padded", "dense", "channels padded"
    differentiates, changes_operands = False, True

    def may_gain(self, problem: ConvolutionProblem, x: Tensor, *, ahead: bool) -> bool:
        return super().may_gain(problem, x, ahead=ahead) and x.shape[1] % CHANNEL_MULTIPLE != 0

    def changed(self, operands: Operands) -> Operands:
        missing = -operands.x.shape[1] % CHANNEL_MULTIPLE
        sides = [0, 0] * (operands.x.ndim - 2) + [0, missing]
        return operands._replace(x=F.pad(operands.x, sides), bank=F.pad(operands.bank, sides))


class Turned(_Variant):
    """The dense convolution with its gradients as convolutions of another kind.

    That of the input is a forward convolution with the filters turned by 180° and their two types exchanged. That of
    the filters has the input and the output's gradient exchanged.
    """

    name, family = "turned", "dense"
    forwards = False

    def gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        x, bank = operands.x, operands.bank
        inner, padding = adjoint_padding(gradient, bank.shape[2:], *operands.window[:2])
        window = operands.window._replace(padding=padding)
        for_x = for_bank = None
        if wanted[0]:
            for_x = _laid_out(_convolution(inner, _laid_out(_turned(bank), like=bank), None, window), like=x)
        if wanted[1]:
            exchanged = _gradients(x, inner, _room_for_turned(bank), window, (False, True))[1]
            for_bank = None if exchanged is None else _turned(exchanged)
        return for_x, for_bank

    def differentiable_gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        return _gradients(gradient, operands.x, operands.bank, operands.window, wanted)


def _convolution(x: Tensor, bank: Tensor, bias: Tensor | None, window: Window) -> Tensor:
    padding, dilation, stride, groups = window
    return _BY_AXES[len(stride)](x, bank, bias, stride, padding, dilation, groups)


def _gradients(gradient: Tensor, x: Tensor, bank: Tensor, window: Window, wanted: Wanted) -> Gradients:
    """The gradients of the input and of the bank, as torch computes them."""
    padding, dilation, stride, groups = window
    nothing = [0] * len(padding)
    for_x, for_bank, _ = torch.ops.aten.convolution_backward(
        gradient, x, bank, None, list(stride), list(padding), list(dilation), False, nothing, groups, [*wanted, False]
    )
    return for_x if wanted[0] else None, for_bank if wanted[1] else None


def _turned(bank: Tensor) -> Tensor:
    """(out, in, *kernel) → (in, out, *kernel), Ψ(y)ᵀ at -y."""
    return bank.flip(list(range(2, bank.ndim))).transpose(0, 1)


def _room_for_turned(bank: Tensor) -> Tensor:
    """Filters without values, where only shape and memory format matter."""
    size = (bank.shape[1], bank.shape[0], *bank.shape[2:])
    return torch.empty(size, dtype=bank.dtype, device=bank.device, memory_format=memory_format(bank))


def _laid_out(t: Tensor, like: Tensor) -> Tensor:
    """The tensor in the memory format of another."""
    return t.contiguous(memory_format=memory_format(like))
