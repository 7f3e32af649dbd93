"""Networks of volumes: the code of networks of images, over groups of space, with the same exactness."""

from __future__ import annotations

from typing import TypeVar

import pytest
import torch
from torch import Tensor

import steerable as st
from steerable import nn as snn
from steerable.models import PlainResNet, PlainUNet, ResNet, UNet, resnet, unet

GROUPS = ("O", "T", "C4", "D2", "C2 about x")  # larger ones take longer to build than a test should
Network = TypeVar("Network", bound=torch.nn.Module)


def exact(network: Network) -> Network:
    """The network in float64, with weights that are not all alike, and running statistics of its own."""
    torch.manual_seed(0)
    network.double()
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.1 * torch.randn_like(value))
    return network.eval()


def volumes(channels: int = 1, side: int = 8) -> Tensor:
    return torch.randn(2, channels, side, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("group", GROUPS)
def test_a_residual_network_is_invariant_under_the_whole_group(group: str) -> None:
    """Under all 24 rotations of the cube with a stem that makes one voxel of 2×2×2, which is smaller."""
    stem = 2 if group == "O" else 1
    network = exact(resnet(8, 1, 3, axes=3, group=group, in_channels=1, head="invariant", stem=stem))
    x = volumes()
    scores = network(x)
    for element in network.group.elements:
        turned = st.transform(x, element, network.in_type)
        assert (network(turned) - scores).abs().max() <= 1e-12 * scores.abs().max(), element


def test_a_u_net_of_volumes_turns_what_it_says_with_the_volume() -> None:
    network = exact(unet(1, 1, "A1 + T1", axes=3, in_channels=1))
    assert network.out_type == st.FieldType("O", "A1 + T1")
    x = volumes()
    y = network(x)
    assert y.shape == (2, 4, 8, 8, 8)
    for element in ("r", "s"):
        expected = st.transform(y, element, network.out_type)
        found = network(st.transform(x, element, network.in_type))
        assert (found - expected).abs().max() <= 1e-12 * y.abs().max()


def test_the_group_of_the_types_decides_the_axes() -> None:
    about = st.about_axis(st.cyclic(4))
    assert unet(1, 1, st.FieldType(about, "A")).group == about


def test_networks_of_volumes_have_plain_counterparts() -> None:
    x = volumes()
    for network in (
        exact(resnet(8, 1, 3, axes=3, in_channels=1, head="invariant", group="C4")),
        exact(unet(1, 1, axes=3, in_channels=1, group="C4")),
    ):
        plain = snn.to_plain(network)
        assert not any(isinstance(layer, snn.EquivariantModule) for layer in plain.modules())
        assert (plain(x) - network(x)).abs().max() < 1e-10


def test_plain_networks_of_volumes_are_torchs_own() -> None:
    x = volumes().float()
    assert PlainResNet(8, 4, 3, in_channels=1, axes=3, stem=2)(x).shape == (2, 3)
    assert PlainUNet(1, 4, 3, in_channels=1, axes=3)(x).shape == (2, 3, 8, 8, 8)
    kinds = {type(layer) for layer in PlainResNet(8, 4, 3, axes=3).modules()}
    assert torch.nn.Conv3d in kinds
    assert torch.nn.Conv2d not in kinds


def test_a_network_of_volumes_may_be_restricted() -> None:
    network = exact(resnet(8, 1, 3, axes=3, in_channels=1, head="invariant", group="D4"))
    smaller = network.restrict(["e", "r", "r2", "r3"])
    x = volumes()
    assert (smaller(x) - network(x)).abs().max() < 1e-10


def test_groups_and_axes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"O moves volumes, and this network sees images\. Give axes=3"):
        ResNet(8, 1, group="O")
    with pytest.raises(ValueError, match="axes"):
        PlainResNet(8, 4, axes=4)
    with pytest.raises(
        ValueError, match=r"halves the volume 2 times, so depth, height and width must be multiples of 4"
    ):
        UNet(2, 1, axes=3, in_channels=1, group="C2")(torch.zeros(1, 1, 8, 6, 8))
    with pytest.raises(
        ValueError, match=r"expected a tensor of shape \(batch, 1, depth, height, width\), got \(1, 8, 8, 8"
    ):
        UNet(1, 1, axes=3, in_channels=1, group="C2")(torch.zeros(1, 8, 8, 8))
