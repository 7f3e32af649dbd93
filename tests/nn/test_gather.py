"""The expansion as one gather, which layers on a GPU use, gives the bank that the matrix products give."""

from __future__ import annotations

import pytest
import torch

import steerable as st
from steerable import nn as snn
from steerable.nn.expansion import BankPlan

CASES = [
    ("D4", "2*(regular + qm + qmr2 + qmr3)", "2*(A1 + A2 + B1 + B2 + 2*E)", (3, 3)),
    ("D4", "4*A1 + 2*r + 2*r2m + 2*r2mr + 4*qmr2", "3*regular + qm", (3, 3)),
    ("D4", "3*A1", "regular + E", (1, 1)),
    ("D4", "A1 + 2*E", "3*A2 + B1", (2, 2)),
    ("C4", "2*regular + E", "E + 3*B", (5, 5)),
    ("D1", "2*regular + A2", "A1 + 2*A2", (3, 2)),
    ("C1", "3*A", "5*A", (3, 3)),
]


@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel"), CASES)
def test_a_gather_is_the_product(group: str, in_text: str, out_text: str, kernel: tuple[int, int]) -> None:
    g = st.group_named(group)
    plan = BankPlan(st.FieldType(g, in_text), st.FieldType(g, out_text), kernel)
    assert plan.gathers
    weight = torch.randn(plan.parameters, dtype=torch.float64, requires_grad=True)
    scale, index = plan.gather_tables(torch.device("cpu"))
    gathered = plan.gather(weight, scale, index)
    expanded = plan.expand(weight, torch.tensor(plan.basis))
    assert (gathered - expanded).abs().max() < 1e-15
    assert gathered.is_contiguous(memory_format=torch.channels_last)
    upstream = torch.randn_like(expanded)
    (a,) = torch.autograd.grad((gathered * upstream).sum(), weight)
    (b,) = torch.autograd.grad((expanded * upstream).sum(), weight)
    assert (a - b).abs().max() < 1e-12


def test_capsules_that_mix_channels_and_groups_keep_the_products() -> None:
    g = st.dihedral(4)
    turned = st.Capsule(g.irrep("E").change_basis([[0.6, -0.8], [0.8, 0.6]]), "turned")
    assert not BankPlan(st.FieldType(g, [turned]), st.FieldType(g, "regular"), (3, 3)).gathers
    assert not snn.Conv2d(st.FieldType(g, "2*regular"), st.FieldType(g, "2*regular"), 3, groups=2).plan.gathers
