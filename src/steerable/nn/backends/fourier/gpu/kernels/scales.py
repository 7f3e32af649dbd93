"""The largest number of a tensor on a GPU, and the power of two that a kernel divides it by; see gpu/scales.py."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["largest", "unit_of"]

_BLOCK = 8192


@triton.jit
def unit_of(largest_value, room):
    """The number that a tensor is divided by, or 1 if its largest number is not a reasonable one."""
    value = tl.load(largest_value)
    unit = tl.exp2(tl.ceil(tl.log2(value))) / room
    return tl.where((value > 1e-30) & (value < 1e30), unit, 1.0)


@triton.jit
def _largest_kernel(x, out, count, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.abs(tl.load(x + i, mask=i < count, other=0.0).to(tl.float32))
    tl.atomic_max(out, tl.max(value, 0))


def largest(x: Tensor) -> Tensor:
    """max |x| of dense memory, (1,) in float32."""
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    if x.numel():
        _largest_kernel[(triton.cdiv(x.numel(), _BLOCK),)](x, out, x.numel(), BLOCK=_BLOCK)
    return out
