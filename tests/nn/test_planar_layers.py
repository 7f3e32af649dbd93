"""Layers over SO(2) and O(2): what they are made of, how they turn images by any angle, and what they refuse."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from planar_zoo import PLANAR_GROUPS
from torch import Tensor, nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn
from steerable.algebra.planar_groups import PlanarGroup
from steerable.checking.commutation import is_invariant
from steerable.nn import off_grid
from steerable.nn.sampling import EquivarianceWarning
from steerable.testing import assert_equivariant, equivariance_error, equivariance_errors

SO2, O2 = st.so2(), st.o2()
every_group = pytest.mark.parametrize("group", PLANAR_GROUPS.values(), ids=PLANAR_GROUPS)


def capsules(group: PlanarGroup) -> FieldType:
    """Every kind of capsule that the group has."""
    odd = " + A2 + r + qm(2) + qD2(4)" if group.reflections else ""
    return FieldType(group, f"2*A1 + 2*regular(2) + E1 + 2*E3 + qC2(4){odd}")


def network(group: PlanarGroup, filters: st.FilterSpace | None = None) -> snn.Sequential:
    torch.manual_seed(0)
    kind = FieldType(group, "4*A1 + 4*regular(2)")
    options, gate = {"padding": 2, "filters": filters}, snn.Gated(kind)
    return snn.Sequential(
        snn.Conv2d(FieldType(group, "A1"), gate.in_type, 5, **options),
        snn.BatchNorm2d(gate.in_type),
        gate,
        snn.Conv2d(kind, kind, 5, **options),
        snn.NormReLU(kind),
        snn.Conv2d(kind, FieldType(group, "2*A1 + E1"), 5, **options),
    ).double()


# ---------------------------------------------------------------- convolutions


@every_group
def test_a_bank_is_the_sum_of_its_kernels(group: PlanarGroup) -> None:
    a, b = FieldType(group, "2*regular(2)"), FieldType(group, "3*E1")
    layer = snn.Conv2d(a, b, 3, bias=False).double()
    theta = layer.theta("E1", "regular(2)").detach().numpy()
    kernels = st.kernel_basis(group.regular(2), group.irrep("E1"), 3)
    expected = np.einsum("oik,kabxy->oaibxy", theta, kernels).reshape(b.channels, a.channels, 3, 3)
    np.testing.assert_allclose(layer.expand()[0].detach().numpy(), expected, atol=1e-13)
    assert layer.weight.numel() == st.parameter_cost(a, b, 3)
    assert layer.plan.space == st.filter_space(group, 3)
    torch.testing.assert_close(layer.plan.project(layer.expand()[0], layer.basis), layer.weight, rtol=1e-8, atol=1e-8)


@every_group
def test_a_bias_points_where_no_element_moves(group: PlanarGroup) -> None:
    kind = capsules(group)
    layer = snn.Conv2d(FieldType(group, "A1"), kind, 3).double()
    nn.init.normal_(layer.bias)
    assert layer.bias.numel() == kind.type[0]
    bias = layer.expand()[1].detach()
    assert float(bias.abs().sum()) > 0
    for g in group.random(5, seed=0):
        torch.testing.assert_close(st.transform(bias[None], g, kind)[0], bias, atol=1e-12, rtol=0)
    assert snn.Conv2d(kind, FieldType(group, "2*E1"), 3).bias is None


@every_group
def test_he_gives_each_channel_a_variance_of_two(group: PlanarGroup) -> None:
    torch.manual_seed(0)
    layer = snn.Conv2d(FieldType(group, "8*regular(2)"), FieldType(group, "64*regular(1) + 64*E2"), 5)
    variance = layer.expand()[0].detach().square().flatten(1).sum(1)
    split = 64 * group.regular(1).dim
    assert float(variance[:split].mean()) == pytest.approx(2, rel=0.06)
    assert float(variance[split:].mean()) == pytest.approx(2, rel=0.06)


@every_group
def test_a_layer_is_that_of_a_large_finite_group_with_the_same_weights(group: PlanarGroup) -> None:
    """What SO(2) allows is what C_n allows where n is large: each bank of one is a bank of the other."""
    a, b = FieldType(group, "A1 + 2*regular(2)"), FieldType(group, "E1 + regular(1)")
    finite = st.dihedral(16) if group.reflections else st.cyclic(16)
    (small_a, order_a), (small_b, order_b) = st.restriction(a, finite), st.restriction(b, finite)
    layer = snn.Conv2d(a, b, 5, padding=2).double()
    other = snn.Conv2d(small_a, small_b, 5, padding=2).double()
    assert other.weight.numel() == layer.weight.numel()
    with torch.no_grad():
        bank, bias = layer.expand()
        other.weight.copy_(other.plan.project(bank[order_b][:, order_a], other.basis))
        x = torch.randn(2, a.channels, 9, 9, dtype=torch.float64)
        expected = torch.conv2d(x, bank, bias, padding=2)
        torch.testing.assert_close(layer(x), expected)
        torch.testing.assert_close(other(x[:, order_a]), torch.conv2d(x, bank, padding=2)[:, order_b])


@every_group
def test_compiled_networks_have_the_same_gradients_and_plain_ones_the_same_values(group: PlanarGroup) -> None:
    net = network(group).float().eval()
    torch.compiler.reset()
    graph = torch.compile(net, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 1, 9, 9)
    weights = list(net.parameters())
    expected = torch.autograd.grad(net(x).square().sum(), weights)
    for found, gradient in zip(torch.autograd.grad(graph(x).square().sum(), weights), expected, strict=True):
        torch.testing.assert_close(found, gradient, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(snn.to_plain(net)(x), net(x), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- other angles


def test_a_network_turns_by_any_angle_and_a_plain_one_does_not() -> None:
    turns = [SO2.rotation(angle) for angle in range(33, 350, 41)]
    torch.manual_seed(0)
    conv = [nn.Conv2d(i, 24, 5, padding=2) for i in (1, 24)]
    plain = nn.Sequential(conv[0], nn.ReLU(), conv[1])
    types = {"in_type": FieldType(SO2, "A"), "out_type": FieldType(SO2, "24*A")}
    worst = equivariance_error(plain, elements=turns, **types)
    ours = [equivariance_error(network(SO2, st.filter_space(SO2, 5, leak)), elements=turns) for leak in (0.01, 0.6)]
    assert worst.shape == ours[0].shape == (8,)
    assert worst.min() > 0.4
    assert ours[0].max() < 0.15
    assert ours[0].mean() < ours[1].mean() < worst.mean()


@every_group
def test_errors_are_measured_for_each_element_by_its_kind(group: PlanarGroup) -> None:
    net = network(group)
    chosen = [group.rotation(90), group.rotation(30), group.rotation(270), *group.random(2, seed=5)]
    errors = equivariance_error(net, elements=chosen)
    assert errors.shape == (5,)
    assert max(errors[0], errors[2]) <= 1e-12
    assert errors[[1, 3, 4]].min() > 1e-6
    tried = equivariance_errors(net)
    assert set(group.grid_elements) < set(tried)
    assert len(tried) == len(group.grid_elements) + 8
    assert equivariance_error(net) == max(tried.values()) < 0.3
    assert_equivariant(net)


@every_group
def test_faults_that_turns_by_90_degrees_do_not_show_are_found(group: PlanarGroup) -> None:
    """Odd functions commute with E1 at turns by 90°, which are signed permutations, and at no others."""
    arrows = FieldType(group, "3*E1")

    def squashed(x: Tensor) -> Tensor:
        return torch.tanh(3 * x)

    options = {"in_type": arrows, "out_type": arrows}
    x = torch.randn(4, arrows.channels, dtype=torch.float64)
    assert_equivariant(squashed, x, elements=group.grid_elements, **options)
    with pytest.raises(AssertionError, match=r"not equivariant: .* for g = `r"):
        assert_equivariant(squashed, x, **options)


@every_group
def test_a_network_through_several_groups(group: PlanarGroup) -> None:
    kind = FieldType(group, "2*A1 + 2*regular(3)")
    first = "SO2" if group.reflections else "C8"
    head = snn.Sequential(snn.Conv2d(FieldType(group, "A1"), kind, 5, padding=2), snn.Restrict(kind, first))
    middle = snn.Conv2d(head.out_type, FieldType(st.group_named(first), "3*A + 2*E1"), 3, padding=1)
    net = snn.Sequential(head, middle, snn.Restrict(middle.out_type, "C4")).double()
    assert net.out_type.group.name == "C4"
    assert_equivariant(net)
    partly = snn.Sequential(head, middle).double()
    if first == "C8":
        assert_equivariant(partly, elements=["r2", "r4", "e"])
        assert equivariance_error(partly, elements=["r"])[0] < 0.3
    else:
        assert_equivariant(partly, elements=[SO2.rotation(90), SO2.rotation(33)])


# ---------------------------------------------------------------- types


@every_group
def test_typecheck_follows_fields(group: PlanarGroup) -> None:
    net = network(group).float()
    assert st.typecheck(net, in_type=net.in_type) == net.out_type

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = snn.Conv2d(capsules(group), capsules(group), 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return (x + self.conv(x)).mean((2, 3))

    assert st.typecheck(Residual(), in_type=capsules(group)) == capsules(group)


class _Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@every_group
@pytest.mark.parametrize(
    ("text", "function", "message"),
    [
        ("2*E1", torch.relu, "relu"),
        ("2*E1", torch.tanh, "tanh"),
        ("regular(2)", torch.abs, "abs"),
        ("2*E1", lambda x: x * torch.tensor([1.0, 2.0, 1.0, 1.0]).view(1, 4, 1, 1), "mul"),
        ("E4", lambda x: x + torch.ones(1, 2, 1, 1), "add"),  # at turns by 90° nothing happens to it
        ("E1", lambda x: torch.nn.functional.conv2d(x, torch.ones(2, 2, 1, 1)), "conv"),
    ],
)
def test_typecheck_refuses_what_does_not_commute(group: PlanarGroup, text: str, function, message: str) -> None:
    with pytest.raises(st.EquivarianceError, match=message):
        st.typecheck(_Function(function), in_type=FieldType(group, text))


def test_constants_are_tried_with_every_generator() -> None:
    """B of C8 and E4 of SO(2) stay as they are under turns by 90°, but not under those by 45°."""
    assert not is_invariant(torch.ones(1, 1), FieldType(st.cyclic(8), "B"))
    assert not is_invariant(torch.ones(1, 2, 1, 1), FieldType(SO2, "E4"))
    assert not is_invariant(torch.ones(1, 1, 1, 1), FieldType(O2, "A2"))
    assert is_invariant(torch.ones(1, 1, 1, 1), FieldType(SO2, "A"))


def test_constant_images_are_tried_with_every_generator() -> None:
    stripes = torch.tensor([1.0, 2.0] * 4)[None, :, None, None].expand(1, 8, 9, 9)
    assert not is_invariant(stripes, FieldType(st.cyclic(8), "regular"))
    assert is_invariant(torch.ones(1, 8, 9, 9), FieldType(st.cyclic(8), "regular"))
    radii = torch.hypot(*torch.meshgrid(torch.arange(-8.0, 9), torch.arange(-8.0, 9), indexing="ij"))
    assert is_invariant(torch.exp(-radii.square() / 20)[None, None], FieldType(SO2, "A"))
    square = (torch.arange(-8, 9).abs() < 5).double()
    assert not is_invariant(torch.outer(square, square)[None, None], FieldType(SO2, "A"))


class Patched(snn.EquivariantModule):
    """A convolution, and a function that somebody put behind it."""

    def __init__(self, kind: FieldType, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__(kind, kind)
        self.convolution, self.function = snn.Conv2d(kind, kind, 5, padding=2), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.convolution(x))


def scaled(*factors: float) -> Callable[[Tensor], Tensor]:
    return lambda x: x * torch.tensor(factors, dtype=x.dtype)[:, None, None]


WRONG_OFF_THE_GRID = {  # all of them commute with turns by 90°
    "every second channel": (FieldType(st.cyclic(8), "regular"), scaled(*4 * (1.0, 1.01))),
    "a mirrored fibre": (FieldType(SO2, "E4"), scaled(1.0, -1.0)),
    "a constant": (FieldType(st.cyclic(8), "B"), lambda x: x + 0.01),
    "pointwise": (FieldType(SO2, "E4"), lambda x: x.abs()),
    "no turn by 90° at all": (FieldType(st.cyclic(3), "regular"), scaled(1.0, 1.01, 1.0)),
}


@pytest.mark.parametrize(("kind", "function"), WRONG_OFF_THE_GRID.values(), ids=WRONG_OFF_THE_GRID)
def test_typecheck_sees_what_only_other_angles_show(kind: FieldType, function: Callable[[Tensor], Tensor]) -> None:
    layer = Patched(kind, function)
    with pytest.raises(TypeError, match=rf"it does not commute with `.*` of {kind.group.name}"):
        st.typecheck(layer)
    inner = layer.convolution
    forward = inner.forward
    inner.forward = lambda x: function(forward(x))  # the whole is measured too
    with pytest.raises(TypeError, match=r"on random input it depends on whether"):
        st.typecheck(nn.Sequential(inner), in_type=kind)


@every_group
@pytest.mark.parametrize("space", [st.filter_space, st.ring_space])
def test_typecheck_passes_sound_layers_that_others_wrote(group: PlanarGroup, space: Any) -> None:
    kind = FieldType(group, "regular(2) + E1 + E4")
    layer = Patched(kind, lambda x: 2 * x)
    layer.convolution = snn.Conv2d(kind, kind, 5, padding=2, filters=space(group, 5))
    assert st.typecheck(snn.Sequential(layer, layer)) == kind


# ---------------------------------------------------------------- fibres


@every_group
def test_irreps_and_back(group: PlanarGroup) -> None:
    kind = capsules(group)
    there, back = snn.ToIrreps(kind).double(), snn.FromIrreps(kind).double()
    assert there.out_type == back.in_type
    assert all(sum(capsule.type) == 1 for capsule in there.out_type.capsules)
    x = torch.randn(2, kind.channels, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(back(there(x)), x)
    torch.testing.assert_close(there(x).square().sum(), x.square().sum())


@every_group
def test_invariants_do_not_change_under_any_element(group: PlanarGroup) -> None:
    kind = capsules(group)
    x = torch.randn(2, kind.channels, dtype=torch.float64)
    norm = snn.GroupPool(kind, "norm")
    for g in group.random(6, seed=3):
        torch.testing.assert_close(norm(st.transform(x, g, kind)), norm(x))
    functions = FieldType(group, "3*regular(2)")
    mean = snn.GroupPool(functions, "mean").double()
    x = torch.randn(2, functions.channels, dtype=torch.float64)
    torch.testing.assert_close(mean(x), x[:, :: group.regular(2).dim])  # the first channel of each is the constant part


# ---------------------------------------------------------------- words


@every_group
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: snn.ReLU(t), r"ReLU is not admissible for capsule `regular\(2\)`: its matrices are orthogonal"),
        (lambda t: snn.CReLU(t), r"CReLU is not admissible for capsule `regular\(2\)`"),
        (lambda t: snn.MaxPool2d(t, 2), r"MaxPool2d is not admissible .* Use `NormMaxPool2d`"),
        (lambda t: snn.GroupPool(t), r"GroupPool\(mode='max'\) is not admissible .* Use `GroupPool\(mode='norm'\)`"),
        (lambda t: snn.CosetPool(t, ["e"]), r"CosetPool is not admissible for fields of S?O2, got `2\*regular\(2\)`"),
        (lambda t: snn.Conv2d(t, t, (3, 5)), r"`rotation\(90\)` of S?O2 exchanges height and width"),
        (lambda t: snn.Conv2d(t, t, 3, stride=(1, 2)), r"exchanges height and width, so the stride has one"),
        (lambda t: snn.Conv2d(t, t, 3, init="orthogonal"), r"needs a pixel grid that carries all of S?O2"),
        (lambda t: snn.Conv2d(t, t, 3, filters=st.filter_space(st.cyclic(8), 3)), r"belongs to C8, but the fields to"),
        (lambda t: snn.Conv2d(t, t, 5, filters=st.filter_space(t.group, 3)), r"has 3×3 taps, but kernel_size=\(5, 5\)"),
        (lambda t: snn.Conv2d(t, FieldType(st.cyclic(4), "A"), 3), r"a layer maps between fields of one group"),
        (lambda t: snn.Restrict(t, "D4" if t.group == SO2 else "octahedral"), r"D4|octahedral"),
        (lambda t: snn.Residual(snn.Conv2d(t, t.group.irrep("E1") and FieldType(t.group, "5*E1"), 1)), r"cannot add"),
    ],
)
def test_refusals(group: PlanarGroup, make, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make(FieldType(group, "2*regular(2)"))


def test_the_warning_names_what_is_exact(monkeypatch) -> None:
    monkeypatch.setattr(off_grid, "_told", [])
    with pytest.warns(EquivarianceWarning) as caught:
        snn.Conv2d(FieldType(SO2, "A"), FieldType(SO2, "E1"), 3)
    text = str(caught[0].message)
    assert "exactly equivariant to `rotation(0)`, `rotation(90)`, `rotation(180)`, `rotation(270)`" in text
    share = 100 * st.filter_space(SO2, 3).leaks.max()
    assert f"up to {share:.2g} % does not turn as it should" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        snn.Conv2d(FieldType(SO2, "A"), FieldType(SO2, "E1"), 3)
        monkeypatch.setattr(off_grid, "_told", [])
        snn.Conv2d(FieldType(SO2, "A"), FieldType(SO2, "A"), 1)  # a single tap stays where it is


def test_sizes_that_do_not_fit_a_stride_are_told() -> None:
    layer = snn.Conv2d(FieldType(SO2, "A"), FieldType(SO2, "E1"), 3, stride=2, padding=1, strict=True)
    with pytest.raises(ValueError, match="Conv2d is not exactly equivariant to SO2 on inputs of height 8"):
        layer(torch.zeros(1, 1, 8, 8))
    assert layer(torch.zeros(1, 1, 9, 9)).shape == (1, 2, 5, 5)


def test_elements_of_another_group_are_refused() -> None:
    net = network(SO2)
    with pytest.raises(TypeError, match=r"`r` is not an element of SO2"):
        equivariance_error(net, elements=["r"])
    with pytest.raises(TypeError, match=r"`reflection\(0\)` of O2 is not an element of SO2"):
        equivariance_error(net, elements=[O2.reflection(0)])
    with pytest.raises(TypeError, match=r"`elements` takes elements in a list"):
        equivariance_error(net, elements=SO2.rotation(30))
    assert math.isfinite(equivariance_error(net, elements=[SO2.rotation(30)])[0])
