"""Equivariant convolutions on any number of axes. A layer for images or volumes says how many, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, Literal, TypedDict, Unpack, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from steerable.errors import did_you_mean
from steerable.filters.spaces import FilterSpace
from steerable.nn.channels import take_channels
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.fourier.carrier import Backend
from steerable.nn.geometry import numbers_per_axis, resolved_padding, spanned
from steerable.nn.sampling import SamplingGuard
from steerable.types.field_types import FieldType

__all__ = ["BankOptions", "ConvOptions", "ConvolutionLayer", "Numbers", "PaddingMode", "refuse_unknown_options"]

Numbers = int | Sequence[int]
"""One number for all axes, or one per axis."""

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

_CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_PLAIN: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class BankOptions(TypedDict, total=False):
    """What every convolution takes by keyword alone; ``Conv2d`` says what each of them means."""

    bias: bool
    strict: bool
    init: str
    filters: FilterSpace | None


class ConvOptions(BankOptions, total=False):
    """The keywords of a convolution that is not transposed."""

    padding_mode: PaddingMode
    backend: Backend


class ConvolutionLayer(FilterBankModule):
    """The base of convolutions: [Ψ ⋆ f](x) = Σ_y Ψ(y) f(x + y) on ``axes`` axes.

    A subclass sets ``axes``; the arguments are those of ``Conv2d``.
    """

    axes: ClassVar[int]
    backend: Backend
    in_index: Tensor
    out_index: Tensor
    out_index_back: Tensor

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: Numbers,
        stride: Numbers = 1,
        padding: Numbers | str = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        **options: Unpack[ConvOptions],
    ) -> None:
        refuse_unknown_options(type(self), options, ConvOptions)
        kernel = numbers_per_axis(kernel_size, "kernel_size", self.axes, minimum=1)
        super().__init__(
            in_type,
            out_type,
            kernel,
            filters=options.get("filters"),
            groups=groups,
            bias=options.get("bias", True),
            init=options.get("init", "he"),
        )
        self.kernel_size, self.groups = kernel, groups
        self.stride = numbers_per_axis(stride, "stride", self.axes, minimum=1)
        self.dilation = numbers_per_axis(dilation, "dilation", self.axes, minimum=1)
        extent = spanned(kernel, self.dilation)
        self.padding = resolved_padding(padding, extent, self.stride)
        self.padding_mode = _padding_mode(options.get("padding_mode", "zeros"))
        self.guard = SamplingGuard(
            self,
            extent,
            self.stride,
            self.padding,
            strict=options.get("strict", False),
            mirrored=self.padding_mode == "reflect",
            remedy="Or use stride 1 and AvgPool2d or BlurPool2d, or an even kernel on even sizes.",
        )
        self.in_order, self.out_order = _group_major(in_type, groups), _group_major(out_type, groups)
        if self.in_order is not None:
            self.register_index("in_index", self.in_order)
        if self.out_order is not None:
            self.register_index("out_index", self.out_order)
            self.register_index("out_index_back", np.argsort(self.out_order))
        self.backend = options.get("backend", "auto")

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2 + self.axes,))
        self.guard.check(x)
        return self.dense(x)

    def dense(self, x: Tensor) -> Tensor:
        """The convolution with the expanded filters."""
        bank, bias = self.filters()
        if self.in_order is not None:
            x = take_channels(x, self.in_index)
        if self.out_order is not None and bias is not None:
            bias = bias[self.out_index]
        padding = self.padding
        if self.padding_mode != "zeros" and any(padding):
            x = F.pad(x, [p for p in reversed(padding) for _ in range(2)], mode=self.padding_mode)
            padding = (0,) * self.axes
        y = _CONVOLVE[self.axes](x, bank, bias, self.stride, padding, self.dilation, self.groups)
        return y if self.out_order is None else take_channels(y, self.out_index_back)

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """The layer of ``torch.nn`` with the expanded filters; groups of scattered channels become one dense bank."""
        bank, bias = self.expand()
        groups = self.groups
        if self.in_order is not None or self.out_order is not None:
            bank, groups = self._dense_bank(bank), 1
        names = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
        settings = {name: getattr(self, name) for name in names}
        return self.plain_layer(_PLAIN[self.axes], bank, bias, groups=groups, **settings)

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
        ones, zeros = (1,) * self.axes, (0,) * self.axes
        defaults = {"stride": ones, "padding": zeros, "dilation": ones, "groups": 1, "padding_mode": "zeros"}
        parts = [super().extra_repr(), f"kernel_size={self.kernel_size}"]
        parts += [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        return ", ".join([*parts, *self.bank_repr()])


def refuse_unknown_options(layer: type, options: Mapping[str, Any], known: type) -> None:
    """TypeError for a keyword that a layer does not have; a TypedDict alone would say nothing at run time."""
    names: frozenset[str] = known.__optional_keys__  # type: ignore[attr-defined]
    for name in options:
        if name not in names:
            positional = [p.name for p in signature(layer).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
            raise TypeError(
                f"{layer.__name__} has no option `{name}`. {did_you_mean(name, [*positional, *sorted(names)])}"
            )


def _padding_mode(mode: str) -> PaddingMode:
    for known in get_args(PaddingMode):
        if mode == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"padding_mode is one of {', '.join(get_args(PaddingMode))}; got {mode!r}.")


def _group_major(field_type: FieldType, groups: int) -> NDArray[np.intp] | None:
    """The channels in the order group by group, and within a group kind by kind; None where that is their order."""
    parts = []
    for g in range(groups):
        for (capsule, copies), channels in zip(field_type.blocks, field_type.block_slices, strict=True):
            share = copies // groups * capsule.dim
            parts.append(np.arange(channels.start + g * share, channels.start + (g + 1) * share))
    order = np.concatenate(parts)
    return None if np.array_equal(order, np.arange(field_type.channels)) else order
