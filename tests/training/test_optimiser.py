"""The recipe's optimiser: what decays, and rates by sharing as SGD on weights that are stored once."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from steerable import FieldType, dihedral
from steerable import nn as snn
from steerable.models import build_model
from steerable.nn.filter_bank import FilterBankModule
from steerable.training.learning.optimiser import make_optimiser, set_learning_rate
from steerable.training.requests.recipes import Recipe

G = dihedral(4)
RATES = (0.05, 0.1, 0.1, 0.04, 0.01)  # a schedule


def recipe(**changes: object) -> Recipe:
    settings: dict[str, object] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.05, "epochs": 1}
    return Recipe(**{**settings, **changes})  # type: ignore[arg-type]


def network(inner: str) -> snn.Sequential:
    torch.manual_seed(0)
    image, field, scores = FieldType(G, "2*A1"), FieldType(G, inner), FieldType(G, "3*A1")
    return snn.Sequential(
        snn.Conv2d(image, field, 3, padding=1, bias=False),
        snn.BatchNorm2d(field),
        snn.Conv2d(field, field, 3, padding=1, bias=True),
        snn.GlobalAvgPool(field),
        snn.Linear(field, scores),
    ).double()


def batches(channels: int = 2) -> Iterator[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(1)
    while True:
        yield torch.randn(6, channels, 7, 7, generator=draw).double(), torch.randint(3, (6,), generator=draw)


def trained(net: nn.Module, how: Recipe, rates: tuple[float, ...] = RATES) -> dict[str, Tensor]:
    optimiser = make_optimiser(net, how)
    for rate, (images, labels) in zip(rates, batches(), strict=False):
        set_learning_rate(optimiser, rate)
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimiser.step()
    return {name: p.detach().clone() for name, p in net.named_parameters()}


def trained_once_stored(net: nn.Module, how: Recipe) -> dict[str, Tensor]:
    """The same network as a function of u = c / √μ, by torch's own optimiser with one rate and one decay for all u."""
    scales = {
        f"{name}.weight": math.sqrt(m.plan.weights / m.plan.parameters)
        for name, m in net.named_modules()
        if isinstance(m, FilterBankModule)
    }
    stored = {n: (p.detach() / scales.get(n, 1.0)).requires_grad_() for n, p in net.named_parameters()}
    groups = [
        {"params": [stored[n] for n in scales], "weight_decay": how.weight_decay},
        {"params": [p for n, p in stored.items() if n not in scales], "weight_decay": 0.0},
    ]
    optimiser: torch.optim.Optimizer
    if how.optimiser == "adamw":
        optimiser = torch.optim.AdamW(groups, lr=how.learning_rate, betas=(how.momentum, 0.999))
    else:
        optimiser = torch.optim.SGD(groups, lr=how.learning_rate, momentum=how.momentum, nesterov=how.nesterov)
    for rate, (images, labels) in zip(RATES, batches(), strict=False):
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        coefficients = {n: p * scales.get(n, 1.0) for n, p in stored.items()}
        nn.functional.cross_entropy(functional_call(net, coefficients, (images,)), labels).backward()
        optimiser.step()
    return {n: p.detach() * scales.get(n, 1.0) for n, p in stored.items()}


@pytest.mark.parametrize("inner", ["2*regular", "regular + qm + qmr2 + E"])
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_rates_by_sharing_are_sgd_on_weights_stored_once(inner: str, momentum: float, nesterov: bool) -> None:
    how = recipe(rates_by_sharing=True, momentum=momentum, nesterov=nesterov)
    net = network(inner)
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    stored = trained_once_stored(copy.deepcopy(net), how)
    found = trained(net, how)
    for name, value in found.items():
        torch.testing.assert_close(value, stored[name], rtol=1e-12, atol=1e-12, msg=name)
        assert not torch.allclose(value, start[name], rtol=1e-3), name  # it was trained


@pytest.mark.parametrize("inner", ["2*regular", "regular + qm + qmr2 + E"])
def test_rates_by_sharing_are_adamw_on_weights_stored_once(inner: str) -> None:
    """Up to the small number that Adam adds to the size of gradients, which is the same for both."""
    how = recipe(rates_by_sharing=True, optimiser="adamw", learning_rate=0.01)
    net = network(inner)
    stored = trained_once_stored(copy.deepcopy(net), how)
    for name, value in trained(net, how).items():
        torch.testing.assert_close(value, stored[name], rtol=1e-3, atol=1e-4, msg=name)
    assert not isinstance(make_optimiser(net, how), torch.optim.SGD)


def test_nesterov_is_for_sgd() -> None:
    with pytest.raises(ValueError, match=r"nesterov needs SGD with a momentum above 0; got .* and the optimiser adamw"):
        recipe(optimiser="adamw", nesterov=True)


def test_the_stored_weights_are_those_of_a_group_convolution() -> None:
    """On regular fields u = c / √μ are the weights of the bank, each of them |G| = 8 times."""
    field = FieldType(G, "2*regular")
    conv = snn.Conv2d(field, field, 3).double()
    u = conv.weight.detach() / math.sqrt(8)
    bank = conv.expand()[0].detach()
    expected = u.abs().sort().values.repeat_interleave(8)
    torch.testing.assert_close(bank.abs().flatten().sort().values, expected, rtol=1e-12, atol=1e-12)


def test_groups_of_parameters() -> None:
    """μ for filter banks and 1 for norms, biases and ordinary layers; their decays; ratios that a schedule keeps."""
    net = nn.Sequential(network("2*regular"), nn.Linear(3, 3))
    named = {id(p): name for name, p in net.named_parameters()}
    optimiser = make_optimiser(net, recipe(rates_by_sharing=True))
    for rate in (None, 0.02):
        if rate is not None:
            set_learning_rate(optimiser, rate)
        found = {named[id(p)]: (g["lr"], g["weight_decay"]) for g in optimiser.param_groups for p in g["params"]}
        lr = rate or 0.1
        assert found.pop("0.0.weight") == pytest.approx((8 * lr, 0.05 / 8))
        assert found.pop("0.2.weight") == pytest.approx((8 * lr, 0.05 / 8))
        assert found.pop("0.4.weight") == pytest.approx((8 * lr, 0.05 / 8))
        assert found.pop("1.weight") == (lr, 0.05)
        assert found.keys() == {"0.2.bias", "0.1.weight", "0.1.bias", "0.4.bias", "1.bias"}
        assert set(found.values()) == {(lr, 0.0)}


def test_without_the_setting_there_are_two_groups() -> None:
    """Those of earlier versions, in their order, so that checkpoints of these are resumed."""
    net = nn.Sequential(network("2*regular"), nn.Linear(3, 3))
    decays, fixed = make_optimiser(net, recipe()).param_groups
    assert (decays["weight_decay"], fixed["weight_decay"]) == (0.05, 0.0)
    assert decays["lr"] == fixed["lr"] == 0.1
    expected = (net[0][0].weight, net[0][2].weight, net[0][4].weight, net[1].weight)
    assert [id(p) for p in decays["params"]] == [id(p) for p in expected]


def test_plain_networks_do_not_change() -> None:
    torch.manual_seed(0)
    net = build_model("plain_resnet", depth=8, width=4, in_channels=2, num_classes=3).double()
    same = copy.deepcopy(net)
    one, other = trained(net, recipe(rates_by_sharing=True)), trained(same, recipe())
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("version", ["this", "earlier"])
def test_an_optimiser_goes_on_from_its_state(version: str) -> None:
    how = recipe(rates_by_sharing=version == "this")
    net = network("2*regular")
    trained(net, how, rates=(0.1, 0.1))  # only to move away from the start
    optimiser = make_optimiser(net, how)
    images, labels = next(batches())

    def step(net: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        set_learning_rate(optimiser, 0.05)
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimiser.step()

    step(net, optimiser)
    state, again = copy.deepcopy(optimiser.state_dict()), copy.deepcopy(net)
    if version == "earlier":
        for group in state["param_groups"]:
            del group["rate_factor"]
    resumed = make_optimiser(again, how)
    resumed.load_state_dict(state)
    step(net, optimiser)
    step(again, resumed)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), again.parameters(), strict=True))


def test_recipes_without_the_setting_are_those_of_before() -> None:
    old = {key: value for key, value in recipe().to_dict().items() if key != "rates_by_sharing"}
    assert Recipe.from_dict(old) == recipe()
    with pytest.raises(ValueError, match="a recipe's rates_by_sharing must be true or false; got 'no'"):
        Recipe.from_dict({**old, "rates_by_sharing": "no"})
