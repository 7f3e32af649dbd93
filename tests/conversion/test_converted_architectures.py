"""``convert`` on compact networks written as the well-known ones are: exact, trainable, storable, plain again."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import steerable as st
from steerable import nn as snn
from steerable.conversion import ConversionError
from steerable.conversion.extra_layers import CapsuleScale, TrainingFactor
from steerable.conversion.fitting_sizes import PadTo

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
            nn.Conv2d(dim, dim, 7, padding=3, groups=dim), Permute([0, 2, 3, 1]), nn.LayerNorm(dim, eps=1e-6),
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
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), nn.SiLU(True),
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
    layers: list[nn.Module] = []
    for entering in (channels, out_channels):
        layers += [nn.Conv2d(entering, out_channels, 3, padding=1, bias=False), nn.BatchNorm2d(out_channels)]
        layers += [nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


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


def test_a_u_net_warns_of_sizes_that_it_cannot_pad_on_both_sides_alike() -> None:
    """13 pixels are halved to 6, which come back as 12: one row is missing."""
    net, x = st.convert(UNet().double(), D4), images(3, 12)
    with_statistics(net, x)
    st.testing.assert_equivariant(net, images(3, 20))
    with pytest.warns(snn.EquivarianceWarning, match="PadTo is not exactly equivariant to D4 where it adds 1 rows and"):
        assert net(images(3, 13)).shape == (2, 2, 13, 13)
    assert "up1.pad, up2.pad: exact where an even number of rows and columns is added" in str(net.report)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("size", [(10, 14), (6, 6), (9, 7)])
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_one_map_is_padded_or_cropped_to_another(group: str, size: tuple[int, int], mode: str) -> None:
    """On any sizes, also where the image is not square: then the turned image has other sizes."""
    field_type = st.FieldType(GROUPS[group], "2*regular")
    layer = PadTo(field_type, st.FieldType(GROUPS[group], "regular"), mode)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, field_type.channels, 8, 8 + size[1] - size[0], generator=generator)
    like = torch.randn(1, field_type.channels // 2, *size, generator=generator)
    exact = group == "diagonal" or (size[0] - 8) % 2 == 0
    if not exact:
        with pytest.warns(snn.EquivarianceWarning):
            layer(x, like)
        return
    y = layer(x, like)
    assert y.shape[2:] == size
    for g in field_type.group.elements:
        moved = layer(st.transform(x, g, field_type), st.transform(like, g, layer.in_types[1]))
        assert torch.equal(moved, st.transform(y, g, field_type))


class Pads(nn.Module):
    def __init__(self, sides: Callable[[Tensor, Tensor], list[Any]]) -> None:
        super().__init__()
        self.first, self.second, self.sides = nn.Conv2d(3, 8, 3), nn.Conv2d(3, 8, 1), sides

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.first(x), self.second(x)
        return F.pad(a, self.sides(a, b))


@pytest.mark.parametrize(
    "sides",
    [
        lambda a, b: [0, b.size(3) - a.size(3), 0, b.size(2) - a.size(2)],  # all on one side
        lambda a, b: [(b.size(2) - a.size(2)) // 2] * 4,  # one difference for both
        lambda a, b: [a.size(3) // 8] * 4,
        lambda a, b: [(b.size(1) - a.size(2)) // 2] * 4,
    ],
)
def test_other_computed_paddings_are_refused(sides: Callable[[Tensor, Tensor], list[Any]]) -> None:
    with pytest.raises(
        ConversionError, match=r"`pad` in the forward of the network \(Pads\): it pads by what was comp"
    ):
        st.convert(Pads(sides), D4)


@pytest.mark.parametrize("make", [AlexNet, lambda: AlexNet(functional=True), vgg])
def test_a_flattened_map_is_refused_with_the_remedy_and_pooled_on_request(make: Callable[[], nn.Module]) -> None:
    with pytest.raises(ConversionError, match=r"side by side.*convert\(\.\.\., head='pool'\) does that for you"):
        st.convert(make(), D4)
    net = st.convert(make(), D4, head="pool")
    features, channels = (1568, 32) if "13" in dict(net.net.named_children()) else (576, 16)
    assert f"the mean over all pixels in place of {features // channels} pixels side by side" in str(net.report)
    assert f"{features} features became {channels}" in str(net.report)
    first = next(module for module in net.modules() if isinstance(module, snn.Linear))
    assert first.in_type.channels == channels


def test_a_head_that_does_not_fit_the_channels_is_refused_even_so() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten(), nn.Linear(100, 5))
    with pytest.raises(
        ConversionError, match=r"it lays several pixels of 16 channels side by side, since `2` \(Linear\)"
    ):
        st.convert(plain, D4, head="pool")
    with pytest.raises(ConversionError, match="it flattens the image itself"):
        st.convert(nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)), D4, head="pool")
    backbone = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten())
    with pytest.raises(ConversionError, match="nothing says that it flattens a single pixel"):
        st.convert(backbone, D4)
    assert st.convert(backbone, D4, head="pool")(images(3, 8, torch.float32)).shape == (2, 16)
    with pytest.raises(ValueError, match="head is one of keep, pool; got 'mean'"):
        st.convert(backbone, D4, head="mean")  # type: ignore[arg-type]


def test_auxiliary_heads_of_training_are_left_out_in_evaluation_only() -> None:
    with pytest.raises(ConversionError, match=r"what the network returns: it makes training and evaluation differ"):
        st.convert(GoogLeNet(auxiliary=True), D4)
    net = st.convert(GoogLeNet(auxiliary=True).eval(), D4)
    assert "Converted as it is in evaluation; it differs in training, by what the network returns." in str(net.report)
    assert not any("auxiliary" in name for name, _ in net.named_parameters())
    assert "as it is in evaluation" not in str(st.convert(GoogLeNet().eval(), D4).report)


# -------------------------------------------------------------------- pooling that rounds up


@pytest.mark.parametrize("group", ["D4", "D1", "C2", "diagonal"])
@pytest.mark.parametrize(
    "options", [(2, 2, 0), (3, 2, 0), (3, 2, 1), (4, 3, 0), (5, 4, 1), (3, 3, 0), (5, 2, 2)], ids=str
)
@pytest.mark.parametrize("kind", [nn.MaxPool2d, nn.AvgPool2d])
def test_pooling_that_rounds_up_is_exact_on_every_size(kind: Any, options: tuple[int, ...], group: str) -> None:
    """It gives torch's sizes, and torch's values where no window hangs over a side that the group exchanges."""
    kernel, stride, padding = options
    plain = nn.Sequential(kind(kernel, stride, padding, ceil_mode=True))
    net = st.convert(plain, GROUPS.get(group, group), in_channels=2)
    for size in range(12, 24):
        x = images(2, size)
        y = net(x)
        assert y.shape == plain(x).shape
        if (size + 2 * padding - kernel) % stride == 0 or group == "diagonal":  # which reverses no axis
            torch.testing.assert_close(y, plain(x))
        st.testing.assert_equivariant(net, x)
        torch.testing.assert_close(snn.to_plain(net)(x), y)


def test_pooling_that_rounds_up_sees_every_pixel() -> None:
    net = st.convert(nn.Sequential(nn.MaxPool2d(2, 2, ceil_mode=True)), D4, in_channels=1)
    for at in range(7):
        x = torch.zeros(1, 1, 7, 7)
        x[..., at, at] = 1
        assert net(x).amax() == 1


# -------------------------------------------------------------------- learned scales


class Scaled(nn.Module):
    def __init__(self, gamma: Tensor, scale: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 2, 1)
        self.gamma, self.scale = nn.Parameter(gamma), scale

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.scale(self.gamma, self.conv(x)))


@pytest.mark.parametrize("mix", ["regular", "A1 + A2 + B1 + B2 + 2*E"])
@pytest.mark.parametrize(
    ("gamma", "scale"),
    [
        (torch.full((16, 1, 1), 0.25), lambda gamma, x: gamma * x),
        (torch.full((1, 16, 1, 1), 0.25), lambda gamma, x: x.mul(gamma)),
        (torch.full((16,), 0.25), lambda gamma, x: x * gamma[:, None, None]),
        (torch.full((16,), 0.25), lambda gamma, x: x * gamma.view(1, -1, 1, 1)),
        (torch.full((16,), 0.25), lambda gamma, x: (x.permute(0, 2, 3, 1) * gamma).movedim(-1, 1)),
        (torch.tensor(0.25), lambda gamma, x: gamma * x),
        (torch.tensor([0.25]), lambda gamma, x: x * gamma),
    ],
)
def test_learned_scales_become_one_per_capsule(gamma: Tensor, scale: Any, mix: str) -> None:
    plain = Scaled(gamma, scale).double()
    net = st.convert(plain, D4, mix=mix)
    layer = net.net.get_submodule("gamma")
    assert isinstance(layer, CapsuleScale)
    assert layer.weight.tolist() == [0.25] * (1 if gamma.numel() == 1 else len(layer.in_type))
    st.testing.assert_equivariant(randomised(net), images(3, 9))
    if gamma.numel() > 1:
        factors = layer.weight.repeat_interleave(torch.tensor([c.dim for c in layer.in_type.capsules]))
        x = images(layer.in_type.channels, 4)
        torch.testing.assert_close(layer(x), x * factors[:, None, None])


@pytest.mark.parametrize(
    ("gamma", "scale"),
    [
        (torch.ones(9), lambda gamma, x: x * gamma),  # along the width
        (torch.ones(16, 9, 9), lambda gamma, x: x * gamma),  # per pixel
        (torch.ones(16), lambda gamma, x: x * gamma.view(4, 4, 1, 1)),
        (torch.ones(2, 16, 1, 1), lambda gamma, x: x * gamma),
        (torch.ones(16, 1, 1), lambda gamma, x: x * gamma.flip(0)),
        (torch.ones(16, 1, 1), lambda gamma, x: x * torch.sigmoid(gamma)),
        (torch.ones(16, 1, 1), lambda gamma, x: x / gamma),
        (torch.ones(16, 1, 1), lambda gamma, x: x + gamma),
    ],
)
def test_other_uses_of_parameters_are_refused_by_name(gamma: Tensor, scale: Any) -> None:
    with pytest.raises(ConversionError, match="`gamma`, one of the network's own tensors"):
        st.convert(Scaled(gamma, scale), D4)


@pytest.mark.parametrize(
    "function",
    [
        torch.abs, torch.relu, torch.exp, torch.sigmoid, torch.neg, torch.round, torch.zeros_like,
        lambda gamma: gamma.half(),
        lambda gamma: gamma.clamp(min=0), lambda gamma: gamma.clamp(max=100), lambda gamma: gamma.clamp(min=1e-2),
        lambda gamma: gamma.clone().neg_(), lambda gamma: gamma.flip(0), lambda gamma: gamma > 0,
    ],
)  # fmt: skip
@pytest.mark.parametrize("learned", [torch.ones(16), torch.rand(16)], ids=["ones", "random"])
def test_functions_of_parameters_are_not_taken_for_reshapes(function: Any, learned: Tensor) -> None:
    """Whatever the parameter holds now, and though many numbers stay as they are under such a function."""
    words = "it computes something from `gamma`, one of the network's own tensors; only a reshape of that, to fixed"
    for scale in (
        lambda gamma, x: x * function(gamma)[:, None, None],
        lambda gamma, x: x * function(gamma[:, None, None]),
    ):
        with pytest.raises(ConversionError, match=words):
            st.convert(Scaled(learned, scale), D4)


@pytest.mark.parametrize("function", [torch.maximum, torch.minimum, torch.fmax, lambda a, b: torch.lerp(a, b, 0.5)])
def test_functions_of_a_parameter_and_a_field_are_not_taken_for_reshapes(function: Any) -> None:
    """Each of them gives gamma back where both are the same."""
    scaled = Scaled(torch.ones(16, 1, 1), lambda gamma, x: x * function(gamma, x))
    with pytest.raises(ConversionError, match="it computes something from `gamma`"):
        st.convert(scaled, D4)


@pytest.mark.parametrize(
    "reshape",
    [
        lambda gamma: gamma.view(-1, 1, 1), lambda gamma: gamma.view(1, 16, 1, 1), lambda gamma: gamma[:, None, None],
        lambda gamma: gamma.reshape(16, 1, 1), lambda gamma: gamma.unsqueeze(-1).unsqueeze(-1),
        lambda gamma: gamma[None, :, None, None].squeeze(0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_reshapes_of_parameters_are_followed(reshape: Any, dtype: torch.dtype) -> None:
    net = st.convert(Scaled(torch.full((16,), 0.25), lambda gamma, x: x * reshape(gamma)).to(dtype), D4)
    assert net.net.get_submodule("gamma").weight.tolist() == [0.25] * 2


def test_a_shared_functional_norm_stays_one() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.conv, self.norm = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 1), LayerNorm2d(16, eps=0.1)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.conv(self.norm(self.first(x)))).mean((2, 3))

    net = st.convert(Twice(), D4)
    norms = [module for module in net.modules() if isinstance(module, snn.LayerNorm)]
    assert [norm.eps for norm in norms] == [0.1]
