"""``layer.restrict(H)``: the same function over a subgroup, for every layer, in training and in evaluation."""

from __future__ import annotations

import copy
from collections import OrderedDict

import pytest
import torch
from cases import CASES, GROUPS, OFF_GRID, PAIRS, VECTOR, Case, built, exact_elements, fields, in_types
from torch import Tensor, nn

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn
from steerable.nn import EquivariantModule
from steerable.nn.filter_bank import FilterBankModule
from steerable.testing import assert_equivariant
from steerable.types.restriction import restriction

D4, D8 = GROUPS["D4"], OFF_GRID["D8"]

# By name, by elements, and as groups.
SUBGROUPS = {
    "D4": ("C4", ["e", "mr"]),
    "C4": (st.cyclic(2),),
    "C2xD1": (["e", "(e,m)"],),
    "C8": ("C4",),
    "D6": ("C6",),
    "D8": ("D4",),
    "D4z": ("C4",),
    "Oh": (st.octahedral(),),
}
CHOSEN = {
    f"{name}-{number}": (case, group, subgroup)
    for name, (case, group) in PAIRS.items()
    for number, subgroup in enumerate(SUBGROUPS.get(name.split("-")[0], ()))
}
every_choice = pytest.mark.parametrize(("case", "group", "subgroup"), CHOSEN.values(), ids=CHOSEN)


def seen(xs: list[Tensor], module: EquivariantModule, subgroup: object) -> list[Tensor]:
    """The inputs as the subgroup sees them."""
    return [snn.Restrict(t, subgroup)(x) for x, t in zip(xs, in_types(module), strict=True)]


def outputs(module: EquivariantModule, smaller: EquivariantModule, size: tuple[int, ...], subgroup: object):
    xs = fields(module, size)
    with torch.no_grad():
        torch.manual_seed(0)
        y = module(*xs)
        torch.manual_seed(0)
        return smaller(*seen(xs, module, subgroup)), snn.Restrict(module.out_type, smaller.out_type.group)(y)


@every_choice
def test_the_function_stays_the_same(case: Case, group: FiniteGroup, subgroup: object):
    module = built(case, group)
    before = copy.deepcopy(module.state_dict())
    smaller = module.restrict(subgroup)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert smaller.in_type == restriction(module.in_type, subgroup)[0]
    assert smaller.out_type == restriction(module.out_type, smaller.out_type.group)[0]
    for training in (False, True):
        module.train(training)
        smaller.train(training)
        for size in case.sizes:
            y, expected = outputs(module, smaller, size, subgroup)
            torch.testing.assert_close(y, expected, rtol=0, atol=1e-12 * max(1.0, float(expected.abs().max())))
    y, expected = outputs(module.eval(), smaller.eval(), case.sizes[0], subgroup)  # running statistics moved alike
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12 * max(1.0, float(expected.abs().max())))


@every_choice
def test_it_learns_on_in_the_larger_space_and_keeps_the_promises_that_are_left(
    case: Case, group: FiniteGroup, subgroup: object
):
    smaller = built(case, group).restrict(subgroup)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in smaller.parameters():
            assert parameter.requires_grad
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    for size in case.sizes:
        xs = fields(smaller, size)
        if len(xs) == 1:
            assert_equivariant(smaller, xs[0], elements=exact_elements(smaller.out_type.group, size))
    y = smaller.train()(*fields(smaller, case.sizes[0]))
    if y.requires_grad:
        y.square().sum().backward()
    assert all(p.grad is not None for p in smaller.parameters())


@pytest.mark.parametrize(
    "name", [n for n, (case, _) in PAIRS.items() if case.has_bank and n.startswith(("D4-", "D8-"))]
)
def test_filters_are_all_of_the_larger_space(name: str):
    case, group = PAIRS[name]
    module = built(case, group)
    for layer in module.modules():
        if isinstance(layer, FilterBankModule):
            one = layer.restrict("C1")
            banks = [m for m in one.modules() if isinstance(m, FilterBankModule)]
            space = layer.plan.space
            count = space.dim * layer.in_type.channels * layer.out_type.channels // layer.plan.groups
            assert [bank.weight.numel() for bank in banks] == [count]
            if layer.bias is not None:
                assert banks[0].bias is not None
                assert banks[0].bias.numel() == layer.out_type.channels


@pytest.mark.parametrize("name", [n for n in PAIRS if n.startswith(("D4-", "D8-"))])
def test_in_two_steps_it_is_the_same_function(name: str):
    case, group = PAIRS[name]
    module = built(case, group)
    once = module.restrict("D1" if group is D4 else "D4")
    twice = once.restrict("C1" if group is D4 else "C4")
    xs = fields(module, case.sizes[0])
    y = snn.Restrict(once.out_type, twice.out_type.group)(
        snn.Restrict(module.out_type, once.out_type.group)(module(*xs))
    )
    step = [snn.Restrict(t, once.in_type.group)(x) for x, t in zip(xs, in_types(module), strict=True)]
    step = [snn.Restrict(t, twice.in_type.group)(x) for x, t in zip(step, in_types(once), strict=True)]
    torch.testing.assert_close(twice(*step), y, rtol=0, atol=1e-12 * max(1.0, float(y.detach().abs().max())))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_dtype_mode_and_plain_copy(case: Case):
    module = built(case, case.home, torch.float32).train()
    smaller = module.restrict("C2")
    assert all(m.training for m in smaller.modules())
    for tensor in (*smaller.parameters(), *smaller.buffers()):
        assert tensor.dtype in (torch.float32, torch.int64)
    smaller = built(case, case.home).restrict("C2")
    assert not any(m.training for m in smaller.modules())
    plain = snn.to_plain(smaller)
    assert not any(isinstance(m, EquivariantModule) for m in plain.modules())
    xs = fields(smaller, case.sizes[0])
    torch.testing.assert_close(plain(*xs), smaller(*xs), rtol=1e-12, atol=1e-12)


def test_the_whole_group_gives_a_copy():
    conv = snn.Conv2d(FieldType(D4, "3*A1"), FieldType(D4, "regular"), 3)
    again = conv.restrict("D4")
    assert again is not conv
    assert torch.equal(again.weight, conv.weight)
    assert again.weight is not conv.weight


def test_a_network_between_groups_keeps_to_what_they_share():
    """D8 → D4 → D1, seen by C4: C4, C4 and then nothing but e."""
    t = FieldType(D8, "2*regular")
    narrow = snn.Restrict(t, "D4")
    flipped = snn.Restrict(narrow.out_type, "D1")
    net = snn.Sequential(
        snn.Conv2d(FieldType(D8, "3*A1"), t, 5, padding=2),
        snn.ReLU(t),
        narrow,
        snn.BatchNorm2d(narrow.out_type),
        snn.Conv2d(narrow.out_type, narrow.out_type, 3, padding=1),
        flipped,
        snn.Conv2d(flipped.out_type, flipped.out_type, 3, padding=1),
    ).double()
    smaller = net.restrict("C4")
    assert [layer.out_type.group.name for layer in smaller] == ["C4"] * 5 + ["C1"] * 2
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    y = snn.Restrict(net.out_type, smaller.out_type.group)(net(x))
    torch.testing.assert_close(smaller(x), y, rtol=0, atol=1e-12 * float(y.detach().abs().max()))
    assert [layer.out_type.group.name for layer in net.restrict("D1")][-1] == "D1"


def test_a_layer_that_is_used_twice_stays_one():
    t = FieldType(D4, "regular")
    conv = snn.Conv2d(t, t, 3, padding=1)
    net = snn.Sequential(OrderedDict(a=conv, act=snn.ReLU(t), b=conv))
    smaller = net.restrict("C4")
    assert smaller[0] is smaller[2]
    assert list(smaller._modules) == ["a", "act", "b"]


def test_drawing_goes_on_as_if_nothing_had_been_built():
    conv = snn.Conv2d(FieldType(D4, "3*A1"), FieldType(D4, "regular"), 3)
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    conv.restrict("C4")
    assert torch.equal(torch.rand(2), expected)


class Scaled(EquivariantModule):
    """A layer of somebody's own, with a parameter."""

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, field_type)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def test_a_layer_that_cannot_says_so():
    with pytest.raises(TypeError) as refused:
        Scaled(FieldType(D4, "regular")).restrict("C4")
    assert str(refused.value) == (
        "Scaled cannot be restricted from D4 to C4: it has parameters, and nothing says what becomes of them over a "
        "subgroup. Build it from layers of steerable.nn in `snn.Sequential`, `snn.Residual` or `snn.Parallel`, or give "
        "the class a method `restricted_to(subgroup)` that returns the same function between the restricted types."
    )


@pytest.mark.parametrize(
    ("subgroup", "message"),
    [
        ("C8", "C8 is not recognised as a subgroup of D4"),
        ("C5", "C5 is not recognised as a subgroup of D4"),
        ("SO2", "SO2 is larger than D4"),
        ("X4", "there is no group called 'X4'"),
        (["e", "r"], "not a subgroup"),
    ],
)
def test_other_groups_are_refused(subgroup: object, message: str):
    with pytest.raises(ValueError, match=message):
        snn.ReLU(FieldType(D4, "regular")).restrict(subgroup)


def test_a_size_that_a_stride_does_not_fit_is_fine_for_a_group_that_turns_nothing():
    t = FieldType(D4, "regular")
    for layer in (snn.Conv2d(t, t, 3, stride=2, padding=1, strict=True), snn.MaxPool2d(t, 2, strict=True)):
        size = 8 if isinstance(layer, snn.Conv2d) else 7
        with pytest.raises(ValueError, match="not exactly equivariant"):
            layer(torch.zeros(1, 8, size, size))
        layer.restrict("C1")(torch.zeros(1, 8, size, size))
    pool = snn.NormMaxPool2d(FieldType(D4, "E"), 2, strict=True)
    pool.restrict(["e"])(torch.zeros(1, 2, 7, 7))
    assert VECTOR == ()
