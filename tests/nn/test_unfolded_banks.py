"""Filter banks between capsules that are sums of irreps: all equivariant ones, from the small bases of irreps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import steerable as st
from steerable.nn.expansion import BankPlan

SO3, O2 = st.so3(), st.o2()
KINDS = {
    "space": (st.filter_space(SO3, 3), "2*regular(1) + 2*L1", "2*sphere(2) + 2*L0"),
    "plane": (st.filter_space(O2, 5, leak=0.01), "2*regular(5) + 2*E1", "2*qD2(10) + 2*qm(12) + 2*A1"),
}


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_banks_are_all_the_equivariant_ones(name: str, groups: int) -> None:
    space, *texts = KINDS[name]
    a, b = (st.FieldType(space.group, text) for text in texts)
    plan, basis = BankPlan(a, b, space, groups), torch.tensor(BankPlan(a, b, space, groups).basis)
    assert len(plan.pairs) > len(a.terms) * len(b.terms), "no capsule is counted by its irreps"
    assert groups * plan.parameters == st.parameter_cost(a, b, filters=space)
    weight = torch.randn(plan.parameters, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    bank = plan.expand(weight, basis)
    torch.testing.assert_close(plan.project(bank, basis), weight)
    torch.testing.assert_close(plan.expand(weight, basis, torch.tensor(plan.order)), bank)
    kappa = (bank.flatten(2).numpy() @ np.linalg.pinv(space.sampling).T).reshape(*bank.shape[:2], space.dim)
    for share in range(groups):  # each share of the output sees the same share of the input
        rows = slice(share * b.channels // groups, (share + 1) * b.channels // groups)
        kind_in, kind_out = (st.FieldType(space.group, [(n // groups, c) for c, n in t.terms]) for t in (a, b))
        for h in space.group.random(2, seed=0):
            by_v, by_out, by_in = space.representation(h), kind_out.representation(h), kind_in.representation(h)
            turned = np.einsum("vw,oa,abw,ib->oiv", by_v, by_out, kappa[rows], by_in, optimize=True)
            assert np.abs(turned - kappa[rows]).max() < 1e-12


def test_large_capsules_have_small_bases() -> None:
    """Written out, the 473 filters between two capsules of 35 channels would have 72 million numbers."""
    kind = st.FieldType(SO3, "2*regular(2)")
    plan = BankPlan(kind, kind, st.filter_space(SO3, 5))
    assert plan.parameters == 4 * 473 == st.parameter_cost(kind, kind, 5)
    assert plan.basis.size < 100_000
    kind = st.FieldType(O2, "2*regular(6)")  # in the plane 592 filters, and 20 million numbers
    plan = BankPlan(kind, kind, st.filter_space(O2, 7))
    assert plan.parameters == 4 * 592 == st.parameter_cost(kind, kind, 7)
    assert plan.basis.size < 100_000
