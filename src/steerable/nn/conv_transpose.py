"""Equivariant transposed convolutions, which enlarge a field."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import ClassVar, TypedDict, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.filters.spaces import FilterSpace
from steerable.nn.convolution import Numbers, refuse_unknown_options
from steerable.nn.filter_bank import FilterBankModule, filled
from steerable.nn.geometry import numbers_per_axis, spanned
from steerable.nn.sampling import EquivarianceWarning, SamplingGuard, axes_exchanged, axes_reversed
from steerable.types.field_types import FieldType

__all__ = ["ConvTranspose2d", "TransposeOptions", "TransposedConvolution"]

_CONVOLVE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_PLAIN: dict[int, Callable[..., nn.Module]] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


class TransposeOptions(TypedDict, total=False):
    """What a transposed convolution takes by keyword alone; ``ConvTranspose2d`` says what each of them means."""

    output_padding: Numbers
    bias: bool
    dilation: Numbers
    strict: bool
    init: str
    filters: FilterSpace | None


class TransposedConvolution(FilterBankModule):
    """The base of transposed convolutions: [Ψ ⋆ᵀ f](x) = Σ_i Ψ(x - s·i) f(i) on ``axes`` axes.

    A subclass sets ``axes``; the arguments are those of ``ConvTranspose2d``.
    """

    axes: ClassVar[int]

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Numbers = 0,
        **options: Unpack[TransposeOptions],
    ) -> None:
        refuse_unknown_options(type(self), options, TransposeOptions)
        kernel = numbers_per_axis(kernel_size, "kernel_size", self.axes, minimum=1)
        strides = numbers_per_axis(stride, "stride", self.axes, minimum=1)
        super().__init__(
            in_type,
            out_type,
            kernel,
            filters=options.get("filters"),
            bias=options.get("bias", True),
            init=options.get("init", "he"),
            upsampling=math.prod(strides),
        )
        self.kernel_size, self.stride = kernel, strides
        self.padding = numbers_per_axis(padding, "padding", self.axes, minimum=0)
        extra, dilation = options.get("output_padding", 0), options.get("dilation", 1)
        self.output_padding = numbers_per_axis(extra, "output_padding", self.axes, minimum=0)
        self.dilation = numbers_per_axis(dilation, "dilation", self.axes, minimum=1)
        extent, strict = spanned(kernel, self.dilation), options.get("strict", False)
        SamplingGuard(self, extent, self.stride, self.padding, strict=strict, remedy="")
        broken = self._broken_by_output_padding()
        if broken:
            message = (
                f"{type(self).__name__} with output_padding={self.output_padding} is not exactly equivariant to "
                f"{in_type.group.name}: {broken}. To double a size use kernel_size=4, stride=2, padding=1."
            )
            if strict:
                raise ValueError(message)
            warnings.warn(message, EquivarianceWarning, stacklevel=2)

    def _broken_by_output_padding(self) -> str:
        """Why the output padding is not equivariant, or nothing."""
        extra, group = self.output_padding, self.in_type.group
        if any(p and r for p, r in zip(extra, axes_reversed(group, self.axes), strict=True)):
            return "it enlarges the output on one side only"
        # A mirror in the main diagonal keeps the two sides that grow; it exchanges them.
        exchanged = axes_exchanged(group, self.axes)
        return "the group exchanges height and width" if any(extra[a] != extra[b] for a, b in exchanged) else ""

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2 + self.axes,))
        bank, bias = self.filters()
        return _CONVOLVE[self.axes](
            x, bank.transpose(0, 1), bias, self.stride, self.padding, self.output_padding, 1, self.dilation
        )

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """The layer of ``torch.nn`` with the expanded filters."""
        bank, bias = self.expand()
        conv = _PLAIN[self.axes](
            self.in_type.channels,
            self.out_type.channels,
            self.kernel_size,
            self.stride,
            self.padding,
            self.output_padding,
            1,
            bias is not None,
            self.dilation,
            device=bank.device,
            dtype=bank.dtype,
        )
        return filled(conv, bank.transpose(0, 1), bias)

    def extra_repr(self) -> str:
        names = ("kernel_size", "stride", "padding")
        parts = [super().extra_repr(), *(f"{name}={getattr(self, name)}" for name in names)]
        return ", ".join([*parts, *self.bank_repr()])


class ConvTranspose2d(TransposedConvolution):
    """[Ψ ⋆ᵀ f](x) = Σ_i Ψ(x - s·i) f(i) for stride s: the adjoint of a strided convolution, to enlarge a field.

    Shapes: (batch, in_type.channels, n, n') → (batch, out_type.channels, (n-1)·s - 2p + d(k-1) + 1, …).

    Exactly equivariant for any input size; to double a size use an even kernel (k = 4, s = 2, p = 1, or k = s = 2). An
    ``output_padding`` adds rows below and columns on the right only. It is exact for groups that turn neither around:
    the trivial one, and the mirror in the main diagonal where both axes have the same.

    Args:
        in_type, out_type: any two field types of one group.
        kernel_size: odd or even; a pair for groups that do not exchange height and width.
        stride, padding: as for ``torch.nn.ConvTranspose2d``; the stride is the factor by which the field grows.
        output_padding: rows and columns that are added on one side, none by default.
        bias: along the invariant directions of ``out_type`` only, True by default; None where it has none.
        dilation: as for ``torch.nn.ConvTranspose2d``.
        strict: make an ``output_padding`` that is not exactly equivariant an error instead of a warning.
        init: ``"he"`` (the default) or ``"orthogonal"``.
        filters: the :class:`~steerable.FilterSpace` that the filters are from, of the size ``kernel_size``; by default
            all filters on a patch of pixels.

    Arguments after ``padding`` are given by keyword.
    """

    axes = 2
