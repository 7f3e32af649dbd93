"""Batch norm in few passes is the batch norm of the equations, to all derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import steerable as st
from steerable import nn as snn
from steerable.nn.fused_norm import can_fuse, fused_norm, moments_norm

D4 = st.dihedral(4)
TYPES = ["2*(regular + qm)", "2*(A1 + A2 + 2*E)", "3*A2 + E", "4*A1"]
FORMATS = [torch.contiguous_format, torch.channels_last]


def layer(text: str, affine: bool = True) -> snn.BatchNorm2d:
    norm = snn.BatchNorm2d(st.FieldType(D4, text), affine=affine, track_running_stats=False).double()
    for p in norm.parameters():
        torch.nn.init.normal_(p)
    return norm


def both_ways(norm: snn.BatchNorm2d, x: Tensor) -> list[tuple[Tensor, ...]]:
    outputs = []
    for function in (fused_norm, moments_norm):
        leaf = x.detach().requires_grad_()
        y, centre, variance = function(leaf, norm.weight, norm.bias, norm._affine)
        upstream = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)
        grads = torch.autograd.grad((y * upstream).sum(), [leaf, *norm.parameters()])
        outputs.append((y, centre, variance, *grads))
    return outputs


@pytest.mark.parametrize("text", TYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("memory_format", FORMATS, ids=["contiguous", "channels_last"])
def test_both_ways_agree(text: str, affine: bool, memory_format: torch.memory_format) -> None:
    norm = layer(text, affine)
    x = 3 + torch.randn(3, norm.in_type.channels, 4, 5, dtype=torch.float64)
    for fused, plain in zip(*both_ways(norm, x.contiguous(memory_format=memory_format)), strict=True):
        assert (fused - plain).abs().max() <= 1e-12 * plain.abs().max().clamp(min=1)


@pytest.mark.parametrize("cut", ["a slice of channels", "every second pixel", "transposed"])
def test_inputs_that_are_parts_of_others(cut: str) -> None:
    norm = layer("2*E")
    whole = torch.randn(3, 8, 6, 6, dtype=torch.float64)
    x = {"a slice of channels": whole[:, 2:6], "every second pixel": whole[:, :4, ::2, ::2]}.get(cut, whole[:, :4].mT)
    for fused, plain in zip(*both_ways(norm, x), strict=True):
        assert (fused - plain).abs().max() <= 1e-12 * plain.abs().max().clamp(min=1)


def test_a_scale_of_zero_has_a_gradient() -> None:
    norm = layer("2*regular")
    torch.nn.init.zeros_(norm.weight)
    for fused, plain in zip(*both_ways(norm, torch.randn(2, 16, 3, 3, dtype=torch.float64)), strict=True):
        assert (fused - plain).abs().max() <= 1e-12


def test_constant_channels_stay_finite() -> None:
    norm = layer("regular")
    fused, plain = both_ways(norm, torch.full((2, 8, 3, 3), 5.0, dtype=torch.float64))
    for a, b in zip(fused, plain, strict=True):
        assert torch.isfinite(a).all()
        assert (a - b).abs().max() <= 1e-6  # 1/√ε magnifies what rounding leaves of a zero


def test_only_eager_images_are_fused() -> None:
    x = torch.randn(2, 8, 3, 3)
    assert can_fuse(x, has_triton=False)
    assert not can_fuse(x.flatten(1), has_triton=False)
    assert not can_fuse(x.half(), has_triton=False)
    assert not can_fuse(x[:0], has_triton=False)
    seen = []
    torch.func.vmap(lambda sample: seen.append(can_fuse(sample, has_triton=False)) or sample)(x.unsqueeze(1))
    assert seen == [False]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # in torch itself
def test_forward_mode_differentiation() -> None:
    norm, x = layer("regular + E").eval(), torch.randn(2, 10, 3, 3, dtype=torch.float64)
    tangent = torch.randn_like(x)
    _, along = torch.func.jvp(norm, (x,), (tangent,))
    step = 1e-6
    numeric = (norm(x + step * tangent) - norm(x - step * tangent)) / (2 * step)
    assert (along - numeric).abs().max() < 1e-7
