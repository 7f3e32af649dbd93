"""Pooling and resampling: torch's own channel by channel, and capsules as wholes where lengths decide."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from refusals import refusal as message

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
PERMUTED = FieldType(D4, "regular + 2*qm")
MIXED = FieldType(D4, "regular + 2*E + A2")


def field(field_type: FieldType, *size: int) -> torch.Tensor:
    return torch.randn(2, field_type.channels, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(("kernel_size", "stride", "padding"), [(2, None, 0), (3, 2, 1), (3, 1, 0), (4, 3, 2)])
def test_average_and_maximum_are_torchs(kernel_size: int, stride: int | None, padding: int) -> None:
    extent = (stride or kernel_size) * 3 + kernel_size - 2 * padding
    x = field(PERMUTED, extent, extent)
    average = snn.AvgPool2d(PERMUTED, kernel_size, stride, padding, strict=True)
    maximum = snn.MaxPool2d(PERMUTED, kernel_size, stride, padding, strict=True)
    torch.testing.assert_close(average(x), F.avg_pool2d(x, kernel_size, stride, padding))
    torch.testing.assert_close(maximum(x), F.max_pool2d(x, kernel_size, stride, padding))


def test_adaptive_and_global_pooling_are_torchs() -> None:
    x = field(PERMUTED, 7, 5)
    torch.testing.assert_close(snn.AdaptiveAvgPool2d(PERMUTED, 3)(x), F.adaptive_avg_pool2d(x, 3))
    torch.testing.assert_close(snn.AdaptiveMaxPool2d(PERMUTED, 3)(x), F.adaptive_max_pool2d(x, 3))
    torch.testing.assert_close(snn.GlobalAvgPool(PERMUTED)(x), x.mean((2, 3)))
    torch.testing.assert_close(snn.GlobalMaxPool(PERMUTED)(x), x.flatten(2).max(2).values)


@pytest.mark.parametrize("size", [6, 7, 10, 11])
@pytest.mark.parametrize("output_size", [1, 2, 3, 4, 5])
def test_adaptive_windows_are_symmetric_for_any_size(size: int, output_size: int) -> None:
    x = field(MIXED, size, size)
    assert st.testing.equivariance_error(snn.AdaptiveAvgPool2d(MIXED, output_size), x) < 1e-12


@pytest.mark.parametrize(("kernel_size", "stride", "padding", "size"), [(2, 2, 0, 6), (3, 2, 1, 5), (3, 1, 0, 4)])
def test_norm_max_pool_takes_the_longest_capsule(kernel_size: int, stride: int, padding: int, size: int) -> None:
    x = field(MIXED, size, size)
    y = snn.NormMaxPool2d(MIXED, kernel_size, stride, padding, strict=True)(x)
    count = (size + 2 * padding - kernel_size) // stride + 1
    assert y.shape == (2, MIXED.channels, count, count)
    for n, channels, i, j in itertools.product(range(2), MIXED.slices, range(count), range(count)):
        top, left = i * stride - padding, j * stride - padding
        window = [
            x[n, channels, u, v]
            for u in range(max(top, 0), min(top + kernel_size, size))
            for v in range(max(left, 0), min(left + kernel_size, size))
        ]
        assert torch.equal(y[n, channels, i, j], max(window, key=lambda fibre: float(fibre.norm())))


@pytest.mark.parametrize(("filter_size", "size"), [(4, 8), (3, 7), (5, 9), (2, 6)])
def test_blur_pool_is_a_binomial_filter(filter_size: int, size: int) -> None:
    x, p = field(MIXED, size, size), (filter_size - 1) // 2
    row = torch.tensor([math.comb(filter_size - 1, k) for k in range(filter_size)], dtype=torch.float64)
    row = row / row.sum()
    padded = F.pad(x, (p, p, p, p), mode="reflect").unflatten(1, (-1, 1)).flatten(0, 1)
    smooth = F.conv2d(F.conv2d(padded, row.view(1, 1, -1, 1)), row.view(1, 1, 1, -1))
    expected = smooth[:, :, ::2, ::2].unflatten(0, (2, -1)).squeeze(2)
    torch.testing.assert_close(snn.BlurPool2d(MIXED, filter_size, strict=True).double()(x), expected)
    constant = snn.BlurPool2d(MIXED, filter_size).double()(torch.ones_like(x))
    torch.testing.assert_close(constant, torch.ones_like(constant))


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_upsampling_is_torchs(factor: int) -> None:
    x = field(MIXED, 4, 5)
    nearest = x.repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    torch.testing.assert_close(snn.Upsample(MIXED, factor)(x), nearest)
    for align in (False, True):
        expected = F.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=align)
        torch.testing.assert_close(snn.Upsample(MIXED, factor, "bilinear", align)(x), expected)


def test_the_maximum_needs_permutations() -> None:
    reason = "the maximum of each channel commutes with permutations only, and its matrices are not."
    for layer, instead in (
        (lambda: snn.MaxPool2d(MIXED, 2), "MaxPool2d NormMaxPool2d"),
        (lambda: snn.AdaptiveMaxPool2d(MIXED, 2), "AdaptiveMaxPool2d NormMaxPool2d"),
        (lambda: snn.GlobalMaxPool(MIXED), "GlobalMaxPool GlobalAvgPool"),
    ):
        name, other = instead.split()
        assert message(TypeError, layer) == f"{name} is not admissible for capsule `E`: {reason} Use `{other}`."


def test_other_errors() -> None:
    assert message(ValueError, snn.MaxPool2d, PERMUTED, 2, padding=2) == (
        "padding must be at most half the kernel (2, 2), got (2, 2)."
    )
    assert message(ValueError, snn.AvgPool2d, PERMUTED, (2, 3)) == (
        "AvgPool2d: D4 exchanges height and width, so the kernel has one extent for both; got (2, 3)."
    )
    assert message(ValueError, snn.AdaptiveAvgPool2d, PERMUTED, (2, 3)) == (
        "D4 exchanges height and width, so the output has one extent for both; got (2, 3)."
    )
    assert message(ValueError, snn.AvgPool2d(PERMUTED, 5), torch.zeros(1, 16, 4, 4)) == (
        "AvgPool2d: the kernel spans 5 pixels but the padded height is only 4 (4 + 2·0). Use a larger input, more "
        "padding or a smaller kernel."
    )
    assert message(ValueError, snn.BlurPool2d, PERMUTED, (4, 3)) == (
        "BlurPool2d: D4 exchanges height and width, so the filter has one extent for both; got (4, 3)."
    )
    assert message(ValueError, snn.Upsample, PERMUTED, 1.5) == (
        "scale_factor must be a whole number ≥ 1, since other factors sample the grid unevenly; got 1.5."
    )
    assert message(ValueError, snn.Upsample, PERMUTED, 2, "bicubic") == (
        "mode must be 'nearest' or 'bilinear', got 'bicubic'."
    )
