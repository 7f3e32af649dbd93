"""Layers whose filters come from a space of their own: parameters, costs, initialisation, files, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from filter_zoo import CROSS, PLANAR, cross, ring
from refusals import refusal
from torch import nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4, C4 = st.dihedral(4), st.cyclic(4)
GROUPS = {"D4": D4, "C4": C4, "D2": st.dihedral(2), "D1": st.dihedral(1), "C1": st.trivial()}
A1, REGULAR = FieldType(D4, "A1"), FieldType(D4, "regular")

every_space = pytest.mark.parametrize("make", PLANAR.values(), ids=PLANAR)
every_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)


def types(group: st.FiniteGroup) -> tuple[FieldType, FieldType]:
    capsules = list(group.capsules)
    return FieldType(group, " + ".join(capsules)), FieldType(group, f"2*({' + '.join(capsules[::-1])})")


@every_space
@every_group
def test_parameters_and_costs_are_the_intertwiners_of_the_space(group: st.FiniteGroup, make) -> None:
    a, b = types(group)
    space = make(group)
    layer = snn.Conv2d(a, b, 3, filters=space, bias=False)
    expected = round(float(np.mean(space.representation.character * a.character * b.character)))
    assert layer.weight.numel() == layer.plan.parameters == expected
    assert st.parameter_cost(a, b, filters=space) == st.parameter_cost(a, b, 3, filters=space) == expected
    mu = st.parameter_utilization(a, b, filters=space)
    assert mu == pytest.approx(space.dim * a.channels * b.channels / expected)
    assert layer.plan.weights == 9 * a.channels * b.channels
    assert layer.plan.space is space


@every_space
@every_group
def test_every_bank_of_the_space_can_be_had(group: st.FiniteGroup, make) -> None:
    """``project`` inverts ``expand`` and gives the nearest bank, even where sampled filters are not orthonormal."""
    a, b = types(group)
    layer = snn.Conv2d(a, b, 3, filters=make(group), bias=False).double()
    bank = layer.expand()[0].detach()
    torch.testing.assert_close(layer.plan.project(bank, layer.basis), layer.weight.detach(), rtol=1e-8, atol=1e-8)
    other = torch.randn_like(bank)
    nearest = layer.plan.expand(layer.plan.project(other, layer.basis), layer.basis)
    assert float(((other - nearest) * bank).sum()) == pytest.approx(0, abs=1e-8)


def test_the_cross_is_the_patch_without_its_corners() -> None:
    """A convolution with 5 taps that the whole of D4 moves, against torch's own with zeros in the corners."""
    layer = snn.Conv2d(FieldType(D4, "2*regular"), FieldType(D4, "regular + E"), 3, padding=1, filters=cross(D4))
    bank = layer.expand()[0].detach().flatten(2)
    corners = [tap for tap in range(9) if tap not in CROSS]
    assert not bank[:, :, corners].any()
    assert bank[:, :, CROSS].all()


def test_a_space_that_is_the_pixel_patch_is_the_default() -> None:
    x = torch.randn(2, 8, 6, 6)
    layers = []
    for filters in (None, st.pixel_space(D4, 3), st.FilterSpace(st.pixel_patch(D4, 3), 3)):
        torch.manual_seed(0)
        layers.append(snn.Conv2d(REGULAR, REGULAR, 3, filters=filters))
    assert all(torch.equal(layer(x), layers[0](x)) for layer in layers)
    assert all(repr(layer) == repr(layers[0]) for layer in layers)


@every_space
def test_the_transposed_convolution_is_the_adjoint(make) -> None:
    """The filters of the adjoint lie in the same space, because the group turns them alike."""
    a, b = FieldType(D4, "regular + E + A2"), FieldType(D4, "2*E + qm")
    down = snn.Conv2d(a, b, 3, 2, 1, filters=make(D4), bias=False).double()
    up = snn.ConvTranspose2d(b, a, 3, 2, 1, filters=make(D4), bias=False).double()
    transposed = down.expand()[0].detach().transpose(0, 1)
    with torch.no_grad():
        up.weight.copy_(up.plan.project(transposed, up.basis))
    torch.testing.assert_close(up.expand()[0], transposed, rtol=1e-8, atol=1e-8)
    x, y = torch.randn(2, a.channels, 7, 7).double(), torch.randn(2, b.channels, 4, 4).double()
    torch.testing.assert_close((down(x) * y).sum(), (x * up(y)).sum())


# ---------------------------------------------------------------- initialisation


@pytest.mark.parametrize("scale", [1.0, 0.01])
@every_space
def test_he_is_right_for_the_sampled_filters(make, scale: float) -> None:
    """White input of variance 1 gives each kind of capsule the variance 2, however S stretches the filters."""
    unscaled = make(D4)
    space = st.FilterSpace(unscaled.representation, 3, scale * unscaled.sampling)
    out_type = FieldType(D4, "30*(regular + qm + A2 + E)")
    layer = snn.Conv2d(FieldType(D4, "2*(regular + qm) + 3*E"), out_type, 3, filters=space)
    moments = []
    for seed in range(40):
        torch.manual_seed(seed)
        layer.reset_parameters()
        rows = layer.expand()[0].detach().square().flatten(1).sum(1)
        moments.append(torch.stack([rows[channels].mean() for channels in out_type.term_slices]))
    samples = torch.stack(moments)
    error = samples.std(0) / math.sqrt(len(samples))
    assert (error < 0.1).all(), f"too few samples to tell: {error}"
    assert ((samples.mean(0) - 2).abs() < 5 * error).all(), (samples.mean(0), error)


@every_space
def test_orthogonal_banks(make) -> None:
    """The singular values of the sampled bank are 1 or 0, and it is a bank of the space."""
    torch.manual_seed(0)
    a, b = FieldType(D4, "2*regular + E"), FieldType(D4, "regular + A2 + E")
    layer = snn.Conv2d(a, b, 3, padding=1, filters=make(D4), init="orthogonal").double()
    values = torch.linalg.svdvals(layer.expand()[0].detach().flatten(1))
    assert torch.minimum((values - 1).abs(), values.abs()).max() < 1e-4  # drawn in float32
    assert (values > 0.5).sum() == b.channels
    assert st.testing.equivariance_error(layer) < 1e-12


# ---------------------------------------------------------------- files and text


def test_the_text_of_a_layer_names_its_filters() -> None:
    assert repr(snn.Conv2d(A1, REGULAR, 3, filters=cross(D4))) == (
        "Conv2d(A1 → regular, kernel_size=(3, 3), filters=cross)"
    )
    assert repr(snn.ConvTranspose2d(A1, REGULAR, 3, filters=cross(D4), bias=False)) == (
        "ConvTranspose2d(A1 → regular, kernel_size=(3, 3), stride=(1, 1), padding=(0, 0), filters=cross, bias=False)"
    )
    assert "filters" not in repr(snn.Conv2d(A1, REGULAR, 3))


def test_other_filters_are_carried_out_densely() -> None:
    layer = snn.Conv2d(REGULAR, REGULAR, 3, filters=cross(D4), backend="fourier")
    x = torch.randn(1, 8, 6, 6)
    expected = nn.functional.conv2d(x, layer.expand()[0], layer.expand()[1])
    assert torch.equal(layer(x), expected)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("layer", [snn.Conv2d, snn.ConvTranspose2d])
def test_filter_spaces_that_do_not_fit(layer: type) -> None:
    assert refusal(TypeError, layer, A1, REGULAR, 3, filters="cross") == (
        "filters=... takes a FilterSpace, such as pixel_space(dihedral(4), 3); got str 'cross'."
    )
    assert refusal(TypeError, layer, A1, REGULAR, 3, filters=st.pixel_patch(D4, 3)).startswith(
        "filters=... takes a FilterSpace, such as pixel_space(dihedral(4), 3); got Representation <3×3 patch of D4"
    )
    assert refusal(TypeError, layer, A1, REGULAR, 3, filters=cross(C4)) == (
        "the filter space `cross` belongs to C4, but the fields to D4: nothing says how D4 turns these filters. Make a "
        "filter space of D4."
    )
    assert refusal(ValueError, layer, A1, REGULAR, 5, filters=cross(D4)) == (
        "the filter space `cross` has 3×3 taps, but kernel_size=(5, 5) asks for 5×5. Use kernel_size=(3, 3), or "
        "filters of the other size."
    )


@pytest.mark.parametrize("cost", [st.parameter_cost, st.parameter_utilization])
def test_costs_refuse_what_layers_refuse(cost) -> None:
    assert "takes a FilterSpace" in refusal(TypeError, cost, A1, REGULAR, filters=3)
    assert "belongs to C4" in refusal(TypeError, cost, A1, REGULAR, filters=cross(C4))
    assert "kernel_size=5 asks for 5×5" in refusal(ValueError, cost, A1, REGULAR, 5, filters=cross(D4))


def test_orthogonal_banks_need_a_grid_that_carries_the_group() -> None:
    kind = FieldType(st.cyclic(8), "regular")
    assert refusal(ValueError, snn.Conv2d, kind, kind, 3, filters=ring(st.cyclic(8)), init="orthogonal") == (
        "orthogonal initialisation needs a pixel grid that carries all of C8; that of the filter space `ring` does "
        "not, so an orthogonal bank would not be equivariant. Use init='he'."
    )


@pytest.mark.parametrize(
    ("layer", "option", "remedy"),
    [
        (snn.Conv2d, "filter", "Did you mean `filters`?"),
        (snn.Conv2d, "padding_mod", "Did you mean `padding_mode` or `padding` or `spacing`?"),
        (snn.Conv2d, "strides", "Did you mean `stride` or `strict`?"),
        (snn.Conv2d, "output_padding", "Did you mean `padding` or `padding_mode`?"),
        (snn.ConvTranspose2d, "groups", "Known names: `in_type`, `out_type`, `kernel_size`, `stride`"),
        (snn.ConvTranspose2d, "outputpadding", "Did you mean `output_padding`"),
    ],
)
def test_unknown_options(layer: type, option: str, remedy: str) -> None:
    message = refusal(TypeError, layer, A1, REGULAR, 3, **{option: 1})
    assert message.startswith(f"{layer.__name__} has no option `{option}`. {remedy}")
