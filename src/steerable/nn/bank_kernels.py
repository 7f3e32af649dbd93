"""Filter banks that a kernel writes in eager code, and gradients that another one reduces: each is the other's adjoint.

:mod:`steerable.nn.triton.bank` and :mod:`steerable.nn.numba.bank` have the kernels, for GPUs and for CPUs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from steerable.nn.channels import is_batched
from steerable.nn.expansion import BankPlan

__all__ = ["BankKernels"]


class BankKernels(ABC):
    """The two kernels of one layer.

    Args:
        plan: says which bank the parameters have.
    """

    def __init__(self, plan: BankPlan) -> None:
        self.plan = plan

    @abstractmethod
    def expand(self, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """The bank, (out, in / groups, *size), without derivatives."""

    @abstractmethod
    def project(self, bank: Tensor, dtype: torch.dtype) -> Tensor:
        """The adjoint of ``expand``, (parameters,), without derivatives."""

    def bank(self, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """The bank, differentiable any number of times."""
        if torch.is_grad_enabled() and weight.requires_grad:
            return _Expand.apply(weight, self, dtype)  # type: ignore[no-any-return]
        return self.expand(weight, dtype)

    def gradient(self, bank: Tensor, dtype: torch.dtype) -> Tensor:
        """The adjoint of ``bank``, differentiable any number of times."""
        if is_batched(bank):  # several gradients at once, which know plain operations only
            basis = torch.tensor(self.plan.basis, dtype=bank.dtype, device=bank.device)
            return self.plan.adjoint(bank, basis).to(dtype)
        if torch.is_grad_enabled() and bank.requires_grad:
            return _Project.apply(bank, self, dtype)  # type: ignore[no-any-return]
        return self.project(bank, dtype)


class _Expand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, kernels: BankKernels, dtype: torch.dtype) -> Tensor:
        ctx.kernels, ctx.dtype = kernels, weight.dtype
        return kernels.expand(weight, dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.kernels.gradient(grad, ctx.dtype), None, None


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bank: Tensor, kernels: BankKernels, dtype: torch.dtype) -> Tensor:
        ctx.kernels, ctx.dtype = kernels, bank.dtype
        return kernels.project(bank, dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.kernels.bank(grad, ctx.dtype), None, None
