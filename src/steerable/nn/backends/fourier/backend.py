"""The Fourier backend: the convolutions that it supports, those that are worth measuring, and its passes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from steerable.algebra.groups import FiniteGroup
from steerable.nn.backends.filter_sources import FilterSource
from steerable.nn.backends.fourier.execution import library, reference_gradients
from steerable.nn.backends.fourier.operator import fourier_conv, fourier_gradients
from steerable.nn.backends.fourier.plan import FourierPlan, fourier_plan, plan_by_key
from steerable.nn.backends.interface import Backend, Gradients, Wanted
from steerable.nn.backends.precision import dtype_in_use, products_in_tf32, tf32_allowed
from steerable.nn.backends.problem import ConvolutionProblem, Operands
from steerable.nn.channels import HALF_PRECISION

__all__ = ["FEWEST_COPIES", "MEASURED_FROM", "FourierBackend"]

# Multiplications of the dense convolution; a smaller one is over before a choice pays.
MEASURED_FROM = {"cpu": 20_000_000, "cuda": 20_000_000_000}
# Regular fields in the narrower type: among the layers in benchmarks/results no narrower one gains.
FEWEST_COPIES = {"cpu": 12, "cuda": 32, "cuda half": 64}
# The same where nothing may be measured.
FEWEST_COPIES_BY_RULE = {"several taps": 32, "one tap": 64}
# Channels of the narrower type in volumes, where larger groups gain from fewer fields; and by rule, with several taps.
FEWEST_CHANNELS_OF_VOLUMES, FEWEST_CHANNELS_OF_VOLUMES_BY_RULE = 96, 192


class FourierBackend(Backend):
    """One matrix product per irrep, in the basis of irreps of patch ⊗ fibre."""

    name = "fourier"
    weight_gradient = "parameters"
    gradients_share_work = started_by_python = True

    def why_not(self, problem: ConvolutionProblem) -> str | None:
        if max(problem.window.stride) > 1:
            return f"it has stride {problem.window.stride}, and a spectrum is computed at every pixel"
        if problem.window.groups > 1:
            return f"it has {problem.window.groups} groups, and irreps are coupled over all channels"
        if not isinstance(group := problem.plan.space.group, FiniteGroup):
            return f"its group is {group.name}, whose capsules are in the basis of irreps already"
        if not problem.plan.space.is_pixel_patch:
            return f"its filters are {problem.plan.space}, and spectra are those of a whole pixel patch"
        return None if problem.plan.parameters else "it has no parameters"

    def can_ever_gain(self, problem: ConvolutionProblem) -> bool:
        return self._is_wide(problem, min(FEWEST_COPIES.values()), FEWEST_CHANNELS_OF_VOLUMES)

    @staticmethod
    def _is_wide(problem: ConvolutionProblem, copies: float, channels: float) -> bool:
        """Whether the narrower type has enough regular fields or, for volumes, enough channels."""
        if len(problem.kernel_size) == 2:
            return problem.regular_copies >= copies
        return bool(problem.regular_copies) and problem.narrower >= channels

    def may_gain(self, problem: ConvolutionProblem, x: Tensor, *, ahead: bool) -> bool:
        device = x.device.type
        if not self._is_wide(problem, FEWEST_COPIES.get(device, math.inf), FEWEST_CHANNELS_OF_VOLUMES):
            return False
        if problem.multiplications(x) < MEASURED_FROM.get(device, math.inf) or self.library(problem, device) == "torch":
            return False
        if device == "cuda" and dtype_in_use(x) in HALF_PRECISION:
            # In eager code it takes longer to start its kernels one by one than they gain.
            return ahead and problem.regular_copies >= FEWEST_COPIES["cuda half"]
        # The dense form rounds less where TF32 is not allowed.
        return device != "cuda" or not products_in_tf32() or tf32_allowed(x.device)

    def by_rule(self, problem: ConvolutionProblem, x: Tensor) -> bool:
        several = problem.plan.taps > 1
        fewest = FEWEST_COPIES_BY_RULE["several taps" if several else "one tap"]
        channels = FEWEST_CHANNELS_OF_VOLUMES_BY_RULE if several else math.inf
        return x.device.type == "cpu" and self._is_wide(problem, fewest, channels)

    def library(self, problem: ConvolutionProblem, device: str) -> str:
        return library(device, len(problem.kernel_size))

    def prepare(self, problem: ConvolutionProblem) -> FourierPlan:
        return fourier_plan(problem.plan, problem.key)

    def held(self, key: str) -> FourierPlan:
        return plan_by_key(key)

    def convolve(self, problem: ConvolutionProblem, x: Tensor, filters: FilterSource) -> Tensor:
        # CPUs gain nothing from half precision here, and rounding once at the end is more accurate.
        dtype = dtype_in_use(x)
        inner = torch.float32 if dtype in HALF_PRECISION and x.device.type == "cpu" else dtype
        x, window = problem.padded_input(x)

        def bias() -> Tensor | None:
            expanded = filters.expand_bias(filters.bias)
            return None if expanded is None else expanded.to(inner)

        def blocks() -> tuple[Tensor, Tensor | None]:
            return plan_by_key(problem.key).forward.expand(filters.weight.detach().to(inner)), bias()

        with torch.autocast(x.device.type, enabled=False):
            known = filters.kept(("irrep blocks", inner), blocks)
            # A GPU makes half-precision blocks from the parameters themselves.
            weight = filters.weight if inner in HALF_PRECISION else filters.weight.to(inner)
            made, shift = (None, bias()) if known is None else known
            y = fourier_conv(x.to(inner), weight, shift, made, problem.key, window.padding, window.dilation)
        return y.to(dtype)

    def forward(self, operands: Operands, bias: Tensor | None) -> Tensor:
        x, weight, _, key, window = operands
        return fourier_conv(x, weight, bias, None, key, window.padding, window.dilation)

    def gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        x, weight, _, key, window = operands
        return fourier_gradients(gradient, x, weight, key, window.padding, window.dilation, wanted)

    def differentiable_gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        x, weight, _, key, window = operands
        return reference_gradients(plan_by_key(key), gradient, x, weight, window.padding, window.dilation, wanted)
