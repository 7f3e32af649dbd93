"""``Fourier`` of functions on the sphere and on SO(3)."""

from __future__ import annotations

import pytest
import torch

import steerable as st
from steerable import FieldType
from steerable import nn as snn
from steerable.testing import equivariance_error

SO3, O3 = st.so3(), st.o3()
every_space = pytest.mark.parametrize(
    ("group", "text"),
    [(SO3, "2*sphere(2)"), (SO3, "L0 + regular(1)"), (O3, "sphere(2)"), (O3, "regular(1)")],
    ids=lambda value: getattr(value, "name", value),
)


def inputs(layer: snn.EquivariantModule, batch: int, *size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, layer.in_type.channels, *size, dtype=torch.float64, generator=generator)


@every_space
def test_rotations_of_the_cube_are_exact_and_others_as_far_off_as_is_stated(group: st.Group, text: str):
    layer = snn.Fourier(FieldType(group, text), torch.relu).double()
    assert layer.aliasing <= 0.05
    assert equivariance_error(layer, inputs(layer, 2, 2, 3, 2), elements=group.grid_elements).max() <= 1e-12
    x, (g,) = inputs(layer, 400), group.random(1, seed=5)
    y = layer(x)
    error = layer(st.transform(x, g, layer.in_type)) - st.transform(y, g, layer.out_type)
    assert 0.2 * layer.aliasing < float((error.square().mean() / y.square().mean()).sqrt()) < 2 * layer.aliasing


@every_space
def test_polynomials_are_exact_for_every_rotation(group: st.Group, text: str):
    layer = snn.Fourier(FieldType(group, text), torch.square, tolerance=1e-9).double()
    assert equivariance_error(layer, inputs(layer, 3), elements=group.random(4, seed=0)).max() <= 1e-12


def test_more_samples_bring_it_closer_and_the_output_may_have_more_degrees():
    kind, wide = FieldType(SO3, "sphere(2)"), FieldType(SO3, "sphere(3)")
    coarse, fine = (snn.Fourier(kind, torch.relu, samples=n, out_type=wide) for n in (72, 240))
    assert fine.aliasing < coarse.aliasing / 2
    assert fine.out_type == wide


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "sphere(2)",
            {"samples": 50},
            r"a multiple of 24, so that the rotations of the cube exchange them.*samples=72",
        ),
        ("L1", {}, r"it has no constant function\. Use `NormReLU`, `Gated`, or put it into `regular\(1\)`"),
        ("sphere(2)", {"tolerance": 1e-9}, "Functions with jumps|samples of `sphere"),
    ],
)
def test_what_is_refused(text: str, options: dict[str, float], message: str):
    with pytest.raises((TypeError, ValueError), match=message):
        snn.Fourier(FieldType(SO3, text), torch.relu, **options)
