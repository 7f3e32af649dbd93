"""Initialisation: He's variance for every width and mix of types, deep stacks, and orthogonal banks."""

import math

import pytest
import torch
from torch import Tensor

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
MIXES = ["regular", "A1 + A2 + B1 + B2 + 2*E", "regular + qm + qmr2 + qmr3", "r2 + r + r2m", "regular + 3*E + 2*A1"]


def second_moments(layer: snn.Conv2d | snn.ConvTranspose2d | snn.Linear, draws: int) -> Tensor:
    """(draws, kinds): E[y²] of each kind's channels for white input, that is the squares of a filter bank's rows."""
    moments = []
    for seed in range(draws):
        torch.manual_seed(seed)
        layer.reset_parameters()
        rows = layer.expand()[0].detach().square().flatten(1).sum(1)
        moments.append(torch.stack([rows[channels].mean() for channels in layer.out_type.term_slices]))
    return torch.stack(moments)


def assert_mean(samples: Tensor, expected: float) -> None:
    """Each column's mean lies within five standard errors of the expected one, and the test has power."""
    mean, error = samples.mean(0), samples.std(0) / math.sqrt(len(samples))
    assert (error < 0.05 * expected).all(), f"too few samples to tell: {error}"
    assert ((mean - expected).abs() < 5 * error).all(), (mean, error)


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 5])
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("copies", [1, 4])
def test_he_gives_each_kind_twice_the_variance_of_white_input(mix: str, copies: int, kernel_size: int) -> None:
    in_type = FieldType(D4, f"{copies}*({mix})")
    kinds = [k for k in ("regular", "qm", "A2", "E", "r") if st.parameter_cost(in_type, FieldType(D4, k), kernel_size)]
    layer = snn.Conv2d(in_type, FieldType(D4, f"30*({' + '.join(kinds)})"), kernel_size)
    assert_mean(second_moments(layer, 40), 2.0)


def test_he_on_data() -> None:
    """The same with fields instead of algebra: white input of any variance, through the layer itself."""
    in_type, out_type = FieldType(D4, "2*(regular + qm + E)"), FieldType(D4, "16*(regular + A2 + E)")
    layer, generator = snn.Conv2d(in_type, out_type, 3), torch.Generator().manual_seed(5)
    x = 0.7 * torch.randn(4, in_type.channels, 12, 12, generator=generator)
    samples = []
    for seed in range(12):
        torch.manual_seed(seed)
        layer.reset_parameters()
        y = layer(x).detach()
        samples.append(torch.stack([y[:, channels].square().mean() for channels in out_type.term_slices]))
    assert_mean(torch.stack(samples), 2 * float(x.square().mean()))


@pytest.mark.parametrize(("kernel_size", "stride"), [(4, 2), (2, 2), (3, 1)])
def test_he_for_transposed_convolutions(kernel_size: int, stride: int) -> None:
    """A stride spreads the taps over as many more pixels; kernels that it divides reach each pixel alike."""
    layer = snn.ConvTranspose2d(
        FieldType(D4, "4*regular + 4*E"), FieldType(D4, "30*(regular + qm + E)"), kernel_size, stride
    )
    assert_mean(second_moments(layer, 40) / stride**2, 2.0)
    x = torch.randn(8, layer.in_type.channels, 10, 10, generator=torch.Generator().manual_seed(5))
    inside = layer(x).detach()[:, :, kernel_size:-kernel_size, kernel_size:-kernel_size]
    assert abs(float(inside.square().mean()) - 2) < 0.3


def test_he_for_linear_maps_and_gain() -> None:
    layer = snn.Linear(FieldType(D4, "8*regular"), FieldType(D4, "30*(regular + E)"))
    assert_mean(second_moments(layer, 40), 2.0)
    weights = layer.weight.detach().clone()
    torch.manual_seed(39)
    snn.init.he_(layer, gain=1.0)
    torch.testing.assert_close(layer.weight.detach(), weights / math.sqrt(2))


def growth_per_layer(kinds: list[str], depth: int, copies: int) -> float:
    """The geometric mean over layers 3 … depth of E[y²] / E[x²], x the output of the activation before the last one.

    The expectation over weights is taken for each layer by itself, on the field that the layers before produced.
    """
    torch.manual_seed(1)
    x, now, logs = torch.randn(4, 3, 10, 10), FieldType(D4, "3*A1"), []
    for k in range(depth):
        field_type = FieldType(D4, f"{copies}*({kinds[k % len(kinds)]})")
        conv = snn.Conv2d(now, field_type, 3, padding=1, padding_mode="circular", bias=False)
        activation = snn.Activation(field_type)
        with torch.no_grad():
            outputs = []
            for _ in range(8):
                conv.reset_parameters()
                outputs.append(conv(x))
            if k >= 2:
                logs.append(math.log(float(torch.stack(outputs).square().mean() / (2 * x.square().mean()))))
            x = activation(outputs[-1])
            x = x / x.square().mean().sqrt()
        now = activation.out_type
    return math.exp(sum(logs) / len(logs))


def test_depth_keeps_the_second_moment_of_regular_capsules_and_of_the_papers_blocks() -> None:
    """Over 12 layers without norms. Exact in expectation for regular capsules, whose filters have untied taps."""
    assert 0.93 < growth_per_layer(["regular"], 12, copies=6) < 1.07
    assert 0.85 < growth_per_layer(["regular + qm + qmr2 + qmr3", "A1 + A2 + B1 + B2 + 2*E"], 12, copies=6) < 1.15


@pytest.mark.parametrize("kernel_size", [1, 3, 4])
@pytest.mark.parametrize("mix", MIXES)
def test_orthogonal_banks(mix: str, kernel_size: int) -> None:
    """All singular values are the gain, or zero where no filter leads; and the bank stays equivariant."""
    torch.manual_seed(0)
    in_type, out_type = FieldType(D4, f"2*({mix})"), FieldType(D4, "2*regular + E + A2")
    layer = snn.Conv2d(in_type, out_type, kernel_size, init="orthogonal").double()
    bank = layer.expand()[0].detach()
    values = torch.linalg.svdvals(bank.flatten(1))
    # .double() came after the draw, so that the coefficients are float32's
    assert torch.minimum((values - 1).abs(), values.abs()).max() < 1e-5
    assert (values > 0.5).sum() == min_rank(in_type, out_type, kernel_size)
    assert st.testing.equivariance_error(layer, size=6) < 1e-12


def min_rank(in_type: FieldType, out_type: FieldType, kernel_size: int) -> int:
    """The rank of a generic intertwiner from patch ⊗ ρ_in: Σ over irreps of min(m_in, m_out) · dim."""
    patch = st.pixel_patch(D4, kernel_size)
    rank = 0
    for irrep, m_out in zip(D4.irreps, out_type.type, strict=True):
        m_in = round(float((patch.character * in_type.character * irrep.character).mean()))
        rank += min(m_in, m_out) * irrep.dim
    return rank


def test_orthogonal_with_groups_and_gain() -> None:
    torch.manual_seed(0)
    layer = snn.Conv2d(FieldType(D4, "4*regular"), FieldType(D4, "2*regular + 2*E"), 3, groups=2)
    snn.init.orthogonal_(layer, gain=3.0)
    for share in layer.expand()[0].detach().chunk(2):
        torch.testing.assert_close(torch.linalg.svdvals(share.flatten(1)), torch.full((10,), 3.0))
