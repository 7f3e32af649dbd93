"""The interface of a backend: it says which problems it supports, and computes a convolution and its gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from torch import Tensor

from steerable.nn.backends.filter_sources import FilterSource
from steerable.nn.backends.problem import ConvolutionProblem, Operands

__all__ = ["Backend", "Gradients", "Wanted"]

Wanted = tuple[bool, bool]
"""Whether the gradients of the input and of the filters are wanted."""
Gradients = tuple[Tensor | None, Tensor | None]
"""Those of the input and of the filters, each where it is wanted."""


class Backend(ABC):
    """One way to compute the passes of a convolution.

    All backends compute the same function of the same parameters, up to rounding. A new one is a subclass in a file of
    its own and an entry in ``known.BACKENDS``.

    Attributes:
        name: what users, records and the store call it.
        family: the name of the whole backend that it is a variant of, its own name otherwise.
        forwards, differentiates: whether it has a forward pass, and gradients. Users can ask by name for those that
            have both; the chooser may combine all of them.
        remark: what ``repr`` says of a variant's forward pass.
        weight_gradient: whether its gradient of the filters is that of the expanded bank or of the parameters.
        changes_operands: whether gradients need the operands as its forward pass changes them.
        gradients_share_work: whether both gradients together take less time than one after the other.
        started_by_python: whether it consists of many kernels that Python starts one by one, compiled or not.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    forwards: ClassVar[bool] = True
    differentiates: ClassVar[bool] = True
    remark: ClassVar[str] = ""
    weight_gradient: ClassVar[Literal["bank", "parameters"]] = "bank"
    changes_operands: ClassVar[bool] = False
    gradients_share_work: ClassVar[bool] = False
    started_by_python: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        cls.family = cls.__dict__.get("family", cls.__dict__.get("name", ""))

    @property
    def is_whole(self) -> bool:
        """Whether it has a forward pass and gradients."""
        return self.forwards and self.differentiates

    # ---------------------------------------------------------------- what it is good for

    @abstractmethod
    def why_not(self, problem: ConvolutionProblem) -> str | None:
        """Why it does not support a problem, as the end of a sentence about the convolution; None if it does."""

    def can_ever_gain(self, problem: ConvolutionProblem) -> bool:
        """Whether ``may_gain`` can be true for some input; asked once per layer, to spare small ones the rest."""
        return True

    def may_gain(self, problem: ConvolutionProblem, x: Tensor, *, ahead: bool) -> bool:
        """Whether a measurement is worthwhile for inputs like x; asked often, so quick conditions come first.

        Args:
            problem: one that it supports.
            x: (batch, in, *grid).
            ahead: the question is asked for a network that is yet to be compiled or recorded.
        """
        return False

    def by_rule(self, problem: ConvolutionProblem, x: Tensor) -> bool:
        """Whether to use it if ``may_gain`` says yes but nothing may be measured."""
        return False

    def library(self, problem: ConvolutionProblem, device: str) -> str:
        """The library that a problem runs on, if that affects rounding: ``"numba"``, for instance."""
        return ""

    # ---------------------------------------------------------------- carrying it out

    def prepare(self, problem: ConvolutionProblem) -> object:
        """The objects that must live as long as the layer; made before the first pass, never under a compiler."""
        return None

    def held(self, key: str) -> object:
        """The objects that must live until the backward pass, although the layer may be gone by then."""
        return None

    def convolve(self, problem: ConvolutionProblem, x: Tensor, filters: FilterSource) -> Tensor | None:
        """The whole convolution as a differentiable operation; None if it is put together from the passes."""
        return None

    @abstractmethod
    def forward(self, operands: Operands, bias: Tensor | None) -> Tensor:
        """(batch, in, *grid) → (batch, out, *grid'), in the memory format of the input."""

    @abstractmethod
    def gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        """The gradients of the input and of the filters, from that of the output; they may share work."""

    @abstractmethod
    def differentiable_gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        """The same in operations that can be differentiated themselves."""

    def changed(self, operands: Operands) -> Operands:
        """The operands of its forward pass, and of the gradients that follow."""
        return operands
