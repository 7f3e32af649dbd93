"""Containers: they compute what they say, and check neighbours when they are built."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
A1, REGULAR, E, QM, QMR = (FieldType(D4, text) for text in ("3*A1", "2*regular", "2*E", "4*qm", "4*qmr"))


def refusal(call: object, *args: object, error: type[Exception] = TypeError) -> str:
    with pytest.raises(error) as caught:
        call(*args)  # type: ignore[operator]
    return str(caught.value)


# -------------------------------------------------------------------- Sequential


def test_sequential_runs_its_layers() -> None:
    first, second = snn.Conv2d(A1, REGULAR, 3, padding=1), snn.ReLU(REGULAR)
    net = snn.Sequential(first, second)
    assert (net.in_type, net.out_type) == (A1, REGULAR)
    x = torch.randn(1, 3, 5, 5)
    assert torch.equal(net(x), second(first(x)))
    assert len(net) == 2
    assert list(net) == [first, second]
    assert net[0] is first
    assert net[-1] is second
    assert net[1:].in_type == REGULAR
    named = snn.Sequential(OrderedDict(conv=first, act=second))
    assert list(named.state_dict()) == ["conv.weight", "conv.bias"]
    assert named.conv is first


def test_sequential_names_both_neighbours() -> None:
    assert refusal(snn.Sequential, snn.Conv2d(A1, REGULAR, 3), snn.ReLU(QM)) == (
        "Sequential: (0) Conv2d gives a field of type `2*regular` of D4, but (1) ReLU takes `4*qm` of D4. Put "
        "`snn.Conv2d(2*regular, 4*qm, 1)` in between, or change one of the types."
    )
    named = OrderedDict(stem=snn.Conv2d(A1, REGULAR, 3), act=snn.ReLU(FieldType(st.cyclic(4), "4*regular")))
    assert refusal(snn.Sequential, named) == (
        "Sequential: (stem) Conv2d gives a field of type `2*regular` of D4, but (act) ReLU takes `4*regular` of C4. "
        "Put `snn.Restrict` in between, or build both for D4."
    )


def test_the_bridge_that_is_named_is_not_zero() -> None:
    """A1 and A2 share no irrep, and the smallest odd kernel that leads from one to the other has 5×5 taps."""
    A2, B1 = FieldType(D4, "A2"), FieldType(D4, "B1")
    assert "`snn.Conv2d(3*A1, A2, 5)`" in refusal(snn.Sequential, snn.Identity(A1), snn.Identity(A2))
    assert st.parameter_cost(A1, A2, 3) == 0 < st.parameter_cost(A1, A2, 5)
    assert "`snn.Conv2d(3*A1, B1, 3)`" in refusal(snn.Sequential, snn.Identity(A1), snn.Identity(B1))
    assert st.parameter_cost(A1, B1, 1) == 0 < st.parameter_cost(A1, B1, 3)


def test_sequential_takes_equivariant_layers() -> None:
    assert refusal(snn.Sequential, snn.Identity(A1), nn.ReLU()) == (
        "Sequential takes equivariant layers; (1) is a ReLU, which has no types. Use the layer of steerable.nn, or "
        "torch.nn.Sequential for what comes after the last field."
    )
    assert refusal(snn.Sequential, error=ValueError) == (
        "Sequential needs at least one layer, since nothing else says its type; use Identity(type)."
    )


# -------------------------------------------------------------------- Residual


def test_residual_adds() -> None:
    body, shortcut = snn.Conv2d(REGULAR, E, 3, padding=1), snn.Conv2d(REGULAR, E, 1)
    x = torch.randn(1, 16, 5, 5)
    torch.testing.assert_close(snn.Residual(body, shortcut)(x), body(x) + shortcut(x))
    same = snn.Conv2d(REGULAR, REGULAR, 3, padding=1)
    torch.testing.assert_close(snn.Residual(same)(x), x + same(x))


MISMATCH = (
    "Residual: cannot add a field of type `4*qm` to one of type `4*qmr`: `m` moves their channels differently. Only "
    "identical capsules may be added; map one onto the other with `snn.Conv2d(4*qmr, 4*qm, 1)`."
)


def test_residual_admits_identical_capsules_only() -> None:
    body = snn.Conv2d(QMR, QM, 3, padding=1)
    assert refusal(snn.Residual, body) == f"{MISMATCH} Pass that as the shortcut."
    snn.Residual(body, snn.Conv2d(QMR, QM, 1))  # the remedy
    assert refusal(snn.Residual, body, snn.Identity(QMR)) == MISMATCH


def test_adding_what_is_refused_is_really_not_equivariant() -> None:
    body = snn.Conv2d(QMR, QM, 3, padding=1)
    sums = lambda x: x + body(x)  # noqa: E731
    x = torch.randn(1, 16, 5, 5)
    for out_type in (QM, QMR):
        errors = st.testing.equivariance_errors(sums, x, in_type=QMR, out_type=out_type)
        assert errors["m"] > 0.1


def test_other_reasons_of_a_mismatch() -> None:
    to_e = snn.Conv2d(REGULAR, E, 3, padding=1)
    assert refusal(snn.Residual, to_e) == (
        "Residual: cannot add a field of type `2*E` to one of type `2*regular`: they have 16 and 4 channels. Only "
        "identical capsules may be added; map one onto the other with `snn.Conv2d(2*regular, 2*E, 1)`. Pass that as "
        "the shortcut."
    )
    two = st.Capsule(st.direct_sum([D4.irrep("A1"), D4.irrep("A1")]), "two")
    assert "their capsules divide the same channels differently" in refusal(
        snn.Residual, snn.Conv2d(FieldType(D4, "2*A1"), FieldType(D4, two), 1)
    )
    restrict = snn.Restrict(REGULAR, st.cyclic(4))
    assert refusal(snn.Residual, restrict) == (
        "Residual: cannot add a field of type `4*regular` to one of type `2*regular`: C4 acts on the one, D4 on the "
        "other. Use `snn.Restrict` on one of them. Pass that as the shortcut."
    )


def test_both_branches_start_from_one_field() -> None:
    assert refusal(snn.Residual, snn.Conv2d(QM, E, 3), snn.Conv2d(REGULAR, E, 3)) == (
        "Residual: the body takes `4*qm` of D4, the shortcut `2*regular` of D4; both start from one field."
    )
    assert refusal(snn.Residual, nn.ReLU()) == "Residual takes equivariant modules, got ReLU."


# -------------------------------------------------------------------- Parallel, Concat


def test_parallel_is_the_direct_sum_of_its_branches() -> None:
    one, two = snn.Conv2d(A1, FieldType(D4, "regular + E"), 3), snn.Conv2d(A1, FieldType(D4, "E + A1"), 3)
    layer, x = snn.Parallel(one, two), torch.randn(2, 3, 5, 5)
    assert str(layer.out_type) == "regular + 2*E + A1"
    assert torch.equal(layer(x), torch.cat([one(x), two(x)], dim=1))
    swapped = snn.Parallel(two, one)
    assert str(swapped.out_type) == "2*E + A1 + regular"
    expected = [two(x)[:, :2], one(x)[:, 8:], two(x)[:, 2:], one(x)[:, :8]]
    assert torch.equal(swapped(x), torch.cat(expected, dim=1))


def test_parallel_and_concat_refuse() -> None:
    assert refusal(snn.Parallel, snn.ReLU(QM), snn.ReLU(QMR)) == (
        "Parallel: branch 0 takes `4*qm` of D4, branch 1 `4*qmr` of D4; all start from one field."
    )
    assert refusal(snn.Parallel, snn.ReLU(QM), nn.ReLU()) == ("Parallel takes equivariant modules; branch 1 is a ReLU.")
    assert refusal(snn.Parallel, error=ValueError) == "Parallel needs at least one branch."
    assert refusal(snn.Concat, [], error=ValueError) == "Concat needs at least one type."
    assert refusal(snn.Concat, [QM, FieldType(st.cyclic(4), "regular")]) == (
        "cannot add a field type of D4 and one of C4: different groups act on them. Restrict one of them first."
    )


def test_a_layer_used_twice_stays_twice_in_the_plain_network() -> None:
    relu = snn.ReLU(REGULAR)
    net = snn.Sequential(snn.Conv2d(REGULAR, REGULAR, 3), relu, snn.Conv2d(REGULAR, REGULAR, 3), relu).eval()
    x = torch.randn(1, REGULAR.channels, 9, 9)
    with torch.no_grad():
        assert torch.equal(snn.to_plain(net)(x), net(x))


def test_a_norm_of_pooled_fields_has_a_plain_counterpart() -> None:
    net = snn.Sequential(snn.GlobalAvgPool(REGULAR), snn.BatchNorm2d(REGULAR), snn.ReLU(REGULAR))
    net(torch.randn(4, REGULAR.channels, 5, 5))
    x = torch.randn(2, REGULAR.channels, 5, 5)
    with torch.no_grad():
        assert torch.allclose(snn.to_plain(net)(x), net.eval()(x), atol=1e-6)
