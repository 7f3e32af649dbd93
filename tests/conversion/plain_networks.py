"""Plain networks as people write them, for the tests of ``convert``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import steerable as st
from steerable.nn.filter_bank import FilterBankModule


class BasicBlock(nn.Module):
    """The usual residual block, with an activation that is used twice and a branch that is there or not."""

    def __init__(self, channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.downsample = None
        if stride != 1 or channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """One activation for two widths; functional."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, inner, 1)
        self.conv = nn.Conv2d(inner, inner, 3, padding=1, groups=2)
        self.expand = nn.Conv2d(inner, channels, 1)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.reduce(x))
        y = self.expand(self.act(self.conv(y)))
        return self.act(torch.add(x, y))


class ResidualNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(BasicBlock(16, 16), Bottleneck(16, 16))
        self.layer2 = nn.Sequential(BasicBlock(16, 32, 2), BasicBlock(32, 32))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(self.pool(self.stem(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def vgg() -> nn.Module:
    """Flattens a map that is 1×1 on 32×32 images; the linear layer says so."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, 16, 24, 24, 32):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width
    head = (nn.Flatten(), nn.Linear(32, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.5), nn.Linear(24, 10))
    return nn.Sequential(nn.Sequential(*layers), *head)


class UNet(nn.Module):
    """Skips by concatenation; one level enlarges by a transposed convolution, one by interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.LeakyReLU(0.2))
        self.down1 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.down2 = nn.Conv2d(16, 32, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose2d(32, 16, 3, stride=2, padding=1, output_padding=1)
        self.merge2 = nn.Conv2d(32, 16, 3, padding=1, padding_mode="reflect")
        self.merge1 = nn.Conv2d(24, 8, 3, padding=1)
        self.leave = nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.enter(x)
        b = F.gelu(self.down1(a))
        c = F.relu(self.down2(b))
        d = F.elu(self.merge2(torch.cat([self.up2(c), b], dim=1)))
        e = F.interpolate(d, scale_factor=2, mode="bilinear", align_corners=False)
        return self.leave(torch.relu(self.merge1(torch.cat((e, a), 1))))


class DenseNet(nn.Module):
    """Concatenations that grow, with norms on them; the final sum ties a stack to a new layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.grow = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(16 + 8 * k), nn.ReLU(), nn.Conv2d(16 + 8 * k, 8, 3, padding=1))
            for k in range(2)
        )
        self.same = nn.Conv2d(32, 32, 3, padding=1)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.grow:
            x = torch.cat([x, layer(x)], 1)
        x = x + self.same(x)
        return F.log_softmax(self.head(x.mean((2, 3))), dim=1)


class SqueezeNet(nn.Module):
    """Squeeze and excitation, depthwise filters, sizes that are read off, a spatial gate of one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
        self.norm = nn.InstanceNorm2d(16, affine=True)
        self.squeeze, self.excite = nn.Linear(16, 8), nn.Linear(8, 16)
        self.gate = nn.Conv2d(16, 1, 1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.norm(self.depthwise(self.stem(x))))
        b, c, _, _ = x.size()
        s = F.adaptive_avg_pool2d(x, 1).view(b, c)
        s = torch.sigmoid(self.excite(F.relu(self.squeeze(s)))).view(b, c, 1, 1)
        x = x * s
        x = 0.5 * x * torch.sigmoid(self.gate(x)) + 0.1
        x = F.dropout(F.avg_pool2d(x, x.size()[2:]), 0.3, self.training)
        return self.head(x.view(x.size(0), -1))


class Unused(nn.Module):
    """Computes something for nothing, as auxiliary heads do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.auxiliary = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        self.auxiliary(x).relu()
        return x


class Denoiser(nn.Module):
    """x minus what a network sees in it: the output is tied to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(3, 16, 3), nn.PReLU(), nn.Conv2d(16, 16, 3, padding="same"), nn.Tanh(),
            nn.Identity(), nn.Upsample(scale_factor=2), nn.AvgPool2d(2), nn.Conv2d(16, 3, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x - self.body(x)


class Shared(nn.Module):
    """One convolution applied twice."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.conv, self.leave = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor, again: bool = True) -> Tensor:
        x = F.relu(self.conv(F.relu(self.enter(x))))
        if again:
            x = F.relu(self.conv(x))
        return self.leave(x).amax(dim=[-2, -1])


class Arithmetic(nn.Module):
    """Numbers on either side, functions and methods, sums with a factor, a pooled field on a map."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        y = 1 - x.sigmoid() * 2
        y = torch.sub(-y, x, alpha=0.5).add_(x).contiguous() / 3
        y = y + x.mean((2, 3))[:, :, None, None] - torch.mean(x, dim=[2, 3], keepdim=True)
        return self.leave(torch.cat([y, -y], dim=-3))


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


class PaddedUNet(nn.Module):
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


class Calls(nn.Module):
    """Does one thing between two convolutions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 2, 3), function

    def forward(self, x: Tensor) -> Any:
        return self.last(self.function(self.first(x)))


class Plain(NamedTuple):
    """A network, the channels and the size of its images, and the options with which it is converted."""

    make: Callable[[], nn.Module]
    channels: int = 3
    size: int = 32
    options: dict[str, Any] = {}  # noqa: RUF012


NETWORKS = {
    "residual": Plain(ResidualNet),
    "vgg": Plain(vgg),
    "unet": Plain(UNet, 2),
    "dense": Plain(DenseNet),
    "squeeze": Plain(SqueezeNet, 1),
    "denoiser": Plain(Denoiser),
    "shared": Plain(Shared),
    "arithmetic": Plain(Arithmetic),
    "wide": Plain(lambda: st.models.plain_resnet(depth=8, width=16, inner=8, crelu=True)),
    "ConvNeXt": Plain(ConvNeXt),
    "EfficientNet": Plain(efficientnet),
    "U-Net": Plain(PaddedUNet),
    "GoogLeNet": Plain(GoogLeNet),
    "AlexNet": Plain(AlexNet, size=63, options={"head": "pool"}),
    "AlexNet by view": Plain(lambda: AlexNet(functional=True), size=63, options={"head": "pool"}),
}


def images(channels: int, size: int = 32, dtype: torch.dtype = torch.float64, batch: int = 2) -> Tensor:
    return torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(0), dtype=dtype)


def with_statistics(net: nn.Module, x: Tensor) -> nn.Module:
    """Running statistics that are not those of the start, so that norms are seen to treat channels alike."""
    net.train()
    with torch.no_grad():
        net(x)
    return net.eval()


def randomised(net: nn.Module) -> nn.Module:
    """Scales that begin at 1e-6 would hide what they scale, and those of norms that begin alike do not stay so."""
    generator = torch.Generator().manual_seed(0)
    for module in net.modules():
        if not isinstance(module, FilterBankModule):
            for parameter in module.parameters(recurse=False):
                parameter.data = torch.rand(parameter.shape, generator=generator).to(parameter) + 0.5
    return net
