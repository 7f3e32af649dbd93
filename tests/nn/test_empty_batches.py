"""What every layer makes of no images at all, which the last batch of a stream, a filter or one process may come to."""

from __future__ import annotations

import copy

import pytest
import torch
from cases import CASES, GROUPS, VECTOR, Case, Size, built, fields
from torch import Tensor

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn
from steerable.nn import EquivariantModule

D4 = GROUPS["D4"]
MIXED = FieldType(D4, "2*regular + 2*E + A2 + 2*qm + A1")
TWO = st.Capsule(D4.regular + D4.trivial, "two")
SEVERAL = FieldType(D4, "2*two + E", capsules=[TWO])

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_mode = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def empty_fields(module: EquivariantModule, size: Size, dtype: torch.dtype) -> list[Tensor]:
    return [x.requires_grad_() for x in fields(module, size, dtype, batch=0)]


def assert_nothing_happened(module: EquivariantModule, before: dict[str, Tensor], xs: list[Tensor]) -> None:
    """The state is as before, and all gradients are zeros: not absent, for which other processes would wait."""
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    for x in xs:
        assert x.grad is not None
        assert x.grad.shape == x.shape
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


@every_case
@every_mode
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_an_empty_batch_gives_an_empty_batch_and_changes_nothing(case: Case, training: bool, dtype: torch.dtype):
    for size in case.sizes:
        module = built(case, case.home, dtype).train(training)
        before = copy.deepcopy(module.state_dict())
        xs = empty_fields(module, size, dtype)
        y = module(*[x.clone() for x in xs])
        spatial = () if case.out is None else tuple(case.out(n) for n in size)
        assert tuple(y.shape) == (0, module.out_type.channels, *spatial)
        assert y.dtype == dtype
        y.sum().backward()
        assert_nothing_happened(module, before, xs)


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_a_network_trains_on_when_one_batch_was_empty(group: FiniteGroup):
    """With and without it, steps before and after lead to the same numbers."""
    states = []
    for with_empty in (True, False):
        net = built(CASES["Sequential"], group).train()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for batch in (3, 0, 2) if with_empty else (3, 2):
            optimizer.zero_grad()
            net(*fields(net, (6, 6), batch=batch, seed=batch)).square().sum().backward()
            optimizer.step()
        states.append(net.state_dict())
    for name, value in states[0].items():
        torch.testing.assert_close(value, states[1][name], rtol=0, atol=0)


# ---------------------------------------------------------------- norms: all options, images without pixels


def norms(field_type: FieldType) -> dict[str, EquivariantModule]:
    made: dict[str, EquivariantModule] = {}
    for affine in (True, False):
        for tracked, momentum in ((True, 0.1), (True, None), (True, 1.0), (False, 0.1)):
            options = {"affine": affine, "track_running_stats": tracked, "momentum": momentum}
            made[f"BatchNorm2d {options}"] = snn.BatchNorm2d(field_type, **options)
            made[f"BatchNorm2d sync {options}"] = snn.BatchNorm2d(field_type, sync=True, **options)
            made[f"InstanceNorm2d {options}"] = snn.InstanceNorm2d(field_type, **options)
        made[f"GroupNorm {affine}"] = snn.GroupNorm(1, field_type, affine=affine)
        made[f"LayerNorm {affine}"] = snn.LayerNorm(field_type, affine=affine)
    return made


@pytest.mark.parametrize("field_type", [MIXED, SEVERAL, FieldType(D4, "3*A1"), FieldType(D4, "2*E")], ids=str)
@every_mode
@pytest.mark.parametrize("shape", [(0, 5, 5), (2, 0, 5), (0, 0, 0), (0,)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.filterwarnings("error")
def test_norms_of_nothing(field_type: FieldType, training: bool, shape: Size, dtype: torch.dtype):
    batch, *size = shape
    for name, norm in norms(field_type).items():
        if tuple(size) == VECTOR and not name.startswith(("BatchNorm2d", "LayerNorm")):
            continue
        norm.train()(torch.randn(3, field_type.channels, 4, 4))  # statistics that are not those of the start
        norm = norm.train(training).to(dtype)
        before = copy.deepcopy(norm.state_dict())
        x = torch.zeros(batch, field_type.channels, *size, dtype=dtype, requires_grad=True)
        y = norm(x)
        assert y.shape == x.shape, name
        assert y.dtype == dtype, name
        y.sum().backward()
        assert_nothing_happened(norm, before, [x])


@pytest.mark.parametrize("layer", [snn.BatchNorm2d, snn.InstanceNorm2d])
@pytest.mark.parametrize("momentum", [0.3, None])
def test_an_empty_batch_is_not_counted(layer: type, momentum: float | None):
    """Neither at the start, where a cumulative average divides by the number of batches, nor between others."""
    generator = torch.Generator().manual_seed(0)
    one, two = (torch.randn(3, MIXED.channels, 4, 4, generator=generator) for _ in range(2))
    nothing = one[:0]
    with_empty, without = (layer(MIXED, momentum=momentum, track_running_stats=True) for _ in range(2))
    for x in (nothing, one, nothing, two):
        with_empty(x)
    for x in (one, two):
        without(x)
    for name, value in without.state_dict().items():
        assert torch.equal(with_empty.state_dict()[name], value), name
    assert int(with_empty.num_batches_tracked) == 2


def test_torchs_batch_norm_does_the_same_but_counts():
    """The oracle for what users expect."""
    ours, theirs = snn.BatchNorm2d(FieldType(D4, "3*A1")), torch.nn.BatchNorm2d(3)
    for norm in (ours, theirs):
        x = torch.zeros(0, 3, 5, 5, requires_grad=True)
        norm(x).sum().backward()
        assert not norm.weight.grad.any()
        assert not norm.bias.grad.any()
        assert torch.equal(norm.running_mean, torch.zeros(3))
        assert torch.equal(norm.running_var, torch.ones(3))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("name", ["BatchNorm2d", "BatchNorm2d-cumulative", "InstanceNorm2d-tracked", "GroupNorm"])
def test_compiled_norms_take_empty_batches_too(name: str):
    module = built(CASES[name], GROUPS["D1"]).train()
    before = copy.deepcopy(module.state_dict())
    graph = torch.compile(module, fullgraph=True, backend="aot_eager")
    xs = empty_fields(module, (5, 5), torch.float64)
    y = graph(*xs)
    assert y.shape == xs[0].shape
    y.sum().backward()
    assert_nothing_happened(module, before, xs)


@pytest.fixture
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
