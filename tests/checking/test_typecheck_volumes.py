"""``typecheck`` of networks on volumes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn
from steerable.checking import EquivarianceError

CUBE = st.octahedral()
STREAM = FieldType(CUBE, "2*q6a + A1")
ABOUT_Z = st.about_axis(st.cyclic(4), "z")


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = snn.Conv3d(FieldType(CUBE, "A1"), STREAM, 3, padding=1)
        self.second = snn.Conv3d(STREAM, STREAM, 3, padding=1)
        self.norm = snn.BatchNorm3d(STREAM)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        x = F.max_pool3d(x + self.norm(self.second(x)), 3, 2, 1)
        x = F.interpolate(F.pad(x, (1,) * 6), scale_factor=2, mode="trilinear")
        return F.adaptive_avg_pool3d(x, 1).flatten(1) + x.mean((2, 3, 4))


def test_a_network_of_volumes_has_the_type_of_its_layers():
    assert st.typecheck(Network(), FieldType(CUBE, "A1")) == STREAM


@pytest.mark.parametrize(
    ("function", "in_type", "message"),
    [
        (
            lambda x: F.avg_pool3d(x, (1, 1, 2)),
            STREAM,
            "O exchanges depth and width, so the kernel of `avg_pool3d`",
        ),
        (
            lambda x: F.avg_pool2d(x, 2),
            STREAM,
            "`avg_pool2d` has 2 axes, but fields of O are volumes. Use `avg_pool3d`",
        ),
        (
            lambda x: F.avg_pool3d(x, 1),
            FieldType(st.dihedral(4), "A1"),
            "`avg_pool3d` has 3 axes, but fields of D4 are images. Use `avg_pool2d`",
        ),
        (
            lambda x: F.avg_pool3d(x, 2, 3),
            STREAM,
            "samples 9 pixels unevenly, so it is not exactly equivariant to O",
        ),
        (
            lambda x: F.pad(x, (1, 1, 1, 1)),
            STREAM,
            "O exchanges depth and height, so the padding of `pad` has one",
        ),
        (lambda x: F.pad(x, (1, 0) * 3), STREAM, "is not symmetric under O, which moves the volume's centre"),
        (lambda x: x.mean((2, 3)), STREAM, r"Reduce over all spatial dimensions \(2, 3, 4\)"),
        (lambda x: F.conv3d(x, torch.ones(4, 9, 3, 3, 3)), STREAM, "Use `snn.Conv3d`"),
        (lambda x: F.relu(x), FieldType(CUBE, "T1"), "ReLU|`relu`"),
        (lambda x: x.flip(2), STREAM, "`flip`"),
    ],
)
def test_what_breaks_equivariance_is_named(function: Callable[[Tensor], Tensor], in_type: FieldType, message: str):
    with pytest.raises(EquivarianceError, match=message):
        st.typecheck(function, in_type, size=9)


def test_axes_that_the_group_leaves_alone_may_be_treated_differently():
    """Rotations about z exchange height and width, and never depth."""
    kind = FieldType(ABOUT_Z, "regular")
    assert st.typecheck(lambda x: F.max_pool3d(x, (2, 3, 3), (2, 1, 1), (0, 1, 1)), kind, size=(5, 6, 6)) == kind
    assert st.typecheck(lambda x: F.pad(x, (1, 1, 1, 1, 0, 2)), kind, size=(3, 4, 4)) == kind


def test_networks_of_so3_are_tried_on_other_rotations_too():
    a, b = FieldType(st.so3(), "L0"), FieldType(st.so3(), "2*L0 + L1")
    torch.manual_seed(0)
    first, gated = snn.Conv3d(a, 3 * a + b, 3, padding=1), snn.Gated(b)
    assert st.typecheck(snn.Sequential(first, gated, snn.Conv3d(b, a, 3, padding=1))) == a
    with pytest.raises(EquivarianceError, match="`relu` is not admissible for capsule `L1`"):
        st.typecheck(lambda x: torch.relu(gated(first(x))), a)
