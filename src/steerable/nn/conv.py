"""Equivariant convolutions between any two field types."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from steerable.nn.backends import AUTO, Convolution, ConvolutionProblem, Window
from steerable.nn.channels import take_channels
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.sampling import EquivarianceWarning, SamplingGuard, axes_reversed, axes_swapped, pair
from steerable.types.field_types import FieldType

__all__ = ["Conv2d", "ConvTranspose2d"]

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]


class Conv2d(FilterBankModule):
    """[Ψ ⋆ f](x) = Σ_y Ψ(y) f(x + y), with Ψ(hy) = ρ_out(h) Ψ(y) ρ_in(h)⁻¹ for all h in H.

    Shapes: (batch, in_type.channels, height, width) → (batch, out_type.channels, height', width'), sizes as for
    ``torch.nn.Conv2d``.

    Args:
        in_type, out_type: any two field types of one group.
        kernel_size: odd or even; a pair for groups that do not exchange height and width.
        stride, dilation: as for ``torch.nn.Conv2d``.
        padding: a number, a pair, ``"same"`` or ``"valid"``.
        groups: both types are divided into that many equal shares, each kind of capsule by itself.
        bias: along the invariant directions of ``out_type`` only; None where it has none.
        padding_mode: zeros, reflect, replicate or circular.
        strict: make an input size on which a stride is not exactly equivariant an error instead of a warning.
        init: ``"he"`` or ``"orthogonal"``.
        backend: ``"dense"`` convolves with the expanded filters, ``"fourier"`` multiplies by one matrix per irrep, and
            ``"auto"`` takes the faster of the two, measured once per shape of the input. All compute the same function
            of the same parameters, up to rounding. Can be set later, too.

    >>> from steerable import FieldType, dihedral
    >>> G = dihedral(4)
    >>> conv = Conv2d(FieldType(G, "3*A1"), FieldType(G, "2*regular + E"), 3, padding=1)
    >>> conv(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 18, 8, 8])
    """

    in_index: Tensor
    out_index: Tensor
    out_index_back: Tensor

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        *,
        strict: bool = False,
        init: str = "he",
        backend: str = AUTO,
    ) -> None:
        kernel = pair(kernel_size, "kernel_size", minimum=1)
        super().__init__(in_type, out_type, kernel, groups=groups, bias=bias, init=init)
        self.kernel_size, self.groups = kernel, groups
        self.stride = pair(stride, "stride", minimum=1)
        self.dilation = pair(dilation, "dilation", minimum=1)
        extent = _extent(kernel, self.dilation)
        self.padding = _padding(padding, extent, self.stride, in_type)
        if padding_mode not in get_args(PaddingMode):
            raise ValueError(f"padding_mode is one of {', '.join(get_args(PaddingMode))}; got {padding_mode!r}.")
        self.padding_mode = padding_mode
        self.guard = SamplingGuard(
            self,
            in_type.group,
            extent,
            self.stride,
            self.padding,
            strict=strict,
            mirrored=padding_mode == "reflect",
            remedy="Or use stride 1 and AvgPool2d or BlurPool2d, or an even kernel on even sizes.",
        )
        self.in_order = _group_major(in_type, groups)
        self.out_order = _group_major(out_type, groups)
        if self.in_order is not None:
            self.register_index("in_index", self.in_order)
        if self.out_order is not None:
            self.register_index("out_index", self.out_order)
            self.register_index("out_index_back", np.argsort(self.out_order))
        self.backend = backend

    @property
    def backend(self) -> str:
        """How the convolution is carried out: ``"auto"``, ``"dense"`` or ``"fourier"``."""
        return self.convolution.backend

    @backend.setter
    def backend(self, backend: str) -> None:
        window = Window(self.padding, self.dilation, self.stride, self.groups)
        self.convolution = Convolution(ConvolutionProblem(self.plan, window, self.padding_mode), backend)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.guard.check(x)
        if self.in_order is not None:
            x = take_channels(x, self.in_index)
        y = self.convolution(x, self)
        return y if self.out_order is None else take_channels(y, self.out_index_back)

    def expand_bias(self, bias: Tensor | None) -> Tensor | None:
        """(out channels,), in the order of the bank, or None where there is no bias."""
        expanded = super().expand_bias(bias)
        return expanded if expanded is None or self.out_order is None else expanded[self.out_index]

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """A ``torch.nn.Conv2d`` with the expanded filters; groups of scattered channels become one dense bank."""
        bank, bias = (None if t is None else t.detach().clone() for t in self.expand())
        if bank is None:
            raise RuntimeError("a convolution has filters")
        groups = self.groups
        if self.in_order is not None or self.out_order is not None:
            bank, groups = self._dense_bank(bank), 1
            bias = bias if bias is None or self.out_order is None else bias[self.out_index_back]
        conv = nn.Conv2d(
            self.in_type.channels,
            self.out_type.channels,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            groups,
            bias is not None,
            self.padding_mode,
            device=bank.device,
            dtype=bank.dtype,
        )
        conv.weight.copy_(bank)
        if conv.bias is not None and bias is not None:
            conv.bias.copy_(bias)
        return conv

    def _dense_bank(self, bank: Tensor) -> Tensor:
        dense = bank.new_zeros(self.out_type.channels, self.in_type.channels, *self.kernel_size)
        rows = self.out_order if self.out_order is not None else np.arange(self.out_type.channels)
        columns = self.in_order if self.in_order is not None else np.arange(self.in_type.channels)
        for r, c, part in zip(
            np.split(rows, self.groups), np.split(columns, self.groups), bank.chunk(self.groups), strict=True
        ):
            dense[torch.tensor(r)[:, None], torch.tensor(c)] = part
        return dense

    def extra_repr(self) -> str:
        parts = [super().extra_repr(), f"kernel_size={self.kernel_size}"]
        defaults = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, "padding_mode": "zeros"}
        parts += [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        parts += [f"backend={self.convolution}"] if self.convolution.choice is not None else []
        return ", ".join(parts) + ("" if self.bias is not None else ", bias=False")


class ConvTranspose2d(FilterBankModule):
    """[Ψ ⋆ᵀ f](x) = Σ_i Ψ(x - s·i) f(i) for stride s: the adjoint of a strided convolution, to enlarge a field.

    Shapes: (batch, in_type.channels, n, n') → (batch, out_type.channels, (n-1)·s - 2p + d(k-1) + 1, …).

    Exactly equivariant for any input size; to double a size use an even kernel (k = 4, s = 2, p = 1, or k = s = 2). An
    ``output_padding`` adds rows below and columns on the right only. It is exact for groups that turn neither around:
    the trivial one, and the mirror in the main diagonal where both axes have the same.
    """

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        *,
        output_padding: int | Sequence[int] = 0,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        strict: bool = False,
        init: str = "he",
    ) -> None:
        kernel = pair(kernel_size, "kernel_size", minimum=1)
        strides = pair(stride, "stride", minimum=1)
        super().__init__(in_type, out_type, kernel, bias=bias, init=init, upsampling=math.prod(strides))
        self.kernel_size, self.stride = kernel, strides
        self.padding = pair(padding, "padding", minimum=0)
        self.output_padding = pair(output_padding, "output_padding", minimum=0)
        self.dilation = pair(dilation, "dilation", minimum=1)
        extent = _extent(kernel, self.dilation)
        SamplingGuard(self, in_type.group, extent, self.stride, self.padding, strict=strict, remedy="")
        one_sided = any(p and r for p, r in zip(self.output_padding, axes_reversed(in_type.group), strict=True))
        # A mirror in the main diagonal keeps the two sides that grow; it exchanges them.
        uneven = self.output_padding[0] != self.output_padding[1] and axes_swapped(in_type.group)
        if one_sided or uneven:
            why = "it enlarges the output on one side only" if one_sided else "the group exchanges height and width"
            message = (
                f"ConvTranspose2d with output_padding={self.output_padding} is not exactly equivariant to "
                f"{in_type.group.name}: {why}. To double a size use kernel_size=4, stride=2, padding=1."
            )
            if strict:
                raise ValueError(message)
            warnings.warn(message, EquivarianceWarning, stacklevel=2)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        bank, bias = self.filters()
        return F.conv_transpose2d(
            x, bank.transpose(0, 1), bias, self.stride, self.padding, self.output_padding, 1, self.dilation
        )

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """A ``torch.nn.ConvTranspose2d`` with the expanded filters."""
        bank, bias = self.expand()
        conv = nn.ConvTranspose2d(
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
        conv.weight.copy_(bank.transpose(0, 1))
        if conv.bias is not None and bias is not None:
            conv.bias.copy_(bias)
        return conv

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _extent(kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int]:
    """How many pixels a dilated kernel spans."""
    return dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1


def _padding(
    padding: int | Sequence[int] | str, extent: tuple[int, int], stride: tuple[int, int], in_type: FieldType
) -> tuple[int, int]:
    if padding == "valid":
        return (0, 0)
    if padding != "same":
        if isinstance(padding, str):
            raise ValueError(f"padding is a number, a pair of numbers, 'same' or 'valid'; got {padding!r}.")
        return pair(padding, "padding", minimum=0)
    if stride != (1, 1):
        raise ValueError(f"padding='same' keeps the size and needs stride 1; got stride {stride}.")
    for e, name in zip(extent, ("height", "width"), strict=True):
        if e % 2 == 0:
            raise ValueError(
                f"padding='same' needs an odd kernel: one that spans {e} pixels in {name} would be padded more on one "
                "side than on the other, which is not equivariant. Use an odd kernel_size, or give the padding as a "
                "number."
            )
    return ((extent[0] - 1) // 2, (extent[1] - 1) // 2)


def _group_major(field_type: FieldType, groups: int) -> NDArray[np.intp] | None:
    """The channels in the order group by group, and within a group kind by kind; None where that is their order."""
    parts = []
    for g in range(groups):
        for (capsule, copies), channels in zip(field_type.blocks, field_type.block_slices, strict=True):
            share = copies // groups * capsule.dim
            parts.append(np.arange(channels.start + g * share, channels.start + (g + 1) * share))
    order = np.concatenate(parts)
    return None if np.array_equal(order, np.arange(field_type.channels)) else order
