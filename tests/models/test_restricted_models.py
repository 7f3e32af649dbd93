"""``network.restrict(H)``: the same scores, more parameters, saved and loaded like any other network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from lively import lively
from torch import nn

import steerable as st
from steerable import models
from steerable import nn as snn
from steerable.models.restrictable import step_text
from steerable.types.shared_subgroups import subgroup_of

pytestmark = pytest.mark.filterwarnings("ignore:.*pixel grid does not carry")

CHOICES: dict[str, tuple[Callable[[], nn.Module], object]] = {
    "linear": (lambda: models.resnet(8, 1), "C4"),
    "max": (lambda: models.resnet(8, 1, head="max"), "D2"),
    "invariant": (lambda: models.resnet(8, 1, head="invariant"), ["e", "mr"]),
    "mirror": (lambda: models.resnet(8, 1, head="mirror"), "D1"),
    "mirror-turned": (lambda: models.resnet(8, 1, head="mirror"), "C4"),
    "mixed-capsules": (lambda: models.resnet(8, 1, group="C8", stream="regular + E1", head="linear"), "C4"),
    "off-grid": (lambda: models.resnet(8, 1, group="D8", head="invariant", kernel_size=5), "D4"),
    "wide": (lambda: models.wide_resnet(10, 1, ("D8", "D4", "D1"), match="channels", dropout=0.3), "C8"),
    "unet": (lambda: models.unet(1, 1, "A1 + E", stream="regular + E"), "C4"),
}


@pytest.mark.parametrize(("build", "subgroup"), CHOICES.values(), ids=CHOICES)
def test_the_function_stays_and_is_saved(build: Callable[[], nn.Module], subgroup: object, tmp_path: Path) -> None:
    net = lively(build())
    smaller = net.restrict(subgroup)
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    for training in (False, True):
        with torch.no_grad():
            torch.manual_seed(0)
            expected = net.train(training)(x)
            torch.manual_seed(0)
            found = smaller.train(training)(x)
        if isinstance(net, models.UNet):
            expected = snn.Restrict(net.out_type, smaller.out_type.group)(expected)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12 * float(expected.abs().max()))
    assert sum(p.numel() for p in smaller.parameters()) > sum(p.numel() for p in net.parameters())
    assert smaller.group == smaller.in_type.group == subgroup_of(net.group, subgroup)
    smaller = smaller.float().eval()
    smaller.save_pretrained(tmp_path)
    again = type(net).from_pretrained(tmp_path).eval()
    assert again.group == smaller.group
    with torch.no_grad():
        assert torch.equal(again(x.float()), smaller(x.float()))


@pytest.mark.parametrize(("build", "subgroup"), CHOICES.values(), ids=CHOICES)
def test_without_storage_it_has_the_same_layout(build: Callable[[], nn.Module], subgroup: object) -> None:
    with torch.device("meta"):
        described = build().restrict(subgroup)
    found = build().restrict(subgroup)
    assert str(described) == str(found)
    shapes = [{key: value.shape for key, value in net.state_dict().items()} for net in (described, found)]
    assert shapes[0] == shapes[1]
    assert all(p.is_meta for p in described.parameters())


def test_in_several_steps() -> None:
    net = lively(models.resnet(8, 1, group="D8", head="invariant"))
    once, x = net.restrict("D4"), torch.randn(1, 3, 16, 16, dtype=torch.float64)
    twice = once.restrict(["e", "m"])
    torch.testing.assert_close(twice(x), net(x), rtol=0, atol=1e-12)
    assert twice._hub_mixin_config["restricted_to"] == ["D4", "e, m"]
    assert "restricted_to" not in (net._hub_mixin_config or {})
    assert [n.invariant_under for n in (net, once)] == ["D8", "D4"]


def test_what_the_scores_are_invariant_under_is_said_anew() -> None:
    mirror = models.resnet(8, 1, head="mirror")
    assert mirror.invariant_under == "m alone"
    assert mirror.restrict("C4").invariant_under == "nothing"
    assert st.models.resnet(8, 1, group="SO(2)", head="invariant").invariant_under == "SO2"
    upright = mirror.restrict("D1")
    assert str(upright.out_type) == "10*A1"
    with pytest.raises(AttributeError, match="invariant under nothing has no output type of C4"):
        _ = mirror.restrict("C4").out_type


def test_all_parameters_learn_on() -> None:
    net = models.resnet(8, 1, head="invariant").restrict("C2")
    net(torch.randn(2, 3, 8, 8)).square().sum().backward()
    assert all(p.grad is not None and p.requires_grad for p in net.parameters())


def test_an_accelerated_network_is_restricted_as_it_is_written() -> None:
    net = models.resnet(8, 1, head="invariant").eval()
    x = torch.randn(1, 3, 8, 8)
    expected = net(x)
    snn.accelerate(net, x)
    torch.testing.assert_close(net.restrict("C4")(x), expected, rtol=1e-4, atol=1e-4)


def test_subgroups_as_text() -> None:
    D4 = st.dihedral(4)
    assert step_text(D4, "C2") == "C2"
    assert step_text(D4, st.cyclic(2)) == "C2"
    assert step_text(D4, D4.subgroup(["e", "mr"])) == "e, mr"
    with pytest.raises(ValueError, match="C8 is not recognised as a subgroup of D4"):
        models.resnet(8, 1).restrict("C8")
