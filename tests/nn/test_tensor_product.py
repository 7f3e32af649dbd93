"""Products of capsules: equivariant for every group, of degree 2, complete, and of the variance that is promised."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from group_zoo import random_invertible, random_orthogonal
from torch import Tensor

import steerable as st
from steerable import FieldType
from steerable import nn as snn

SO2, O2, D4, C8, Q = st.so2(), st.o2(), st.dihedral(4), st.cyclic(8), st.octahedral()


def _custom(G: st.Group) -> FieldType:
    """Capsules in turned and in skewed bases."""
    rho = G.trivial + G.irreps_of((1, 1, 1))[2] + G.irreps_of((1, 1))[1]
    turned = st.Capsule(rho.change_basis(random_orthogonal(rho.dim)), "turned")
    skewed = st.Capsule(rho.change_basis(random_invertible(rho.dim)), "skewed")
    return FieldType(G, "2*turned + 3*skewed", capsules=[turned, skewed])


PAIRS = [
    (FieldType(SO2, "3*A + 3*E1 + 3*E2"), None),
    (FieldType(SO2, "2*regular(2) + 5*A"), FieldType(SO2, "3*E4 + regular(1)")),
    (FieldType(O2, "2*regular(2) + A2 + r"), None),
    (FieldType(O2, "qm(3) + 4*E1"), FieldType(O2, "2*qm(2) + A1")),
    (FieldType(D4, "2*(regular + qm) + E + A1"), None),
    (FieldType(D4, "3*E + 2*A1"), FieldType(D4, "2*E + 5*B1 + A1")),
    (FieldType(C8, "2*(A + E1 + E2 + E3 + B)"), None),
    (FieldType(Q, "regular + A1"), None),
    *((_custom(G), None) for G in (SO2, O2, D4, C8)),
]
every_pair = pytest.mark.parametrize(
    "types", PAIRS, ids=lambda p: f"{p[0].group.name}-{p[0]}" + (f"->{p[1]}" if p[1] else "")
)


def layer_of(types: tuple[FieldType, FieldType | None]) -> snn.TensorProduct:
    torch.manual_seed(0)
    return snn.TensorProduct(*types).double()


def channels(field_type: FieldType, batch: int = 8) -> Tensor:
    return torch.randn(batch, field_type.channels, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@every_pair
def test_is_homogeneous_of_degree_two_and_each_channel_matters(types: tuple[FieldType, FieldType | None]):
    layer = layer_of(types)
    x = channels(layer.in_type).requires_grad_()
    y = layer(x)
    torch.testing.assert_close(layer(-3 * x), 9 * y)
    assert (y.abs().sum(0) > 0).all()
    y.square().sum().backward()
    assert (x.grad.abs().sum(0) > 0).all()


@every_pair
def test_independent_channels_give_variance_one_on_average_over_the_weights(types: tuple[FieldType, FieldType | None]):
    layer = layer_of(types)
    x, found = channels(layer.in_type, 2000), []
    for _ in range(40):
        layer.reset_parameters()
        with torch.no_grad():
            found.append(layer(x).var(0))
    mean = torch.stack(found).mean(0)
    for capsule in layer.out_type.slices:
        assert float(mean[capsule].mean()) == pytest.approx(1, rel=0.35)
    assert float(mean.mean()) == pytest.approx(1, rel=0.2)


@pytest.mark.parametrize("G", [D4, C8, st.dihedral(3)], ids=lambda G: G.name)
def test_one_hand_has_all_quadratic_maps(G: st.FiniteGroup):
    """As many weights as ⟨χ of the symmetric square, χ⟩, and no two of them do the same."""
    field_type = FieldType(G, [(1, irrep) for irrep in G.irreps] + [(1, G.regular)])
    layer = layer_of((field_type, None))
    character = np.asarray(field_type.character)
    square = (character**2 + character[np.diag(G.table)]) / 2
    assert layer.weight.shape == (1, round(float(square @ character) / G.order))
    x = channels(field_type, 200)
    maps = torch.stack([torch.func.functional_call(layer, {"weight": w[None]}, (x,)) for w in _units(layer.weight)])
    assert int(torch.linalg.matrix_rank(maps.flatten(1))) == layer.weight.numel()


def _units(weight: Tensor) -> Tensor:
    return torch.eye(weight.numel(), dtype=weight.dtype)


def test_the_product_of_functions_is_among_them():
    """Pointwise squares of a regular capsule, and of functions of frequency 1 up to frequency 2."""
    layer = layer_of((FieldType(SO2, "regular(1)"), FieldType(SO2, "regular(2)")))
    x = channels(layer.in_type, 50)
    squares = snn.Fourier(layer.in_type, torch.square, 8, out_type=layer.out_type).double()(x)
    weights = _units(layer.weight)
    maps = torch.stack([torch.func.functional_call(layer, {"weight": w[None]}, (x,)) for w in weights])
    fit = torch.linalg.lstsq(maps.flatten(1).T, squares.flatten()[:, None])
    torch.testing.assert_close(maps.flatten(1).T @ fit.solution, squares.flatten()[:, None])


def test_copies_are_multiplied_in_turn():
    """Three copies of A1 and two of A2: hands (0, 0), (1, 1) and (2, 0), which add to copies 0, 1 and 0."""
    G = st.dihedral(1)
    layer = layer_of((FieldType(G, "3*A1 + 2*A2"), FieldType(G, "2*A2")))
    assert layer.weight.shape == (3, 1)
    x = channels(layer.in_type)
    a, b, w = x[:, :3], x[:, 3:], layer.weight[:, 0]
    first = w[0] * a[:, 0] * b[:, 0] + w[2] * a[:, 2] * b[:, 0]
    torch.testing.assert_close(layer(x), torch.stack([first, w[1] * a[:, 1] * b[:, 1]], 1))


def test_the_cost_is_proportional_to_the_copies():
    sizes = [snn.TensorProduct(FieldType(D4, f"{n}*(regular + E)")).left.numel() / n for n in (1, 4, 16)]
    assert len(set(sizes)) == 1


def test_in_a_network():
    t = FieldType(O2, "2*(A1 + A2 + E1 + E2)")
    net = snn.Sequential(
        snn.Conv2d(FieldType(O2, "A1"), t, 5, padding=2),
        snn.Residual(snn.TensorProduct(t)),
        snn.Conv2d(t, FieldType(O2, "A1"), 5, padding=2),
    ).double()
    x = torch.randn(2, 1, 9, 9, dtype=torch.float64)
    st.testing.assert_equivariant(net, x, elements=[O2.rotation(90), O2.reflection(0)])
    st.typecheck(net, in_type=net.in_type)
    torch.testing.assert_close(snn.to_plain(net)(x), net(x))
    assert set(net.state_dict()) == {"0.weight", "0.bias", "1.body.weight", "2.weight", "2.bias"}


def test_capsules_that_would_stay_zero_are_refused_with_a_remedy():
    with pytest.raises(TypeError) as caught:
        snn.TensorProduct(FieldType(SO2, "8*E1"))
    assert str(caught.value) == (
        "TensorProduct: no product of a capsule of `8*E1` with itself or with another kind has a part in capsule `E1`, "
        "which would always be 0. Add "
        "the trivial capsule to the type, as in `8*E1 + A`, by which every capsule can be multiplied, or leave `E1` "
        "out of out_type."
    )
    assert snn.TensorProduct(FieldType(SO2, "8*E1 + A")).out_type == FieldType(SO2, "8*E1 + A")
    with pytest.raises(TypeError, match="maps between fields of one group"):
        snn.TensorProduct(FieldType(SO2, "A"), FieldType(O2, "A1"))


def test_clebsch_gordan_by_hand():
    """E1 ⊗ E1 has x² + y², which no turn changes, and (2xy, y² - x²) of frequency 2; each has variance 4."""
    layer = layer_of((FieldType(O2, "E1"), FieldType(O2, "A1 + E2")))
    x, y = channels(layer.in_type).unbind(1)  # coefficients of -sin ψ and cos ψ
    a, b = layer.weight[0]
    double = torch.stack([2 * x * y, y**2 - x**2], 1)
    found = layer(torch.stack([x, y], 1))
    torch.testing.assert_close(found[:, 0].abs(), (a * (x**2 + y**2)).abs() / 2)
    torch.testing.assert_close(found[:, 1:].abs(), (b * double).abs() / 2)
