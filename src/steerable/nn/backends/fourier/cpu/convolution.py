"""What both ways of carrying out a convolution on a CPU have in common: what they are asked for, and their results."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from steerable.nn.backends.fourier.cpu.memory import Size
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlockPlan
from steerable.nn.channels import memory_format

__all__ = ["ConvolutionOnCpu", "Work"]


class Work(NamedTuple):
    """The arguments of :meth:`ConvolutionOnCpu.run`, and the tensors that its results are written to."""

    x: Tensor
    padding: Size
    dilation: Size
    blocks: Tensor | None
    bias: Tensor | None
    outer: Tensor | None
    y: Tensor | None
    total: Tensor | None


class ConvolutionOnCpu(ABC):
    """One direction of a layer, carried out in tiles; see the docstrings of the modules that do so."""

    def __init__(self, plan: IrrepBlockPlan) -> None:
        self.plan, self.direction = plan, plan.direction

    def run(
        self,
        x: Tensor,
        padding: Size,
        dilation: Size,
        *,
        blocks: Tensor | None = None,
        bias: Tensor | None = None,
        outer: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor | None]:
        """(batch, in, *grid) → (batch, out, *grid'), and the gradient of all blocks; the spectra serve both.

        Args:
            x: the input; the output has its memory format.
            padding, dilation: one number per axis.
            blocks, bias: of the convolution; without blocks there is no output.
            outer: the output's gradient; without it there is none of the blocks.
        """
        size, y = self.direction.output_size(x.shape, padding, dilation), None
        if blocks is not None:
            shape = len(x), self.direction.out_channels, *size
            y = torch.empty(shape, dtype=x.dtype, memory_format=memory_format(x))
        total = None if outer is None else x.new_zeros(self.plan.parameters)
        if len(x) and math.prod(size):
            self.carry_out(Work(x, padding, dilation, blocks, bias, outer, y, total))
        return y, total

    @abstractmethod
    def carry_out(self, work: Work) -> None:
        """Write ``work.y``, and add to the zeros of ``work.total``, where they are wanted."""
