"""What ``convert`` must not pass over: breaches that types do not see, options, arguments, modes, changes in place."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from plain_networks import Calls
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.checking import grid_rules
from steerable.checking.operations import OPERATIONS
from steerable.conversion import ConversionError, counterparts
from steerable.conversion.counterparts import COUNTERPARTS

D4 = st.dihedral(4)
DIAGONAL = D4.subgroup(["e", "mr3"])
GROUPS: dict[str, Any] = {" ".join(names): D4.subgroup(names) for names in D4.subgroups()}


class Between(nn.Module):
    """Nothing but an operation, which also sees the mode: on an image of scalars, it stays what it is."""

    def __init__(self, function: Callable[..., Any], *, with_mode: bool = False) -> None:
        super().__init__()
        self.function, self.with_mode = function, with_mode

    def forward(self, x: Tensor) -> Any:
        return self.function(x, self.training) if self.with_mode else self.function(x)


def images(channels: int = 4, size: int = 8, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, channels, size, size, generator=generator, dtype=torch.float64)


# -------------------------------------------------------------------- what is called exact has been measured


def pads_anyhow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every padding were symmetric."""
    for module in (counterparts, grid_rules):
        monkeypatch.setattr(module, "pads_alike", lambda group, sides: True)


@pytest.mark.parametrize("training", [True, False])
def test_a_layer_that_is_not_equivariant_is_found_though_types_agree(
    monkeypatch: pytest.MonkeyPatch, training: bool
) -> None:
    pads_anyhow(monkeypatch)
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ZeroPad2d((1, 2, 1, 0)), nn.Conv2d(8, 2, 1)).train(training)
    with pytest.raises(ConversionError, match=r"module `2` \(ZeroPad2d\).*: `pad` with these .* commute with `mr3`"):
        st.convert(plain, DIAGONAL)


def test_what_begins_too_small_to_be_seen_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A breach of a layer that is trusted, behind a scale of 1e-12, which training may enlarge."""

    class Hidden(Calls):
        def __init__(self) -> None:
            super().__init__(lambda x: x)
            self.gamma = nn.Parameter(torch.full((16, 1, 1), 1e-12))

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.sin(self.gamma * self.first(x)))

    forward = snn.Pointwise.forward
    monkeypatch.setattr(snn.Pointwise, "forward", lambda layer, x: forward(layer, x).roll(1, -1))
    with pytest.raises(
        ConversionError, match=r"\(Hidden\): in the model's output: on random input it depends on whether"
    ):
        st.convert(Hidden(), D4)


def test_a_breach_of_training_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(snn.BatchNorm2d):
        def normalise(self, x: Tensor) -> Tensor:
            y = super().normalise(x)
            return y * torch.linspace(1, 2, y.shape[1], dtype=y.dtype)[:, None, None] if self.training else y

    monkeypatch.setattr(snn, "BatchNorm2d", Wrong)
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 2, 1)).eval()
    with pytest.raises(ConversionError, match=r"\(Sequential\): in the model's output: in training, on random input"):
        st.convert(plain, D4)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_infinities_and_nan_are_equal_to_themselves(value: float) -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Threshold(0.0, value), nn.Conv2d(8, 2, 1))
    assert "Exactly equivariant" in str(st.convert(plain, D4).report)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_infinities_and_nan_hide_no_breach(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    pads_anyhow(monkeypatch)
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Threshold(-1.0, value), nn.ZeroPad2d((1, 0, 0, 1)), nn.Conv2d(8, 2, 1))
    with pytest.raises(ConversionError, match=r"module `2` \(ZeroPad2d\).*: `pad` with these .* commute with"):
        st.convert(plain, D4)


# -------------------------------------------------------------------- paddings under every symmetry of the square


@pytest.mark.parametrize("group", GROUPS)
def test_paddings_are_kept_exactly_where_they_are_symmetric(group: str) -> None:
    """All paddings of up to two pixels, as a module; the truth is measured."""
    G = GROUPS[group]
    x, scalar = images(1, 5), st.FieldType(G, [(1, G.trivial)])
    for sides in itertools.product((0, 1, 2), repeat=4):
        padding = nn.ConstantPad2d(sides, 0.5)
        symmetric = all(
            padding(st.transform(x, g, scalar)).shape == st.transform(padding(x), g, scalar).shape
            and torch.equal(padding(st.transform(x, g, scalar)), st.transform(padding(x), g, scalar))
            for g in G.elements
        )
        assert counterparts.pads_alike(G, sides) == symmetric


@pytest.mark.parametrize(
    "pad", [nn.ZeroPad2d((1, 2, 1, 0)), nn.ReflectionPad2d((0, 1, 1, 0)), nn.CircularPad2d((1, 0, 0, 0))]
)
def test_paddings_under_the_diagonal_mirror(pad: Any) -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), pad, nn.Conv2d(8, 2, 1))
    with pytest.raises(ConversionError, match=r"`1` \(\w+\): the padding \(.*\) moves the image's centre"):
        st.convert(plain, DIAGONAL)
    with pytest.raises(ConversionError, match=r"`pad` in .* moves the image's centre"):
        st.convert(Calls(lambda x: F.pad(x, pad.padding)), DIAGONAL)
    left, right, *_ = pad.padding
    net = st.convert(nn.Sequential(plain[0], type(pad)((left, right, left, right)), plain[2]).double(), DIAGONAL)
    st.testing.assert_equivariant(net, images(3))  # equal on mirrored sides


def test_padding_with_a_value_needs_permutations() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ConstantPad2d(1, 2.0), nn.Conv2d(16, 2, 1))
    with pytest.raises(
        ConversionError, match=r"`1` \(ConstantPad2d\): a padding with 2.0 is not admissible for capsule `E`"
    ):
        st.convert(plain, D4, mix="E")
    st.testing.assert_equivariant(st.convert(plain.double(), D4), images(3))


# -------------------------------------------------------------------- operations and their arguments


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda x: torch.div(x, 2, rounding_mode="floor"), r"`div` in .*argument rounding_mode='floor' is not known"),
        (lambda x: x.div(2, rounding_mode="trunc"), r"`div` in .*its argument rounding_mode='trunc' is not known"),
        (lambda x: x // 2, r"`floordiv` in .*it is not known to be equivariant"),
        (lambda x: torch.floor_divide(x, 2), r"`floor_divide` in .*it is not known to be equivariant"),
        (lambda x: x % 2, r"`mod` in .*it is not known to be equivariant"),
        (lambda x: torch.add(x, x, out=x), r"`add` in .*its argument out=\w+ is not known"),
        (lambda x: torch.mul(x, x, out=x), r"`mul` in .*its argument out=\w+ is not known"),
        (lambda x: x.mean((2, 3), keepdim=True, dtype=torch.float64), r"`mean` in .*its argument dtype"),
        (lambda x: torch.cat([x, x], 1, out=x), r"`cat` in .*its argument out=\w+ is not known"),
        (lambda x: x.softmax(1, torch.float64), r"`softmax` in .*its argument dtype has no counterpart"),
        (lambda x: F.softmax(x, dim=1, dtype=torch.float64), r"`softmax` in .*its argument dtype has no counterpart"),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", antialias=True), r"its argument antialias has no"),
        (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], r"`max_pool2d_with_indices` in .*is not known"),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=3), r"only the mean over whole windows"),
        (lambda x: x.view(torch.int32), r"`view` in .*a reshape to"),
        (lambda x: x.view(dtype=torch.int32), r"`view` in .*its argument dtype is not known"),
        (lambda x: x.permute(0, 1, 3, 2), r"`permute` in .*the order \(0, 1, 3, 2\)"),
        (lambda x: x.transpose(2, 3), r"`transpose` in .*the order \(0, 1, 3, 2\)"),
        (lambda x: x.transpose(0, 1), r"`transpose` in .*the order \(1, 0, 2, 3\)"),
        (lambda x: x.permute(0, 2, 3, 1), r"`last` \(Conv2d\): it gets \(batch, height, width, channels\)"),
        (lambda x: x.permute(0, 2, 3, 1).mean((1, 2)), r"`mean` in .*it gets \(batch, height, width, channels\)"),
        (lambda x: x + x.permute(0, 2, 3, 1), r"`add` in .*one of its fields has the channels last"),
        (lambda x: x.permute(0, 3, 1, 2), r"`permute` in .*the order \(0, 3, 1, 2\)"),
        (lambda x: F.pad(x, (1, 1, 1, 1), mode="wrap"), r"`pad` in .*its argument mode='wrap' is not known"),
        (lambda x: F.avg_pool2d(x, x.shape[2] // 2), r"`avg_pool2d` in .*its arguments are computed from sizes"),
        (lambda x: F.max_pool2d(x, x.shape[2:], padding=2), r"`max_pool2d` in .*its arguments are computed from sizes"),
        (lambda x: x.view(x.size(0), x.size(2), -1).mean(2), r"`view` in .*a reshape to"),
        (lambda x: x.mean((2, 3)).view(-1, 4), r"`view` in .*a reshape to"),
        (lambda x: F.layer_norm(x, x.shape[1:]), r"`layer_norm` in .*it normalises pixels, and their number varies"),
        (lambda x: F.layer_norm(x, (16,)), r"`layer_norm` in .*on a map it normalises pixels"),
        (lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (16,), torch.ones(16)), r"are not parameters of the network"),
        (lambda x: x * torch.rand(1), r"`mul` in .*drawn at random, in evaluation too"),
        (lambda x: x + torch.rand(x.shape), r"`add` in .*it takes a tensor that comes from the image"),
        (lambda x: F.relu6(x, False, 3), r"cannot follow its forward \(TypeError"),
        (lambda x: x.frac(), r"`frac` in .*it is not known to be equivariant"),
        (lambda x: x.clamp(x.new_zeros(1), 1), r"`clamp` in .*its arguments are computed from sizes"),
        (lambda x: x.pow(x), r"`pow` in .*it is not known to be equivariant"),
        (lambda x: 2**x, r"`pow` in .*"),
        (lambda x: torch.exp(x, out=x), r"`exp` in .*its argument out="),
    ],
)  # fmt: skip
def test_unknown_functions_and_arguments_are_refused_by_name(
    function: Callable[[Tensor], Tensor], complaint: str
) -> None:
    with pytest.raises(ConversionError, match=complaint):
        st.convert(Calls(function), D4)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda x: x + 1, r"`add` in .*a sum with a number is not admissible for capsule `E`"),
        (lambda x: 1 - x, r"`sub` in .*a sum with a number is not admissible for capsule `E`"),
        (lambda x: x * x, r"`mul` in .*a product of two fields is not admissible for capsule `E`"),
        (lambda x: torch.div(x, 2, rounding_mode="floor"), r"`div` in .*rounding_mode"),
    ],
)
def test_operations_that_signed_capsules_do_not_admit(function: Callable[[Tensor], Tensor], complaint: str) -> None:
    with pytest.raises(ConversionError, match=complaint):
        st.convert(Calls(function), D4, mix="E")


@pytest.mark.parametrize("function", [lambda x: 2 * x / 3, lambda x: x - torch.add(x, x, alpha=3), lambda x: -x])
def test_operations_that_signed_capsules_admit(function: Callable[[Tensor], Tensor]) -> None:
    st.testing.assert_equivariant(st.convert(Calls(function).double(), D4, mix="E"), images(3))


class Keyword(nn.Module):
    def __init__(self, layer: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.layer, x)


def test_layers_called_by_keyword_and_with_further_arguments() -> None:
    net = st.convert(Keyword(nn.Conv2d(3, 8, 3), lambda layer, x: layer(input=x)).double(), D4)
    st.testing.assert_equivariant(net, images(3))
    up = Keyword(nn.ConvTranspose2d(3, 8, 2, 2), lambda layer, x: layer(x, output_size=[17, 17]))
    with pytest.raises(
        ConversionError, match=r"`layer` \(ConvTranspose2d\): it is called with the argument output_size="
    ):
        st.convert(up, D4)


def test_layers_with_hooks_are_refused() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    plain[1].register_forward_hook(lambda module, args, output: output * 2)
    with pytest.raises(ConversionError, match=r"`1` \(ReLU\): it has hooks, which may change what it computes"):
        st.convert(plain, D4)


def test_layers_with_a_forward_of_their_own_are_refused() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    plain[1].forward = lambda x: x.relu().roll(1, -1)  # type: ignore[method-assign]
    with pytest.raises(ConversionError, match=r"`1` \(ReLU\): its `forward` was replaced on the object"):
        st.convert(plain, D4)
    del plain[1].forward
    assert st.convert(plain, D4).out_type.channels == 8


def test_a_learned_slope_on_signed_capsules() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 16, 3), nn.PReLU(), nn.Conv2d(16, 2, 1))
    with pytest.raises(
        ConversionError, match=r"`1` \(PReLU\): capsule `A2` takes only odd functions, and nn.PReLU\(\) is odd only at"
    ):
        st.convert(plain, D4, mix="A1 + A2")
    with pytest.raises(ConversionError, match=r"Use nn\.Tanh\(\) or nn\.Softsign\(\), or a mix of permutations"):
        st.convert(plain, D4, mix="A1 + A2")


# -------------------------------------------------------------------- the mode of the network


@pytest.mark.parametrize("converted_in_training", [True, False])
@pytest.mark.parametrize("function", [
    lambda x, training: F.dropout(x, 0.5, training),
    lambda x, training: F.dropout(x, 0.5, training=training),
    lambda x, training: F.dropout2d(x, p=0.5, training=training),
    lambda x, training: F.dropout(x, 0.5) if training else x,
    lambda x, training: F.dropout(x, 0.5, bool(training), True),
])  # fmt: skip
def test_a_functional_dropout_follows_the_mode(function: Any, converted_in_training: bool) -> None:
    """In whichever mode the plain network was when it was converted."""
    net = st.convert(Between(function, with_mode=True).train(converted_in_training), D4, in_channels=4)
    x = images() + 10
    assert torch.equal(net.eval()(x), x)
    assert (net.train()(x) == 0).any()


@pytest.mark.parametrize("converted_in_training", [True, False])
def test_a_functional_dropout_that_never_drops(converted_in_training: bool) -> None:
    plain = Between(lambda x: F.dropout(x, 0.5, training=False)).train(converted_in_training)
    net, x = st.convert(plain, D4, in_channels=4), images() + 10
    assert torch.equal(net.train()(x), x)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "function", [lambda x: F.dropout(x), lambda x: F.dropout(x, 0.1, True), lambda x: F.dropout2d(x, training=True)]
)
def test_a_functional_dropout_that_always_drops_is_refused(function: Any, training: bool) -> None:
    with pytest.raises(
        ConversionError, match=r"it drops in evaluation too, .*training=self\.training, or use nn\.Dropout"
    ):
        st.convert(Between(function).train(training), D4, in_channels=4)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda x, training: 2 * x.relu() if training else x.relu(), None),
        (lambda x, training: x.relu() + 1 if training else x.relu(), "`add` in .*it is done in training only"),
        (lambda x, training: x if training else x.softmax(1), "`softmax` in .*it makes training and evaluation differ"),
        (lambda x, training: torch.relu(2 * x) if training else torch.relu(x), None),
        (lambda x, training: torch.relu(2 * x) if training else torch.relu(x.tanh()), "`tanh` in .*it makes training"),
        (lambda x, training: (x.tanh() + (2 * x if training else x.tanh())), "`tanh` in .*it makes training"),
        (lambda x, training: _swapped(x, training), "`mul` in .*in evaluation something else takes its place"),
        (lambda x, training: x * torch.rand(x.shape) if training else x, "something other than one factor per sample"),
        (lambda x, training: x * torch.rand(x.shape[0]) if training else x, "something other than one factor"),
        (lambda x, training: x * torch.rand(x.shape[:2])[:, :, None, None] if training else x, "one factor per sample"),
        (lambda x, training: x * x.shape[2] if training else x, "something other than one factor per sample"),
        (lambda x, training: x / x.shape[1] if training else x, "something other than one factor per sample"),
        (lambda x, training: x * (torch.rand(x.shape[0], 1, 1, 1) / x.shape[3]) if training else x, "one factor per"),
        (lambda x, training: x * torch.rand(x.shape[0], 1, 1, 1) if torch.rand(1) > 0.5 else x, "cannot follow"),
        (lambda x, training: F.interpolate(x, None, 2, "bilinear", training), "its argument align_corners differs"),
    ],
)  # fmt: skip
def test_what_differs_between_the_modes_is_followed_or_refused(function: Any, complaint: str | None) -> None:
    plain, x = Between(function, with_mode=True).double(), images()
    if complaint is not None:
        with pytest.raises(ConversionError, match=complaint):
            st.convert(plain, D4, in_channels=4)
        return
    net = st.convert(plain, D4, in_channels=4)
    for mode in (True, False):
        torch.testing.assert_close(net.train(mode)(x), plain.train(mode)(x))


def _swapped(x: Tensor, training: bool) -> Tensor:
    """In training the scaled field takes the place of another one."""
    a, b = x.tanh(), x.sigmoid()
    return torch.relu(a * 2.0 if training else b) + b


# -------------------------------------------------------------------- changes in place


def _relu_in_passing(x: Tensor) -> Tensor:
    y = x * 1.0
    F.relu(y, inplace=True)
    return y


def _both_names(x: Tensor) -> Tensor:
    y = x * 1.0
    z = torch.relu_(y)
    return y - 2 * z


def _twice_in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y.mul_(2).sub_(x)
    y += x
    return y.tanh_() + y


def _two_names(x: Tensor) -> Tensor:
    y = z = x * 1.0
    y += x
    z *= 3
    y -= 1
    y /= 2
    return y * 2 + z


def _numbers_in_place(x: Tensor) -> Tensor:
    size = count = x.size(0)
    count += 1
    return x.reshape(size, 4, 8, 8) if False else x.mean((2, 3)).view(size, 4) + 0 * (1.0 if count is None else 0.0)


@pytest.mark.parametrize("function", [_relu_in_passing, _both_names, _twice_in_place, _two_names, _numbers_in_place])
def test_changes_in_place_are_seen_by_whoever_holds_the_tensor(function: Callable[[Tensor], Tensor]) -> None:
    net = st.convert(Between(function), D4, in_channels=4)
    torch.testing.assert_close(net(images()), function(images()))


def _changed(x: Tensor, shared: Tensor) -> Tensor:
    return x.abs() + shared.relu_()


class ThroughIdentity(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.same = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        return _changed(y, self.same(y)) + y


def _changed_through_a_view(x: Tensor) -> Tensor:
    y = x.mean((2, 3), keepdim=True)
    z = y.flatten(1)
    y += 1
    return z * 2


@pytest.mark.parametrize(
    "function",
    [
        ThroughIdentity(),
        lambda x: _changed(y := x * 1.0, y.contiguous()) + y,
        lambda x: _changed(y := x * 1.0, F.dropout(y, 0.5, False)) + y,
        lambda x: _changed(y := x.mean((2, 3)), y[:, :, None, None]).mean((2, 3)) + y,
        _changed_through_a_view,
    ],
    ids=["identity", "contiguous", "dropout", "index", "view"],
)
def test_changes_in_place_under_another_name_are_refused(function: Callable[[Tensor], Tensor]) -> None:
    """In the plain network both change; its counterpart would change one of them."""
    with pytest.raises(ConversionError, match="it writes into a tensor that is used later under another name"):
        st.convert(function if isinstance(function, nn.Module) else Between(function), D4, in_channels=4)
    unused = st.convert(Between(lambda x: (x * 1.0).contiguous().relu_()), D4, in_channels=4)
    torch.testing.assert_close(unused(images()), images().relu())


def test_a_module_that_works_in_place_in_passing() -> None:
    class Passing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            y = x + 1
            self.act(y)
            return y

    torch.testing.assert_close(st.convert(Passing(), D4, in_channels=4)(images()), (images() + 1).relu())


def test_attention_from_all_channels_of_a_pixel() -> None:
    def attend(x: Tensor) -> Tensor:
        return x * torch.sigmoid(x.mean(1, keepdim=True) + x.amax(dim=1, keepdim=True))

    st.testing.assert_equivariant(st.convert(Calls(attend), D4).double())
    with pytest.raises(ConversionError, match=r"one number for all channels is not admissible for capsule `E`"):
        st.convert(Calls(attend), D4, mix="E")


# -------------------------------------------------------------------- every option reaches the counterpart


def without_bias(norm: Any) -> nn.Module:
    """As ``bias=False`` makes it, in versions of torch that have it."""
    norm.bias = None
    return norm


# On scalars each kept layer is torch's own, so that an option that is lost shows in what it computes.
_MAPS: list[nn.Module] = [
    nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.3), nn.PReLU(1, 0.4), nn.ELU(0.7), nn.SELU(), nn.CELU(0.6), nn.GELU("tanh"),
    nn.SiLU(), nn.Mish(), nn.Hardswish(), nn.Hardsigmoid(), nn.Hardtanh(-0.3, 0.8), nn.Hardshrink(0.7),
    nn.Softshrink(0.8), nn.Tanhshrink(), nn.Sigmoid(), nn.LogSigmoid(), nn.Tanh(), nn.Softplus(2.0, 0.5), nn.Softsign(),
    nn.Threshold(0.3, -2.0),
    nn.BatchNorm2d(4, eps=0.3), nn.BatchNorm2d(4, momentum=0.7), nn.BatchNorm2d(4, momentum=None),
    nn.BatchNorm2d(4, affine=False), without_bias(nn.BatchNorm2d(4)), nn.BatchNorm2d(4, track_running_stats=False),
    nn.InstanceNorm2d(4, eps=0.3), nn.InstanceNorm2d(4, momentum=0.7, track_running_stats=True),
    nn.InstanceNorm2d(4, affine=True), nn.GroupNorm(2, 4, eps=0.3), nn.GroupNorm(1, 4, affine=False),
    without_bias(nn.GroupNorm(2, 4)), without_bias(nn.InstanceNorm2d(4, affine=True)),
    nn.MaxPool2d(2), nn.MaxPool2d(4, stride=2, padding=1), nn.MaxPool2d(2, ceil_mode=True),
    nn.AvgPool2d(2), nn.AvgPool2d(2, stride=2, padding=1), nn.AvgPool2d(4, ceil_mode=True),
    nn.AvgPool2d(2, count_include_pad=False), nn.AdaptiveAvgPool2d(2), nn.AdaptiveMaxPool2d(4),
    nn.Upsample(scale_factor=3), nn.Upsample(scale_factor=2, mode="bilinear"),
    nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.UpsamplingNearest2d(scale_factor=2),
    nn.Upsample(scale_factor=2, mode="bilinear", recompute_scale_factor=True),
    nn.UpsamplingBilinear2d(scale_factor=2), nn.ZeroPad2d(2), nn.ConstantPad2d(1, 0.7), nn.ReflectionPad2d(1),
    nn.ReplicationPad2d(2), nn.CircularPad2d(1), nn.Softmax(1), nn.LogSoftmax(dim=-3), nn.Softmin(1), nn.Identity(),
]  # fmt: skip
_VECTORS: list[nn.Module] = [
    nn.BatchNorm1d(4, eps=0.3), nn.BatchNorm1d(4, momentum=0.7),
    nn.BatchNorm1d(4, affine=False), without_bias(nn.BatchNorm1d(4)),
    nn.BatchNorm1d(4, track_running_stats=False), nn.LayerNorm(4, eps=0.3), nn.LayerNorm(4, elementwise_affine=False),
    without_bias(nn.LayerNorm(4)), nn.SyncBatchNorm(4, eps=0.3),
]  # fmt: skip
_VOLUMES: list[nn.Module] = [
    nn.BatchNorm3d(4, eps=0.3), nn.BatchNorm3d(4, momentum=0.7), nn.BatchNorm3d(4, affine=False),
    without_bias(nn.BatchNorm3d(4)), nn.BatchNorm3d(4, track_running_stats=False), nn.InstanceNorm3d(4, eps=0.3),
    nn.InstanceNorm3d(4, momentum=0.7, track_running_stats=True), without_bias(nn.InstanceNorm3d(4, affine=True)),
    nn.MaxPool3d(2), nn.MaxPool3d(4, stride=2, padding=1), nn.MaxPool3d(2, ceil_mode=True),
    nn.AvgPool3d(2, stride=2, padding=1), nn.AvgPool3d(4, ceil_mode=True), nn.AvgPool3d(2, count_include_pad=False),
    nn.AdaptiveAvgPool3d(2), nn.AdaptiveMaxPool3d(4), nn.Upsample(scale_factor=2, mode="trilinear"),
    nn.ZeroPad3d(2), nn.ConstantPad3d(1, 0.7), nn.ReflectionPad3d(1), nn.ReplicationPad3d(2), nn.CircularPad3d(1),
    nn.Softmax(dim=-4),
]  # fmt: skip
# Refused by name where they are other than the default, or without any effect on what is computed.
_REFUSED = {"return_indices", "dilation", "divisor_override", "size", "num_parameters"}
_WITHOUT_EFFECT = {"inplace", "device", "dtype", "process_group", "num_features", "num_channels", "num_groups", "init"}
_WITHOUT_EFFECT |= {"min_value", "max_value"}  # older names, of min_val and max_val


def _id(layer: nn.Module) -> str:
    return f"{type(layer).__name__}({layer.extra_repr()})"


@pytest.mark.parametrize("layer", [*_MAPS, *_VECTORS, *_VOLUMES], ids=_id)
def test_options_reach_the_counterpart(layer: nn.Module) -> None:
    """In training, where statistics are gathered over several batches, and in evaluation, where they are used."""
    vector = layer in _VECTORS
    if isinstance(layer, nn.SyncBatchNorm):
        net = st.convert(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), layer), D4, in_channels=4)
        assert (net.net.get_submodule("2").eps, net.net.get_submodule("2").sync) == (0.3, True)
        return
    pool = (nn.AdaptiveAvgPool2d(1), nn.Flatten()) if vector else ()
    plain = nn.Sequential(*pool, layer).double()
    deep = layer in _VOLUMES
    net = st.convert(plain, "O" if deep else D4, in_channels=4)
    assert sum(p.numel() for p in net.parameters()) == sum(p.numel() for p in layer.parameters())
    for seed in range(3):
        x = (1 + seed) * images(4, 8, seed)
        x = x[:, :, None] * torch.linspace(-1, 1, 8, dtype=x.dtype)[:, None, None] if deep else x
        torch.testing.assert_close(net.train()(x), plain.train()(x))
    torch.testing.assert_close(net.eval()(x), plain.eval()(x))


def test_every_option_of_every_kept_layer_is_tried() -> None:
    """A new option of torch, or a new layer here, needs a case above."""
    kinds = [layer for row in OPERATIONS.values() if row.becomes in COUNTERPARTS for layer in row.layers]
    tried: dict[type[nn.Module], set[str]] = {kind: set() for kind in kinds}
    for layer in (*_MAPS, *_VECTORS, *_VOLUMES, nn.Dropout(0.3), nn.Dropout2d(0.3), nn.Dropout3d(0.3)):
        for name, parameter in _options(type(layer)):
            value = getattr(layer, name, parameter.default)
            if name == "bias":
                value = layer.bias is not None or layer.weight is None
            if value != parameter.default:
                tried[type(layer)].add(name)
    for kind in kinds:
        seen = tried[kind] | (tried[nn.BatchNorm1d] if kind is nn.SyncBatchNorm else set())
        missing = {name for name, _ in _options(kind)} - seen - _REFUSED - _WITHOUT_EFFECT
        assert not missing, f"{kind.__name__}: {missing}"


def _options(kind: type[nn.Module]) -> list[tuple[str, inspect.Parameter]]:
    parameters = inspect.signature(kind.__init__).parameters.items()
    return [
        (n, p) for n, p in parameters if n != "self" and p.kind is not p.VAR_POSITIONAL and p.kind is not p.VAR_KEYWORD
    ]


@pytest.mark.parametrize(("layer", "kind"), [(nn.Dropout(0.3), snn.Dropout), (nn.Dropout2d(0.3), snn.Dropout2d)])
def test_the_probability_of_a_dropout(layer: nn.Module, kind: type[snn.Dropout]) -> None:
    made = st.convert(nn.Sequential(layer), D4, in_channels=4).net.get_submodule("0")
    assert type(made) is kind
    assert made.p == 0.3


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(16, 24, 5, 3, 2, 2, 2, False), nn.Conv2d(16, 24, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(16, 24, 3, padding="same", padding_mode="circular"), nn.Conv2d(16, 24, 3, padding="valid"),
        nn.ConvTranspose2d(16, 24, 3, 2, 1, 0, 1, False, 2), nn.ConvTranspose2d(16, 24, 2, 2),
    ],
    ids=_id,
)  # fmt: skip
def test_options_of_convolutions_reach_the_counterpart(layer: Any) -> None:
    """Read off the plain convolution that the counterpart becomes again."""
    plain = nn.Sequential(nn.Conv2d(3, 16, 1), layer, nn.Conv2d(24, 2, 1))
    net = st.convert(plain, D4, downsampling="stride")
    made = snn.to_plain(net.net.get_submodule("1"))
    assert type(made) is type(layer)
    options = ("in_channels", "out_channels", "kernel_size", "stride", "dilation", "padding_mode", "output_padding")
    for name in options:
        assert getattr(made, name) == getattr(layer, name), name
    assert (made.bias is None) == (layer.bias is None)
    x = torch.randn(1, 16, 17, 17)
    assert made(x).shape == layer(x).shape
    if isinstance(layer, nn.Conv2d) and layer.groups > 1:
        assert made.groups == 1  # two capsules before, three behind


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, :, :16, :16],
        lambda x: x[:, :, :16, :16].mean((2, 3), keepdim=True),
        lambda x: x[:8],
        lambda x: x[..., 1:],
        lambda x: F.avg_pool2d(x, 1 + x.shape[-1] // 16),
        lambda x: F.avg_pool2d(x, x.shape[2] // 2 * 2),
        lambda x: F.max_pool2d(x, 2 * (x.shape[-1] // 2)),
    ],
)
def test_what_shows_on_large_or_odd_maps_alone_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ConversionError, match=r"getitem|pool2d"):
        st.convert(Calls(function), D4)


def test_options_of_the_linear_layer_reach_the_counterpart() -> None:
    for bias in (True, False):
        plain = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5, bias))
        made = st.convert(plain, D4).net.get_submodule("2")
        assert (made.in_type.channels, made.out_type.channels, made.bias is not None) == (4, 5, bias)
