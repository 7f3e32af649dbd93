"""Equivariant convolutions on any number of axes; a layer for images or volumes only sets that number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar, Literal, TypedDict, Unpack, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from steerable.algebra.group_interface import Group
from steerable.errors import did_you_mean
from steerable.filters.restricted_spaces import restricted_space
from steerable.filters.space_arguments import chosen_space
from steerable.filters.spaces import FilterSpace
from steerable.nn.backends import AUTO, ConvolutionProblem, ConvolutionRunner, Window
from steerable.nn.channels import take_channels
from steerable.nn.containers import Sequential
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.geometry import numbers_per_axis, resolved_padding, spanned
from steerable.nn.module import EquivariantModule
from steerable.nn.restricted_banks import exact_bank, exact_bias, order_by_groups, set_filters, set_up_as
from steerable.nn.sampling import SamplingGuard, one_extent_missing
from steerable.nn.seen_by_subgroup import both_ends
from steerable.nn.selection import Select
from steerable.types.field_types import FieldType

__all__ = [
    "BankOptions",
    "ConvOptions",
    "ConvolutionLayer",
    "Numbers",
    "PaddingMode",
    "refuse_unknown_options",
    "spaced_filters",
]

Numbers = int | Sequence[int]
"""One number for all axes, or one per axis."""

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

_PLAIN: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class BankOptions(TypedDict, total=False):
    """The keyword arguments of every convolution; ``Conv2d`` describes each of them."""

    bias: bool
    strict: bool
    init: str
    filters: FilterSpace | None
    spacing: float | Sequence[float] | None


class ConvOptions(BankOptions, total=False):
    """The keyword arguments of a convolution that is not transposed."""

    padding_mode: PaddingMode
    backend: str


class ConvolutionLayer(FilterBankModule):
    """The base of convolutions: [Ψ ⋆ f](x) = Σ_y Ψ(y) f(x + y) on ``axes`` axes.

    A subclass sets ``axes``; the arguments are those of ``Conv2d``.
    """

    axes: ClassVar[int]
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
            filters=spaced_filters(in_type, kernel, options),
            groups=groups,
            bias=options.get("bias", True),
            init=options.get("init", "he"),
        )
        self.kernel_size, self.groups = kernel, groups
        self.stride = numbers_per_axis(stride, "stride", self.axes, minimum=1)
        self.dilation = numbers_per_axis(dilation, "dilation", self.axes, minimum=1)
        extent, apart = spanned(kernel, self.dilation), self.plan.space.spacing
        self.padding = resolved_padding(padding, extent, self.stride)
        self.padding_mode = _padding_mode(options.get("padding_mode", "zeros"))
        self.guard = SamplingGuard(
            self,
            extent,
            self.stride,
            self.padding,
            strict=options.get("strict", False),
            padding_mode=self.padding_mode,
            spacing=apart,
            remedy=f"Or use stride 1 and AvgPool{self.axes}d or BlurPool{self.axes}d, or an even kernel on even sizes.",
        )
        if reason := one_extent_missing(in_type.group, "dilation", self.dilation, apart):
            raise ValueError(f"{type(self).__name__}: {reason}")
        self.in_order, self.out_order = _group_major(in_type, groups), _group_major(out_type, groups)
        if self.in_order is not None:
            self.register_index("in_index", self.in_order)
        if self.out_order is not None:
            self.register_index("out_index", self.out_order)
            self.register_index("out_index_back", np.argsort(self.out_order))
        self.backend = options.get("backend", AUTO)

    @property
    def backend(self) -> str:
        """The way the convolution is computed: ``"auto"``, or the name of a backend, ``"dense"`` or ``"fourier"``."""
        return self.runner.backend

    @backend.setter
    def backend(self, backend: str) -> None:
        window = Window(self.padding, self.dilation, self.stride, self.groups)
        self.runner = ConvolutionRunner(ConvolutionProblem(self.plan, window, self.padding_mode), backend)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        self.guard.check(x)
        if self.in_order is not None:
            x = take_channels(x, self.in_index)
        y = self.runner(x, self)
        return y if self.out_order is None else take_channels(y, self.out_index_back)

    def expand_bias(self, bias: Tensor | None) -> Tensor | None:
        """(out channels,), in the order of the bank, or None if there is no bias."""
        expanded = super().expand_bias(bias)
        return expanded if expanded is None or self.out_order is None else expanded[self.out_index]

    def restricted_to(self, subgroup: Group) -> EquivariantModule:
        seen_in, seen_out = both_ends(self, subgroup)
        with torch.random.fork_rng(devices=[]):
            new = type(self)(
                seen_in.field_type,
                seen_out.field_type,
                self.kernel_size,
                self.stride,
                self.padding,
                self.dilation,
                self.groups,
                bias=self.takes_bias,
                strict=self.guard.strict,
                padding_mode=self.padding_mode,
                backend=self.backend,
                filters=restricted_space(self.plan.space, subgroup),
            )
        # Selections bring the capsules of each of the convolution's groups together, where there are several.
        start = Select(new.in_type, order_by_groups(seen_in, self.in_type, self.groups))
        end = Select(new.out_type, np.argsort(order_by_groups(seen_out, self.out_type, self.groups)))
        columns = seen_in.order[start.order]
        rows = seen_out.order[np.argsort(end.order)]
        set_up_as(self, new)
        if not self.weight.is_meta:  # else there are no filters
            bias, dense = exact_bias(self), self._dense_bank(exact_bank(self))
            bank = new._bank_of_groups(dense[rows][:, columns])
            set_filters(new, bank, None if bias is None else bias[rows])
        parts = [start.to(self.weight.device), new, end.to(self.weight.device)]
        kept = [p for p in parts if not isinstance(p, Select) or bool((np.diff(p.order) != 1).any())]
        return kept[0] if len(kept) == 1 else Sequential(*kept).train(self.training)

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """The layer of ``torch.nn`` with the expanded filters; groups of scattered channels become one dense bank."""
        bank, bias = self.expand()
        groups = self.groups
        if self.in_order is not None or self.out_order is not None:
            bank, groups = self._dense_bank(bank), 1
            bias = bias if bias is None or self.out_order is None else bias[self.out_index_back]
        names = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
        settings = {name: getattr(self, name) for name in names}
        return self.plain_layer(_PLAIN[self.axes], bank, bias, groups=groups, **settings)

    def _dense_bank(self, bank: Tensor) -> Tensor:
        dense = bank.new_zeros(self.out_type.channels, self.in_type.channels, *self.kernel_size)
        for (r, c), part in zip(self._channels_of_groups(), bank.chunk(self.groups), strict=True):
            dense[torch.tensor(r)[:, None], torch.tensor(c)] = part
        return dense

    def _bank_of_groups(self, dense: Tensor) -> Tensor:
        """The inverse of :meth:`_dense_bank`: the filters inside the convolution's groups, one after the other."""
        return torch.cat([dense[torch.tensor(r)[:, None], torch.tensor(c)] for r, c in self._channels_of_groups()])

    def _channels_of_groups(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """The channels that come out of each of the convolution's groups, and those that go into it."""
        rows = self.out_order if self.out_order is not None else np.arange(self.out_type.channels)
        columns = self.in_order if self.in_order is not None else np.arange(self.in_type.channels)
        return list(zip(np.split(rows, self.groups), np.split(columns, self.groups), strict=True))

    def extra_repr(self) -> str:
        ones, zeros = (1,) * self.axes, (0,) * self.axes
        defaults = {"stride": ones, "padding": zeros, "dilation": ones, "groups": 1, "padding_mode": "zeros"}
        parts = [super().extra_repr(), f"kernel_size={self.kernel_size}"]
        parts += [f"{k}={getattr(self, k)}" for k, v in defaults.items() if getattr(self, k) != v]
        parts += [f"backend={self.runner}"] if self.runner.choice is not None else []
        return ", ".join([*parts, *self.bank_repr()])


def spaced_filters(in_type: FieldType, kernel: tuple[int, ...], options: BankOptions) -> FilterSpace | None:
    """The filter space of a layer: the given one, or the default one of a spacing; None if neither is given."""
    filters, spacing = options.get("filters"), options.get("spacing")
    return filters if spacing is None else chosen_space(in_type.group, kernel, filters, spacing)


def refuse_unknown_options(layer: type, options: Mapping[str, Any], known: type) -> None:
    """Raise a TypeError for a keyword that a layer does not have; a TypedDict would ignore it at run time."""
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
    raise ValueError(f"padding_mode must be one of {', '.join(get_args(PaddingMode))}; got {mode!r}.")


def _group_major(field_type: FieldType, groups: int) -> NDArray[np.intp] | None:
    """The channels in the order group by group, and then kind by kind; None if they are in that order."""
    parts = []
    for g in range(groups):
        for (capsule, copies), channels in zip(field_type.terms, field_type.term_slices, strict=True):
            share = copies // groups * capsule.dim
            parts.append(np.arange(channels.start + g * share, channels.start + (g + 1) * share))
    order = np.concatenate(parts)
    return None if np.array_equal(order, np.arange(field_type.channels)) else order
