"""Layers with a filter bank: one parameter vector, expanded when it is used, kept in evaluation, never stale."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from steerable.errors import frames_to_caller
from steerable.filters.space_arguments import chosen_space
from steerable.filters.spaces import FilterSpace
from steerable.nn.bank_kernels import BankKernels
from steerable.nn.bank_tables import bank_tables
from steerable.nn.channels import is_dispatched, is_exported, is_traced, is_transformed, take, without_autocast
from steerable.nn.constants import restore_constants
from steerable.nn.expansion import BankPlan, InvariantPlan
from steerable.nn.init import initialise
from steerable.nn.input_errors import wrong_dtype
from steerable.nn.kept_filters import MadeFromParameters, is_constant
from steerable.nn.module import EquivariantModule
from steerable.nn.numba import HAS_NUMBA
from steerable.nn.off_grid import warn_of_angles_off_the_grid
from steerable.nn.triton import HAS_TRITON
from steerable.types.field_types import FieldType

if TYPE_CHECKING:
    from steerable.nn.triton.bank import BankOnGpu

__all__ = ["FilterBankModule"]

Made = TypeVar("Made")

_LOOKUP_LIMIT = 2**20
"""Up to how many weights a bank is looked up in one go, in half the time of products; the table takes memory."""


class FilterBankModule(EquivariantModule):
    """The common base of ``Conv2d``, ``ConvTranspose2d`` and ``Linear``.

    ``weight`` holds the coefficients of all pairs of capsule kinds, one after the other; ``theta(out, in)`` shows one
    pair's. ``bias`` holds one coefficient per invariant direction of ``out_type``, and is None if there is none.
    """

    basis: Tensor
    basis_order: Tensor
    lookup_index: Tensor
    lookup_factor: Tensor
    bank_index: Tensor
    bank_factor: Tensor
    bias_entry: Tensor
    bias_factor: Tensor

    def __init__(
        self,
        in_type: FieldType,
        out_type: FieldType,
        kernel_size: tuple[int, ...],
        *,
        filters: FilterSpace | None = None,
        groups: int = 1,
        bias: bool = True,
        init: str = "he",
        upsampling: int = 1,
    ) -> None:
        super().__init__(in_type, out_type)
        self.upsampling = upsampling  # output pixels per input pixel; each of them sees that many times fewer taps
        self.plan = BankPlan(in_type, out_type, chosen_space(in_type.group, kernel_size, filters), groups)
        warn_of_angles_off_the_grid(type(self).__name__, self.plan.space)
        self.register_constant("basis", self.plan.basis)
        if self.plan.order.size:
            self.register_index("basis_order", self.plan.order)
        small = self.plan.parameters > 0 and self.plan.weights <= _LOOKUP_LIMIT
        self.looks_up = small and self.plan.one_parameter_per_weight
        self._has_kernels = HAS_NUMBA and self.plan.takes_kernels
        if self.looks_up:
            index, factor = self.plan.lookup()
            self.register_index("lookup_index", index)
            self.register_constant("lookup_factor", factor)
        self.weight = nn.Parameter(torch.empty(self.plan.parameters))
        self.invariants = InvariantPlan(out_type)
        self.bias: nn.Parameter | None = None
        self.takes_bias = bias  # also where out_type has no direction for one; a subgroup may see some
        if bias and self.invariants.parameters:
            entry, factor = self.invariants.lookup()
            self.register_index("bias_entry", entry)
            self.register_constant("bias_factor", factor)
            self.bias = nn.Parameter(torch.zeros(self.invariants.parameters))
        self._on_gpu: BankOnGpu | None = None  # the kernels there, for parameters that are there
        self._on_cpu: dict[torch.dtype, BankKernels] = {}  # those of eager code, made when they are first needed
        self._kept: MadeFromParameters | None = None
        if self.plan.parameters == 0:
            kernel, remedy = (f" with kernel size {kernel_size}", ", or a larger kernel") if kernel_size else ("", "")
            if harmonics := self.plan.space.harmonics:
                highest = max((f.harmonic for f in harmonics), key=lambda harmonic: harmonic.frequency)
                kernel += f", whose filters have no {highest.quantity} above {highest.frequency}"
            warnings.warn(
                f"{type(self).__name__}: there is no equivariant map from `{in_type}` to `{out_type}`{kernel}, so "
                f"the output is always zero. Choose types that share an irrep{remedy}.",
                UserWarning,
                stacklevel=frames_to_caller(),
            )
        self.init = init
        self.reset_parameters()

    def check_input(self, x: Tensor, *, maps: bool = True, pooled: bool = False) -> None:
        super().check_input(x, maps=maps, pooled=pooled)
        own = self._at_hand()[0].dtype
        if not (is_traced(x) or x.dtype == own or torch.is_autocast_enabled(x.device.type)):
            raise TypeError(f"{type(self).__name__} expected {wrong_dtype(x, own)}")

    def _at_hand(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias, from where torch keeps them; attribute access takes as long as a small operation.

        A parametrisation, or ``nn.DataParallel``, keeps them elsewhere.
        """
        own = self._parameters
        weight = own.get("weight")
        if weight is None or "bias" not in own:
            return self.weight, self.bias
        return weight, own["bias"]

    def reset_parameters(self) -> None:
        """Draw new weights by the layer's initialisation; the bias becomes zero."""
        initialise(self, self.init)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def theta(self, out_capsule: str, in_capsule: str) -> Tensor:
        """Θ of one pair of capsule kinds, a view of ``weight``: (groups · copies out, copies in, dim Hom).

        Capsules that are sums of irreps are counted by these irreps: ``sphere(2)`` of SO(3), and in the plane large
        ones such as ``regular(8)`` with 9×9 taps.
        """
        for pair in self.plan.pairs:
            if (pair.out_capsule.name, pair.in_capsule.name) == (out_capsule, in_capsule):
                return self.plan.theta(self.weight, pair)
        raise ValueError(
            f"this layer has no filters from `{in_capsule}` to `{out_capsule}`; it maps `{self.in_type}` to "
            f"`{self.out_type}`."
        )

    def bank_repr(self) -> list[str]:
        """The part of a layer's text about its bank, if the bank is not the usual one."""
        filters = [] if self.plan.space.is_pixel_patch else [f"filters={self.plan.space}"]
        return filters + ([] if self.bias is not None else ["bias=False"])

    # ---------------------------------------------------------------- expansion

    def expand(self) -> tuple[Tensor, Tensor | None]:
        """The filter bank (out, in / groups, *size) and the bias (out,), as functions of the parameters."""
        return self.expand_from(*self._at_hand())

    def expand_from(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The filter bank and the bias as functions of other parameters of the same shape."""
        on_gpu = self._on_gpu
        if on_gpu is not None and weight.is_cuda and not (is_transformed() or is_exported()):
            # In one kernel, in channels_last, already in the dtype in which the convolution runs.
            dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else weight.dtype
            # The tables of a copy by nn.DataParallel are those of another device.
            if torch.compiler.is_compiling() or on_gpu.index.get_device() != weight.get_device():
                bank = on_gpu.bank_in_graph(weight, self.bank_index, self.bank_factor, dtype)
            else:
                bank = on_gpu.bank(weight, dtype)
        elif (kernels := self._kernels_on_cpu(weight)) is not None:
            bank = kernels.bank(weight, weight.dtype)
        elif self.looks_up:  # without a product, to which alone autocast would matter
            index, factor = (cast(Tensor, self._buffers[name]) for name in ("lookup_index", "lookup_factor"))
            bank = (take(weight, 0, index) * factor).view(self.plan.bank_shape)
        else:
            with without_autocast(weight.device):
                bank = self.plan.expand(weight, self.basis, self._buffers.get("basis_order"))
        return bank, None if bias is None else self.expand_bias(bias)

    def _kernels_on_cpu(self, weight: Tensor) -> BankKernels | None:
        """The kernels for parameters in eager code on a CPU, where they are installed and know the layer's capsules."""
        if not self._has_kernels or not weight.is_cpu or type(weight) not in (Tensor, nn.Parameter):
            return None
        if torch.compiler.is_compiling() or is_exported() or is_transformed() or is_dispatched():
            return None
        kernels = self._on_cpu.get(weight.dtype)
        if kernels is None and weight.dtype in (torch.float32, torch.float64):
            from steerable.nn.numba.bank import BankOnCpu

            kernels = self._on_cpu[weight.dtype] = BankOnCpu(self.plan, weight.dtype)
        return kernels

    def expand_bias(self, bias: Tensor | None) -> Tensor | None:
        """(out channels,), or None if there is no bias."""
        return None if bias is None else self.invariants.expand(bias, self.bias_entry, self.bias_factor)

    # ---------------------------------------------------------------- what is kept in evaluation

    def filters(self) -> tuple[Tensor, Tensor | None]:
        """The result of ``expand()``, or the previous one if it is kept. ``to_plain`` fixes it for good."""
        if self._on_gpu is not None:  # nothing is kept on a GPU, and the kernel is quicker than to find that out
            return self.expand_from(self.weight, self.bias)
        known = self.kept("filters", self.expand)
        return self.expand() if known is None else known

    def kept(self, name: object, make: Callable[[], Made]) -> Made | None:
        """The result of ``make()``, kept until a parameter changes; None if nothing is kept.

        It is kept in evaluation on the CPU. A write through ``.data`` leaves no trace but the values, so they are
        compared; on other devices that would cost a synchronisation.
        """
        parameters, known = self._constant_parameters(), self._kept
        if parameters is None:  # what is kept stays: torch.export warns of a forward pass that changes the layer
            return None
        if known is None or not known.is_of(*parameters):
            known = self._kept = MadeFromParameters(*parameters)
        made = known.made
        if name not in made:
            made[name] = make()
        value: Made = made[name]
        return value

    def keeps_filters(self) -> bool:
        """Whether filters are currently kept from one pass to the next."""
        return self._constant_parameters() is not None

    def _constant_parameters(self) -> tuple[Tensor, Tensor | None] | None:
        """Weight and bias, or None if nothing that is made from them may be kept."""
        if self.training or torch.compiler.is_compiling() or is_exported():
            return None  # kept filters would be constants of a graph
        weight, bias = self._at_hand()
        return (weight, bias) if is_constant(weight) and (bias is None or is_constant(bias)) else None

    def plain_layer(
        self, make: Callable[..., nn.Module], bank: Tensor, bias: Tensor | None, **settings: object
    ) -> nn.Module:
        """A layer of ``torch.nn`` between the same channels, with these filters."""
        channels, like = (self.in_type.channels, self.out_type.channels), {"device": bank.device, "dtype": bank.dtype}
        plain = make(*channels, bias=bias is not None, **settings, **like)
        plain.load_state_dict({"weight": bank} if bias is None else {"weight": bank, "bias": bias})
        return plain

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._kept = None
        self._renew_kernels_on_gpu()
        return self

    def _renew_kernels_on_gpu(self) -> None:
        """Make the kernels on the device of the parameters, or remove them if there are none."""
        self._on_gpu = None
        # Removed rather than None: torch.export counts buffers that are None as if they were inputs.
        for name in ("bank_index", "bank_factor"):
            if name in self._buffers:
                delattr(self, name)
        if self.weight.is_cuda and HAS_TRITON:
            tables = bank_tables(self.plan)
            if tables is not None:
                from steerable.nn.triton.bank import BankOnGpu

                self._on_gpu = BankOnGpu(self.plan, tables, self.weight)
                # As buffers they keep their place in memory for graphs that are recorded.
                self.register_buffer("bank_index", self._on_gpu.index, persistent=False)
                self.register_buffer("bank_factor", self._on_gpu.factor, persistent=False)

    def train(self, mode: bool = True) -> Self:
        self._kept = None
        if self._on_gpu is not None:
            restore_constants(self._buffers, self._on_gpu.constants)
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None, "_on_gpu": None, "_on_cpu": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._renew_kernels_on_gpu()
