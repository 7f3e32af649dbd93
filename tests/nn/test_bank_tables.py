"""Lookups, the kernels for CPUs and the tables of those for GPUs give the bank that the matrix products give.

The kernels for GPUs run in test_triton_kernels.py and test_cuda.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from filter_zoo import cross
from torch import Tensor

import steerable as st
from steerable import nn as snn
from steerable.algebra.families import group_on
from steerable.algebra.groups import finite_group
from steerable.nn.bank_tables import PARAMETERS_PER_PROGRAM, BankTables, bank_tables
from steerable.nn.expansion import BankPlan
from steerable.nn.numba import HAS_NUMBA

CASES = [
    ("D4", "2*(regular + qm + qmr2 + qmr3)", "2*(A1 + A2 + B1 + B2 + 2*E)", (3, 3)),
    ("D4", "4*A1 + 2*r + 2*r2m + 2*r2mr + 4*qmr2", "3*regular + qm", (3, 3)),
    ("D4", "5*regular", "2*regular", (3, 3)),  # more parameters for one out copy than one program takes
    ("D4", "3*A1", "regular + E", (1, 1)),
    ("D4", "A1 + 2*E", "3*A2 + B1", (2, 2)),
    ("C4", "2*regular + E", "E + 3*B", (5, 5)),
    ("D1", "2*regular + A2", "A1 + 2*A2", (3, 2)),
    ("C1", "3*A", "5*A", (3, 3)),
    ("D4", "2*regular + E", "qm + 3*A2", cross),  # filters whose corners are empty
    ("D8", "2*regular + A1", "regular + B2", (1, 1)),
    ("O", "2*regular + T1 + A1", "regular + 2*q6a + A2", (3, 3, 3)),  # filters in compact form beside others
    ("O", "2*A1", "3*regular", (2, 2, 2)),
    ("O_h", "A1g + T1u", "2*regular", (3, 3, 3)),
    ("C4", "2*regular + E", "3*regular", (3, 3, 3)),  # about the axis z
]


Kernel = tuple[int, ...] | Callable[[st.FiniteGroup], st.FilterSpace]


def filters_of(group: str, kernel: Kernel) -> tuple[st.FiniteGroup, tuple[int, ...] | st.FilterSpace]:
    g = finite_group(group_on(group, 2 if callable(kernel) else len(kernel)))
    return g, kernel(g) if callable(kernel) else kernel


def planned(group: str, in_text: str, out_text: str, kernel: Kernel) -> tuple[BankPlan, BankTables]:
    g, filters = filters_of(group, kernel)
    plan = BankPlan(st.FieldType(g, in_text), st.FieldType(g, out_text), filters)
    tables = bank_tables(plan)
    assert tables is not None
    return plan, tables


@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel"), CASES)
def test_each_weight_is_one_parameter_times_a_factor(group: str, in_text: str, out_text: str, kernel: Kernel) -> None:
    plan, tables = planned(group, in_text, out_text, kernel)
    weight = torch.randn(plan.parameters, dtype=torch.float64)
    u, v = torch.tensor(tables.unit_out).long(), torch.tensor(tables.unit_in).long()
    start, value = (torch.tensor(t)[u][:, :, v] for t in (tables.start, tables.value))
    step_out, step_in = (torch.tensor(t)[u][:, v].unsqueeze(1) for t in (tables.step_out, tables.step_in))
    copy_out, copy_in = torch.tensor(tables.copy_out)[:, None, None], torch.tensor(tables.copy_in)
    number = start + copy_out * step_out + copy_in * step_in
    bank = torch.where(start < 0, 0, weight[number.clamp(min=0)] * value)
    expected = plan.expand(weight, torch.tensor(plan.basis)).flatten(2).transpose(1, 2)
    assert (bank - expected).abs().max() < 1e-15


@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel"), CASES)
def test_each_parameter_is_a_sum_of_few_weights(group: str, in_text: str, out_text: str, kernel: Kernel) -> None:
    plan, tables = planned(group, in_text, out_text, kernel)
    bank = torch.randn(plan.out_type.channels, plan.in_type.channels, *plan.space.size, dtype=torch.float64)
    flat = bank.movedim(1, -1).flatten()
    projected = torch.full((plan.parameters,), torch.nan, dtype=torch.float64)
    place, factor = torch.tensor(tables.place).long(), torch.tensor(tables.factor)
    for program, k in enumerate(tables.program_pair):
        first, chunks, per_copy, count, parameter, row, weight, next_out, next_in = (int(n) for n in tables.pairs[k])
        copy, chunk = divmod(program - first, chunks)
        p = torch.arange(chunk * PARAMETERS_PER_PROGRAM, min((chunk + 1) * PARAMETERS_PER_PROGRAM, per_copy))
        at = weight + copy * next_out + p // count * next_in
        rows = row + p % count
        projected[parameter + copy * per_copy + p] = (flat[at[:, None] + place[rows]] * factor[rows]).sum(1)
    assert (projected - plan.project(bank, torch.tensor(plan.basis))).abs().max() < 1e-12


@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel"), CASES)
def test_a_lookup_is_the_product(group: str, in_text: str, out_text: str, kernel: Kernel) -> None:
    plan, _ = planned(group, in_text, out_text, kernel)
    index, factor = plan.lookup()
    weight = torch.randn(plan.parameters, dtype=torch.float64)
    expected = plan.expand(weight, torch.tensor(plan.basis)).flatten()
    assert (weight[torch.tensor(index)] * torch.tensor(factor) - expected).abs().max() < 1e-15


def passes(expand: Callable[[Tensor], Tensor], weight: Tensor, upstream: Tensor) -> list[Tensor]:
    """The bank, its gradient, the gradient of that, and several gradients at once."""
    theta, again = weight.clone().requires_grad_(), upstream.clone().requires_grad_()
    bank = expand(theta)
    (gradient,) = torch.autograd.grad(bank, theta, again, create_graph=True)
    (third,) = torch.autograd.grad(gradient, again, theta.detach(), retain_graph=True)
    several = torch.stack([upstream, 2 * upstream])
    return [bank, gradient, third, *torch.autograd.grad(bank, theta, several, is_grads_batched=True)]


@pytest.mark.skipif(not HAS_NUMBA, reason="the kernels for CPUs come with numba, which the extra `fast` installs")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel"), CASES)
def test_kernels_give_the_products(
    group: str, in_text: str, out_text: str, kernel: Kernel, groups: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steerable.nn.numba import compiling
    from steerable.nn.numba.bank import BankOnCpu

    monkeypatch.setattr(compiling, "_SHARED_FROM", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    g, filters = filters_of(group, kernel)
    types = (st.FieldType(g, " + ".join([text] * groups)) for text in (in_text, out_text))
    plan = BankPlan(*types, filters, groups)
    assert plan.takes_kernels
    weight, basis = torch.randn(plan.parameters, dtype=torch.float64), torch.tensor(plan.basis)
    upstream = torch.randn(plan.bank_shape, dtype=torch.float64).movedim(1, -1).contiguous().movedim(-1, 1)
    kernels = BankOnCpu(plan, torch.float64)
    found = passes(lambda theta: kernels.bank(theta, torch.float64), weight, upstream)
    expected = passes(lambda theta: plan.expand(theta, basis), weight, upstream)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        assert (a - b).abs().max() < 1e-12
    single = BankOnCpu(plan, torch.float32).bank(weight.float(), torch.float32)
    assert (single - expected[0]).abs().max() < 1e-6


@pytest.mark.skipif(not HAS_NUMBA, reason="the kernels for CPUs come with numba, which the extra `fast` installs")
def test_layers_take_the_kernels_for_plain_parameters_alone() -> None:
    g = st.dihedral(4)
    layer = snn.Conv2d(st.FieldType(g, "2*regular"), st.FieldType(g, "qm + A2"), 3)
    (bank, _), weight = layer.expand(), layer.weight
    assert type(bank.grad_fn).__name__ == "_ExpandBackward"
    assert layer._kernels_on_cpu(weight.to("meta")) is None
    assert layer._kernels_on_cpu(weight.bfloat16()) is None
    jacobian = torch.func.jacrev(lambda theta: layer.expand_from(theta, None)[0])(weight)
    torch.testing.assert_close(torch.einsum("oiyxp,p->oiyx", jacobian, weight), bank)
    assert not copy.deepcopy(layer)._on_cpu


@pytest.mark.parametrize("groups", [1, 2])
def test_small_banks_are_looked_up_and_large_ones_multiplied(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    g = st.dihedral(4)
    types = st.FieldType(g, "2*regular + 4*E"), st.FieldType(g, "2*qm + 2*A2")
    small = snn.Conv2d(*types, 3, groups=groups).double()
    monkeypatch.setattr("steerable.nn.filter_bank._LOOKUP_LIMIT", 0)
    large = snn.Conv2d(*types, 3, groups=groups).double()
    large.load_state_dict(small.state_dict())
    monkeypatch.setattr(snn.Conv2d, "_kernels_on_cpu", lambda layer, weight: None)
    assert small.looks_up
    assert not large.looks_up
    assert (small.expand()[0] - large.expand()[0]).abs().max() < 1e-15


def test_capsules_that_mix_channels_and_groups_keep_the_products() -> None:
    g = st.dihedral(4)
    turned = st.Capsule(g.irrep("E").change_basis([[0.6, -0.8], [0.8, 0.6]]), "turned")
    mixing = snn.Conv2d(st.FieldType(g, [turned]), st.FieldType(g, "regular"), 3)
    assert bank_tables(mixing.plan) is None
    assert not mixing.looks_up
    grouped = snn.Conv2d(st.FieldType(g, "2*regular"), st.FieldType(g, "2*regular"), 3, groups=2)
    assert bank_tables(grouped.plan) is None
