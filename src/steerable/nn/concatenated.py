"""Concatenated nonlinearities: a capsule becomes ν of itself beside ν of its negative."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from steerable.algebra.group_interface import Group
from steerable.nn.admissibility import require
from steerable.nn.channels import SelectionKernels, is_exported, merge_order, take_with_negatives
from steerable.nn.module import EquivariantModule
from steerable.nn.numba import HAS_NUMBA
from steerable.nn.scalar_functions import ScalarFunction, check_scale_free, check_valuewise, function_name, is_bare_relu
from steerable.nn.seen_by_subgroup import both_ends, retyped
from steerable.nn.triton import HAS_TRITON
from steerable.types.field_types import FieldType

__all__ = ["CReLU", "Concatenated"]


class Concatenated(EquivariantModule):
    """x ↦ (ν(x), ν(-x)) capsule by capsule, for any ν; signed permutations become permutations of twice the size.

    Shapes: (batch, in_type.channels, …) → (batch, 2 · in_type.channels, …); ``out_type`` is Act_ν of each capsule:
    D4's ``A1`` gives ``2*A1``, ``E`` gives ``qmr2``.

    Args:
        field_type: what goes in.
        function: ν, a module or a function that acts on each value alone.
        scale_free: ν(ca) = cν(a) for c > 0, as for ReLU; then monomial capsules are admissible too.
    """

    source: Tensor
    sign: Tensor
    plus: Tensor
    minus: Tensor

    def __init__(self, field_type: FieldType, function: ScalarFunction, *, scale_free: bool = False) -> None:
        label = f"Concatenated({function_name(function)})" if type(self) is Concatenated else type(self).__name__
        require(label, field_type, "scale-free concatenated" if scale_free else "concatenated")
        stack = [after for capsule in field_type.capsules for after in capsule.after_concatenation()]
        out_type = FieldType(field_type.group, stack)
        super().__init__(field_type, out_type)
        check_valuewise(label, function, out_type.channels)
        if scale_free:
            check_scale_free(label, function, out_type.channels)
        self.function = function
        channels = np.arange(field_type.channels)
        # Capsule by capsule: all of its channels, then all of them negated.
        raw = np.concatenate([np.tile(channels[s], 2) for s in field_type.slices] or [channels])
        sign = np.concatenate([np.repeat([1.0, -1.0], c.dim) for c in field_type.capsules] or [np.zeros(0)])
        order = merge_order(stack, out_type)
        source, sign = raw[order], sign[order]
        places = np.argsort(source, kind="stable").reshape(-1, 2)  # the two places of each channel
        first = sign[places[:, 0]] > 0
        self.register_index("source", source)
        self.register_constant("sign", sign)
        self.register_index("plus", np.where(first, places[:, 0], places[:, 1]))
        self.register_index("minus", np.where(first, places[:, 1], places[:, 0]))
        self._kernels: SelectionKernels | None = None  # of eager code

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self._with_negatives(x))

    def _with_negatives(self, x: Tensor, *, rectified: bool = False) -> Tensor:
        self.check_input(x, pooled=True)
        kernels = self._kernels_for(x)
        # By name: attributes are searched for by torch, which takes as long as a small operation.
        source, sign, plus, minus = (cast(Tensor, self._buffers[name]) for name in ("source", "sign", "plus", "minus"))
        tables = (source, sign if kernels is not None else sign.to(x.dtype), plus, minus)
        return take_with_negatives(x, tables, rectified=rectified, kernels=kernels)

    def _kernels_for(self, x: Tensor) -> SelectionKernels | None:
        """The device's kernels, if they are installed and accept such a field in eager code."""
        if type(x) is not Tensor or torch.compiler.is_compiling() or is_exported() or not x.numel():
            return None
        sign = cast(Tensor, self._buffers["sign"])
        takes = HAS_NUMBA and x.dtype in (torch.float32, torch.float64) if x.is_cpu else HAS_TRITON and x.is_cuda
        if not takes or x.get_device() != sign.get_device():
            return None
        if self._kernels is None or self._kernels.sign is not sign:
            if x.is_cpu:
                from steerable.nn.numba.signed_selection import SignedSelectionOnCpu

                self._kernels = SignedSelectionOnCpu(sign, self._constants)
            else:
                from steerable.nn.triton.signed_selection import SignedSelection

                self._kernels = SignedSelection(self.source, sign, self.plus, self.minus)
        return self._kernels

    def restricted_to(self, subgroup: Group) -> EquivariantModule:
        seen_in, seen_out = both_ends(self, subgroup)
        tables = self._constants
        new = retyped(
            self,
            seen_in.field_type,
            seen_out.field_type,
            source=seen_in.back[tables["source"][seen_out.order]],
            plus=seen_out.back[tables["plus"][seen_in.order]],
            minus=seen_out.back[tables["minus"][seen_in.order]],
        )
        dtype, device = self.sign.dtype, self.sign.device
        new.register_constant("sign", tables["sign"][seen_out.order])
        return new.to(device, dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kernels": None}


class CReLU(Concatenated):
    """x ↦ (max(x, 0), max(-x, 0)) capsule by capsule; for signed permutations and monomial capsules.

    Shapes: (batch, in_type.channels, …) → (batch, 2 · in_type.channels, …).
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.ReLU(), scale_free=True)

    def forward(self, x: Tensor) -> Tensor:
        # In one step; a GPU's compiler joins both by itself.
        in_one = type(x) is Tensor and is_bare_relu(self.function) and (x.is_cpu or not torch.compiler.is_compiling())
        return self._with_negatives(x, rectified=True) if in_one else super().forward(x)
