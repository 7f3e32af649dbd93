"""Convolution is written once for any number of axes: a layer for volumes is a few lines, and as exact as Conv2d."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn
from steerable.nn import Conv3d, ConvTranspose3d
from steerable.testing import equivariance_error

CUBE = st.octahedral()


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (5, {}),
        (4, {"padding": 1}),
        (5, {"padding": "same", "padding_mode": "reflect"}),
        (4, {"padding": 1, "padding_mode": "circular", "bias": False}),
        (5, {"padding": 1, "stride": 2}),
        (5, {"padding": 2, "dilation": 2, "padding_mode": "replicate"}),
        (4, {"padding": 1, "groups": 2}),
        (4, {"padding": 1, "init": "orthogonal"}),
    ],
    ids=str,
)
def test_a_convolution_of_volumes_commutes_with_the_rotations_of_the_cube(size: int, options) -> None:
    a, b = FieldType(CUBE, "4*A1 + 2*T1 + 2*E"), FieldType(CUBE, "2*A2 + 2*T2 + 2*regular")
    layer = Conv3d(a, b, 3, **options)
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    assert layer.weight.numel() * options.get("groups", 1) == st.parameter_cost(a, b, 3)
    assert equivariance_error(layer.double(), size=size) <= 1e-12


def test_filters_of_a_space_of_their_own() -> None:
    """The seven taps that share a face with the centre, or are it."""
    patch = st.pixel_patch(CUBE, 3)
    star = [4, 10, 12, 13, 14, 16, 22]
    assert patch.monomial is not None
    images = [[star.index(image[tap]) for tap in star] for image in patch.monomial.image]
    rho = st.Representation.from_permutations(CUBE, images)
    space = st.FilterSpace(rho, 3, torch.eye(27)[:, star].numpy(), name="star")
    layer = Conv3d(FieldType(CUBE, "2*A1 + T1"), FieldType(CUBE, "regular"), 3, padding=1, filters=space)
    assert layer.weight.numel() == 7 * 5 == st.parameter_cost(layer.in_type, layer.out_type, filters=space)
    assert equivariance_error(layer.double(), size=4) <= 1e-12


@pytest.mark.parametrize("make", [Conv3d, ConvTranspose3d])
def test_to_plain_is_torchs_layer_for_volumes(make: type) -> None:
    layer = make(FieldType(CUBE, "2*T1 + A1"), FieldType(CUBE, "E + A1"), 3, padding=1).double().eval()
    plain = snn.to_plain(layer)
    assert type(plain) is getattr(nn, make.__name__)
    x = torch.randn(1, 7, 4, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(plain(x), layer(x))


def test_a_volume_that_a_stride_does_not_fit_warns() -> None:
    layer = Conv3d(FieldType(CUBE, "A1"), FieldType(CUBE, "A1"), 3, stride=2)
    with pytest.warns(snn.EquivarianceWarning, match="to O on inputs of depth 6: with kernel 3, stride 2") as caught:
        layer(torch.zeros(1, 1, 6, 5, 5))
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: Conv3d(t, t, 3, stride=(1, 1, 2)), "O exchanges depth and width, so the stride has one extent"),
        (
            lambda t: Conv3d(t, t, 4, padding="same"),
            "one that spans 4 pixels in depth would be padded more on one side",
        ),
        (
            lambda t: Conv3d(t, t, 3, padding="full"),
            "padding must be a number, 3 numbers, 'same' or 'valid'; got 'full'",
        ),
        (
            lambda t: Conv3d(t, t, 3)(torch.zeros(1, 1, 5, 5)),
            r"shape \(batch, 1, depth, height, width\), got one of rank",
        ),
        (lambda t: Conv3d(t, t, 3)(torch.zeros(1, 1, 5, 2, 5)), "the padded height is only 2"),
        (
            lambda t: snn.Conv2d(t, t, 3),
            r"Conv2d is a layer for images, but O acts on 3 dimensions. Use Conv3d, or a group of the plane, such as",
        ),
        (lambda t: snn.MaxPool2d(t, 2), "MaxPool2d is a layer for images, but O acts on 3 dimensions. Use MaxPool3d"),
    ],
)
def test_what_is_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(FieldType(CUBE, "A1"))


def test_one_number_or_three() -> None:
    kind = FieldType(CUBE, "A1")
    with pytest.raises(TypeError, match=r"stride must be a whole number or 3 of them, got \(1, 1\)\."):
        Conv3d(kind, kind, 3, stride=(1, 1))
