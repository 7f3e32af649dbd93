"""``convert``: the counterpart is exactly equivariant, has the plain network's shapes, and leaves that one alone."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from plain_networks import (
    NETWORKS,
    BasicBlock,
    Calls,
    Denoiser,
    ResidualNet,
    UNet,
    Unused,
    images,
    randomised,
    vgg,
    with_statistics,
)
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.conversion import ConversionError, Converted
from steerable.conversion.type_variables import TypeVariable, stack, unify
from steerable.conversion.widths import Widths, matching_width

D4 = st.dihedral(4)
DIAGONAL = D4.subgroup(["e", "mr3"])


# -------------------------------------------------------------------- laws


@pytest.mark.parametrize("group", ["D4", "C4", "C2", DIAGONAL], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_counterpart_is_equivariant_and_has_the_plain_shapes(name: str, group: str | st.Group) -> None:
    plain, channels, size, options = NETWORKS[name]
    network, x = plain().double(), images(channels, size)
    net = randomised(st.convert(network, group, **options))
    assert net.in_type == st.FieldType(net.in_type.group, [(channels, net.in_type.group.trivial)])
    with_statistics(net, x)
    st.testing.assert_equivariant(net, x, tolerance=1e-12)
    assert net(x).shape == with_statistics(network, x)(x).shape
    assert all(capsule.representation.is_trivial for capsule in net.out_type)
    assert st.typecheck(net.net, net.in_type, size=size) == net.out_type
    assert net.report.checked_size == (32 if group is DIAGONAL else size)  # which reverses no axis, so that all fit
    assert "Exactly equivariant" in str(net.report)


@pytest.mark.parametrize("name", [n for n in NETWORKS if n != "EfficientNet" and not n.startswith("AlexNet")])
def test_equal_channels(name: str) -> None:
    """All widths here are multiples of 8 but for the image's and the output's, so that nothing is rounded."""
    plain = NETWORKS[name].make()
    net = st.convert(plain, D4)
    for path, module in plain.named_modules():
        if not isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear) or path == "gate":
            continue
        new = net.net.get_submodule(path)
        widths = (module.in_channels, module.out_channels) if hasattr(module, "in_channels") else None
        widths = widths or (module.in_features, module.out_features)  # type: ignore[arg-type]
        assert (new.in_type.channels, new.out_type.channels) == widths  # type: ignore[union-attr]
    assert "channels became" not in str(net.report)


@pytest.mark.parametrize("group", ["D4", "C2"])
@pytest.mark.parametrize("make", [ResidualNet, UNet])
def test_equal_parameters(make: Callable[[], nn.Module], group: str) -> None:
    plain = make()
    net = st.convert(plain, group, match="parameters")
    before, after = (sum(p.numel() for p in module.parameters()) for module in (plain, net))
    assert abs(after / before - 1) < 0.1
    assert (net.report.parameters_before, net.report.parameters_after) == (before, after)
    assert net.report.width > 1
    assert "times the channels" in str(net.report)


@pytest.mark.parametrize("name", NETWORKS)
def test_it_trains_and_the_plain_network_is_left_alone(name: str) -> None:
    torch.manual_seed(0)  # all of a narrow layer's ReLUs may be off by chance
    make, channels, size, options = NETWORKS[name]
    plain = make()
    before = copy.deepcopy(plain.state_dict())
    modules, mode = [type(m) for m in plain.modules()], plain.training
    net = st.convert(plain, D4, **options)
    assert net.training == mode
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    old = [p.detach().clone() for p in net.parameters()]
    net(images(channels, size, torch.float32, batch=4)).square().mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())
    optimiser.step()
    assert any((p != q).any() for p, q in zip(net.parameters(), old, strict=True))
    assert all(torch.equal(value, before[key]) for key, value in plain.state_dict().items())
    assert [type(m) for m in plain.modules()] == modules
    assert plain.training == mode
    assert all(not hasattr(plain, f"_tensor_constant{k}") for k in range(2))


@pytest.mark.parametrize("name", NETWORKS)
def test_it_can_be_copied_stored_and_made_plain(name: str) -> None:
    make, channels, size, options = NETWORKS[name]
    x = images(channels, size, torch.float32)
    net = with_statistics(randomised(st.convert(make(), D4, **options)), x)
    with torch.no_grad():
        y = net(x)
        twin = st.convert(make(), D4, **options).eval()
        assert not torch.allclose(twin(x), y)
        twin.load_state_dict(net.state_dict())
        torch.testing.assert_close(twin(x), y)
        torch.testing.assert_close(copy.deepcopy(net)(x), y)
        again = pickle.loads(pickle.dumps(net))
        assert isinstance(again, Converted)
        assert again.report == net.report
        torch.testing.assert_close(again(x), y)
        plain = snn.to_plain(net)
        torch.testing.assert_close(plain(x), y, atol=1e-4, rtol=1e-4)
        assert not any(isinstance(m, snn.EquivariantModule) for m in plain.modules())
        for exported in (plain, net):
            torch.testing.assert_close(torch.export.export(exported, (x,)).module()(x), y, atol=1e-4, rtol=1e-4)


def test_it_is_a_layer_like_any_other() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
    features = st.convert(plain, D4, out_type=st.FieldType(D4, "2*regular"))
    net = snn.Sequential(features, snn.ReLU(features.out_type), snn.GlobalAvgPool(features.out_type))
    st.testing.assert_equivariant(net.double(), size=12)
    with pytest.raises(ValueError, match="expected 3 channels"):
        features(torch.zeros(1, 4, 8, 8))


def test_dtype_and_mode_follow_the_plain_network() -> None:
    net = st.convert(vgg().bfloat16().eval(), D4)
    assert {p.dtype for p in net.parameters()} == {torch.bfloat16}
    assert not any(m.training for m in net.modules())


def test_a_network_without_storage() -> None:
    with torch.device("meta"):
        net = st.convert(vgg(), D4)
    assert {p.device.type for p in net.parameters()} == {"meta"}
    assert net.report.checked_size == 32


def test_parameters_that_cannot_be_matched_are_not_called_equal() -> None:
    report = st.convert(nn.Conv2d(3, 8, 3), D4, match="parameters").report  # nothing hidden to widen
    assert "In all 224 → 80 parameters; D4, equal parameters as nearly as hidden layers allow" in str(report)


def test_what_is_computed_for_nothing_is_left_out() -> None:
    net = st.convert(Unused(), D4)
    assert [row.path for row in net.report.rows] == ["conv"]
    assert [name for name, _ in net.named_parameters()] == ["net.conv.weight", "net.conv.bias"]


def test_the_report_lists_every_replacement() -> None:
    net = st.convert(nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.GELU(), nn.Dropout2d(), nn.Conv2d(16, 2, 1)), D4)
    assert str(net.report).splitlines() == [
        "module  before         after                               parameters",
        "0       Conv2d 3 → 16  Conv2d, AvgPool2d 3*A1 → 2*regular  448 → 56",
        "1       GELU           Pointwise(GELU) 2*regular",
        "2       Dropout2d      Dropout2d 2*regular",
        "3       Conv2d 16 → 2  Conv2d 2*regular → 2*A1             34 → 6",
        "In all 482 → 62 parameters; D4, equal channels.",
        "Exactly equivariant on 32×32 inputs, for instance.",
        "All weights are new: pretrained ones are not carried over, and the network has to be trained.",
        "0: stride 2 is now a mean over 2×2 pixels on sizes that it divides.",
    ]
    assert sum(row.parameters_after for row in net.report.rows) == net.report.parameters_after


# -------------------------------------------------------------------- widths


@pytest.mark.parametrize("group", ["D4", "C4", "D2"])
def test_channels_are_rounded_to_whole_copies_and_reported(group: str) -> None:
    plain = nn.Sequential(nn.Conv2d(3, 13, 3), nn.BatchNorm2d(13), nn.ReLU(), nn.Conv2d(13, 2, 3))
    net = st.convert(plain, group)
    width, order = net.net.get_submodule("0").out_type.channels, st.group_named(group).order  # type: ignore[union-attr]
    assert width % order == 0
    assert abs(width - 13) <= order / 2
    assert f"0: 13 channels became {width}" in str(net.report)
    assert net.report.rows[0].note == f"13 channels became {width}"


def test_mixes_as_text_and_as_functions() -> None:
    plain = nn.Sequential(
        nn.Conv2d(3, 36, 3, padding=1), nn.ReLU(), nn.Conv2d(36, 36, 3), nn.ReLU(), nn.Conv2d(36, 4, 1)
    )
    mixed = st.convert(plain, D4, mix="regular + qm")
    assert str(mixed.net.get_submodule("0").out_type) == "3*regular + 3*qm"  # type: ignore[union-attr]
    st.testing.assert_equivariant(mixed.double(), size=9)
    own = st.convert(plain, D4, mix=lambda channels: st.FieldType(D4, f"{channels // 12}*(regular + r2)"))
    assert str(own.net.get_submodule("0").out_type) == "3*regular + 3*r2"  # type: ignore[union-attr]
    st.testing.assert_equivariant(own.double(), size=9)
    spectral = st.Capsule(D4.regular.change_basis(st.decompose(D4.regular)[1]), "spectral")
    sampled = st.convert(plain, D4, mix=lambda channels: st.FieldType(D4, [(channels // 9, spectral), (4, "A1")]))
    assert isinstance(sampled.net.get_submodule("1"), st.nn.Fourier)
    st.testing.assert_equivariant(sampled.double(), size=9)
    odd = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Hardtanh(), nn.Conv2d(16, 4, 1))
    st.testing.assert_equivariant(st.convert(odd, D4, mix="A1 + A2 + B1 + B2 + 2*E").double(), size=9)


def test_grouped_filters_keep_whole_capsules_apart() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3, groups=32, bias=False), nn.Conv2d(64, 2, 1))
    net = st.convert(plain, D4)
    grouped = net.net.get_submodule("1")
    assert grouped.groups == 4  # four regular capsules
    assert "32 groups became 4, of whole capsules" in str(net.report)
    assert net.report.rows[1].parameters_after == 4 * 2 * 8 * 9  # capsules, two for each, |D4| orbits of 9·8 taps / 8
    st.testing.assert_equivariant(net.double(), size=9)


@pytest.mark.parametrize("target", [1, 50, 400, 1234, 10**6])
def test_the_matching_width_is_the_nearest(target: int) -> None:
    def parameters(factor: float) -> int:
        return max(1, round(8 * factor)) ** 2

    found = parameters(matching_width(parameters, target))
    assert abs(found - target) <= 0.02 * target or found in ((round(target**0.5)) ** 2, 1)


def test_at_least_one_copy() -> None:
    assert Widths(D4, "regular").hidden(1).channels == 8
    with pytest.raises(ValueError, match="mix has no capsules"):
        Widths(D4, "0*regular").hidden(4)
    with pytest.raises(ValueError, match="mix function gave `regular` of C4"):
        Widths(D4, lambda channels: st.FieldType(st.cyclic(4), "regular")).hidden(4)


def test_type_variables_become_one_where_they_can() -> None:
    a, b, c = TypeVariable(8), TypeVariable(8), TypeVariable(16, scalar=True)
    assert unify(stack([a, b]), c)
    assert c.leaves == (a, b)
    assert a.scalar
    assert not unify(TypeVariable(8), TypeVariable(16))
    assert not unify(stack([TypeVariable(4), TypeVariable(8)]), stack([TypeVariable(8), TypeVariable(4)]))
    unknown = TypeVariable(None)
    assert unify(unknown, TypeVariable(3))
    assert unknown.channels == 3
    assert not unify(a, stack([a, b]))


# -------------------------------------------------------------------- strides


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("kind", ["conv", "max", "mean"])
def test_layers_of_stride_two_are_exact_on_even_sizes(kind: str, kernel: int, padding: int) -> None:
    if kind != "conv" and 2 * padding > kernel:
        padding = 0  # torch has no such pooling
    layer = {
        "conv": nn.Conv2d(8, 8, kernel, stride=2, padding=padding),
        "max": nn.MaxPool2d(kernel, 2, padding),
        "mean": nn.AvgPool2d(kernel, 2, padding),
    }[kind]
    plain = nn.Sequential(nn.Conv2d(3, 8, 1), layer, nn.Conv2d(8, 2, 1)).double()
    net, x = st.convert(plain, D4), images(3, 20)
    st.testing.assert_equivariant(net, x)  # an EquivarianceWarning would be an error
    assert net(x).shape == plain(x).shape


@pytest.mark.parametrize("group", ["D4", "D1"])
@pytest.mark.parametrize("size", [(28, 28), (33, 33), (27, 50)])
@pytest.mark.parametrize(
    "layer",
    [nn.Conv2d(8, 8, 3, 2, 1), nn.Conv2d(8, 8, 1, 2), nn.Conv2d(8, 8, 7, 4, 3), nn.MaxPool2d(2), nn.MaxPool2d(3, 2, 1),
     nn.MaxPool2d(3), nn.MaxPool2d(2, 3), nn.AvgPool2d(3, 2, 1), nn.AvgPool2d(2)],
    ids=str,
)  # fmt: skip
def test_strides_are_exact_on_every_size(layer: nn.Module, size: tuple[int, int], group: str) -> None:
    """And give the plain network's sizes: a mean over 2×2 pixels on even ones, every second pixel on odd ones."""
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), layer, nn.Conv2d(8, 2, 1)).double()
    net = st.convert(plain, group)
    x = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = net(x)
    assert y.shape == plain(x).shape
    assert y.std() > 0
    for turns in (0, 1, 2, 3) if group == "D4" else (0,):
        for mirror in (lambda z: z, lambda z: z.flip(-1)):
            seen = mirror(torch.rot90(x, turns, (-2, -1)))
            torch.testing.assert_close(net(seen), mirror(torch.rot90(y, turns, (-2, -1))), atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(snn.to_plain(net)(x), y)


class Pools(nn.Module):
    """Some way of taking the mean, or the greatest value, over all pixels."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.head, self.function = nn.Conv2d(3, 16, 3), nn.Linear(16, 5), function

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.function(self.conv(x)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mean(3).mean(2),
        lambda x: x.mean(-1).mean(-1),
        lambda x: x.amax(2).amax(-1),
        lambda x: x.flatten(2).mean(2),
        lambda x: torch.flatten(x, 2).amax(-1),
        lambda x: x.view(x.size(0), x.size(1), -1).mean(dim=2),
        lambda x: F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1),
        lambda x: F.adaptive_avg_pool2d(x, 1).squeeze(3).squeeze(2),
        lambda x: F.adaptive_max_pool2d(x, (1, 1)).squeeze((2, 3)),
        lambda x: F.adaptive_avg_pool2d(x, 1)[:, :, 0, 0],
        lambda x: F.adaptive_avg_pool2d(x, 1)[..., 0, 0],
        lambda x: x.flatten(2).transpose(1, 2).mean(1),
        lambda x: torch.max(x.flatten(2), 2)[0],
        lambda x: x.flatten(2).max(-1).values,
        lambda x: (x * x.mean((2, 3)).unsqueeze(-1).unsqueeze(-1)).mean((2, 3)),
        lambda x: (x * torch.sigmoid(torch.max(x, dim=1, keepdim=True)[0])).mean((2, 3)),
    ],
)
def test_pooling_in_two_steps_is_pooling(function: Callable[[Tensor], Tensor]) -> None:
    plain, x = Pools(function).double(), images(3, 12)
    net = st.convert(plain, D4)
    st.testing.assert_equivariant(net, x)
    assert net(x).shape == plain(x).shape


@pytest.mark.parametrize("name", ["residual", "vgg", "wide"])
def test_the_output_begins_small(name: str) -> None:
    """Else the first steps of training blow up: He's rule gives several times as much behind a mean over pixels."""
    torch.manual_seed(0)
    plain, x = NETWORKS[name].make(), images(3, dtype=torch.float32)
    assert sum(st.convert(plain, D4)(x).std().item() for _ in range(5)) / 5 < 1


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (4, 2), (5, 3), (3, 1)])
@pytest.mark.parametrize("extra", [0, 1])
def test_transposed_convolutions_give_the_plain_sizes(kernel: int, stride: int, extra: int) -> None:
    up = nn.ConvTranspose2d(8, 8, kernel, stride, 1, output_padding=min(extra, stride - 1))
    plain = nn.Sequential(nn.Conv2d(3, 8, 1), up, nn.Conv2d(8, 2, 1)).double()
    net, x = st.convert(plain, D4), images(3, 9)
    st.testing.assert_equivariant(net, x)
    assert net(x).shape == plain(x).shape


def test_strides_can_be_kept_for_odd_sizes() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 2, 1)).double()
    net = st.convert(plain, D4, downsampling="stride")
    assert net.net.get_submodule("0").stride == (2, 2)
    assert "exact on sizes n with n - 1 divisible by 2 only" in str(net.report)
    x = images(3, 33)
    st.testing.assert_equivariant(net, x)
    assert net(x).shape == plain(x).shape
    assert net.report.checked_size == 33


def test_a_network_that_is_exact_on_no_size_says_so() -> None:
    """Strides that fit odd sizes, and a concatenation that fits even ones."""
    net = st.convert(UNet(), D4, downsampling="stride")
    assert net.report.checked_size is None
    assert "Not exact on any size that was tried, for instance on 32×32: Conv2d is not exactly" in str(net.report)
    with pytest.warns(snn.EquivarianceWarning):
        assert net(images(2, 32, torch.float32)).shape == (2, 3, 32, 32)


def test_a_stride_that_no_usual_size_fits_is_reported() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 11, 4, 2), nn.ReLU(), nn.Conv2d(8, 2, 1)).double()
    net = st.convert(plain, D4)
    assert "exact on sizes n with n - 7 divisible by 4 only" in str(net.report)
    st.testing.assert_equivariant(net, images(3, 35))


def test_a_backbone_is_told_that_its_last_stage_is_scalar() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), BasicBlock(16, 16))
    assert "scalars only, since it is added to the output" in str(st.convert(plain, D4).report)
    rich = st.convert(plain, D4, out_type=st.FieldType(D4, "2*regular"))
    assert "scalars only" not in str(rich.report)
    st.testing.assert_equivariant(rich.double(), size=8)


# -------------------------------------------------------------------- refusals


class Shifted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.beta = nn.Parameter(torch.ones(8, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.beta + self.conv(x)


class Undecided(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.conv(x)
        return y, y


def between(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.Sequential(*layers))


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        (
            between(nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(784, 5)),
            r"`1\.1` \(Flatten\): it lays 49 pixels of 16 channels side by side, since `1\.2` \(Linear\) takes 784 "
            r"features.*AdaptiveAvgPool2d\(1\), and take 16 features",
        ),
        (between(nn.Flatten()), r"`1\.0` \(Flatten\): nothing says that it flattens a single pixel"),
        (between(nn.PixelShuffle(2)), r"`1\.0` \(PixelShuffle\): it turns channels into pixels.*ConvTranspose2d"),
        (between(nn.Bilinear(3, 3, 3)), r"`1\.0` \(Bilinear\): no layer of steerable\.nn does the same"),
        (between(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(4)), r"`1\.2` \(LazyLinear\): its channels are"),
        (between(nn.LazyConv2d(8, 3)), r"`1\.0` \(LazyConv2d\): its channels are not known yet"),
        (
            between(nn.utils.parametrizations.weight_norm(nn.Conv2d(16, 8, 3))),
            r"`1\.0` \(ParametrizedConv2d\): its weights are computed from others",
        ),
        (between(nn.LayerNorm([16, 8, 8])), r"`1\.0` \(LayerNorm\): on a map it normalises pixels.*GroupNorm"),
        (between(nn.PReLU(16)), r"`1\.0` \(PReLU\): one slope per channel.*single slope"),
        (between(nn.MaxPool2d(2, 3, ceil_mode=True)), r"`1\.0` \(MaxPool2d\): ceil_mode=True with a stride greater"),
        (between(nn.MaxPool2d(2, return_indices=True)), r"`1\.0` \(MaxPool2d\): only pooling without indices"),
        (between(nn.AvgPool2d(3, 2, 1, count_include_pad=False)), r"`1\.0` \(AvgPool2d\).*count_include_pad=True"),
        (between(nn.Conv2d(16, 8, (3, 5))), r"`1\.0` \(Conv2d\): `r` of D4 does not map the 3×5 pixel grid"),
        (between(nn.Conv2d(16, 8, 2, padding="same")), r"`1\.0` \(Conv2d\): padding='same' needs an odd kernel"),
        (between(nn.ConvTranspose2d(16, 8, 2, 2, groups=2)), r"`1\.0` \(ConvTranspose2d\).*groups=1"),
        (between(nn.Upsample(size=40)), r"`1\.0` \(Upsample\): only enlarging by a whole factor"),
        (between(nn.Upsample(scale_factor=1.5)), r"`1\.0` \(Upsample\): only enlarging by a whole factor"),
        (between(nn.ZeroPad2d((0, 1, 0, 1))), r"`1\.0` \(ZeroPad2d\): the padding \(0, 1, 0, 1\) moves"),
        (between(nn.Softmax(dim=2)), r"`1\.0` \(Softmax\): only a softmax over the channels"),
        (between(nn.Linear(8, 8)), r"`1\.0` \(Linear\): on a map it mixes the last dimension"),
        (between(nn.Conv2d(8, 8, 1)), r"`1\.0` \(Conv2d\): it takes 8 channels but gets 16"),
        (between(snn.ReLU(st.FieldType(D4, "2*regular"))), r"`1\.0` \(ReLU\): it is steerable already"),
        (
            between(Undecided()),
            r"`1\.0` \(Undecided\): torch.fx cannot follow its forward \(TraceError.*line \d+ \(`return x if x\.sum",
        ),
        (
            Shifted(),
            r"`add` in the forward of the network \(Shifted\): it takes `beta`, one of the network's own tensors",
        ),
        (TwoOutputs(), r"the network \(TwoOutputs\): it returns something other than one tensor"),
        (
            nn.Sequential(Calls(lambda x: torch.fft.fft2(x).real)),
            r"`fft_fft2` in the forward of `0` \(Calls\): it is not known to be equivariant",
        ),
        (Calls(lambda x: x[:, :8]), r"`getitem` in the forward of the network \(Calls\): indexing takes channels"),
        (Calls(lambda x: x.mean(2, keepdim=True)), r"`mean` in .*: only over all pixels, dim=\(2, 3\)"),
        (Calls(lambda x: torch.cat([x, x], 2)), r"`cat` in .*: only channels, dim=1"),
        (Calls(lambda x: x / x), r"`truediv` in .*: division by a field"),
        (Calls(lambda x: 1 / x), r"`truediv` in .*: division by a field"),
        (
            Calls(lambda x: x.flatten(2)),
            r"`last` \(Conv2d\): it gets \(batch, channels, length\), of which only a mean",
        ),
        (Calls(lambda x: x.flatten(2)[..., 1:].amax(2)), r"`getitem` in .*: indexing takes channels or pixels apart"),
        (Calls(lambda x: x[:, :, 0]), r"`getitem` in .*: indexing takes channels or pixels apart"),
        (Calls(lambda x: x.max(-1)[1] * 1.0), r"`mul` in .*: it gets \(batch, channels, length\)"),
        (Calls(lambda x: torch.max(x, 2 * x)), r"`max` in .*: it takes two tensors"),
        (Calls(lambda x: x.flatten(0)), r"`flatten` in .*: it flattens dimensions 0 to -1"),
        (Calls(lambda x: x.mean(3).amax(2)), r"`amax` in .*: only over all pixels, dim=\(2, 3\)"),
        (Calls(lambda x: x.mean(3).squeeze(-1)), r"`squeeze` in .*: a reshape to \(-1,\) is not known"),
        (Calls(lambda x: x.view(x.size(0), 4, -1).mean(2)), r"`view` in .*: a reshape to \(size, 4, -1\)"),
        (Calls(lambda x: x.mean((2, 3)).squeeze(-1)), r"`squeeze` in .*: it takes the dimension of the channels away"),
        (
            nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)),
            r"`0` \(Flatten\): it flattens the image itself.* 3072 values",
        ),
        (
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(2)),
            r"the network \(Sequential\): it gets \(batch, channels, le",
        ),
        (between(nn.utils.spectral_norm(nn.Conv2d(16, 8, 3))), r"`1\.0` \(Conv2d\): its weights are computed from oth"),
        (nn.DataParallel(between(nn.ReLU())), r"the network \(DataParallel\): .* Convert that one, its \.module"),
        (Calls(lambda x: x.view(-1, 64)), r"`view` in .*: it lays several pixels of 16 channels side by side"),
        (Calls(lambda x: x.view(-1, 16, 4, 4)), r"`view` in .*: a reshape to \(-1, 16, 4, 4\)"),
        (Calls(lambda x: x + x.mean((2, 3))), r"`add` in .*: a map of pixels and a vector"),
        (Calls(lambda x: x + x.shape[2]), r"`add` in .*: it takes a tensor that comes from the image"),
        (Calls(lambda x: F.conv2d(x, torch.zeros(16, 16, 1, 1))), r"`conv2d` in .*: its weight is computed, or is a"),
        (Calls(lambda x: F.interpolate(x, size=x.shape[2:])), r"`interpolate` in .*: its arguments are computed"),
        (Calls(lambda x: F.pad(x, (1, 0))), r"`pad` in .*: it pads \(1, 0\)"),
        (
            Calls(lambda x: x * torch.ones(16, 1, 1)),
            r"`mul` in .*: it multiplies by `_tensor_constant0`, one of the network",
        ),
        (Calls(lambda x: x[:, :, None, None]), r"`getitem` in .*: indexing takes channels or pixels apart"),
        (Calls(lambda x: x.unsqueeze(-1)), r"`unsqueeze` in .*: a reshape to \(-1,\) is not known to be equivariant"),
        (Calls(lambda x: x.squeeze(-1)), r"`squeeze` in .*: a reshape to \(-1,\) is not known"),
        (Calls(lambda x: x * (x.shape[2] // 2)), r"`mul` in .*: it multiplies by what is computed from sizes"),
        (Calls(lambda x: x.flatten(1) * x.mean((2, 3))), r"`last` \(Conv2d\): it takes a map of pixels, but gets a"),
        (Calls(lambda x: x.mT), r"`getattr` in .*: of a tensor's attributes only shape, ndim, dtype, device can be"),
        (Calls(lambda x: x.device), r"`last` \(Conv2d\): it takes a tensor that comes from the image"),
    ],
)
def test_refusals_name_the_place_and_say_why(plain: nn.Module, complaint: str) -> None:
    with pytest.raises(ConversionError, match=f"cannot convert {complaint}"):
        st.convert(plain, D4)


def test_a_network_that_cannot_be_copied_is_refused() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3))
    plain.last = plain(torch.zeros(1, 3, 8, 8))  # type: ignore[assignment]
    with pytest.raises(ConversionError, match=r"the network \(Sequential\): it cannot be copied \(RuntimeError"):
        st.convert(plain, D4)


def test_an_inadmissible_activation_names_the_module_and_the_capsule() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 2, 1))
    with pytest.raises(ConversionError, match=r"`1` \(ReLU\): ReLU is not admissible for capsule `E`"):
        st.convert(plain, D4, mix="E")


@pytest.mark.filterwarnings("ignore:.*pixel grid does not carry")
@pytest.mark.parametrize("group", ["C8", "D8", "D6", "C3"])
@pytest.mark.parametrize("match", ["channels", "parameters"])
def test_groups_off_the_grid_are_exact_for_their_part_and_close_for_the_rest(group: str, match: str) -> None:
    plain = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 5),
    )
    net = st.convert(plain, group, match=match).eval()  # type: ignore[arg-type]
    everything = st.group_named(group)
    assert net.in_type == st.FieldType(everything, [(3, everything.trivial)])
    st.testing.assert_equivariant(net, size=32, off_grid=0.2)
    carried = f"Exactly equivariant to {', '.join(f'`{g}`' for g in net.report.carried)}, and approximately to the rest"
    assert carried in str(net.report)
    assert f"of {group}, on 32×32 inputs" in str(net.report)


@pytest.mark.parametrize(("group", "subgroup"), [("D4", "C4"), ("D4", ["e", "mr"]), ("C4", "C1")])
@pytest.mark.parametrize("name", ["squeeze", "denoiser", "shared", "EfficientNet", "U-Net"])
def test_a_converted_network_is_restricted_like_any_other(name: str, group: str, subgroup: object) -> None:
    torch.manual_seed(0)
    make, channels, size, _ = NETWORKS[name]
    net = randomised(st.convert(make(), group)).double()
    smaller = net.restrict(subgroup)  # type: ignore[arg-type]
    x = images(channels, size)
    for training in (False, True):
        with torch.no_grad():
            torch.manual_seed(1)
            expected = net.train(training)(x)
            torch.manual_seed(1)
            torch.testing.assert_close(smaller.train(training)(x), expected, rtol=0, atol=1e-12)
    assert st.typecheck(smaller.eval(), size=size) == smaller.out_type
    assert sum(p.numel() for p in smaller.parameters()) > sum(p.numel() for p in net.parameters())
    st.testing.assert_equivariant(smaller.eval(), size=size)


def test_other_arguments_are_checked() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3))
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module to convert"):
        st.convert(lambda x: x, D4)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"SO2, which has infinitely many .* Use a finite group inside it, such as cyclic"
    ):
        st.convert(nn.Conv2d(3, 8, 3), "SO2")
    with pytest.raises(TypeError, match="expected a group such as"):
        st.convert(plain, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="match must be one of channels, parameters; got 'width'"):
        st.convert(plain, D4, match="width")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="group of order 2 does not map the pixel grid onto itself"):
        st.convert(plain, st.group_from_permutations([[1, 0]]))
    with pytest.raises(ValueError, match="nothing in the network says how many channels"):
        st.convert(nn.ReLU(), D4)
    assert st.convert(nn.ReLU(), D4, in_channels=2).in_type == st.FieldType(D4, "2*A1")
    with pytest.raises(ValueError, match="has 16 channels, but the network returns 8"):
        st.convert(plain, D4, out_type=st.FieldType(D4, "2*regular"))
    assert st.convert(plain, D4, out_type="regular").out_type == st.FieldType(D4, "regular")
    with pytest.raises(TypeError, match="expected out_type to be a FieldType or its text, got int 8"):
        st.convert(plain, D4, out_type=8)  # type: ignore[arg-type]
    for wrong in (0, "3"):
        with pytest.raises(ValueError, match="in_channels must be a whole number ≥ 1, got"):
            st.convert(plain, D4, in_channels=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="out_type is a type of D4, got one of C4"):
        st.convert(plain, D4, out_type=st.FieldType(st.cyclic(4), "2*regular"))
    with pytest.raises(ValueError, match="cannot be chosen"):
        st.convert(Denoiser(), D4, out_type=st.FieldType(D4, "3*A2"))


def test_the_conversion_is_loaded_when_it_is_asked_for() -> None:
    code = "import sys, steerable; print('steerable.conversion' in sys.modules, callable(steerable.convert))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False True"
