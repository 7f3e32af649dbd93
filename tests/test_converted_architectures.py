"""``convert`` on compact networks that are written as the well-known ones are: exact, trainable, storable, plain again."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import steerable as st
from steerable import nn as snn
from steerable.conversion import ConversionError
from steerable.conversion.network import CapsuleScale, PadTo, TrainingFactor

D4 = st.dihedral(4)
DIAGONAL = D4.subgroup(["e", "mr3"])
GROUPS: dict[str, Any] = {"D4": D4, "C4": st.cyclic(4), "diagonal": DIAGONAL}


# -------------------------------------------------------------------- stochastic depth, in four hands


def stochastic_depth(x: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """As in torchvision, which also hides it from torch.fx."""
    if not training or p == 0.0:
        return x
    survival_rate = 1.0 - p
    size = [x.shape[0]] + [1] * (x.ndim - 1) if mode == "row" else [1] * x.ndim
    noise = torch.empty(size, dtype=x.dtype, device=x.device)
    noise = noise.bernoulli_(survival_rate)
    if survival_rate > 0.0:
        noise.div_(survival_rate)
    return x * noise


fx.wrap("stochastic_depth")


class StochasticDepth(nn.Module):
    def __init__(self, p: float, mode: str = "row") -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, x: Tensor) -> Tensor:
        return stochastic_depth(x, self.p, self.mode, self.training)


class DropPath(nn.Module):
    """As in timm."""

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep_prob = 1 - self.drop_prob
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
        if keep_prob > 0.0:
            random_tensor.div_(keep_prob)
        return x * random_tensor


class OldDropPath(DropPath):
    """As in older code: a division of the field, and a floor."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        keep_prob = 1 - self.drop_prob
        random_tensor = keep_prob + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype, device=x.device)
        random_tensor.floor_()
        return x.div(keep_prob) * random_tensor


class OwnDropPath(DropPath):
    """In place, with sizes as single arguments."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x *= torch.rand(x.size(0), 1, 1, 1, device=x.device).gt(self.drop_prob).to(x.dtype) / (1 - self.drop_prob)
        return x


class Residual(nn.Module):
    def __init__(self, drop: nn.Module) -> None:
        super().__init__()
        self.first, self.conv, self.last = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 2, 1)
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(x + self.drop(self.conv(x)))


DROPS = [
    lambda: StochasticDepth(0.5),
    lambda: StochasticDepth(0.5, "batch"),
    lambda: DropPath(0.5),
    lambda: OldDropPath(0.5),
    lambda: OwnDropPath(0.5),
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", DROPS, ids=["torchvision", "batch", "timm", "old timm", "own"])
def test_stochastic_depth_drops_the_branch_of_whole_samples_in_training(
    make: Callable[[], nn.Module], training: bool
) -> None:
    """Whatever the mode in which it was converted: each sample's branch is dropped, or enlarged by 1/(1-p)."""
    drop = make()
    net = st.convert(Residual(drop).double().train(training), D4)
    assert sum(isinstance(module, TrainingFactor) for module in net.modules()) == (
        2 if type(drop) is OldDropPath else 1
    )
    x = images(3, 9, batch=40)
    net.eval()
    with torch.no_grad():
        whole = net(x)
        torch.testing.assert_close(net(x), whole)
        bare = net.net.get_submodule("last")(net.net.get_submodule("first")(x))
        net.train()
        seen = [net(x) for _ in range(3)]
    for y in seen:
        dropped = (y - bare).abs().amax((1, 2, 3)) < 1e-9
        twice = (y - bare - 2 * (whole - bare)).abs().amax((1, 2, 3)) < 1e-9
        assert (dropped ^ twice).all()
    alike = [bool((y - bare).abs().amax((1, 2, 3)).lt(1e-9).unique().numel() == 1) for y in seen]
    assert all(alike) if getattr(drop, "mode", "") == "batch" else not any(alike)
    st.testing.assert_equivariant(net, x)


@pytest.mark.parametrize("make", DROPS[:4], ids=["torchvision", "batch", "timm", "old timm"])
def test_stochastic_depth_commutes_with_the_group_for_equal_draws(make: Callable[[], nn.Module]) -> None:
    net = st.convert(Residual(make()).double(), D4).train()
    x = images(3, 9, batch=6)
    for g in D4.elements:
        torch.manual_seed(1)
        y = net(x)
        torch.manual_seed(1)
        moved = net(st.transform(x, g, net.in_type))
        torch.testing.assert_close(moved, st.transform(y, g, net.out_type), atol=1e-12, rtol=1e-12)


# -------------------------------------------------------------------- networks


class LayerNorm2d(nn.LayerNorm):
    """As in torchvision and timm: functional, over permuted channels."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return torch.permute(x, self.dims)


class CNBlock(nn.Module):
    """torchvision's block of ConvNeXt: linear layers on channels last, a scale per channel, stochastic depth."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim, bias=True), Permute([0, 2, 3, 1]), nn.LayerNorm(dim, eps=1e-6),
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), Permute([0, 3, 1, 2]),
        )  # fmt: skip
        self.layer_scale = nn.Parameter(torch.ones(dim, 1, 1) * 1e-6)
        self.stochastic_depth = StochasticDepth(0.1, "row")

    def forward(self, x: Tensor) -> Tensor:
        result = self.layer_scale * self.block(x)
        result = self.stochastic_depth(result)
        result += x
        return result


class OriginalBlock(nn.Module):
    """The authors' block: the scale acts on channels last."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(dim, dim, 7, padding=3, groups=dim), nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.act, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(1e-6 * torch.ones(dim))
        self.drop_path = DropPath(0.1)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        x = self.dwconv(x)
        x = x.permute(0, 2, 3, 1)
        x = self.pwconv2(self.act(self.pwconv1(self.norm(x))))
        x = self.gamma * x
        x = x.permute(0, 3, 1, 2)
        return shortcut + self.drop_path(x)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 4, stride=4), LayerNorm2d(16, eps=1e-6), CNBlock(16), OriginalBlock(16),
            nn.Sequential(LayerNorm2d(16, eps=1e-6), nn.Conv2d(16, 32, 2, stride=2)), CNBlock(32),
        )  # fmt: skip
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(LayerNorm2d(32), nn.Flatten(1), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.fc2(F.silu(self.fc1(self.avgpool(x)), inplace=True))) * x


class MBConv(nn.Module):
    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        inner = 4 * channels
        self.block = nn.Sequential(
            nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.SiLU(inplace=True),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.SiLU(inplace=True),
            SqueezeExcitation(inner, channels // 2),
            nn.Conv2d(inner, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels),
        )  # fmt: skip
        self.stochastic_depth = StochasticDepth(0.2, "row")
        self.use_res_connect = stride == 1 and channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        result = self.block(x)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += x
        return result


def efficientnet() -> nn.Module:
    stem = (nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU(inplace=True))
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2, inplace=True), nn.Linear(24, 7))
    return nn.Sequential(*stem, MBConv(16, 16, 1), MBConv(16, 24, 2), MBConv(24, 24, 1), *head)


def double_conv(channels: int, out_channels: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, out_channels, 3, padding=1, bias=False), nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True),
        nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False), nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True),
    )  # fmt: skip


class Up(nn.Module):
    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels // 2, 2, stride=2)
        self.conv = double_conv(channels, out_channels)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        x1 = self.up(x1)
        diff_y = x2.size()[2] - x1.size()[2]
        diff_x = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diff_x // 2, diff_x - diff_x // 2, diff_y // 2, diff_y - diff_y // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inc = double_conv(3, 8)
        self.down1, self.down2 = (nn.Sequential(nn.MaxPool2d(2), double_conv(c, 2 * c)) for c in (8, 16))
        self.up1, self.up2 = Up(32, 16), Up(16, 8)
        self.outc = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        x2 = self.down1(x1)
        return self.outc(self.up2(self.up1(self.down2(x2), x2), x1))


class Fire(nn.Module):
    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze, self.squeeze_activation = nn.Conv2d(channels, squeezed, 1), nn.ReLU(inplace=True)
        self.expand1x1, self.expand1x1_activation = nn.Conv2d(squeezed, expanded, 1), nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat(
            [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1
        )


class SqueezeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(16, 8, 16),
            nn.MaxPool2d(3, 2, ceil_mode=True), Fire(32, 8, 16),
        )  # fmt: skip
        final_conv = nn.Conv2d(32, 10, 1)
        self.classifier = nn.Sequential(
            nn.Dropout(0.5), final_conv, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1))
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.classifier(self.features(x)), 1)


class BasicConv2d(nn.Module):
    def __init__(self, channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        self.conv, self.bn = (
            nn.Conv2d(channels, out_channels, bias=False, **options),
            nn.BatchNorm2d(out_channels, 0.001),
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch1 = BasicConv2d(channels, 8, kernel_size=1)
        self.branch2 = nn.Sequential(
            BasicConv2d(channels, 8, kernel_size=1), BasicConv2d(8, 16, kernel_size=3, padding=1)
        )
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(3, 1, padding=1, ceil_mode=True), BasicConv2d(channels, 8, kernel_size=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch4(x)], 1)


class GoogLeNet(nn.Module):
    """With an auxiliary classifier that is there in training only, as in torchvision."""

    def __init__(self, auxiliary: bool = False) -> None:
        super().__init__()
        self.conv1 = BasicConv2d(3, 16, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception3a, self.inception3b = Inception(16), Inception(32)
        self.maxpool2 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
        self.avgpool, self.dropout, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Dropout(0.2), nn.Linear(32, 9)
        self.auxiliary = nn.Conv2d(32, 9, 1) if auxiliary else None

    def forward(self, x: Tensor) -> Any:
        x = self.inception3a(self.maxpool1(self.conv1(x)))
        auxiliary = self.auxiliary(x).mean((2, 3)) if self.auxiliary is not None and self.training else None
        x = self.maxpool2(self.inception3b(x))
        x = self.fc(self.dropout(torch.flatten(self.avgpool(x), 1)))
        return (x, auxiliary) if auxiliary is not None else x


class AlexNet(nn.Module):
    def __init__(self, functional: bool = False) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(16, 24, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(24, 16, 3, padding=1), nn.ReLU(inplace=True),
        )  # fmt: skip
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(16 * 6 * 6, 32), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(32, 10)
        )
        self.functional = functional

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x))
        return self.classifier(x.view(x.size(0), 16 * 6 * 6) if self.functional else torch.flatten(x, 1))


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, 0, 24, 0, 32, 0):
        layers += (
            [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            if width
            else [nn.MaxPool2d(2, 2)]
        )
        channels = width or channels
    classifier = (nn.Linear(32 * 7 * 7, 40), nn.ReLU(True), nn.Dropout(), nn.Linear(40, 10))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d((7, 7)), nn.Flatten(), *classifier)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int, dict[str, Any]]] = {
    "ConvNeXt": (ConvNeXt, 32, {}),
    "EfficientNet": (efficientnet, 32, {}),
    "U-Net": (UNet, 32, {}),
    "SqueezeNet": (SqueezeNet, 33, {}),
    "GoogLeNet": (GoogLeNet, 32, {}),
    "AlexNet": (AlexNet, 63, {"head": "pool"}),
    "AlexNet by view": (lambda: AlexNet(functional=True), 63, {"head": "pool"}),
    "VGG": (vgg, 32, {"head": "pool"}),
}


def images(channels: int, size: int, dtype: torch.dtype = torch.float64, batch: int = 2) -> Tensor:
    return torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(0), dtype=dtype)


def with_statistics(net: nn.Module, x: Tensor) -> None:
    net.train()
    with torch.no_grad():
        net(x)
    net.eval()


def randomised(net: nn.Module) -> nn.Module:
    """Scales that begin at 1e-6 would hide what they scale."""
    generator = torch.Generator().manual_seed(0)
    for parameter in net.parameters():
        if parameter.ndim == 1:
            parameter.data = torch.rand(parameter.shape, generator=generator).to(parameter) + 0.5
    return net


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", NETWORKS)
def test_well_known_networks_become_exact(name: str, group: str) -> None:
    make, size, options = NETWORKS[name]
    plain, x = make().double(), images(3, size)
    net = randomised(st.convert(plain, GROUPS[group], **options))
    assert net.report.checked_size is not None
    with_statistics(net, x)
    st.testing.assert_equivariant(net, x, tolerance=1e-12)
    with_statistics(plain, x)
    assert net(x).shape == plain(x).shape
    assert "Exactly equivariant" in str(net.report)


@pytest.mark.parametrize("name", NETWORKS)
def test_they_train_are_stored_and_become_plain_again(name: str) -> None:
    torch.manual_seed(0)
    make, size, options = NETWORKS[name]
    plain, x = make(), images(3, size, torch.float32, batch=4)
    before = copy.deepcopy(plain.state_dict())
    net = st.convert(plain, D4, **options)
    net(x).square().mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())
    assert all(torch.equal(value, before[key]) for key, value in plain.state_dict().items())
    randomised(net)
    with_statistics(net, x)
    with torch.no_grad():
        y = net(x)
        twin = st.convert(make(), D4, **options).eval()
        assert not torch.allclose(twin(x), y)
        twin.load_state_dict(net.state_dict())
        torch.testing.assert_close(twin(x), y)
        torch.testing.assert_close(pickle.loads(pickle.dumps(net))(x), y)
        plain_again = snn.to_plain(net)
        torch.testing.assert_close(plain_again(x), y, atol=1e-4, rtol=1e-4)
        assert not any(isinstance(m, snn.EquivariantModule) for m in plain_again.modules())
        torch.testing.assert_close(torch.export.export(plain_again, (x,)).module()(x), y, atol=1e-4, rtol=1e-4)
