from __future__ import annotations

import numpy as np
import pytest
from group_zoo import group
from hypothesis import given, settings
from hypothesis import strategies as some

import steerable as st
from steerable.types.network_plans import resnet_plan

D4 = st.dihedral(4)
STREAM = st.FieldType(D4, "regular + qm + qmr2 + qmr3")
INNER = st.FieldType(D4, "A1 + A2 + B1 + B2 + 2*E")


@pytest.mark.parametrize(
    ("depth", "copies", "widths", "parameters"),
    [
        (14, 14, (280, 112), 4_448_374),
        (20, 8, (160, 64), 2_218_888),
        (26, 14, (280, 112), 9_140_614),
        (20, 22, (440, 176), 16_777_222),
        (14, 20, (400, 160), 9_077_620),
        (20, 14, (280, 112), 6_794_494),
    ],
)
def test_parameter_counts_of_the_paper_s_networks(
    depth: int, copies: int, widths: tuple[int, int], parameters: int
) -> None:
    plan = resnet_plan(depth, copies).convolutions
    assert sum(conv.parameters for conv in plan) == parameters
    assert sum(not conv.name.endswith("shortcut") for conv in plan) == depth - 1  # and the classifier
    assert (plan[1].in_type.channels, plan[1].out_type.channels) == widths
    assert plan[-1].out_type.channels == 80 * copies


def test_the_shape_of_a_plan() -> None:
    plan = resnet_plan(depth=14, copies=1).convolutions
    by_name = {conv.name: conv for conv in plan}
    assert plan[0].name == "stem"
    assert plan[0].in_type == st.FieldType(D4, "3*A1")
    assert [name for name in by_name if "shortcut" in name] == ["stage2.block1.shortcut", "stage3.block1.shortcut"]
    assert [conv.name for conv in plan if conv.stride == 2] == [
        f"stage{s}.block1.{part}" for s in (2, 3) for part in ("conv1", "shortcut")
    ]
    assert all(conv.kernel_size == (1 if "shortcut" in conv.name else 3) for conv in plan)
    for s in (1, 2, 3):
        for b in (1, 2):
            first, second = by_name[f"stage{s}.block{b}.conv1"], by_name[f"stage{s}.block{b}.conv2"]
            assert second.in_type == first.out_type.after_concatenation()
            assert second.in_type.channels == 16 * 2 ** (s - 1)


def test_other_groups_and_stages() -> None:
    plan = resnet_plan(
        6, 2, group=st.cyclic(4), image_type="A", stream="regular", inner="A + B + E", stages=(1, 3)
    ).convolutions
    assert [conv.out_type.channels for conv in plan] == [8, 8, 8, 24, 24, 24]


def test_act_of_the_inner_type() -> None:
    after = INNER.after_concatenation()
    assert after.channels == 16
    assert all(capsule.kind == "permutation" for capsule in after)
    parts = [a.representation for capsule in INNER for a in capsule.after_concatenation()]
    assert after.type == st.direct_sum(parts).type


@pytest.mark.parametrize("depth", [2, 8 - 1, 15, -4])
def test_depths_that_do_not_fit(depth: int) -> None:
    with pytest.raises(ValueError, match=f"a depth of 6·blocks \\+ 2, that is 8, 14, …; got {depth}"):
        resnet_plan(depth, 1)


def test_at_least_one_copy() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        resnet_plan(14, 0)


# ---------------------------------------------------------------- cost and utilisation


@settings(deadline=None, database=None, derandomize=True, max_examples=30)
@given(
    some.sampled_from(["C2", "C4", "D2", "D4"]).map(group),
    some.lists(some.integers(0, 2), min_size=2, max_size=3),
    some.lists(some.integers(0, 2), min_size=2, max_size=3),
    some.integers(1, 4),
)
def test_cost_is_the_number_of_kernels(g: st.FiniteGroup, first: list[int], second: list[int], size: int) -> None:
    capsules = list(g.capsules.values())
    a = st.FieldType(g, list(zip(first, capsules[::-1], strict=False)))
    b = st.FieldType(g, list(zip(second, capsules[1:], strict=False)))
    cost = st.parameter_cost(a, b, size)
    assert cost == len(st.kernel_basis(a.representation, b.representation, size))
    if cost:
        plain = size**2 * a.channels * b.channels
        assert st.parameter_utilization(a, b, size) == pytest.approx(plain / cost)


@pytest.mark.parametrize("name", ["C1", "C2", "C4", "D1", "D2", "D4", "O"])
def test_regular_capsules_are_used_order_many_times(name: str) -> None:
    """μ = |H| whenever one side is regular, whatever the other and the kernel size."""
    g = group(name)
    regular = st.FieldType(g, "regular")
    for capsule in g.capsules.values():
        other = st.FieldType(g, capsule)
        for size in (1, 2, 3):
            assert st.parameter_utilization(regular, other, size) == g.order
            assert st.parameter_utilization(other, regular, size) == g.order


def test_utilisation_in_the_paper_s_blocks_is_around_eight() -> None:
    assert st.parameter_cost(STREAM, INNER, 3) == 9 * 8 + 3 * (9 * 4 * 8 // 8)
    assert st.parameter_utilization(STREAM, INNER, 3) == 8
    assert st.parameter_utilization(INNER.after_concatenation(), STREAM, 3) == pytest.approx(8, rel=0.1)


def test_cost_from_types() -> None:
    """dim Hom = Σ m_i m'_i for D4, from the multiplicities alone."""
    for a, b in ((STREAM, INNER), (INNER, INNER), (INNER, STREAM)):
        pi = st.pixel_patch(D4, 3) @ a.representation
        assert st.parameter_cost(a, b, 3) == np.dot(pi.type, b.type)


def test_utilisation_of_nothing_has_no_value() -> None:
    a, b = st.FieldType(D4, "A1"), st.FieldType(D4, "A2")
    assert st.parameter_cost(a, b, 3) == 0
    with pytest.raises(ValueError, match="no equivariant map from `A1` to `A2` with kernel size 3"):
        st.parameter_utilization(a, b, 3)


@pytest.mark.parametrize("name", ["C4", "D2", "C1", "D1"])
def test_groups_without_the_papers_capsules_get_regular_ones(name: str) -> None:
    g = st.group_named(name)
    plan = resnet_plan(8, 2, group=g)
    assert plan.blocks[0].in_type == 2 * st.FieldType(g, "regular")
    assert plan.blocks[0].inner == 2 * st.FieldType(g, "regular")
    assert resnet_plan(8, 2, group=g, inner="A1").blocks[0].inner == 2 * st.FieldType(g, "A1")


@pytest.mark.parametrize(("name", "mix"), [("SO2", "A + E1 + E2 + E3"), ("O(2)", "A1 + A2 + E1 + E2")])
def test_groups_of_every_angle_get_irreps_of_few_frequencies(name: str, mix: str) -> None:
    g = st.group_named(name)
    assert resnet_plan(8, 2, group=g).blocks[0].inner == 2 * st.FieldType(g, mix)
