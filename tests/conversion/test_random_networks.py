"""What ``convert`` calls exact is exact: random plain networks, the report beside the numbers.

The long run: ``STEERABLE_PROGRAMS=2000 STEERABLE_SEED=1 pytest tests/test_random_networks.py -s``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import given, seed
from hypothesis import strategies as hs
from random_programs import EXAMPLES, GROUPS, SEED, search
from torch import Tensor, nn

import steerable as st

NETWORKS = EXAMPLES // 5
CHANNELS = 4

counts: Counter[str] = Counter()

Part = tuple[str, Callable[..., Any] | nn.Module]


class Network(nn.Module):
    """Steps on the last value; those with two arguments get an earlier value too."""

    def __init__(self, parts: list[Part], earlier: list[int]) -> None:
        super().__init__()
        self.texts, self.earlier = [text for text, _ in parts], earlier
        self.functions = [None if isinstance(part, nn.Module) else part for _, part in parts]
        self.layers = nn.ModuleList(part if isinstance(part, nn.Module) else nn.Identity() for _, part in parts)

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for text, function, layer, at in zip(self.texts, self.functions, self.layers, self.earlier, strict=True):
            if function is None:
                values.append(layer(values[-1]))
            else:
                values.append(function(values[-1], values[at % len(values)]) if "y" in text else function(values[-1]))
        return values[-1]

    def __repr__(self) -> str:
        return "; ".join(f"{text} (y = v{at})" for text, at in zip(self.texts, self.earlier, strict=True))


FUNCTIONS = (
    "F.relu(x)", "x + y", "x - 2 * y", "x * y", "torch.add(x, y, alpha=0.5)", "torch.div(x, 2)", "x / 3", "x // 2",
    "torch.div(x, 2, rounding_mode='floor')", "torch.div(x, 0.3, rounding_mode='trunc')", "x + 1", "-x", "2 - x",
    "F.dropout(x, 0.5, training=True)", "F.dropout(x, 0.5, training=False)", "F.dropout(x, 0.5)", "x.clamp(-1, 1)",
    "x.clamp(min=0)", "torch.cat([x, y], 1)", "torch.cat([x, y], dim=0)", "F.leaky_relu(x, negative_slope=0.2)",
    "F.hardtanh(x, -4.0, 6.0)", "F.max_pool2d(x, 3, 2, 1)", "F.max_pool2d(x, 2, ceil_mode=True)", "F.avg_pool2d(x, 2)",
    "F.interpolate(x, scale_factor=2)", "F.interpolate(x, scale_factor=2.02)", "F.pad(x, (1, 1, 1, 1))",
    "F.pad(x, (1, 2, 1, 0))", "F.pad(x, (1, 2, 1, 2))", "F.pad(x, (1, 0, 0, 1), value=1.0)", "x.permute(0, 1, 3, 2)",
    "x.flip(-1)", "x.transpose(2, 3)", "x[:, :2]", "x[:, :, ::2, ::2]", "torch.roll(x, 1, 2)", "x.sum(1, keepdim=True)",
    "F.normalize(x, dim=1)", "x * torch.sigmoid(F.adaptive_avg_pool2d(x, 1))", "x * x.mean((2, 3), keepdim=True)",
    "x.abs()", "torch.tanh(x)", "x ** 3", "torch.sqrt(x * x + 1)", "F.softmax(x, dim=1)", "torch.maximum(x, y)",
    "x.float()", "x.contiguous()", "x.detach()", "x + torch.arange(4.0).view(1, 4, 1, 1)", "F.rrelu(x)", "F.glu(x, 1)",
    "x * x.flatten(2).max(-1)[0].unsqueeze(2).unsqueeze(-1)", "x * torch.max(x, 1, keepdim=True)[0]",
    "x * x.mean(3).mean(2)[..., None, None]", "x * x.mean(3).amax(2)[:, :, None, None]", "x.flatten(2).view_as(x)",
    "x.view(x.size(0), -1, x.size(3), x.size(2))", "x[:, [1, 0, 2, 3]]", "x.transpose(1, 2).transpose(2, 1)",
)  # fmt: skip


def _layer(draw: Any, channels: int) -> nn.Module:
    number = draw(hs.integers(1, 3))
    flag = draw(hs.booleans())
    sides = tuple(draw(hs.integers(0, 2)) for _ in range(4))
    padding = draw(hs.sampled_from([0, 1, (1, 0), "same"]))
    makers: list[Callable[[], nn.Module]] = [
        lambda: nn.Conv2d(channels, CHANNELS, number, padding=padding, bias=flag),
        lambda: nn.Conv2d(channels, CHANNELS, 3, stride=2, padding=1, groups=2 if flag else 1),
        lambda: nn.Conv2d(channels, CHANNELS, 3, padding=1, padding_mode="circular" if flag else "reflect"),
        lambda: nn.ConvTranspose2d(channels, CHANNELS, number + 1, stride=2, padding=1, output_padding=int(flag)),
        lambda: nn.BatchNorm2d(channels, affine=flag),
        lambda: nn.InstanceNorm2d(channels, affine=flag),
        lambda: nn.GroupNorm(2, channels, affine=flag),
        lambda: nn.LayerNorm(channels),
        lambda: nn.ReLU(inplace=flag),
        lambda: nn.PReLU(channels if flag else 1),
        lambda: nn.Hardtanh(-4.0, 6.0 if flag else 4.0),
        lambda: nn.Softshrink(),
        lambda: nn.Tanh(),
        lambda: nn.MaxPool2d(number, ceil_mode=flag),
        lambda: nn.AvgPool2d(number, padding=number // 2, count_include_pad=flag),
        lambda: nn.AdaptiveAvgPool2d(number),
        lambda: nn.ZeroPad2d(sides),
        lambda: nn.ReflectionPad2d(1),
        lambda: nn.ConstantPad2d(1, 0.5 * flag),
        lambda: nn.Upsample(scale_factor=2.0 if flag else 2.02),
        lambda: nn.Dropout(0.5),
        lambda: nn.RReLU(),
        lambda: nn.PixelShuffle(2),
        lambda: nn.Softmax(1 if flag else 2),
    ]
    return draw(hs.sampled_from(makers))()


@hs.composite
def networks(draw: Any) -> tuple[Network, str, str, str]:
    """A network with CHANNELS channels in, a group, a mix of capsules and a way of downsampling."""
    name = draw(hs.sampled_from(sorted(GROUPS)))
    group = GROUPS[name]
    sign = next(str(irrep) for irrep in group.irreps if irrep.dim == 1 and (irrep.character < 0).any())
    mix = draw(hs.sampled_from(["regular", "regular", sign, f"regular + {sign}", str(group.irreps[-1])]))
    parts: list[Part] = [("Conv2d", nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1))]
    earlier = [0]
    value = torch.randn(2, CHANNELS, 16, 16)
    for _ in range(draw(hs.integers(1, 4))):
        text = draw(hs.sampled_from(FUNCTIONS))
        earlier_value, as_a_layer = draw(hs.integers(0, 3)), draw(hs.booleans())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if as_a_layer:
                    layer = _layer(draw, value.shape[1])
                    part: Part = (str(layer), layer)
                else:
                    part = (text, eval(f"lambda x, y=None: {text}", {"F": F, "torch": torch}))
                trial = Network([*parts, part], [*earlier, earlier_value])
                found = trial(torch.randn(2, CHANNELS, 16, 16)).detach()
        except (RuntimeError, ValueError, TypeError, IndexError):
            continue  # not a network
        if found.ndim != 4:
            continue
        parts, earlier, value = [*parts, part], [*earlier, earlier_value], found
    return Network(parts, earlier), name, mix, draw(hs.sampled_from(["pool", "stride"]))


@seed(SEED)
@search(NETWORKS)
@given(networks())
def test_what_convert_calls_exact_is_exact(case: tuple[Network, str, str, str]) -> None:
    network, group, mix, downsampling = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            converted = st.convert(network.eval(), GROUPS[group], mix=mix, downsampling=downsampling)
        except (TypeError, ValueError):
            counts["refused"] += 1
            return
        size = converted.report.checked_size
        if size is None:
            counts["not exact, and says so"] += 1
            return
        counts["exact"] += 1
        for parameter in converted.parameters():  # slopes and scales that begin alike do not stay so
            nn.init.uniform_(parameter, 0.5, 1.5)
        x = torch.randn(2, CHANNELS, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        error = st.testing.equivariance_error(converted.double().eval(), x)
    assert error < 1e-9, f"called exact, but off by {error:.1e} under {group} with {mix}, {downsampling}: {network!r}"


def test_networks_of_both_kinds_were_met() -> None:
    print(dict(counts))  # noqa: T201
    assert counts["exact"] >= NETWORKS / 10
    assert counts["refused"] >= NETWORKS / 10
