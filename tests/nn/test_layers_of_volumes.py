"""Fields on volumes: how groups of space move them, layers that treat each voxel alike, and what is refused."""

from __future__ import annotations

import pytest
import torch
from cases import ON_FIBRES, VOLUMES, Case, built, fields, volume_net
from torch import Tensor

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn
from steerable.testing import assert_equivariant, equivariance_error
from steerable.transforms import transform

SO3 = st.so3()
every_group = pytest.mark.parametrize("group", VOLUMES.values(), ids=VOLUMES)


# ---------------------------------------------------------------- how fields move


@every_group
def test_voxels_move_as_taps_do(group: FiniteGroup):
    """The permutation of a patch of 3×3×3 taps, which is made from coordinates, moves a volume of that size alike."""
    rho, x = st.pixel_patch(group, 3), torch.arange(27.0).view(1, 1, 3, 3, 3)
    for g in group.elements:
        expected = torch.as_tensor(rho(g), dtype=x.dtype) @ x.flatten()
        assert torch.equal(transform(x, g, FieldType(group, [(1, group.trivial)])).flatten(), expected), g


@every_group
def test_moves_follow_each_other_on_oblong_volumes(group: FiniteGroup):
    kind = FieldType(group, "regular")
    x = torch.randn(2, kind.channels, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    for g, h in zip(group.random(6, seed=0), group.random(6, seed=1), strict=True):
        assert torch.equal(transform(transform(x, h, kind), g, kind), transform(x, group.multiply(g, h), kind))
        assert torch.equal(transform(x, g, kind)[0], transform(x[0], g, kind))


def test_r_turns_a_slice_as_one_sees_it_from_above():
    cube = st.octahedral()
    x = torch.arange(27.0).view(1, 1, 3, 3, 3)
    turned = transform(x, cube.rotation("z", 90), FieldType(cube, "A1"))
    assert torch.equal(turned, torch.rot90(x, 1, (-2, -1)))


def _blob(size: int, centre: tuple[float, float, float], width: float = 2.0) -> Tensor:
    """A Gaussian at a point (x, y, z) from the centre."""
    line = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    z, y, x = torch.meshgrid(-line, -line, line, indexing="ij")
    square = (x - centre[0]) ** 2 + (y - centre[1]) ** 2 + (z - centre[2]) ** 2
    return torch.exp(-square / (2 * width**2))[None, None]


@pytest.mark.parametrize(("interpolation", "tolerance"), [("tricubic", 0.02), ("trilinear", 0.1)])
def test_any_rotation_moves_a_blob_to_where_its_centre_goes(interpolation: str, tolerance: float):
    centre = (2.0, -1.0, 1.5)
    for g in SO3.random(2, seed=0):
        moved = transform(_blob(19, centre), g, FieldType(SO3, "L0"), interpolation=interpolation)
        there = SO3.motion(g) @ centre
        assert float((moved - _blob(19, tuple(there))).abs().max()) < tolerance


def test_rotations_of_the_cube_are_exact_in_so3_and_others_can_be_differentiated():
    kind, cube = FieldType(SO3, "L0"), st.octahedral()
    x = torch.randn(1, 1, 4, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    for g in cube.elements:
        exact = transform(x, g, FieldType(cube, "A1"))
        assert torch.equal(transform(x, SO3.element(cube.motion(g)), kind), exact), g
    assert torch.autograd.gradcheck(lambda x: transform(x, SO3.rotation((1, 2, 3), 40), kind), (x,), fast_mode=True)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        (
            (1, 1, 1, 4, 4, 4),
            {},
            r"transform takes \(batch, channels, depth, height, width\), .* for O, which moves space",
        ),
        ((1, 3, 4, 4, 4), {}, r"a field of type `A1` has 1 channels, got 3"),
        ((2, 1, 4, 4), {}, r"Fields of O are volumes: \(batch, channels, depth, height, width\), or without a batch\."),
        ((1, 1, 4, 4, 4), {"interpolation": "bicubic"}, "`interpolation` must be one of tricubic, trilinear"),
    ],
)
def test_what_transform_refuses(shape: tuple[int, ...], options: dict[str, str], message: str):
    with pytest.raises(ValueError, match=message):
        transform(torch.zeros(shape), "r", FieldType(st.octahedral(), "A1"), **options)


# ---------------------------------------------------------------- layers


@pytest.mark.parametrize("case", ON_FIBRES.values(), ids=ON_FIBRES)
def test_layers_that_treat_each_pixel_alike_take_volumes(case: Case):
    """Equivariant on volumes, and the same function on each voxel as on a pooled field."""
    module = built(case, VOLUMES["D4z"])
    for size in ((2, 2, 2), (1, 2, 3)):
        xs = fields(module, size)
        with torch.no_grad():
            if len(xs) == 1:
                assert_equivariant(module, xs[0])
            if not case.random:
                y, fibre = module(*[x.clone() for x in xs]), module(*[x[..., 0, 1, 0].clone() for x in xs])
                torch.testing.assert_close(y[..., 0, 1, 0], fibre, rtol=1e-12, atol=1e-12)


@every_group
def test_a_network_is_equivariant_where_nothing_is_said_of_its_input(group: FiniteGroup):
    """The size of the random volume is one that the strides fit."""
    torch.manual_seed(0)
    assert_equivariant(volume_net(group).double())


def test_about_other_axes():
    group = st.about_axis(st.dihedral(4), "y", flips=True)
    torch.manual_seed(0)
    net = snn.Conv3d(FieldType(group, "A1 + E"), FieldType(group, "regular + E"), (3, 2, 3), padding=(1, 0, 1)).double()
    assert equivariance_error(net, size=(5, 4, 5)) <= 1e-12
    with pytest.raises(ValueError, match="D4 about y with flips exchanges depth and width, so the kernel has one"):
        snn.AvgPool3d(FieldType(group, "A1"), (1, 1, 2))


def test_errors_off_the_grid_are_measured_inside_the_ball():
    """A linear map of fibres turns with any rotation, but for interpolation; a shift of voxels does not."""
    kind = FieldType(SO3, "L0 + L1")
    torch.manual_seed(0)
    net = snn.Gated(kind).double()
    elements = SO3.random(2, seed=0)
    assert equivariance_error(net, elements=elements, size=15).max() < 0.1
    shift = equivariance_error(lambda x: torch.roll(x, 3, -1), elements=elements, size=15, in_type=kind, out_type=kind)
    assert shift.min() > 0.3


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: snn.ReLU(t)(torch.zeros(1, 1, 4, 4)),
            r"ReLU expected a tensor of shape \(batch, 1, depth, height, width\), got one of rank 4 .*unsqueeze\(0\)",
        ),
        (
            lambda t: snn.Conv3d(t, t, 1)(torch.zeros(2, 1, 4, 4)),
            r"O moves volumes; for images use a group of the plane",
        ),
        (lambda t: snn.Linear(t, t)(torch.zeros(1, 1, 4, 4, 4)), r"`snn\.Conv3d\(A1, A1, 1\)`"),
        (
            lambda t: snn.BatchNorm2d(t),
            "BatchNorm2d is a layer for images, but O acts on 3 dimensions. Use BatchNorm3d",
        ),
        (
            lambda t: snn.AdaptiveAvgPool3d(t, (1, 1, 2)),
            "O exchanges depth and width, so the output has one extent",
        ),
        (
            lambda t: snn.Upsample(t, 2, "bilinear"),
            "mode must be 'nearest' or 'trilinear', got 'bilinear': fields of O are",
        ),
        (lambda t: snn.BlurPool3d(t, (3, 3, 1)), "O exchanges depth and width, so the filter has one"),
        (lambda t: snn.DiskMask(t, 4)(torch.zeros(1, 1, 4, 4, 5)), "DiskMask was made for 4×4×4 volumes"),
        (
            lambda t: snn.MaxPool3d(t, 2, strict=True)(torch.zeros(1, 1, 4, 4, 5)),
            "MaxPool3d is not exactly equivariant to O on inputs of width 5",
        ),
    ],
)
def test_what_layers_refuse(call, message: str):
    with pytest.raises(ValueError, match=message):
        call(FieldType(st.octahedral(), "A1"))


def test_a_maximum_of_voxels_names_the_layer_that_fits():
    with pytest.raises(TypeError, match=r"MaxPool3d is not admissible for capsule `T1`.*Use `NormMaxPool3d`"):
        snn.MaxPool3d(FieldType(st.octahedral(), "T1"), 2)


def test_only_axes_that_the_group_turns_around_have_to_fit():
    """C4 about z never reverses the slices."""
    group = st.about_axis(st.cyclic(4), "z")
    kind = FieldType(group, "A")
    pool = snn.AvgPool3d(kind, 2, strict=True)
    x = torch.randn(1, 1, 5, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert equivariance_error(pool, x) <= 1e-12
    with pytest.raises(ValueError, match="on inputs of height 5"):
        pool(torch.zeros(1, 1, 4, 5, 4))
