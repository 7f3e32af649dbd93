"""Feature maps of every level: types, sizes and equivariance, by name, from saved folders, of converted networks."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import steerable as st
from steerable import models
from steerable import nn as snn

pytestmark = pytest.mark.filterwarnings("ignore::steerable.nn.EquivarianceWarning")

NETWORKS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("resnet", {"depth": 8, "copies": 1}, (1, 2, 4)),
    ("resnet", {"depth": 8, "copies": 1, "stem": 2, "group": "C4", "inner": "A + B + E"}, (2, 4, 8)),
    ("resnet", {"depth": 8, "copies": 1, "group": "D8", "kernel_size": 5}, (1, 2, 4)),
    ("resnet", {"depth": 8, "copies": 1, "group": "SO2", "stream": "2*regular(2)", "inner": "regular(2)"}, (1, 2, 4)),
    ("resnet", {"depth": 8, "copies": 1, "restricted_to": "C4"}, (1, 2, 4)),
    ("wide_resnet", {"depth": 10, "width": 1, "groups": "D4,C4,C2", "match": "channels"}, (1, 2, 4)),
    ("unet", {"depth": 2, "copies": 1, "out_type": "A1 + E"}, (1, 2, 4)),
    ("unet", {"depth": 1, "copies": 1, "group": "SO2", "stream": "regular(2)"}, (1, 2)),
    ("unet", {"depth": 1, "copies": 1, "group": "D8"}, (1, 2)),
]


def turned(x: torch.Tensor, kind: st.FieldType, degrees: int) -> torch.Tensor:
    """The field after a turn that the pixel grid carries exactly."""
    group = kind.group
    if not isinstance(group, st.FiniteGroup):
        return st.transform(x, group.rotation(degrees), kind)
    steps = sum(not element.startswith("m") for element in group.elements) * degrees // 360
    return st.transform(x, "r" if steps == 1 else f"r{steps}", kind)


@pytest.mark.parametrize(("name", "options", "reductions"), NETWORKS)
def test_every_level_turns_with_the_image(name: str, options: dict[str, Any], reductions: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    net = models.create(name, **options, features_only=True).double().eval()
    assert isinstance(net, models.FeatureMaps)
    assert net.reductions == reductions
    assert "head" not in dict(net.named_parameters())
    degrees = 180 if name == "wide_resnet" else 90  # the last stage has nothing but C2
    x = torch.randn(1, 3, 32, 32, dtype=torch.float64)
    with torch.no_grad():
        maps, of_turned = net(x), net(turned(x, net.in_type, degrees))
    assert [tuple(y.shape) for y in maps] == [
        (1, kind.channels, 32 // factor, 32 // factor)
        for kind, factor in zip(net.feature_types, reductions, strict=True)
    ]
    for y, z, kind in zip(maps, of_turned, net.feature_types, strict=True):
        expected = turned(y, kind, degrees)
        assert (z - expected).abs().max() <= 1e-12 * y.abs().max()
        assert (z - y).abs().max() > 1e-3 * y.abs().max()


def test_all_of_d4_at_every_level() -> None:
    torch.manual_seed(0)
    net = models.create("resnet", depth=8, copies=1, features_only=True).double().eval()
    x = torch.randn(1, 3, 16, 16, dtype=torch.float64)
    with torch.no_grad():
        maps = net(x)
        for element in st.dihedral(4).elements:
            found = net(st.transform(x, element, net.in_type))
            for y, z, kind in zip(maps, found, net.feature_types, strict=True):
                torch.testing.assert_close(z, st.transform(y, element, kind), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "depth"), [("resnet", 8), ("unet", 1)])
def test_levels_of_volumes_turn_as_well(name: str, depth: int) -> None:
    torch.manual_seed(0)
    net = models.create(name, depth=depth, copies=1, axes=3, in_channels=1, features_only=True).double().eval()
    x = torch.randn(1, 1, 8, 8, 8, dtype=torch.float64)
    element = net.in_type.group.elements[-1]
    with torch.no_grad():
        for y, z, kind in zip(net(x), net(st.transform(x, element, net.in_type)), net.feature_types, strict=True):
            assert (z - st.transform(y, element, kind)).abs().max() <= 1e-12 * y.abs().max()


def test_the_maps_are_those_that_the_head_sees() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 16, 16)
    net = models.resnet(8, 1, head="invariant").eval()
    with torch.no_grad():
        coarsest = net.feature_maps()(x)[-1]
        torch.testing.assert_close(net.head(coarsest.mean((-2, -1))), net(x))
        dense = models.unet(2, 1).eval()
        assert torch.equal(dense.head(dense.feature_maps()(x)[0]), dense(x))
    shared = {id(p) for p in net.feature_maps().parameters()}
    assert shared == {id(p) for p in net.features.parameters()}
    with pytest.raises(ValueError, match="FeatureMaps with depth=2 halves the image 2 times"):
        dense.feature_maps()(torch.zeros(1, 3, 18, 16))


def test_a_head_of_ones_own_is_trained_on_typed_maps() -> None:
    torch.manual_seed(0)
    trunk = models.create("resnet", depth=8, copies=1, features_only=True)
    middle = trunk.feature_types[1]
    head = snn.Conv2d(middle, st.FieldType(middle.group, "E"), 1)  # a vector for each place
    loss = head(trunk(torch.randn(1, 3, 16, 16))[1]).square().mean()
    loss.backward()
    assert trunk.down[0][0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", ["resnet", "unet"])
def test_maps_are_compiled_exported_and_copied_like_any_module(name: str) -> None:
    torch.manual_seed(0)
    depth = {"resnet": 8, "unet": 1}[name]
    net = models.create(name, depth=depth, copies=1, features_only=True).eval()
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        expected = net(x)
        compiled = torch.compile(net, fullgraph=True, backend="eager")(x)
        exported = torch.export.export(net, (x,)).module()(x)
        twin = models.create(name, depth=depth, copies=1, features_only=True).eval()
        twin.load_state_dict(net.state_dict())
        for found in (compiled, exported, twin(x), copy.deepcopy(net)(x), snn.to_plain(net)(x)):
            for y, z in zip(expected, found, strict=True):
                torch.testing.assert_close(y, z, rtol=1e-4, atol=1e-5)


def test_saved_networks_are_read_without_their_heads(tmp_path: Path) -> None:
    x = torch.randn(1, 1, 16, 16)
    for name, options in (("unet", {"depth": 1, "copies": 1}), ("plain_resnet", {"depth": 8, "width": 4})):
        models.create(name, in_channels=1, **options).save_pretrained(tmp_path / name)
    for trunk in (
        models.from_pretrained(tmp_path / "unet", features_only=True).eval(),
        models.UNet.from_pretrained(tmp_path / "unet", features_only=True).eval(),
    ):
        with torch.no_grad():
            maps = trunk(x)
        assert [y.shape[-1] for y in maps] == [16, 8]
    with pytest.raises(TypeError, match="PlainResNet is a plain network, whose channels have no types"):
        models.from_pretrained(tmp_path / "plain_resnet", features_only=True)


class Plain(nn.Module):
    """Two stages and a head, as people write them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU())
        self.layer1 = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer2(self.layer1(self.stem(x)))
        return self.fc(self.pool(y).flatten(1))


def test_a_converted_network_gives_what_it_has_after_modules() -> None:
    torch.manual_seed(0)
    net = st.convert(Plain(), "D4").double().eval()
    trunk = models.feature_maps(net, ["layer1", "layer2"])
    assert trunk.reductions == (2, 4)
    assert [str(kind) for kind in trunk.feature_types] == ["2*regular", "4*regular"]
    x = torch.randn(1, 3, 16, 16, dtype=torch.float64)
    with torch.no_grad():
        for y, z, kind in zip(trunk(x), trunk(st.transform(x, "mr", net.in_type)), trunk.feature_types, strict=True):
            torch.testing.assert_close(z, st.transform(y, "mr", kind), rtol=1e-12, atol=1e-12)
    assert {id(p) for p in trunk.parameters()} <= {id(p) for p in net.parameters()}
    assert not any(name.startswith("net.fc") for name, _ in trunk.named_parameters())
    for at, words in (
        (None, r"say after which modules feature maps are taken, at=\[\.\.\.\], of `stem`"),
        (["layer3"], r"calls no module `layer3`\. Did you mean `layer"),
        (["fc"], r"after `fc` the converted network has the shape"),
    ):
        with pytest.raises(ValueError, match=words):
            models.feature_maps(net, at)


def test_a_converted_network_of_volumes_gives_its_maps_as_well() -> None:
    layers = (nn.Conv3d(1, 24, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(24, 48, 3, padding=1), nn.ReLU())
    net = st.convert(nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(48, 2)), "O").double()
    trunk = models.feature_maps(net.eval(), ["1", "4"], size=8)
    assert trunk.reductions == (1, 2)
    x = torch.randn(1, 1, 8, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        for y, z, kind in zip(trunk(x), trunk(st.transform(x, "rs", net.in_type)), trunk.feature_types, strict=True):
            torch.testing.assert_close(z, st.transform(y, "rs", kind), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"has the shape \(1, 48\) for an input of 8×8×8, and a feature map"):
        models.feature_maps(net, ["6"], size=8)


def test_what_has_no_levels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at=\['layer1'\] is for converted networks; a ResNet has levels of its own"):
        models.feature_maps(models.resnet(8, 1), ["layer1"])
    with pytest.raises(TypeError, match=r"taken of networks of steerable\.models and of `convert`; got Linear"):
        models.feature_maps(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="unknown model 'resnett'"):
        models.create("resnett", features_only=True)
    assert models.unet(1, 1, group=st.so2(), stream="regular(1)").group == st.so2()
