"""``convert`` of plain networks on volumes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.conversion import ConversionError
from steerable.testing import assert_equivariant


class Block(nn.Module):
    """A residual block with squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv3d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm3d(channels)
        self.gate = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.conv(x)))
        weights = torch.sigmoid(self.gate(y.mean((2, 3, 4))))
        return x + y * weights[:, :, None, None, None]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv3d(1, 24, 3, stride=2, padding=1),
        nn.InstanceNorm3d(24, affine=True),
        nn.ELU(),
        Block(24),
        nn.MaxPool3d(3, 2, 1),
        nn.Dropout3d(0.1),
        nn.Upsample(scale_factor=2, mode="trilinear"),
        nn.ConvTranspose3d(24, 24, 2, 2),
        nn.AvgPool3d(2),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
        nn.Linear(24, 5),
    )


@pytest.mark.parametrize("name", ["O", "T"])
def test_a_network_of_volumes_becomes_exactly_equivariant(name: str):
    plain = network()
    net = st.convert(plain, name)
    assert net.report.checked_size == 8
    assert "on 8×8×8 inputs" in str(net.report)
    assert [type(net.net.get_submodule(path)).__name__ for path in ("3.conv", "3.norm", "5")] == [
        "Conv3d",
        "BatchNorm3d",
        "Dropout3d",
    ]
    x = torch.randn(1, 1, 9, 9, 9, generator=torch.Generator().manual_seed(0))
    assert net(x).shape == plain(x).shape == (1, 5)
    assert_equivariant(net.double(), size=8)
    assert not any(isinstance(m, snn.EquivariantModule) for m in snn.to_plain(net).modules())


class UNet(nn.Module):
    """One level, whose skip is padded to the size of what comes up."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv3d(1, 8, 3, padding=1), nn.ConvTranspose3d(8, 8, 2, 2)
        self.last = nn.Conv3d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = F.relu(self.down(x))
        y = self.up(F.max_pool3d(skip, 2))
        d = [skip.shape[axis] - y.shape[axis] for axis in (4, 3, 2)]
        sides = [d[0] // 2, d[0] - d[0] // 2, d[1] // 2, d[1] - d[1] // 2, d[2] // 2, d[2] - d[2] // 2]
        return self.last(torch.cat([skip, F.pad(y, sides)], 1))


def test_a_u_net_about_an_axis_keeps_what_the_group_leaves_alone():
    group = st.about_axis(st.cyclic(4), "z")
    net = st.convert(UNet(), group).double()
    assert_equivariant(net, size=(6, 8, 8))


@pytest.mark.parametrize(
    ("plain", "group", "message"),
    [
        (
            nn.Sequential(nn.Conv2d(1, 8, 3)),
            "O",
            "it works on images, but the group moves volumes. Use a group such as di",
        ),
        (
            nn.Sequential(nn.Conv3d(1, 8, 3)),
            "D4",
            "it works on volumes, but the group moves images. Use a group such as o",
        ),
        (
            nn.Sequential(nn.Conv3d(1, 24, 3), nn.Flatten(), nn.Linear(24 * 27, 2)),
            "O",
            r"Pool over all pixels first, with nn\.AdaptiveAvgPool3d\(1\)",
        ),
    ],
)
def test_what_is_refused(plain: nn.Module, group: str, message: str):
    with pytest.raises(ConversionError, match=message):
        st.convert(plain, group)
