"""Convolutions against outside oracles: a naive group convolution, torch's own layers, and averages over the group."""

import itertools
import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st_
from torch import Tensor, nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4, C4, C1 = st.dihedral(4), st.cyclic(4), st.trivial()
ALL_D4 = FieldType(D4, " + ".join(D4.capsules))


def moved_taps(kernel: Tensor, name: str) -> Tensor:
    """[g·κ](y) = κ(g⁻¹y) for an element's name such as ``e``, ``r3`` or ``mr2``: r turns, then m mirrors."""
    turns = name.removeprefix("m").removeprefix("e")
    power = 0 if not turns else int(turns.removeprefix("r") or 1)
    turned = torch.rot90(kernel, power, (-2, -1))
    return turned.flip(-1) if name.startswith("m") else turned


def naive_group_filters(group: st.FiniteGroup, psi: Tensor) -> Tensor:
    """G-CNN filters, written out: W[(o, h), (i, k)](y) = ψ[o, i, h⁻¹k](h⁻¹y) for ψ of shape (out, in, order, s, s)."""
    outputs, inputs, order, s, _ = psi.shape
    bank = psi.new_zeros(outputs, order, inputs, order, s, s)
    for (a, h), (b, k) in itertools.product(enumerate(group.elements), repeat=2):
        difference = group.elements.index(group.multiply(group.inverse(h), k))
        for o, i in itertools.product(range(outputs), range(inputs)):
            bank[o, a, i, b] = moved_taps(psi[o, i, difference], h)
    return bank.reshape(outputs * order, inputs * order, s, s)


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("group", [D4, C4], ids=["D4", "C4"])
def test_regular_convolution_is_the_naive_group_convolution(group: st.FiniteGroup, kernel_size: int) -> None:
    torch.manual_seed(kernel_size)
    layer = snn.Conv2d(FieldType(group, "2*regular"), FieldType(group, "3*regular"), kernel_size, bias=False).double()
    psi = torch.randn(3, 2, group.order, kernel_size, kernel_size, dtype=torch.float64)
    filters = naive_group_filters(group, psi)
    assert layer.weight.numel() == psi.numel()
    with torch.no_grad():
        layer.weight.copy_(layer.plan.project(filters, layer.basis))
    x = torch.randn(2, 2 * group.order, 7, 7, dtype=torch.float64)
    torch.testing.assert_close(layer(x), F.conv2d(x, filters), rtol=0, atol=1e-12)


def test_naive_group_convolution_with_loops_over_pixels() -> None:
    """The filters above, once more from the definition: [f ⋆ ψ](x, h) = Σ_y Σ_k f(x + y, k) ψ(h⁻¹y, h⁻¹k)."""
    torch.manual_seed(0)
    psi = torch.randn(1, 1, 4, 3, 3, dtype=torch.float64)
    f = torch.randn(1, 4, 3, 3, dtype=torch.float64)
    expected = torch.zeros(4, dtype=torch.float64)
    inverse_turn = {"e": (1, 0, 0, 1), "r": (0, 1, -1, 0), "r2": (-1, 0, 0, -1), "r3": (0, -1, 1, 0)}
    for a, h in enumerate(C4.elements):
        p, q, r, s = inverse_turn[h]
        for u, v in itertools.product((-1, 0, 1), repeat=2):  # y = (u, v): u to the right, v up
            back = (p * u + q * v, r * u + s * v)
            for b, k in enumerate(C4.elements):
                difference = C4.elements.index(C4.multiply(C4.inverse(h), k))
                expected[a] += f[0, b, 1 - v, 1 + u] * psi[0, 0, difference, 1 - back[1], 1 + back[0]]
    torch.testing.assert_close(F.conv2d(f, naive_group_filters(C4, psi)).flatten(), expected)


def test_every_pair_of_the_catalogue_has_the_parameters_that_it_costs() -> None:
    layer = snn.Conv2d(ALL_D4, ALL_D4, 3, bias=False)
    for out, into in itertools.product(D4.capsules, repeat=2):
        cost = st.parameter_cost(FieldType(D4, into), FieldType(D4, out), 3)
        assert layer.theta(out, into).shape == (1, 1, cost), (out, into)
    assert layer.weight.numel() == st.parameter_cost(ALL_D4, ALL_D4, 3)


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4])
def test_the_bank_of_every_pair_is_the_average_over_the_group(kernel_size: int) -> None:
    """The projection on Hom_H is κ ↦ mean over h of ρ_out(h) κ(h⁻¹·) ρ_in(h)⁻¹, and nothing of it is missing."""
    torch.manual_seed(0)
    layer = snn.Conv2d(ALL_D4, ALL_D4, kernel_size, bias=False).double()
    bank = torch.randn(ALL_D4.channels, ALL_D4.channels, kernel_size, kernel_size, dtype=torch.float64)
    average = torch.zeros_like(bank)
    for h in D4.elements:
        rho = torch.tensor(ALL_D4.representation(h))
        average += torch.einsum("ab,bcyx,dc->adyx", rho, moved_taps(bank, h), rho) / D4.order
    coefficients = layer.plan.project(bank, layer.basis)
    torch.testing.assert_close(layer.plan.expand(coefficients, layer.basis), average, rtol=0, atol=1e-12)
    torch.testing.assert_close(layer.plan.project(average, layer.basis), coefficients, rtol=0, atol=1e-12)


OPTIONS = [
    {},
    {"stride": 2},
    {"stride": (1, 3), "padding": (2, 0)},
    {"dilation": 2, "padding": 2},
    {"dilation": (2, 1), "kernel_size": (2, 3)},
    {"groups": 2, "padding": 1},
    {"groups": 4, "stride": 2},
    {"padding": "same"},
    {"padding": "same", "dilation": 2},
    {"padding": "valid"},
    {"kernel_size": 4, "padding": 1},
    {"kernel_size": 2, "stride": 2},
    {"kernel_size": (1, 5), "padding": (0, 2)},
    *({"padding": p, "padding_mode": m} for p in (2, (1, 2), "same") for m in ("reflect", "replicate", "circular")),
    {"kernel_size": 4, "padding": 2, "padding_mode": "circular", "stride": 2, "groups": 2},
    {"bias": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_without_symmetry_it_is_torchs_convolution(options: dict[str, object]) -> None:
    options = {"kernel_size": 3, **options}
    torch.manual_seed(0)
    layer = snn.Conv2d(FieldType(C1, "4*A1"), FieldType(C1, "8*A1"), **options).double()  # type: ignore[arg-type]
    plain = nn.Conv2d(4, 8, **options).double()  # type: ignore[arg-type]
    with torch.no_grad():
        plain.weight.copy_(layer.expand()[0])
        assert layer.weight.numel() == plain.weight.numel()
        if plain.bias is not None:
            nn.init.normal_(layer.bias)  # type: ignore[arg-type]
            plain.bias.copy_(layer.bias)  # type: ignore[arg-type]
    x = torch.randn(2, 4, 9, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x), plain(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel_size", "stride", "padding", "dilation"), [(3, 1, 1, 1), (4, 2, 1, 1), (3, 2, 0, 2)])
def test_the_transposed_convolution_is_the_adjoint(kernel_size: int, stride: int, padding: int, dilation: int) -> None:
    torch.manual_seed(0)
    a, b = FieldType(D4, "regular + E + A2"), FieldType(D4, "2*E + qm")
    down = snn.Conv2d(a, b, kernel_size, stride, padding, dilation, bias=False).double()
    up = snn.ConvTranspose2d(b, a, kernel_size, stride, padding, bias=False, dilation=dilation).double()
    transposed = down.expand()[0].detach().transpose(0, 1)
    with torch.no_grad():
        up.weight.copy_(up.plan.project(transposed, up.basis))
    torch.testing.assert_close(up.expand()[0], transposed)  # the transposed kernel is equivariant, too
    size = stride * 4 + dilation * (kernel_size - 1) + 1 - 2 * padding
    x = torch.randn(2, a.channels, size, size, dtype=torch.float64)
    y = torch.randn(2, b.channels, 5, 5, dtype=torch.float64)
    torch.testing.assert_close((down(x) * y).sum(), (x * up(y)).sum())


def test_groups_are_separate_convolutions_of_the_shares() -> None:
    torch.manual_seed(0)
    a, b = FieldType(D4, "4*qm + 2*E"), FieldType(D4, "2*regular + 2*A2")
    layer = snn.Conv2d(a, b, 3, groups=2).double()
    x = torch.randn(1, a.channels, 5, 5, dtype=torch.float64)
    y = layer(x)
    for share in range(2):
        into = snn.Select(a, [2 * share, 2 * share + 1, 4 + share])
        out = snn.Select(b, [share, 2 + share])
        part = snn.Conv2d(into.out_type, out.out_type, 3).double()
        with torch.no_grad():
            for o, i in itertools.product(("regular", "A2"), ("qm", "E")):
                part.theta(o, i).copy_(layer.theta(o, i).chunk(2)[share])
        torch.testing.assert_close(out(y), part(into(x)))
    assert layer.weight.numel() * 2 == st.parameter_cost(a, b, 3)


def test_bias_points_along_invariants_only() -> None:
    layer = snn.Conv2d(FieldType(D4, "A1"), FieldType(D4, "2*regular + A2 + E + qm"), 3)
    assert layer.bias is not None
    assert layer.bias.shape == (3,)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    expected = torch.tensor(8 * [1.0] + 8 * [2.0] + 3 * [0.0] + 4 * [3.0])
    torch.testing.assert_close(layer(torch.randn(1, 1, 3, 3)).flatten(), expected)
    assert snn.Conv2d(FieldType(D4, "A1"), FieldType(D4, "E + B1"), 3).bias is None
    assert snn.Conv2d(FieldType(D4, "A1"), FieldType(D4, "regular"), 3, bias=False).bias is None


def test_theta_is_a_view_of_one_pair() -> None:
    layer = snn.Conv2d(FieldType(D4, "2*A1 + 3*E"), FieldType(D4, "2*qm + E"), 3)
    theta = layer.theta("qm", "E")
    assert theta.shape == (2, 3, st.parameter_cost(FieldType(D4, "E"), FieldType(D4, "qm"), 3))
    bank = layer.expand()[0].detach()
    with torch.no_grad():
        theta.zero_()
    changed = (layer.expand()[0].detach() != bank).sum((2, 3)) > 0
    assert changed[:8, 2:].any()
    assert not changed[:8, :2].any()
    assert not changed[8:].any()
    message = "this layer has no filters from `B1` to `qm`; it maps `2*A1 + 3*E` to `2*qm + E`."
    with pytest.raises(ValueError, match="no filters") as error:
        layer.theta("qm", "B1")
    assert str(error.value) == message


GROUPS = {"C1": C1, "C2": st.cyclic(2), "C4": C4, "D1": st.dihedral(1), "D2": st.dihedral(2), "D4": D4}


@st_.composite
def convolutions(draw: st_.DrawFn) -> tuple[snn.Conv2d, Tensor]:
    group = GROUPS[draw(st_.sampled_from(sorted(GROUPS)))]
    kinds = st_.lists(st_.tuples(st_.integers(1, 3), st_.sampled_from(sorted(group.capsules))), min_size=1, max_size=3)
    in_type, out_type = (FieldType(group, " + ".join(f"{n}*{c}" for n, c in draw(kinds))) for _ in range(2))
    kernel, stride, dilation = draw(st_.integers(1, 5)), draw(st_.integers(1, 3)), draw(st_.integers(1, 2))
    extent = dilation * (kernel - 1) + 1
    padding = draw(st_.integers(0, min(2, extent // 2)))
    mode = draw(st_.sampled_from(["zeros", "reflect", "replicate", "circular"]))
    least = max(1, extent - 2 * padding, padding + 1)
    fitting = [n for n in range(least, least + 8) if (n + 2 * padding - extent) % stride == 0]
    height, width = draw(st_.sampled_from(fitting)), draw(st_.sampled_from(fitting))
    torch.manual_seed(draw(st_.integers(0, 99)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Conv2d: there is no equivariant map")
        layer = snn.Conv2d(
            in_type, out_type, kernel, stride, padding, dilation, padding_mode=mode, strict=True
        ).double()
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    return layer, torch.randn(2, in_type.channels, height, width, dtype=torch.float64)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(convolutions())
def test_random_convolutions_are_equivariant(case: tuple[snn.Conv2d, Tensor]) -> None:
    layer, x = case
    assert st.testing.equivariance_error(layer, x) <= 1e-12
    assert layer.weight.numel() == st.parameter_cost(layer.in_type, layer.out_type, layer.kernel_size)
