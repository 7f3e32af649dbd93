"""Wide residual networks with a group per stage, and the plain one beside them."""

from __future__ import annotations

import pytest
import torch

import steerable as st
from steerable import models
from steerable import nn as snn
from steerable.types.wide_plans import wide_plan

pytestmark = pytest.mark.filterwarnings("ignore:.*pixel grid does not carry")

STAGES = [("D8", "D4", "D1"), ("C8", "C4", "C1"), ("D6", "D2", "D1"), ("D4", "D4", "D4"), ("C4", "C2", "C2")]


def size_of(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def test_the_plain_network_has_the_published_size() -> None:
    """Zagoruyko and Komodakis, tables 4 and 5: 36.5 million parameters for 28-10, and 11.0 million for 16-8."""
    with torch.device("meta"):
        assert size_of(models.plain_wide_resnet(28, 10)) == 36_479_194
        assert size_of(models.plain_wide_resnet(16, 8)) == 10_961_370


@pytest.mark.parametrize("groups", STAGES)
def test_equal_parameters(groups: tuple[str, ...]) -> None:
    with torch.device("meta"):
        plain = size_of(models.plain_wide_resnet(28, 10))
        equal = size_of(models.wide_resnet(28, 10, groups))
    assert abs(equal / plain - 1) < 0.01


@pytest.mark.parametrize("groups", STAGES)
def test_equal_channels(groups: tuple[str, ...]) -> None:
    plan = wide_plan(28, 10, [st.group_named(name) for name in groups], match="channels")
    for blocks, channels in zip(plan.stages, (160, 320, 640), strict=True):
        last = blocks[-1].out_type
        assert abs(last.channels - channels) <= last.group.order / 2


def test_without_symmetry_it_is_the_plain_network() -> None:
    steerable, plain = snn.to_plain(models.wide_resnet(10, 2, "C1")), models.plain_wide_resnet(10, 2)
    shapes = [
        sorted(tuple(m.weight.shape) for m in net.modules() if isinstance(m, torch.nn.Conv2d))
        for net in (steerable, plain)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("groups", STAGES)
def test_scores_are_invariant_under_the_last_group_and_each_stage_moves_with_its_own(groups: tuple[str, ...]) -> None:
    net = models.wide_resnet(10, 1, groups, 3, match="channels").double().eval()
    assert [net.in_type.group.name, net.out_type.group.name] == [groups[0], groups[-1]]
    assert st.typecheck(net, size=16) == net.out_type == st.FieldType(st.group_named(groups[-1]), "3*A1")
    st.testing.assert_equivariant(net, size=16)
    named = dict(net.features.named_children())
    for stage, name in enumerate(groups, start=1):
        assert named[f"stage{stage}_block1"].out_type.group.name == name
    first = snn.Sequential(named["stem"], named["stage1_block1"])
    st.testing.assert_equivariant(first, size=16, off_grid=0.5)  # 0.12 to 0.32, by the weights; 1 is another image


def test_groups_are_one_name_a_tuple_or_text() -> None:
    with torch.device("meta"):
        by_tuple = models.wide_resnet(10, 1, ("D4", "D2", "D1"))
        for groups in ("D4,D2,D1", "D4, D2, D1", ["D4", "D2", "D1"]):
            assert repr(models.wide_resnet(10, 1, groups)) == repr(by_tuple)
        assert models.wide_resnet(10, 1, "D4").out_type.group.name == "D4"


def test_dropout_works_in_training_only() -> None:
    net = models.wide_resnet(10, 1, "C4", match="channels", dropout=0.5)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        assert not torch.equal(net(x), net(x))
        net.eval()
        assert torch.equal(net(x), net(x))
    assert sum(isinstance(m, snn.Dropout) for m in net.modules()) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 14}, r"a depth of 6·blocks \+ 4, that is 10, 16, 22, 28, …; got 14"),
        ({"groups": ("D8", "D4")}, r"three names, one per stage.* got 2: D8, D4"),
        ({"groups": ("D4", "D8", "D1")}, "D8 is not a subgroup of D4. Choose"),
        ({"groups": ("D6", "D4", "D1")}, "got D6, D4, D1, and D4 is not a subgroup of D6"),
        ({"groups": ("D8", "D4", 1)}, "WideResNet: groups is given as text"),
        ({"groups": "SO2"}, "regular fields of finite groups of the plane"),
        ({"groups": "O"}, "regular fields of finite groups of the plane"),
        ({"groups": "X"}, "there is no group called 'X'"),
        ({"width": 0}, "must be at least 1; got 0, 10, 3"),
        ({"width": 2.5}, "WideResNet: `width` must be a whole number"),
        ({"width": 10_000}, "a width of 10,000"),
        ({"match": "flops"}, "`match` must be one of parameters, channels; got 'flops'"),
        ({"downsampling": "skip"}, "`downsampling` must be one of pool, stride; got 'skip'"),
        ({"dropout": 1.5}, r"the probability p of a dropout must lie in \[0, 1\), got 1.5"),
        ({"drop": 0.1}, "wide_resnet has no option `drop`. Did you mean `dropout`"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        models.build_model("wide_resnet", **{"depth": 10, "width": 1, **options})
    if "drop" in options:
        with pytest.raises(TypeError, match="WideResNet has no option `drop`"):
            models.wide_resnet(10, 1, drop=0.1)
