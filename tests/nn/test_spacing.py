"""Voxels that are farther apart along one axis: which symmetries are left, and layers that keep them."""

from __future__ import annotations

import pytest
import torch

import steerable as st
from steerable import FieldType
from steerable import nn as snn
from steerable.testing import assert_equivariant, equivariance_error
from steerable.transforms import elements_on_the_grid, transform

SO3, CUBE = st.so3(), st.octahedral()
SLICES = (2, 1, 1)


def test_thick_slices_leave_the_rotations_that_keep_z_a_line():
    assert len(elements_on_the_grid(SO3, SLICES)) == len(elements_on_the_grid(CUBE, SLICES)) == 8
    assert len(elements_on_the_grid(CUBE, 3)) == 24
    assert elements_on_the_grid(st.about_axis(st.cyclic(4)), SLICES) == ("e", "r", "r2", "r3")


def test_a_blob_turns_in_real_distances():
    """Round in space, it is the same after a turn about x by 90°, which exchanges axes of other spacings."""
    z, y, x = torch.meshgrid(2 * (torch.arange(9.0) - 4), torch.arange(17.0) - 8, torch.arange(17.0) - 8, indexing="ij")
    blob = torch.exp(-(x**2 + y**2 + z**2) / 18)[None, None]
    turned = transform(blob, SO3.rotation("x", 90), FieldType(SO3, "L0"), spacing=SLICES)
    assert turned.shape == blob.shape
    inside = (x**2 + y**2 + z**2 < 36)[None, None]
    assert float((turned - blob)[inside].abs().max()) < 0.03
    flat = transform(blob, SO3.rotation("x", 90), FieldType(SO3, "L0"))
    assert flat.shape != blob.shape


@pytest.mark.parametrize("group", [SO3, CUBE], ids=lambda group: group.name)
@pytest.mark.parametrize("make", [snn.Conv3d, snn.ConvTranspose3d])
def test_layers_are_exact_for_what_the_spacing_leaves(group: st.Group, make: type):
    text = "2*L0 + L1" if group is SO3 else "2*A1 + T1"
    torch.manual_seed(0)
    layer = make(FieldType(group, text), FieldType(group, text), (3, 5, 5), padding=(1, 2, 2), spacing=SLICES).double()
    left = elements_on_the_grid(group, SLICES)
    assert_equivariant(layer, elements=left, spacing=SLICES, size=(5, 6, 6))
    assert layer.plan.space.spacing == (2.0, 1.0, 1.0)
    others = [g for g in group.grid_elements if g not in left][:1]
    errors = equivariance_error(layer, elements=others, spacing=SLICES, size=(9, 17, 17), batch=1)
    assert 1e-6 < errors.max() < 0.3


POOLS = {
    "average": (snn.AvgPool3d, "T1", ((1, 2, 2),)),
    "longest": (snn.NormMaxPool3d, "T1", ((1, 2, 2),)),
    "blur": (snn.BlurPool3d, "T1", ((1, 4, 4), (1, 2, 2))),
    "adaptive average": (snn.AdaptiveAvgPool3d, "T1", ((3, 2, 2),)),
    "adaptive maximum": (snn.AdaptiveMaxPool3d, "q6a", ((1, 2, 2),)),
}


@pytest.mark.parametrize(("make", "text", "sizes"), POOLS.values(), ids=POOLS)
def test_pooling_of_thin_axes_alone(make: type, text: str, sizes: tuple[object, ...]):
    kind = FieldType(CUBE, text)
    pool = make(kind, *sizes, spacing=SLICES).double()
    x = torch.randn(1, kind.channels, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert tuple(pool(x).shape[2:]) in ((3, 2, 2), (1, 2, 2))
    assert_equivariant(pool, x, elements=elements_on_the_grid(CUBE, SLICES), spacing=SLICES)
    torch.testing.assert_close(snn.to_plain(pool)(x), pool(x))
    with pytest.raises(ValueError, match="O exchanges depth and height"):
        make(kind, *sizes)
    with pytest.raises(ValueError, match="a finite number above 0"):
        make(kind, *sizes, spacing=(0, 1, 1))


def test_a_ball_is_round_in_real_distances():
    mask = snn.DiskMask(FieldType(CUBE, "T1"), (4, 8, 8), softness=0, spacing=SLICES).double()
    x = torch.randn(1, 3, 4, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert_equivariant(mask, x, elements=elements_on_the_grid(CUBE, SLICES), spacing=SLICES)
    steps = [torch.arange(n) - (n - 1) / 2 for n in (4, 8, 8)]
    z, row, column = torch.meshgrid(2 * steps[0], steps[1], steps[2], indexing="ij")
    assert torch.equal(mask.mask, ((z**2 + row**2 + column**2).sqrt() < 4).double())
    with pytest.raises(ValueError, match="O exchanges depth and height, so the size has one extent for both"):
        snn.DiskMask(FieldType(CUBE, "T1"), (4, 8, 8))
    with pytest.raises(TypeError, match="size must be a whole number or 3 of them, got 'a'"):
        snn.DiskMask(FieldType(CUBE, "T1"), "a")
    with pytest.raises(ValueError, match="DiskMask takes margin ≥ 0 and softness ≥ 0; got -1 and 1"):
        snn.DiskMask(FieldType(CUBE, "T1"), 4, -1)


def test_a_blur_has_the_binomial_weights_of_each_axis():
    kind = FieldType(st.about_axis(st.cyclic(2)), "A")
    blur = snn.BlurPool3d(kind, (1, 3, 2), (1, 2, 2), spacing=(3, 2, 1))
    assert blur.weights.shape == (1, 3, 2)
    torch.testing.assert_close(blur.weights[0], torch.tensor([[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]) / 8)
    assert blur(torch.ones(1, 1, 2, 5, 4)).unique().tolist() == [1.0]


def test_groups_that_the_spacing_leaves_whole_have_all_filters():
    group = st.about_axis(st.dihedral(4))
    kind = FieldType(group, "regular")
    layer = snn.Conv3d(kind, kind, 3, padding=1, spacing=SLICES)
    assert layer.plan.space.exact
    assert layer.weight.numel() == st.parameter_cost(kind, kind, 3)


def test_restricted_layers_keep_the_spacing():
    torch.manual_seed(0)
    layer = snn.Conv3d("2*L0 + L1", "L0 + L1", (3, 5, 5), spacing=SLICES, group=SO3).double()
    smaller = layer.restrict(st.about_axis(st.cyclic(4)))
    x = torch.randn(1, 5, 5, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = snn.Restrict(layer.out_type, smaller.out_type.group)(layer(x))
    found = smaller(snn.Restrict(layer.in_type, smaller.in_type.group)(x))
    torch.testing.assert_close(found, y, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spacing": (0, 1, 1)}, "`spacing` is the distance between neighbouring taps, a finite number above 0"),
        ({"spacing": (2, 1)}, r"or one for each of the 3 \(depth, height, width\); got \(2, 1\)"),
        ({"spacing": (1, 2, 1), "stride": (1, 1, 2)}, "O exchanges depth and width, so the stride has one extent"),
        ({"spacing": SLICES, "filters": st.pixel_space(CUBE, 3)}, "has taps .* apart, but spacing"),
    ],
)
def test_what_is_refused(options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        snn.Conv3d(FieldType(CUBE, "A1"), FieldType(CUBE, "A1"), 3, **options)
