"""Equivariant convolutions of images between any two field types."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from steerable.nn.convolution_layer import ConvolutionLayer
from steerable.nn.fourier.carrier import Backend, Carrier
from steerable.nn.fourier.passes import DENSE

__all__ = ["Conv2d"]


class Conv2d(ConvolutionLayer):
    """[Ψ ⋆ f](x) = Σ_y Ψ(y) f(x + y), with Ψ(hy) = ρ_out(h) Ψ(y) ρ_in(h)⁻¹ for all h in H.

    Shapes: (batch, in_type.channels, height, width) → (batch, out_type.channels, height', width'), sizes as for
    ``torch.nn.Conv2d``.

    Args:
        in_type, out_type: any two field types of one group.
        kernel_size: odd or even; a pair for groups that do not exchange height and width.
        stride, dilation: as for ``torch.nn.Conv2d``.
        padding: a number, a pair, ``"same"`` or ``"valid"``.
        groups: both types are divided into that many equal shares, each kind of capsule by itself.
        bias: along the invariant directions of ``out_type`` only, True by default; None where it has none.
        padding_mode: ``"zeros"`` (the default), ``"reflect"``, ``"replicate"`` or ``"circular"``.
        strict: make an input size on which a stride is not exactly equivariant an error instead of a warning.
        init: ``"he"`` (the default) or ``"orthogonal"``.
        backend: ``"dense"`` convolves with the expanded filters, ``"fourier"`` multiplies by one matrix per irrep, and
            ``"auto"``, the default, takes the faster of the two, measured once per shape of the input. All compute the
            same function of the same parameters, up to rounding. Can be set later, too.
        filters: the :class:`~steerable.FilterSpace` that the filters are from, of the size ``kernel_size``; by default
            all filters on a patch of pixels.

    Arguments after ``groups`` are given by keyword.

    >>> import torch
    >>> from steerable import FieldType, dihedral
    >>> G = dihedral(4)
    >>> conv = Conv2d(FieldType(G, "3*A1"), FieldType(G, "2*regular + E"), 3, padding=1)
    >>> conv(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 18, 8, 8])
    """

    axes = 2
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def backend(self) -> Backend:
        """How the convolution is carried out: ``"auto"``, ``"dense"`` or ``"fourier"``."""
        return self.carrier.backend

    @backend.setter
    def backend(self, backend: str) -> None:
        self.carrier = Carrier(backend, self)
        if backend == "fourier":
            self.carrier.prepare(self)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.guard.check(x)
        passes = self.carrier.passes_for(self, x)
        return self.dense(x) if passes == DENSE else self.carrier.run(self, x, passes)

    def train(self, mode: bool = True) -> Self:
        self.carrier.forget()
        return super().train(mode)

    def bank_repr(self) -> list[str]:
        return [*([f"backend={self.carrier}"] if self.backend != "auto" else []), *super().bank_repr()]
