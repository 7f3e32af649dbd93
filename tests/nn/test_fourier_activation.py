"""Fourier nonlinearities: exact on the group of their samples, as close as they say elsewhere, with right values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from planar_zoo import function_values
from torch import Tensor, nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn

SO2, O2, D4 = st.so2(), st.o2(), st.dihedral(4)
EXACT = 1e-12

TYPES = [
    FieldType(SO2, "2*regular(3) + A"),
    FieldType(SO2, "qC2(4) + 2*regular(1)"),
    FieldType(O2, "2*regular(2) + qm(3)"),
    FieldType(O2, "r + 2*qD4(8) + qC2(4) + A1"),
]
every_type = pytest.mark.parametrize("field_type", TYPES, ids=lambda t: f"{t.group.name}-{t}")


def coefficients(field_type: FieldType, *size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(64, field_type.channels, *size, generator=generator, dtype=torch.float64)


def error(layer: snn.EquivariantModule, g: object, seed: int = 0) -> float:
    """√(E‖y(ρ(g)x) - ρ(g)y(x)‖² / E‖y‖²) on pooled fields."""
    x = coefficients(layer.in_type, seed=seed)
    before, after = (torch.tensor(t.representation(g)) for t in (layer.in_type, layer.out_type))
    y = layer(x)
    return math.sqrt(float((layer(x @ before.T) - y @ after.T).square().mean() / y.square().mean()))


# ---------------------------------------------------------------- equivariance


@every_type
@pytest.mark.parametrize("function", [torch.relu, torch.tanh, nn.ELU()], ids=lambda f: getattr(f, "__name__", "ELU"))
def test_the_group_of_the_samples_and_the_grid_are_exact_and_other_rotations_as_close_as_stated(
    field_type: FieldType, function: object
):
    G = field_type.group
    layer = snn.Fourier(field_type, function).double()
    grid = [G.rotation(90), G.rotation(180), *([G.reflection(0), G.reflection(45)] if G is O2 else [])]
    own = [G.rotation(360 / math.gcd(*layer.samples))]
    for g in (*grid, *own):
        assert error(layer, g) <= EXACT
    assert 0 < layer.aliasing <= 0.01
    for g in G.random(6, seed=3):
        assert error(layer, g, seed=1) <= 3 * layer.aliasing


@pytest.mark.parametrize("text", ["regular(1)", "regular(3)", "qC2(6)"])
def test_aliasing_falls_with_the_number_of_samples(text: str):
    field_type = FieldType(SO2, text)
    found = [snn.Fourier(field_type, torch.relu, samples=n) for n in (16, 32, 64, 128)]
    for few, many in itertools.pairwise(found):
        assert many.aliasing < few.aliasing / 2.5  # of a function with kinks it falls as 1 / N²
    for layer in found:
        mean = np.mean([error(layer.double(), g, seed=2) ** 2 for g in SO2.random(40, seed=9)])
        assert math.sqrt(mean) == pytest.approx(layer.aliasing, rel=0.4)


@pytest.mark.parametrize(("k", "power"), [(1, 2), (3, 2), (4, 2), (2, 3)])
def test_polynomials_are_exact_for_all_rotations_with_enough_samples_and_not_with_fewer(k: int, power: int):
    """A power p of waves up to k has waves up to pk, and N samples take k for one of N - k: N > (p + 1)k is enough."""
    for field_type in (FieldType(SO2, f"2*regular({k})"), FieldType(O2, f"regular({k}) + qm({k})")):
        chosen = snn.Fourier(field_type, lambda x: x**power, tolerance=EXACT).double()
        assert min(chosen.samples) == max(chosen.samples) == 4 * math.floor((power + 1) * k / 4 + 1)
        for g in field_type.group.random(5, seed=1):
            assert error(chosen, g) <= EXACT
    if chosen.samples[0] - 4 > 2 * k:
        fewer = snn.Fourier(field_type, lambda x: x**power, samples=chosen.samples[0] - 4).double()
        assert fewer.aliasing > 0.01
        assert error(fewer, field_type.group.rotation(20)) > 0.01


def test_the_number_of_samples_is_the_smallest_within_the_tolerance():
    field_type = FieldType(O2, "qm(3)")
    for tolerance in (0.1, 0.03, 0.003):
        layer = snn.Fourier(field_type, torch.relu, tolerance=tolerance)
        assert layer.aliasing <= tolerance
        assert layer.samples[0] % 4 == 0
        if layer.samples[0] > 8:
            assert snn.Fourier(field_type, torch.relu, samples=layer.samples[0] - 4).aliasing > tolerance


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(("G", "name"), [(SO2, "regular(2)"), (O2, "regular(2)"), (O2, "qm(3)"), (SO2, "qC2(4)")])
def test_it_is_the_function_of_the_values_cut_off_at_the_frequency(G: st.Group, name: str):
    """By an integral over the group, of functions as their definition gives them."""
    rho = G.capsule(name).representation
    turns = [G.rotation(0.5 * j) for j in range(720)]
    points = [*turns, *(G.multiply(G.reflection(0), g) for g in turns)] if G is O2 else turns
    values = torch.tensor(function_values(rho, points)) / math.sqrt(rho.dim)
    x = coefficients(FieldType(G, name))
    expected = torch.relu(x @ values.T) @ values * rho.dim / len(points)
    y = snn.Fourier(FieldType(G, name), torch.relu, samples=256).double()(x)
    assert float((y - expected).norm() / expected.norm()) <= 1e-3


def test_a_higher_cut_off_keeps_more_of_the_function():
    low, high = FieldType(SO2, "3*regular(2)"), FieldType(SO2, "3*regular(5)")
    layer = snn.Fourier(low, torch.relu, out_type=high).double()
    assert (layer.in_type, layer.out_type) == (low, high)
    assert "3*regular(2) → 3*regular(5), relu, samples=" in repr(layer)
    x = coefficients(low)
    short = snn.Fourier(low, torch.relu, samples=layer.samples[0]).double()(x).unflatten(1, (3, 5))
    scale = math.sqrt(11 / 5)  # values have variance 1 where coefficients do, of five or of eleven
    torch.testing.assert_close(layer(x).unflatten(1, (3, 11))[:, :, :5], scale * short)
    for g in SO2.random(3, seed=0):
        assert error(layer, g) <= 2 * layer.aliasing


def test_values_of_random_coefficients_have_unit_variance():
    for field_type in (FieldType(SO2, "regular(4)"), FieldType(O2, "regular(2)"), FieldType(O2, "qD2(4)")):
        seen: list[Tensor] = []

        def watched(values: Tensor, seen: list[Tensor] = seen) -> Tensor:
            seen.append(values)
            return values

        layer = snn.Fourier(field_type, watched, samples=24).double()
        seen.clear()
        x = torch.randn(20000, field_type.channels, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(layer(x), x)  # the identity goes there and back
        torch.testing.assert_close(seen[0].var(0), torch.ones_like(seen[0][0]), rtol=0.05, atol=0)


def test_functions_on_a_finite_group_are_those_of_the_regular_capsule():
    """In the basis of irreps the layer is a ReLU between two changes of basis, with values in some order."""
    spectral = st.Capsule(D4.regular.change_basis(st.decompose(D4.regular)[1]), "spectral")
    layer = snn.Fourier(FieldType(D4, spectral), torch.relu).double()
    assert (layer.samples, layer.aliasing) == ((8,), 0.0)
    x = coefficients(layer.in_type)
    there, back = layer.matrices[:64].view(8, 8), layer.matrices[64:].view(8, 8)
    torch.testing.assert_close(layer(x), torch.relu(x @ there.T) @ back.T)
    torch.testing.assert_close(there @ back, torch.eye(8, dtype=torch.float64))
    quotient = st.Capsule(D4.quotient(["e", "m"]).change_basis(st.decompose(D4.quotient(["e", "m"]))[1]), "low")
    assert snn.Fourier(FieldType(D4, quotient), torch.relu).samples == (4,)


def test_permutations_are_values_already():
    for field_type in (FieldType(D4, "2*regular + qm + A1"), FieldType(O2, "r + 2*A1")):
        x = coefficients(field_type, 2, 3)
        assert torch.equal(snn.Fourier(field_type, torch.relu)(x), torch.relu(x))


# ---------------------------------------------------------------- in networks


def net(function: object = torch.relu) -> snn.Sequential:
    hidden = FieldType(SO2, "2*regular(2) + A")
    return snn.Sequential(
        snn.Conv2d(FieldType(SO2, "A"), hidden, 5, padding=2),
        snn.Fourier(hidden, function),
        snn.Conv2d(hidden, FieldType(SO2, "3*A"), 5, padding=2),
    )


def test_a_network_over_so2_is_exact_on_the_grid_and_takes_types_seriously():
    model = net().double()
    st.testing.assert_equivariant(model, torch.randn(2, 1, 9, 9, dtype=torch.float64), elements=[SO2.rotation(90)])
    st.typecheck(model, in_type=model.in_type)
    with pytest.raises(TypeError, match="Fourier"):
        snn.Sequential(snn.Conv2d(FieldType(SO2, "A"), FieldType(SO2, "regular(1)"), 5), *net()[1:])


def test_the_function_may_learn():
    layer = snn.Fourier(FieldType(SO2, "2*regular(1)"), nn.PReLU())
    layer(torch.randn(3, 6)).square().sum().backward()
    assert layer.function.weight.grad.abs() > 0
    assert list(layer.state_dict()) == ["function.weight"]


def test_a_function_without_values_needs_a_number_of_samples():
    with torch.device("meta"):
        with pytest.raises(ValueError, match=r"meta device and have no values. Give samples=\.\.\., a multiple of 4\."):
            snn.Fourier(FieldType(SO2, "regular(1)"), nn.PReLU())
        assert math.isnan(snn.Fourier(FieldType(SO2, "regular(1)"), nn.PReLU(), samples=8).aliasing)


# ---------------------------------------------------------------- refusals


def refusal(kind: type[Exception], *args: object, **options: object) -> str:
    with pytest.raises(kind) as caught:
        snn.Fourier(*args, **options)
    return str(caught.value)


def test_capsules_that_are_not_functions_are_refused_with_what_to_use():
    assert refusal(TypeError, FieldType(SO2, "regular(2) + E1"), torch.relu) == (
        "Fourier(relu) is not admissible for capsule `E1`: it is not a space of functions on SO2, since it has no "
        "constant function. Use `NormReLU`, `Gated`, or put it into `regular(1)`, which contains it."
    )
    assert refusal(TypeError, FieldType(D4, "E"), torch.relu) == (
        "Fourier(relu) is not admissible for capsule `E`: it is not a space of functions on D4, since it has no "
        "constant function. Use `CReLU`, an odd nonlinearity such as `Tanh`, `NormReLU`, `Gated`, or put it into "
        "`regular`, which contains it."
    )
    twice = st.Capsule(SO2.trivial + 2 * SO2.irrep("E2"), "twice")
    assert refusal(TypeError, FieldType(SO2, twice), torch.relu) == (
        "Fourier(relu) is not admissible for capsule `twice`: it is not a space of functions on SO2, since it contains "
        "`E2` 2 times, and the functions on SO2 contain it once. Use `NormReLU`, or `Gated`."
    )


def test_other_nonlinearities_name_it_where_it_is_admissible():
    with pytest.raises(TypeError) as caught:
        snn.ReLU(FieldType(SO2, "regular(2)"))
    assert str(caught.value) == (
        "ReLU is not admissible for capsule `regular(2)`: its matrices are orthogonal, but mix channels. Use "
        "`Fourier`, or `NormReLU`."
    )
    with pytest.raises(st.EquivarianceError, match=r"Use `Fourier`, or `NormReLU`\."):
        st.typecheck(torch.relu, in_type=FieldType(O2, "qm(2)"))


def test_numbers_of_samples_are_checked():
    t = FieldType(SO2, "regular(3)")
    for given, enough in ((10, 12), (4, 8), (0, 8), (-4, 8)):
        assert refusal(ValueError, t, torch.relu, given) == (
            "Fourier(relu): expected samples for capsule `regular(3)` to be a multiple of 4, so that quarter turns "
            f"exchange them, and at least 8, so that they tell its waves apart; got {given}. Use samples={enough}."
        )
    assert "multiple of 12" in refusal(ValueError, FieldType(SO2, "qC3(3)"), torch.relu, 16)
    for given in (8.0, "8", True):
        assert "samples must be a whole number, such as 16; got" in refusal(TypeError, t, torch.relu, given)
    assert refusal(ValueError, FieldType(D4, "regular"), torch.relu, 16) == (
        "Fourier(relu): got samples=16, but functions on D4 have finitely many points, and all of them are taken. "
        "Leave samples out."
    )
    assert "tolerance must be a number above 0" in refusal(ValueError, t, torch.relu, tolerance=0.0)
    assert "tolerance must be a number above 0" in refusal(ValueError, t, torch.relu, tolerance=math.nan)


def test_functions_with_jumps_are_refused_unless_their_aliasing_is_accepted():
    t = FieldType(SO2, "regular(2)")
    message = refusal(ValueError, t, torch.sign)
    assert message.startswith("Fourier(sign): 128 samples of `regular(2)` have an aliasing of 0.0")
    assert "accept its aliasing with samples=..." in message
    assert snn.Fourier(t, torch.sign, samples=16).aliasing > 0.05


def test_functions_of_more_than_one_value_are_refused():
    assert "does not act on each value alone" in refusal(TypeError, FieldType(SO2, "regular(2)"), nn.Softmax(1))


def test_another_cut_off_keeps_the_copies():
    low = FieldType(SO2, "2*regular(2)")
    for other in (FieldType(SO2, "3*regular(4)"), FieldType(O2, "2*regular(2)"), low + FieldType(SO2, "A")):
        message = refusal(TypeError, low, torch.relu, out_type=other)
        assert f"Got in_type `2*regular(2)` of SO2 and out_type `{other}` of {other.group.name}." in message
