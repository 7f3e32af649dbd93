"""``convert`` on what the well-known networks are made of: stochastic depth, padded skips, heads, learned scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from plain_networks import (
    AlexNet,
    DropPath,
    GoogLeNet,
    LayerNorm2d,
    OldDropPath,
    OwnDropPath,
    PaddedUNet,
    StochasticDepth,
    images,
    randomised,
    with_statistics,
)
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.conversion import ConversionError
from steerable.conversion.extra_layers import CapsuleScale, TrainingFactor
from steerable.conversion.fitting_sizes import PadTo

D4 = st.dihedral(4)
DIAGONAL = D4.subgroup(["e", "mr3"])
GROUPS: dict[str, Any] = {"D4": D4, "C4": st.cyclic(4), "diagonal": DIAGONAL}


# -------------------------------------------------------------------- stochastic depth, in four hands


class Residual(nn.Module):
    def __init__(self, drop: nn.Module) -> None:
        super().__init__()
        self.first, self.conv, self.last = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 2, 1)
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(x + self.drop(self.conv(x)))


DROPS: list[Callable[[], nn.Module]] = [
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


def test_a_u_net_warns_of_sizes_that_it_cannot_pad_on_both_sides_alike() -> None:
    """13 pixels are halved to 6, which come back as 12: one row is missing."""
    net, x = st.convert(PaddedUNet().double(), D4), images(3, 12)
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


@pytest.mark.parametrize("functional", [False, True])
def test_a_flattened_map_is_refused_with_the_remedy_and_pooled_on_request(functional: bool) -> None:
    with pytest.raises(ConversionError, match=r"side by side.*convert\(\.\.\., head='pool'\) does that for you"):
        st.convert(AlexNet(functional), D4)
    net = st.convert(AlexNet(functional), D4, head="pool")
    expected = "the mean over all pixels in place of 36 pixels side by side: 576 features became 16"
    assert expected in str(net.report)
    first = next(module for module in net.modules() if isinstance(module, snn.Linear))
    assert first.in_type.channels == 16


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
    with pytest.raises(ValueError, match="head must be one of keep, pool; got 'mean'"):
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
