"""The tables of the Fourier form of a convolution, made once per pair of types and kernel, shared by equal layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from weakref import WeakValueDictionary

from steerable.nn.backends.fourier.cpu.convolution import ConvolutionOnCpu
from steerable.nn.backends.fourier.cpu.line_convolution import LineConvolution
from steerable.nn.backends.fourier.cpu.tiled_convolution import TiledConvolution
from steerable.nn.backends.fourier.gpu.batch_convolution import BatchConvolution
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlockPlan
from steerable.nn.expansion import BankPlan

__all__ = ["FourierPlan", "fourier_plan", "plan_by_key"]

# Measured, see benchmarks/NOTES.md: in volumes, kernels that run along the copies of a capsule are faster from so many
# on; in images they always are, where the Fourier form is faster than the dense one.
MANY_COPIES = {2: 0, 3: 24}


class FourierPlan:
    """The irrep blocks of both directions and what runs them: ``forward``, and ``adjoint`` for the input gradient.

    Attributes:
        key: the problem's, by which an operation finds its plan.
    """

    def __init__(self, bank: BankPlan, key: str) -> None:
        self.bank, self.key = bank, key
        self.forward = IrrepBlockPlan(bank, adjoint=False)

    @cached_property
    def adjoint(self) -> IrrepBlockPlan:
        return IrrepBlockPlan(self.bank, adjoint=True)

    @cached_property
    def on_cpu(self) -> ConvolutionOnCpu:
        return _on_cpu(self.forward)

    @cached_property
    def adjoint_on_cpu(self) -> ConvolutionOnCpu:
        return _on_cpu(self.adjoint)

    @cached_property
    def on_gpu(self) -> BatchConvolution:
        return BatchConvolution(self.forward)

    @cached_property
    def adjoint_on_gpu(self) -> BatchConvolution:
        return BatchConvolution(self.adjoint)

    def __deepcopy__(self, memo: object) -> FourierPlan:
        return self  # a constant

    def __reduce__(self) -> tuple[Callable[..., FourierPlan], tuple[BankPlan, str]]:
        return fourier_plan, (self.bank, self.key)


def _on_cpu(plan: IrrepBlockPlan) -> ConvolutionOnCpu:
    """Along the copies of a capsule if there are many, otherwise along lines of pixels."""
    copies = [*plan.direction.in_copies, *plan.direction.out_copies]
    return (
        TiledConvolution(plan)
        if sum(copies) >= MANY_COPIES[len(plan.direction.kernel_size)] * len(copies)
        else LineConvolution(plan)
    )


_ALIVE: WeakValueDictionary[str, FourierPlan] = WeakValueDictionary()  # a plan lives as long as a layer that uses it


def fourier_plan(bank: BankPlan, key: str) -> FourierPlan:
    """The plan with this key, made anew or shared with a layer that has it."""
    plan = _ALIVE.get(key)
    if plan is None:
        plan = _ALIVE[key] = FourierPlan(bank, key)
    return plan


def plan_by_key(key: str) -> FourierPlan:
    """The plan that some layer holds."""
    plan = _ALIVE.get(key)
    if plan is None:
        raise RuntimeError(
            "this operation belongs to a Fourier convolution that no longer exists. Keep the layer as long as the "
            "compiled graph that was made from it."
        )
    return plan
