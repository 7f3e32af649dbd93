"""Equivariant transposed convolutions on any number of axes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import ClassVar, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.algebra.group_interface import Group
from steerable.errors import frames_to_caller
from steerable.filters.restricted_spaces import restricted_space
from steerable.nn.channels import hides_shapes
from steerable.nn.convolution_layer import BankOptions, Numbers, refuse_unknown_options, spaced_filters
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.geometry import axis_names, numbers_per_axis, spanned
from steerable.nn.off_grid import warn_of_gaps_off_the_grid
from steerable.nn.restricted_banks import carried_over
from steerable.nn.sampling import EquivarianceWarning, SamplingGuard, axes_exchanged, axes_reversed, one_extent_missing
from steerable.nn.seen_by_subgroup import both_ends
from steerable.types.field_types import FieldType

__all__ = ["TransposeOptions", "TransposedConvolutionLayer"]

_CONVOLVE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_PLAIN: dict[int, Callable[..., nn.Module]] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


class TransposeOptions(BankOptions, total=False):
    """The keyword arguments of a transposed convolution."""

    output_padding: Numbers
    dilation: Numbers


class TransposedConvolutionLayer(FilterBankModule):
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
            filters=spaced_filters(in_type, kernel, options),
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
        apart = self.plan.space.spacing
        SamplingGuard(self, extent, self.stride, self.padding, strict=strict, remedy="", spacing=apart)
        if reason := one_extent_missing(in_type.group, "dilation", self.dilation, apart):
            raise ValueError(f"{type(self).__name__}: {reason}")
        warn_of_gaps_off_the_grid(type(self).__name__, self.plan.space, self.stride)
        broken = self._broken_by_output_padding()
        if broken:
            message = (
                f"{type(self).__name__} with output_padding={self.output_padding} is not exactly equivariant to "
                f"{in_type.group.name}: {broken}. To double a size use kernel_size=4, stride=2, padding=1."
            )
            if strict:
                raise ValueError(message)
            warnings.warn(message, EquivarianceWarning, stacklevel=frames_to_caller())

    def _broken_by_output_padding(self) -> str:
        """The reason why the output padding is not equivariant; empty if it is."""
        extra, group, apart = self.output_padding, self.in_type.group, self.plan.space.spacing
        if any(p and r for p, r in zip(extra, axes_reversed(group, self.axes, apart), strict=True)):
            return "it enlarges the output on one side only"
        # A mirror in the main diagonal keeps the two sides that grow; it exchanges them.
        exchanged = axes_exchanged(group, self.axes, apart)
        return "the group exchanges height and width" if any(extra[a] != extra[b] for a, b in exchanged) else ""

    def _check_room(self, x: Tensor) -> None:
        """Refuse inputs that the padding removes completely."""
        extent = spanned(self.kernel_size, self.dilation)
        kept = [e + o - 2 * p for e, o, p in zip(extent, self.output_padding, self.padding, strict=True)]
        if min(kept) > 0 or hides_shapes(x) or torch.compiler.is_compiling():
            return
        for n, s, k, p, name in zip(x.shape[2:], self.stride, kept, self.padding, axis_names(self.axes), strict=True):
            if (n - 1) * s + k < 1:
                raise ValueError(
                    f"{type(self).__name__}: nothing is left of an input of {name} {n}, since the padding takes {p} "
                    f"pixels away on both sides and there are only {(n - 1) * s + k + 2 * p}. Use a larger input or "
                    "less padding."
                )

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self._check_room(x)
        bank, bias = self.filters()
        return _CONVOLVE[self.axes](
            x, bank.transpose(0, 1), bias, self.stride, self.padding, self.output_padding, 1, self.dilation
        )

    def restricted_to(self, subgroup: Group) -> TransposedConvolutionLayer:
        seen_in, seen_out = both_ends(self, subgroup)
        with torch.random.fork_rng(devices=[]):
            new = type(self)(
                seen_in.field_type,
                seen_out.field_type,
                self.kernel_size,
                self.stride,
                self.padding,
                output_padding=self.output_padding,
                dilation=self.dilation,
                bias=self.takes_bias,
                filters=restricted_space(self.plan.space, subgroup),
            )
        return carried_over(self, new, seen_in, seen_out)

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """The layer of ``torch.nn`` with the expanded filters."""
        bank, bias = self.expand()
        names = ("kernel_size", "stride", "padding", "output_padding", "dilation")
        settings = {name: getattr(self, name) for name in names}
        return self.plain_layer(_PLAIN[self.axes], bank.transpose(0, 1), bias, **settings)

    def extra_repr(self) -> str:
        names = ("kernel_size", "stride", "padding")
        parts = [super().extra_repr(), *(f"{name}={getattr(self, name)}" for name in names)]
        return ", ".join([*parts, *self.bank_repr()])
