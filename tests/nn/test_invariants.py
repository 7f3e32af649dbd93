"""Invariant maps: group pooling and pooling over cosets, against loops over the group."""

import itertools
from functools import partial

import pytest
import refusals
import torch

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)


def field(field_type: FieldType) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, field_type.channels, 3, 3, generator=generator, dtype=torch.float64)


refusal = partial(refusals.refusal, TypeError)


def test_group_pooling_of_each_capsule() -> None:
    field_type = FieldType(D4, "2*regular + E + A2 + qm + A1")
    x = field(field_type)
    largest, length = snn.GroupPool(field_type), snn.GroupPool(field_type, "norm")
    assert str(largest.out_type) == str(length.out_type) == "6*A1"
    for k, (capsule, channels) in enumerate(zip(field_type.capsules, field_type.slices, strict=True)):
        part = x[:, channels] if capsule.kind == "permutation" else x[:, channels].abs()
        torch.testing.assert_close(largest(x)[:, k], part.max(1).values)
        torch.testing.assert_close(length(x)[:, k], x[:, channels].norm(dim=1))
    permuted = FieldType(D4, "regular + 2*qm + A1")
    mean = snn.GroupPool(permuted, "mean").double()(field(permuted))
    for k, channels in enumerate(permuted.slices):
        torch.testing.assert_close(mean[:, k], field(permuted)[:, channels].mean(1))


@pytest.mark.parametrize("mode", ["max", "mean", "norm"])
def test_pooled_values_do_not_depend_on_the_pose(mode: str) -> None:
    field_type = FieldType(D4, "2*regular + qm" if mode == "mean" else "regular + E + A2 + qm")
    layer = snn.GroupPool(field_type, mode).double()  # type: ignore[arg-type]
    fibres = field(field_type)[:, :, 0, 0]
    expected = layer(fibres)
    assert expected.abs().min() > 0
    for g in D4.elements:
        torch.testing.assert_close(layer(st.transform(fibres, g, field_type)), expected)


def subgroups() -> list[tuple[str, ...]]:
    return [tuple(members) for members in D4.subgroups()]


@pytest.mark.parametrize("mode", ["max", "mean"])
@pytest.mark.parametrize("members", subgroups(), ids="-".join)
def test_coset_pooling_of_regular_capsules(members: tuple[str, ...], mode: str) -> None:
    """y(gK) is the maximum or mean of x(h) over h in gK; the coset of g stands where the quotient has it."""
    field_type = FieldType(D4, "2*regular")
    layer = snn.CosetPool(field_type, members, mode)  # type: ignore[arg-type]
    x = field(field_type)
    y = layer(x).unflatten(1, (2, -1))
    target = layer.out_type[0]
    assert layer.out_type == FieldType(D4, [(2, st.Capsule(D4.quotient(members), "quotient"))])
    for copy, g in itertools.product(range(2), D4.elements):
        coset = [D4.elements.index(D4.multiply(g, k)) for k in members]
        values = x.unflatten(1, (2, 8))[:, copy, coset]
        place = int(target.representation(g)[:, 0].argmax())  # where g takes the coset of e
        expected = values.max(1).values if mode == "max" else values.mean(1)
        torch.testing.assert_close(y[:, copy, place], expected)
    st.testing.assert_equivariant(layer)


def test_coset_pooling_of_quotients() -> None:
    field_type = FieldType(D4, "qm + regular")
    layer = snn.CosetPool(field_type, ["e", "r2", "m", "mr2"])
    assert str(layer.out_type) == "2*r2m"
    st.testing.assert_equivariant(layer)
    everything = snn.CosetPool(field_type, D4.elements)
    assert str(everything.out_type) == "2*A1"
    x = field(field_type)
    torch.testing.assert_close(everything(x), torch.stack([x[:, :4].amax(1), x[:, 4:].amax(1)], dim=1))


@pytest.mark.parametrize("mode", ["max", "mean"])
@pytest.mark.parametrize("n", [1, 3, 4, 6, 8])
def test_pooling_over_reflections_goes_from_dihedral_to_cyclic_groups(n: int, mode: str) -> None:
    """y(h) is the maximum or mean of x(h) and x(hm), at the place of h in C_n's regular capsule."""
    larger, smaller = st.dihedral(n), st.cyclic(n)
    field_type = FieldType(larger, "2*regular + A2")
    layer = snn.SubgroupPool(field_type, f"C{n}", mode)  # type: ignore[arg-type]
    assert layer.out_type == FieldType(smaller, "2*regular + A")
    x = field(field_type)[:, :, 0, 0]
    y = layer(x)
    for copy, h in itertools.product(range(2), smaller.elements):
        pair = [2 * n * copy + larger.index(g) for g in (h, larger.multiply(h, "m"))]
        expected = x[:, pair].amax(1) if mode == "max" else x[:, pair].mean(1)
        torch.testing.assert_close(y[:, n * copy + smaller.index(h)], expected)
    torch.testing.assert_close(y[:, -1], x[:, -1])


@pytest.mark.parametrize("members", subgroups(), ids="-".join)
def test_pooling_to_any_subgroup(members: tuple[str, ...]) -> None:
    """A regular capsule becomes one regular capsule of the subgroup, which moves it as it should."""
    field_type = FieldType(D4, "2*regular + qm + E")
    layer = snn.SubgroupPool(field_type, members, "mean")
    assert layer.out_type.group.order == len(members)
    assert dict(layer.out_type.terms)[layer.out_type.group.capsule("regular")] >= 2
    st.testing.assert_equivariant(layer)
    whole = snn.SubgroupPool(FieldType(D4, "regular + E"), "D4")
    x = field(whole.in_type)
    assert torch.equal(whole(x), x)


def test_refusals() -> None:
    assert refusal(snn.CosetPool, FieldType(D4, "qm"), ["e", "r2"]) == (
        "CosetPool: capsule `qm` is the quotient by {e, m}, which is not a part of the subgroup {e, r2}. Choose a "
        "subgroup that contains it."
    )
    assert refusal(snn.CosetPool, FieldType(D4, "E"), ["e", "r2"]) == (
        "CosetPool is not admissible for capsule `E`: it pools the channels of `regular` and other quotients, which "
        "the group permutes. Use `GroupPool(mode='norm')`, or `GroupPool(mode='max')`."
    )
    assert refusal(snn.GroupPool, FieldType(D4, "E"), "mean") == (
        "GroupPool(mode='mean') is not admissible for capsule `E`: it has no invariant direction, so its mean "
        "over the group is zero. Use `GroupPool(mode='norm')`, or `GroupPool(mode='max')`."
    )
    with pytest.raises(ValueError, match="mode") as error:
        snn.GroupPool(FieldType(D4, "E"), "median")  # type: ignore[arg-type]
    assert str(error.value) == "mode must be 'max', 'mean' or 'norm', got 'median'."
    assert "its matrices are orthogonal, but mix channels" in refusal(snn.GroupPool, FieldType(st.dihedral(3), "E"))
