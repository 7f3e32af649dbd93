"""Nonlinearities: what they compute, where they are admissible, and what they say where they are not."""

import math
from functools import partial

import numpy as np
import pytest
import refusals
import torch
from torch import nn

import steerable as st
from steerable import Capsule, FieldType
from steerable import nn as snn
from steerable.nn import concatenated
from steerable.nn.numba import HAS_NUMBA

D4 = st.dihedral(4)
PERMUTED = FieldType(D4, "2*regular + qm + A1")
SIGNED = FieldType(D4, "2*E + A2 + regular")


def turned(name: str, degrees: float) -> Capsule:
    """E in a basis turned by an angle: orthogonal, and for most angles no longer monomial."""
    a = math.radians(degrees)
    q = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    return Capsule(st.Representation(D4, {g: q @ D4.irrep("E")(g) @ q.T for g in D4.elements}), name)


def stretched(name: str) -> Capsule:
    """E with one axis twice as long: monomial, but with entries other than ±1."""
    s = np.diag([1.0, 2.0])
    return Capsule(st.Representation(D4, {g: s @ D4.irrep("E")(g) @ np.linalg.inv(s) for g in D4.elements}), name)


def sheared(name: str) -> Capsule:
    s = np.array([[1.0, 0.7], [0.0, 1.3]])
    return Capsule(st.Representation(D4, {g: s @ D4.irrep("E")(g) @ np.linalg.inv(s) for g in D4.elements}), name)


def field(field_type: FieldType, *size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, field_type.channels, *(size or (4, 4)), generator=generator, dtype=torch.float64)


refusal = partial(refusals.refusal, TypeError)


# -------------------------------------------------------------------- values


@pytest.mark.parametrize("name", ["ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "Sigmoid", "Softplus"])
def test_pointwise_layers_are_torchs_on_each_channel(name: str) -> None:
    x = field(PERMUTED)
    torch.testing.assert_close(getattr(snn, name)(PERMUTED)(x), getattr(nn, name)()(x))


@pytest.mark.parametrize("name", ["Tanh", "Softsign", "Hardtanh"])
def test_odd_layers_are_torchs_on_signed_capsules_too(name: str) -> None:
    x = field(SIGNED)
    torch.testing.assert_close(getattr(snn, name)(SIGNED)(x), getattr(nn, name)()(x))


def test_options_and_any_function() -> None:
    x = field(PERMUTED)
    torch.testing.assert_close(snn.LeakyReLU(PERMUTED, 0.3)(x), nn.LeakyReLU(0.3)(x))
    torch.testing.assert_close(snn.ELU(PERMUTED, 2.0)(x), nn.ELU(2.0)(x))
    torch.testing.assert_close(snn.Pointwise(PERMUTED, torch.exp)(x), x.exp())
    torch.testing.assert_close(snn.Odd(SIGNED, torch.sin)(field(SIGNED)), field(SIGNED).sin())
    pooled = field(PERMUTED)[:, :, 0, 0]
    torch.testing.assert_close(snn.ReLU(PERMUTED)(pooled), pooled.relu())


def test_crelu_is_both_halves_capsule_by_capsule() -> None:
    field_type = FieldType(D4, "2*E + A1")
    layer, x = snn.CReLU(field_type), field(field_type)
    assert str(layer.out_type) == "2*qmr2 + 2*A1"
    halves = [(p.relu(), (-p).relu()) for p in (x[:, 0:2], x[:, 2:4], x[:, 4:5])]
    torch.testing.assert_close(layer(x), torch.cat([h for pair in halves for h in pair], dim=1))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("compiled", [False, True])
def test_crelu_is_the_concatenated_relu_to_all_derivatives(memory_format: torch.memory_format, compiled: bool) -> None:
    """Its one step takes, negates and rectifies; a concatenated ReLU takes two."""
    x = torch.randn(3, SIGNED.channels, 4, 5, dtype=torch.float64).contiguous(memory_format=memory_format)
    found = []
    for layer in (snn.CReLU(SIGNED), snn.Concatenated(SIGNED, nn.ReLU())):
        leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
        y = torch.compile(layer.double(), backend="aot_eager", fullgraph=True)(leaf) if compiled else layer(leaf)
        assert y.is_contiguous(memory_format=memory_format)
        (first,) = torch.autograd.grad((y * y.detach().cos()).sum() + y.pow(3).sum(), leaf, create_graph=not compiled)
        found.append([y, first])
        if not compiled:
            found[-1] += torch.autograd.grad(first.square().sum(), leaf)
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


@pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed")
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("cut", [slice(None), slice(None, None, 2)], ids=["dense", "parts"])
def test_kernels_on_a_cpu_do_what_tensor_code_does(
    memory_format: torch.memory_format, dtype: torch.dtype, cut: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = torch.randn(4, SIGNED.channels, 5, 6).to(dtype).contiguous(memory_format=memory_format)
    whole[0, 0] = float("nan")
    for layer in (snn.CReLU(SIGNED), snn.Concatenated(SIGNED, nn.Identity()), snn.CReLU(SIGNED).restrict("C4")):
        layer.to(dtype)
        outputs = []
        for kernels in (True, False):
            monkeypatch.setattr(concatenated, "HAS_NUMBA", kernels)
            leaf = whole[..., cut].detach().requires_grad_()
            assert (layer._kernels_for(leaf) is not None) == kernels
            y = layer(leaf)
            assert y.is_contiguous(memory_format=memory_format)
            outputs.append((y, *torch.autograd.grad(y, leaf, torch.linspace(-1, 1, y.numel()).view(y.shape).to(dtype))))
        for found, expected in zip(*outputs, strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_crelu_brings_equal_capsules_together() -> None:
    """A1 gives 2·A1 and A2 gives r; r itself gives 2·r: three copies of r in the end, adjacent."""
    field_type = FieldType(D4, "A2 + A1 + r")
    layer, x = snn.CReLU(field_type), field(field_type)
    assert str(layer.out_type) == "3*r + 2*A1"
    a2, a1, r = x[:, 0:1], x[:, 1:2], x[:, 2:4]
    expected = [a2.relu(), (-a2).relu(), r.relu(), (-r).relu(), a1.relu(), (-a1).relu()]
    torch.testing.assert_close(layer(x), torch.cat(expected, dim=1))
    torch.testing.assert_close(snn.Concatenated(field_type, torch.exp)(x)[:, :2], torch.cat([a2.exp(), (-a2).exp()], 1))


def test_norm_layers_scale_whole_capsules() -> None:
    field_type = FieldType(D4, "E + regular")
    x = field(field_type)
    layer = snn.NormReLU(field_type, bias=1.5).double()
    with torch.no_grad():
        layer.threshold[1] = 2.5
    y, squashed = layer(x), snn.NormActivation(field_type, torch.tanh)(x)
    for channels, b in zip(field_type.slices, (1.5, 2.5), strict=True):
        length = x[:, channels].norm(dim=1, keepdim=True)
        torch.testing.assert_close(y[:, channels], (length - b).relu() * x[:, channels] / length)
        torch.testing.assert_close(squashed[:, channels], length.tanh() * x[:, channels] / length)
    assert (y[:, :2] == 0).any()


def test_rounding_stays_small_whatever_a_norm_layer_has_learned() -> None:
    """On an even background vectors are zero but for rounding, and training may make a threshold negative."""
    layer = snn.NormReLU(FieldType(D4, "3*E")).double()
    with torch.no_grad():
        layer.threshold.copy_(torch.tensor([-0.5, 0.0, 0.5]))
    noise = 1e-16 * torch.randn(1, 6, 4, 4, dtype=torch.float64)
    assert float(layer(noise).detach().abs().max()) <= 1e-15
    x = torch.randn(2, 6, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(layer(x)[:, :2], layer(x[:, [4, 5, 2, 3, 0, 1]])[:, 4:])  # by how much, not by sign


def test_gates() -> None:
    field_type = FieldType(D4, "A1 + 2*E + A2")
    layer = snn.Gated(field_type)
    assert str(layer.in_type) == "5*A1 + 2*E + A2"  # the field's own A1 first, then four gates
    assert layer.out_type == field_type
    x = field(layer.in_type)
    s = x[:, 1:5].sigmoid()
    expected = [x[:, 0:1] * s[:, 0:1], x[:, 5:7] * s[:, 1:2], x[:, 7:9] * s[:, 2:3], x[:, 9:] * s[:, 3:]]
    torch.testing.assert_close(layer(x), torch.cat(expected, dim=1))


def test_the_default_picks_by_capsule() -> None:
    field_type = FieldType(D4, "regular + E + diagonal + A1", capsules=[turned("diagonal", 30)])
    layer = snn.Activation(field_type).double()
    assert [type(part).__name__ for part in layer.layers] == ["ReLU", "CReLU", "NormReLU", "ReLU"]
    assert str(layer.out_type) == "regular + qmr2 + diagonal + A1"
    x = field(field_type)
    length = x[:, 10:12].norm(dim=1, keepdim=True)
    expected = [x[:, :8].relu(), x[:, 8:10].relu(), (-x[:, 8:10]).relu(), (length - 0.1).relu() * x[:, 10:12] / length]
    torch.testing.assert_close(layer(x), torch.cat([*expected, x[:, 12:].relu()], dim=1))
    st.testing.assert_equivariant(layer)


def test_the_default_joins_what_becomes_equal() -> None:
    field_type = FieldType(D4, "qmr2 + A1 + E")  # E becomes qmr2 as well
    layer, x = snn.Activation(field_type), field(field_type)
    assert str(layer.out_type) == "2*qmr2 + A1"
    expected = [x[:, :4].relu(), x[:, 5:].relu(), (-x[:, 5:]).relu(), x[:, 4:5].relu()]
    torch.testing.assert_close(layer(x), torch.cat(expected, dim=1))


# -------------------------------------------------------------------- admissibility


def test_refusals_name_capsule_reason_and_remedy() -> None:
    E = FieldType(D4, "regular + E")
    remedy = "its matrices are signed permutations. Use `CReLU`, an odd nonlinearity such as `Tanh`, or `NormReLU`."
    assert refusal(snn.ReLU, E) == f"ReLU is not admissible for capsule `E`: {remedy}"
    assert refusal(snn.Pointwise, E, torch.exp) == f"Pointwise(exp) is not admissible for capsule `E`: {remedy}"
    assert refusal(snn.GELU, FieldType(D4, "A2")) == f"GELU is not admissible for capsule `A2`: {remedy}"
    for layer in (snn.CReLU, snn.Tanh):
        diagonal = FieldType(D4, turned("diagonal", 30))
        assert refusal(layer, diagonal) == (
            f"{layer.__name__} is not admissible for capsule `diagonal`: its matrices are orthogonal, but mix "
            "channels. Use `NormReLU`."
        )
    long = FieldType(D4, stretched("long"))
    assert refusal(snn.Tanh, long) == (
        "Tanh is not admissible for capsule `long`: its matrices are monomial, with entries other than ±1. Use `CReLU`."
    )
    assert refusal(snn.NormReLU, FieldType(D4, sheared("sheared"))) == (
        "NormReLU is not admissible for capsule `sheared`: its matrices are not orthogonal. Change to an orthogonal "
        "basis first, for instance with `ToIrreps`."
    )
    assert "capsule `sheared`" in refusal(snn.Activation, FieldType(D4, sheared("sheared")))


def test_scale_free_concatenation_serves_monomial_capsules() -> None:
    long = FieldType(D4, stretched("long"))
    st.testing.assert_equivariant(snn.CReLU(long))
    assert "Concatenated(exp) is not admissible for capsule `long`" in refusal(snn.Concatenated, long, torch.exp)
    assert refusal(snn.Concatenated, long, torch.exp, scale_free=True) == (
        "Concatenated(exp): the function is not scale-free, ν(ca) differs from cν(a) for c = 2.5 and a = 0. Leave "
        "scale_free off."
    )


@pytest.mark.parametrize("name", sorted(D4.capsules))
def test_what_is_refused_is_really_not_equivariant(name: str) -> None:
    """ReLU applied channel by channel is equivariant where it is admitted, and only there."""
    field_type = FieldType(D4, name)
    error = st.testing.equivariance_error(torch.relu, field(field_type), in_type=field_type, out_type=field_type)
    if field_type[0].admits("pointwise"):
        assert error == 0
        snn.ReLU(field_type)
    else:
        assert error > 0.1
        refusal(snn.ReLU, field_type)


def test_a_threshold_that_begins_at_zero_learns() -> None:
    layer = snn.NormReLU(FieldType(D4, "2*E"), bias=0.0).double()
    x = field(layer.in_type)
    assert torch.allclose(layer(x), x, rtol=1e-14)
    layer(x).square().sum().backward()
    assert layer.threshold.grad is not None
    assert (layer.threshold.grad < 0).all()  # a higher one shortens vectors
