"""Filter banks between capsules that are sums of irreps: all equivariant ones, from the small bases of irreps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import steerable as st
from steerable.nn.expansion import BankPlan

SO3 = st.so3()
SPACE = st.filter_space(SO3, 3)


@pytest.mark.parametrize("groups", [1, 2])
def test_banks_are_all_the_equivariant_ones(groups: int) -> None:
    a, b = st.FieldType(SO3, "2*regular(1) + 2*L1"), st.FieldType(SO3, "2*sphere(2) + 2*L0")
    plan, basis = BankPlan(a, b, SPACE, groups), torch.tensor(BankPlan(a, b, SPACE, groups).basis)
    assert groups * plan.parameters == st.parameter_cost(a, b, filters=SPACE)
    weight = torch.randn(plan.parameters, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    bank = plan.expand(weight, basis)
    torch.testing.assert_close(plan.project(bank, basis), weight)
    torch.testing.assert_close(plan.expand(weight, basis, torch.tensor(plan.order)), bank)
    kappa = (bank.numpy().reshape(-1, 27) @ np.linalg.pinv(SPACE.sampling).T).reshape(*bank.shape[:2], SPACE.dim)
    for share in range(groups):  # each share of the output sees the same share of the input
        rows = slice(share * b.channels // groups, (share + 1) * b.channels // groups)
        kind_in, kind_out = (st.FieldType(SO3, [(n // groups, c) for c, n in t.terms]) for t in (a, b))
        for h in SO3.random(2, seed=0):
            by_v, by_out, by_in = SPACE.representation(h), kind_out.representation(h), kind_in.representation(h)
            turned = np.einsum("vw,oa,abw,ib->oiv", by_v, by_out, kappa[rows], by_in, optimize=True)
            assert np.abs(turned - kappa[rows]).max() < 1e-12


def test_large_capsules_have_small_bases() -> None:
    """Written out, the 473 filters between two capsules of 35 channels would have 72 million numbers."""
    kind = st.FieldType(SO3, "2*regular(2)")
    plan = BankPlan(kind, kind, st.filter_space(SO3, 5))
    assert plan.parameters == 4 * 473 == st.parameter_cost(kind, kind, 5)
    assert plan.basis.size < 100_000
