"""A convolution without a module in it: the problem that backends solve, and the tensors that they solve it for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from steerable.algebra.groups import FiniteGroup
from steerable.nn.backends.filter_sources import FilterSource
from steerable.nn.backends.precision import dtype_in_use
from steerable.nn.channels import HALF_PRECISION
from steerable.nn.expansion import BankPlan

__all__ = ["ConvolutionProblem", "Operands", "Size", "Window", "adjoint_padding"]

Size = tuple[int, ...]


class Window(NamedTuple):
    """The movement of filters over the input: one number per axis of the grid, and the groups of its channels."""

    padding: Size
    dilation: Size
    stride: Size
    groups: int


@dataclass(frozen=True)
class ConvolutionProblem:
    """The properties of a layer that a backend has to know.

    Attributes:
        plan: how the layer's parameters make its filter bank; it knows the types and the filter space.
        window: how the filters move over the input.
        padding_mode: what the window's padding consists of: zeros, reflect, replicate or circular.
        key: one text for all plans with equal types and filter spaces. Operations of torch take tensors, numbers and
            text only; by this text they find what belongs to the problem.
    """

    plan: BankPlan = field(compare=False)
    window: Window
    padding_mode: str
    key: str = field(init=False)

    def __post_init__(self) -> None:
        content = hashlib.blake2b(self.plan.space.digest, digest_size=16)
        for field_type in (self.plan.in_type, self.plan.out_type):
            content.update(b"|")
            for capsule, copies in field_type.terms:
                content.update(capsule.representation.digest + b"%d," % copies)
        object.__setattr__(self, "key", content.hexdigest())

    @property
    def kernel_size(self) -> Size:
        """The extents of the filters, one per axis of the grid."""
        return self.plan.space.size

    @property
    def narrower(self) -> int:
        """The channels of the narrower type."""
        return min(self.plan.in_type.channels, self.plan.out_type.channels)

    @cached_property
    def regular_copies(self) -> float:
        """The number of regular fields as wide as the narrower type; 0 if the group has none."""
        group = self.plan.in_type.group
        if group.is_trivial or not isinstance(group, FiniteGroup):
            return 0.0
        return self.narrower / group.order

    def output_size(self, x: Tensor) -> Size:
        """The size of the grid that comes out for an input (batch, channels, *grid)."""
        padding, dilation, stride, _ = self.window
        axes = zip(x.shape[2:], padding, dilation, self.kernel_size, stride, strict=True)
        return tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in axes])

    def multiplications(self, x: Tensor) -> int:
        """The number of multiplications in the dense convolution of x."""
        return len(x) * math.prod(self.output_size(x)) * self.plan.weights

    def padded_input(self, x: Tensor) -> tuple[Tensor, Window]:
        """The input with every border that is not zeros, and the window that then moves over it."""
        padding = self.window.padding
        if self.padding_mode == "zeros" or not any(padding):
            return x, self.window
        sides = [side for p in reversed(padding) for side in (p, p)]
        return F.pad(x, sides, mode=self.padding_mode), self.window._replace(padding=(0,) * len(padding))


class Operands(NamedTuple):
    """The tensors from which a convolution and its gradients are computed.

    - x: (batch, in, *grid).
    - weight: the layer's parameters; they get a gradient where a backend differentiates by parameters.
    - bank: the expanded filters, in the dtype of x; they get a gradient otherwise.
    - key: that of the problem.
    """

    x: Tensor
    weight: Tensor
    bank: Tensor
    key: str
    window: Window

    @staticmethod
    def of(problem: ConvolutionProblem, x: Tensor, filters: FilterSource) -> tuple[Operands, Tensor | None]:
        """Operands and bias in the dtype in use."""
        dtype = dtype_in_use(x)
        bank, bias = filters.filters()
        x, window = problem.padded_input(x)
        weight = filters.weight if dtype in HALF_PRECISION else filters.weight.to(dtype)
        operands = Operands(x.to(dtype), weight, bank.to(dtype), problem.key, window)
        return operands, None if bias is None else bias.to(dtype)


def adjoint_padding(
    gradient: Tensor, kernel_size: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[Tensor, Size]:
    """The output's gradient and the padding with which it is convolved to the input's gradient, for stride 1.

    The padding is d(k-1) - p; where that is negative, the gradient is cut off.
    """
    missing = [d * (k - 1) - p for p, d, k in zip(padding, dilation, kernel_size, strict=True)]
    for axis, n in enumerate(missing, start=2):
        if n < 0:
            gradient = gradient.narrow(axis, -n, gradient.shape[axis] + 2 * n)
    return gradient, tuple(max(n, 0) for n in missing)
